"""The formats of traces we know: which column means what, and in which unit.

To add a format with one request per row is one entry of ``TABLE_FORMATS``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.traces.source import BYTE_ORDER_MARK, PARQUET_MAGIC

ROLES = ("time", "input", "output", "session", "ids", "hit", "appended", "status", "lane", "parent")
"""What a column can mean: ``appended`` are the input tokens that follow the
cached prefix ``hit``; ``lane`` tells apart several speakers within one session."""

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

LATE_ROLES = ("time", "session", "status", "hit")
"""What may be added to a known format from other column names; block ids and lengths may not."""
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "time": (
        "timestamp",
        "ts",
        "time",
        "arrival_time",
        "arrived_at",
        "arrival",
        "start_time",
        "created_at",
        "request_time",
    ),
    "input": (
        "input_tokens",
        "input_length",
        "prompt_tokens",
        "prompt_len",
        "isl",
        "context_tokens",
        "num_prefill_tokens",
    ),
    "output": (
        "output_tokens",
        "output_length",
        "completion_tokens",
        "output_len",
        "osl",
        "generated_tokens",
        "num_decode_tokens",
    ),
    "session": ("session_id", "session", "conversation_id", "chat_id", "user_id"),
    "ids": ("hash_ids", "block_hashes", "block_ids"),
    "hit": ("cached_tokens", "cache_read_tokens", "cache_read_input_tokens", "prefix_tokens", "hit_tokens"),
    "status": ("status",),
}
"""Column names (lower case, blanks as underscores) that are taken when no column map says otherwise."""


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a file is, and why we think so."""

    container: str
    """``jsonl``, ``json``, ``csv`` or ``parquet``."""
    format: str
    why: str
    table: TableFormat | None = None
    columns: tuple[str, ...] = ()
    """Columns or keys found."""
    sample: tuple[Mapping[str, Any], ...] = ()
    """First objects of JSON lines."""
    delimiter: str = ","


def format_ids() -> tuple[str, ...]:
    """All ids that ``--format`` takes."""
    return (*(table.id for table in TABLE_FORMATS), *OTHER_FORMATS)


def recognise(
    head: bytes, *, name: str, wanted: str | None = None, columns: Mapping[str, str] | None = None
) -> Recognised:
    """Tell the format from the first bytes of a file.

    Parameters:  head, unpacked first bytes; wanted, the format the user named; columns, the user's column map
    Raises:      InputError when it cannot be told, or does not fit what the user said.
    """
    if wanted is not None and wanted not in format_ids():
        raise InputError(
            Problem(
                what=f"unknown trace format {wanted!r}{did_you_mean(wanted, format_ids())}",
                fix=f"use one of: {', '.join(format_ids())}",
                where="--format",
            )
        )
    found = _container(head, name=name)
    if found.format and wanted is None and not columns:
        return found
    if wanted in (WEKA, TRACELAB_ROUNDS, SERVEGEN):
        return _replace(found, format=wanted, why="named with --format")
    if wanted is not None and wanted != GENERIC and not columns:
        table = next(table for table in TABLE_FORMATS if table.id == wanted)
        missing = [column for column in table.columns.values() if column not in found.columns]
        if missing:
            raise InputError(
                Problem(
                    what=f"is not in format {wanted}: no column {', '.join(map(repr, missing))}; "
                    f"it has {_listed(found.columns)}",
                    fix="leave --format out, or map columns with --columns input=NAME,output=NAME,time=NAME",
                    where=name,
                )
            )
        return _replace(found, format=wanted, why="named with --format", table=table)
    return _by_columns(found, columns or {}, name=name)


def parse_columns(text: str) -> dict[str, str]:
    """Column map from ``input=NAME,output=NAME,...``.

    Raises:  InputError for an unknown role or a part without ``=``.
    """
    mapping: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        role, sign, column = part.partition("=")
        role = role.strip()
        if not sign or role not in ROLES or not column.strip():
            raise InputError(
                Problem(
                    what=f"cannot read {part!r}{did_you_mean(role, ROLES) if sign else ''}",
                    fix=f"write ROLE=COLUMN with a role of: {', '.join(ROLES)}",
                    where="--columns",
                )
            )
        mapping[role] = column.strip()
    return mapping


def _container(head: bytes, *, name: str) -> Recognised:
    if head.startswith(PARQUET_MAGIC):
        return Recognised(container="parquet", format="", why="")
    text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    if not text:
        raise InputError(Problem(what="holds nothing but blanks", fix="give a trace with requests", where=name))
    if b"\x00" in text[:4096]:
        raise InputError(
            Problem(
                what="is neither text nor Parquet", fix="give JSON lines, CSV or Parquet, packed or not", where=name
            )
        )
    if text[:1] in (b"{", b"["):
        return _json(text, name=name)
    return _csv(text, name=name)


