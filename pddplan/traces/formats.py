"""The formats of traces we know: which column means what, and in which unit.

To add a format with one request per row is one entry of ``TABLE_FORMATS``; ``recognise`` tells files apart by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ROLES = ("time", "input", "output", "session", "ids", "hit", "appended", "written", "status", "lane", "parent")
"""What a column can mean: ``appended`` are the input tokens that follow the cached prefix ``hit``, ``written`` those of
them that are counted apart because they were written to the cache; ``lane`` tells apart several speakers within one
session."""

TIME_UNITS = ("s", "ms", "us", "ns", "iso", "auto")


@dataclass(frozen=True, slots=True)
class TableFormat:
    """One request per row, in JSON lines, CSV or Parquet."""

    id: str
    title: str
    columns: Mapping[str, str]
    """Column of each role."""
    optional: Mapping[str, str] = field(default_factory=dict)
    """Columns used where the file has them."""
    time_unit: str = "auto"
    block_tokens: int | None = None
    zero_output_failed: bool = False
    chat_chain: bool = False
    """``session`` and ``parent`` are chat ids that form chains (-1 = first)."""

    def matches(self, names: Sequence[str]) -> bool:
        return all(column in names for column in self.columns.values())


TABLE_FORMATS = (
    TableFormat(
        id="qwen-bailian",
        title="Qwen-Bailian JSON lines (chat and turn ids, 16-token blocks)",
        columns={
            "time": "timestamp",
            "input": "input_length",
            "output": "output_length",
            "ids": "hash_ids",
            "session": "chat_id",
            "parent": "parent_chat_id",
        },
        time_unit="s",
        block_tokens=16,
        chat_chain=True,
    ),
    TableFormat(
        id="mooncake",
        title="Mooncake / Dynamo JSON lines (hash_ids)",
        columns={"time": "timestamp", "input": "input_length", "output": "output_length", "ids": "hash_ids"},
        optional={"session": "session_id"},
    ),
    TableFormat(
        id="tracelab-sessions",
        title="TraceLab session workload (input_len is the appended part)",
        columns={"session": "session_id", "hit": "prefix_len", "appended": "input_len", "output": "output_len"},
        optional={"time": "arrival_time"},
        time_unit="ms",
    ),
    TableFormat(
        id="azure",
        title="Azure LLM inference trace (2023, 2024)",
        columns={"time": "TIMESTAMP", "input": "ContextTokens", "output": "GeneratedTokens"},
        time_unit="iso",
    ),
    TableFormat(
        id="burstgpt",
        title="BurstGPT",
        columns={"time": "Timestamp", "input": "Request tokens", "output": "Response tokens"},
        optional={"session": "Session ID"},
        time_unit="s",
        zero_output_failed=True,
    ),
    TableFormat(
        id="usage-log",
        title="usage log in the style of LiteLLM (prompt_tokens, completion_tokens)",
        columns={"input": "prompt_tokens", "output": "completion_tokens"},
        optional={
            "time": "timestamp",
            "session": "session_id",
            "lane": "role",
            "status": "status",
            "hit": "cached_tokens",
        },
    ),
    TableFormat(
        id="lengths",
        title="lengths only (num_prefill_tokens, num_decode_tokens)",
        columns={"input": "num_prefill_tokens", "output": "num_decode_tokens"},
        optional={"time": "arrived_at", "session": "session_id"},
        time_unit="s",
    ),
    TableFormat(
        id="llmservingsim",
        title="LLMServingSim lengths (arrival_time_ns, input_toks, output_toks)",
        columns={"time": "arrival_time_ns", "input": "input_toks", "output": "output_toks"},
        time_unit="ns",
    ),
)

WEKA, TRACELAB_ROUNDS, SERVEGEN, GENERIC = "weka", "tracelab-rounds", "servegen", "columns"
OTHER_FORMATS = {
    WEKA: "WEKA coding-agent sessions (nested requests, ids local to a session)",
    TRACELAB_ROUNDS: "TraceLab rounds (provider-reported cache reads)",
    SERVEGEN: "ServeGen client profile (rates and length distributions)",
    GENERIC: "any CSV, Parquet or JSON lines, with a column map",
}

MAY_BE_EMPTY = ("session", "status", "lane", "hit", "written")
"""What a row of a generic table need not have, unless the user named the column."""
SAMPLE_OBJECTS = 50
DEEPEST_KEY = 3


def format_ids() -> tuple[str, ...]:
    """All ids that ``--format`` takes."""
    return (*(table.id for table in TABLE_FORMATS), *OTHER_FORMATS)
