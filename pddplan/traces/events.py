"""Objects that hold requests, as plain requests: spans of OpenTelemetry, and lists inside one object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pddplan.traces.json_rows import Objects
from pddplan.traces.naming import ROLE_OF
from pddplan.traces.rows import BadRow

LISTS = ("requests", "data", "rows", "items", "records", "entries", "logs", "trace", "traces", "results")
"""Names under which an export holds all of its requests."""
SPANS, SCOPES = ("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans")


def flattened(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The spans or requests inside an exported object; any other object as it is, its attributes as a dictionary."""
    exported = _first(row, SPANS)
    if not isinstance(exported, list):
        inner = _only_list(row)
        return [_with_attributes(row)] if inner is None else [_with_attributes(item) for item in inner]
    scopes = [scope for item in exported if isinstance(item, Mapping) for scope in _list(_first(item, SCOPES))]
    spans = [span for scope in scopes if isinstance(scope, Mapping) for span in _list(scope.get("spans"))]
    return [_with_attributes(span) for span in spans if isinstance(span, Mapping)]


def each_flattened(objects: Objects) -> Objects:
    """The same for objects with their lines."""
    for line, row in objects:
        if isinstance(row, BadRow):
            yield line, row
        else:
            yield from ((line, span) for span in flattened(row))


def _only_list(row: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """The objects of the one list that an object holds beside words and numbers; None where it is a request itself."""
    lists = [value for value in row.values() if isinstance(value, list)]
    inner = _first(row, LISTS)
    if len(lists) != 1 or inner is not lists[0] or not inner or "block_size" in row:
        return None
    if any(isinstance(value, Mapping) for value in row.values()) or any(name in ROLE_OF for name in row):
        return None
    return inner if all(isinstance(item, Mapping) for item in inner) else None


def _with_attributes(row: Mapping[str, Any]) -> Mapping[str, Any]:
    listed = row.get("attributes")
    if not isinstance(listed, list):
        return row
    pairs = [item for item in listed if isinstance(item, Mapping) and isinstance(item.get("key"), str)]
    return {**row, "attributes": {item["key"]: _plain(item.get("value")) for item in pairs}}


def _plain(value: Any) -> Any:
    """``{"intValue": "12"}`` as 12."""
    if not (isinstance(value, Mapping) and len(value) == 1):
        return value
    kind, inner = next(iter(value.items()))
    if kind in ("intValue", "int_value") and isinstance(inner, str):
        try:
            return int(inner)
        except ValueError:
            return inner
    return inner


def _first(row: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((row[key] for key in keys if key in row), None)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