def _json(text: bytes, *, name: str) -> Recognised:
    sample = []
    for line in text.split(b"\n")[:50]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            sample.append(value)
    if not sample:  # one object or array over many lines
        keys = text[:20000]
        if b'"requests"' in keys and (b'"hash_id_scope"' in keys or b'"block_size"' in keys):
            return Recognised("json", WEKA, "one object with requests and a block size")
        if b'"input_tokens"' in keys and b'"output_tokens"' in keys and b"{" in keys[1:]:
            return Recognised("json", SERVEGEN, "an object of token distributions per window")
        raise InputError(
            Problem(
                what="starts like JSON, but no line of it is a JSON object of a known kind",
                fix="give one request per line (JSON lines), or name the format with --format",
                where=name,
            )
        )
    names = tuple(dict.fromkeys(key for row in sample for key in row))
    found = Recognised("jsonl", "", "", columns=names, sample=tuple(sample))
    if "requests" in names and "block_size" in names:
        return _replace(found, format=WEKA, why="sessions with requests and a block size")
    if "input_tokens_total" in names and "prefix_tokens" in names:
        return _replace(found, format=TRACELAB_ROUNDS, why="keys input_tokens_total and prefix_tokens")
    if len(sample) == 1 and sample[0] and all(isinstance(value, dict) for value in sample[0].values()):
        inner: Mapping[str, Any] = next(iter(sample[0].values()))
        if "input_tokens" in inner and "output_tokens" in inner:
            return Recognised("json", SERVEGEN, "an object of token distributions per window")
    return _known_table(found)


def _csv(text: bytes, *, name: str) -> Recognised:
    import csv

    try:
        lines = text[:200_000].decode("utf-8", errors="strict" if len(text) < 200_000 else "ignore").splitlines()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise InputError(
            Problem(what="is not UTF-8 text", fix="save the file as UTF-8", where=f"{name}:{line}")
        ) from None
    delimiter = max(",;\t|", key=lines[0].count)
    header = [cell.strip() for cell in next(csv.reader(lines[:1], delimiter=delimiter))]
    if len(header) == 6 and all(_is_number(cell) for cell in (*header[:3], *header[4:])):
        return Recognised("csv", SERVEGEN, "six columns without header: window, rate, CV, pattern, two parameters")
    found = Recognised("csv", "", "", columns=tuple(header), delimiter=delimiter)
    return _known_table(found)


def _known_table(found: Recognised) -> Recognised:
    for table in TABLE_FORMATS:
        if table.matches(found.columns):
            why = f"columns {', '.join(table.columns.values())}"
            return _replace(found, format=table.id, why=why, table=_with_synonyms(table, found.columns))
    return found


def _with_synonyms(table: TableFormat, columns: Sequence[str]) -> TableFormat:
    """The format with further optional columns that the file has under a name that speaks for itself."""
    from dataclasses import replace

    taken = {**table.columns, **{role: name for role, name in table.optional.items() if name in columns}}
    found = {role: name for role, name in _speaking(columns).items() if role in LATE_ROLES and role not in taken}
    found = {role: name for role, name in found.items() if name not in taken.values()}
    return replace(table, optional={**table.optional, **found})


def _speaking(columns: Sequence[str]) -> dict[str, str]:
    """Columns whose names say what they mean."""
    simple = {column.lower().replace(" ", "_"): column for column in columns}
    chosen = {role: next((simple[n] for n in names if n in simple), None) for role, names in SYNONYMS.items()}
    return {role: column for role, column in chosen.items() if column is not None}


def _by_columns(found: Recognised, columns: Mapping[str, str], *, name: str) -> Recognised:
    """A generic table: the user's column map, then column names that speak for themselves."""
    unknown = [column for column in columns.values() if found.columns and column not in found.columns]
    if unknown:
        raise InputError(
            Problem(
                what=f"has no column {unknown[0]!r}{did_you_mean(unknown[0], found.columns)}; "
                f"it has {_listed(found.columns)}",
                fix="correct --columns",
                where=name,
            )
        )
    mapping = dict(columns)
    for role, column in _speaking(found.columns).items():
        replaced = role == "input" and "appended" in mapping
        if role not in mapping and not replaced and column not in mapping.values():
            mapping[role] = column
    has_input = "input" in mapping or ("appended" in mapping and "hit" in mapping)
    if not (has_input and "output" in mapping):
        lacking = "output" if has_input else "input"
        raise InputError(
            Problem(
                what=f"cannot tell which column holds the {lacking} tokens; it has {_listed(found.columns)}",
                fix=f"say it: --columns {lacking}=NAME (roles: {', '.join(ROLES)})",
                where=name,
            )
        )
    table = TableFormat(id=GENERIC, title=OTHER_FORMATS[GENERIC], columns=mapping)
    listed = ", ".join(f"{role}={column}" for role, column in mapping.items())
    return _replace(found, format=GENERIC, why=f"column map {listed}" if listed else "column map", table=table)


def with_parquet_columns(
    found: Recognised, names: Sequence[str], *, name: str, columns: Mapping[str, str]
) -> Recognised:
    """Recognise a Parquet file once its column names are known."""
    found = _replace(found, columns=tuple(names))
    if not columns:
        known = _known_table(found)
        if known.format:
            return known
    return _by_columns(found, columns, name=name)


def _replace(found: Recognised, **changes: Any) -> Recognised:
    from dataclasses import replace

    return replace(found, **changes)


def _listed(columns: Sequence[str]) -> str:
    shown = [repr(column) if len(column) <= 40 else repr(column[:37] + "...") for column in columns[:15]]
    return ", ".join(shown) + (", ..." if len(columns) > len(shown) else "")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
