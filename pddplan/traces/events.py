"""Spans of OpenTelemetry as plain objects: what a GenAI span says of its request stands in its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pddplan.traces.json_rows import Objects
from pddplan.traces.rows import BadRow

SPANS, SCOPES = ("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans")


def flattened(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The spans inside an exported object; any other object as it is, a list of attributes as a dictionary."""
    exported = _first(row, SPANS)
    if not isinstance(exported, list):
        return [_with_attributes(row)]
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
