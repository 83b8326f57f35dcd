"""What columns mean by their names, as the logs of gateways, engines and providers call them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pddplan.errors import InputError, Problem

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
        "start_time_unix_nano",
        "created_at",
        "request_created_at",
        "request_time",
        "create_time",
        "created",
        "datetime",
        "@timestamp",
    ),
    "input": (
        "input_tokens",
        "input_length",
        "prompt_tokens",
        "prompt_len",
        "prompt_length",
        "isl",
        "context_tokens",
        "num_prefill_tokens",
        "num_prompt_tokens",
        "num_input_tokens",
        "input_token_count",
        "prompt_token_count",
    ),
    "output": (
        "output_tokens",
        "output_length",
        "completion_tokens",
        "output_len",
        "osl",
        "generated_tokens",
        "num_decode_tokens",
        "num_output_tokens",
        "num_generation_tokens",
        "num_generated_tokens",
        "generation_tokens",
        "output_token_count",
        "candidates_token_count",
    ),
    "session": ("session_id", "session", "conversation_id", "chat_id", "thread_id", "user_id"),
    "ids": ("hash_ids", "block_hashes", "block_ids"),
    "hit": (
        "cached_tokens",
        "num_cached_tokens",
        "cache_read_tokens",
        "cache_read_input_tokens",
        "cache_read_input_token_count",
        "input_cached_tokens",
        "cached_input_tokens",
        "prompt_cache_hit_tokens",
        "cached_content_token_count",
        "prefix_tokens",
        "hit_tokens",
    ),
    "written": ("cache_creation_input_tokens", "cache_write_input_tokens", "cache_write_input_token_count"),
    "status": ("status",),
    "lane": ("role",),
}
"""Names (lower case, words joined by underscores) that are taken when no column map says otherwise."""
ROLE_OF = {name: role for role, names in SYNONYMS.items() for name in names}

APART = {"cache_read_input_tokens", "cache_read_input_token_count"}
"""Cache reads called so are not part of what stands beside them as ``input_tokens``..."""
APART_FROM = {"input_tokens", "input_token_count"}
TOGETHER = "gen_ai."
"""... but for attributes of OpenTelemetry, where the input counts them."""

SUMS = ("num_model_requests", "num_requests", "request_count", "n_requests", "requests_count")
"""A column of this name says that a row stands for many requests."""


def speaking(columns: Sequence[str]) -> dict[str, str]:
    """Column of each role, for columns whose names say what they mean."""
    found: dict[str, tuple[int, str]] = {}
    for column in columns:
        name = next((name for name in _names(column) if name in ROLE_OF), None)
        if name is None:
            continue
        role = ROLE_OF[name]
        rank = SYNONYMS[role].index(name)
        if role not in found or rank < found[role][0]:
            found[role] = (rank, column)
    return counted_apart({role: column for role, (_, column) in found.items()})


def counted_apart(roles: Mapping[str, str]) -> dict[str, str]:
    """Roles where the input is written without its cached part (as Anthropic and Bedrock do): it is ``appended``."""
    result = dict(roles)
    names = {role: next((name for name in _names(column) if name in ROLE_OF), "") for role, column in roles.items()}
    if names.get("hit") in APART and names.get("input") in APART_FROM and TOGETHER not in roles["hit"]:
        result["appended"] = result.pop("input")
    else:
        result.pop("written", None)
    return result


def refuse_sums(columns: Sequence[str], *, name: str) -> None:
    """Say no to tables of usage per day or per key.

    Raises:  InputError when a column counts requests.
    """
    for column in columns:
        if any(part in SUMS for part in _names(column)):
            raise InputError(
                Problem(
                    what=f"its column {column!r} counts requests: rows are sums over many of them, not single requests",
                    fix="export single requests; or insist by naming the columns: --columns input=NAME,output=NAME",
                    where=name,
                )
            )


def _names(column: str) -> Iterator[str]:
    """The name of a column in lower case with underscores, then the same without its outer objects."""
    parts = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part).lower() for part in re.split(r"[.\s]+", column.strip())]
    for start in range(len(parts)):
        yield "_".join(parts[start:])
