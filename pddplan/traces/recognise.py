"""Telling the format of a trace from its first bytes, and which column means what."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.traces.events import LISTS, flattened
from pddplan.traces.formats import (
    DEEPEST_KEY,
    GENERIC,
    MAY_BE_EMPTY,
    OTHER_FORMATS,
    ROLES,
    SAMPLE_OBJECTS,
    SERVEGEN,
    TABLE_FORMATS,
    TRACELAB_ROUNDS,
    WEKA,
    TableFormat,
    format_ids,
)
from pddplan.traces.naming import LATE_ROLES, refuse_sums, speaking
from pddplan.traces.source import BYTE_ORDER_MARK, PARQUET_MAGIC

LEAST_NUMBERS_OF_A_ROW = 2
"""A first line with so many numbers is a row, not names of columns."""
_LIST_OPENS = re.compile(r'\[|\{\s*"(?:' + "|".join(LISTS) + r')"\s*:\s*\[')
"""How a file of one list begins, also where an object holds it."""


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
    exported: bool = False
    """Objects are not as they stand in the file: spans taken out of exports, lists of attributes."""
    headless: bool = False
    """The first line of the table is a row; columns are called by their place, from 1."""


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
        return replace(found, format=wanted, why="named with --format")
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
        return replace(found, format=wanted, why="named with --format", table=table)
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
    sample: list[Mapping[str, Any]] = []
    exported = False
    for line in text.split(b"\n")[:SAMPLE_OBJECTS]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            objects = flattened(value)
            exported = exported or objects != [value]
            sample += objects
    container = "json" if exported and b"\n" not in text.rstrip() else "jsonl"
    if not sample:  # one object or array, perhaps over many lines
        sample, container = _array_sample(text), "json"
        exported = exported or text[:1] == b"{"
    if not sample:
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
    names = tuple(dict.fromkeys(key for row in sample for key in _keys(row)))
    found = Recognised(container, "", "", columns=names, sample=tuple(sample), exported=exported)
    if "requests" in names and "block_size" in names:
        return replace(found, format=WEKA, why="sessions with requests and a block size")
    if "input_tokens_total" in names and "prefix_tokens" in names:
        return replace(found, format=TRACELAB_ROUNDS, why="keys input_tokens_total and prefix_tokens")
    if (
        container == "jsonl"
        and len(sample) == 1
        and sample[0]
        and all(isinstance(value, dict) for value in sample[0].values())
    ):
        inner: Mapping[str, Any] = next(iter(sample[0].values()))
        if "input_tokens" in inner and "output_tokens" in inner:
            return Recognised("json", SERVEGEN, "an object of token distributions per window")
    return _known_table(found)


def _array_sample(text: bytes) -> list[Mapping[str, Any]]:
    """First objects of a JSON array, as far as the head of the file shows whole ones."""
    decoder = json.JSONDecoder()
    found: list[Mapping[str, Any]] = []
    head = text.decode("utf-8", errors="replace")
    opening = _LIST_OPENS.match(head)
    if not head.startswith("["):
        try:
            value = decoder.raw_decode(head)[0]
        except (ValueError, RecursionError):
            pass
        else:
            inner = flattened(value)
            return inner if inner != [value] else []
    if opening is None:
        return []
    place = opening.end()
    while len(found) < SAMPLE_OBJECTS:
        while place < len(head) and head[place] in " \t\r\n,":
            place += 1
        try:
            value, place = decoder.raw_decode(head, place)
        except (ValueError, RecursionError):
            break
        if not isinstance(value, dict):
            break
        found += flattened(value)
    return found


def _keys(row: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[str]:
    """Keys of an object; those of objects inside it as ``outer.inner``."""
    for key, value in row.items():
        yield prefix + key
        if isinstance(value, dict) and depth < DEEPEST_KEY:
            yield from _keys(value, f"{prefix}{key}.", depth + 1)


def pick(row: Mapping[str, Any], column: str) -> Any:
    """Value of a key, or of ``outer.inner``; None if there is none."""
    value: Any = row
    for key in path_of(row, column) or ():
        value = value[key]
    return None if value is row else value


def path_of(row: Mapping[str, Any], column: str) -> tuple[str, ...] | None:
    """Keys that lead to ``outer.inner`` in an object; None if there is nothing."""
    if column in row:
        return (column,)
    place = column.find(".")
    while place >= 0:  # keys may contain dots themselves
        inner = row.get(column[:place])
        if isinstance(inner, Mapping) and (path := path_of(inner, column[place + 1 :])) is not None:
            return (column[:place], *path)
        place = column.find(".", place + 1)
    return None


def _csv(text: bytes, *, name: str) -> Recognised:
    try:
        lines = text[:200_000].decode("utf-8", errors="strict" if len(text) < 200_000 else "ignore").splitlines()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise InputError(
            Problem(what="is not UTF-8 text", fix="save the file as UTF-8", where=f"{name}:{line}")
        ) from None
    delimiter = max(",;\t|", key=lines[0].count)
    try:
        header = [cell.strip() for cell in next(csv.reader(lines[:1], delimiter=delimiter))]
    except csv.Error as error:
        raise InputError(
            Problem(what=f"is no table: {error}", fix="give CSV, JSON lines or Parquet", where=f"{name}:1")
        ) from None
    if len(header) == 6 and all(_is_number(cell) for cell in (*header[:3], *header[4:])):
        return Recognised("csv", SERVEGEN, "six columns without header: window, rate, CV, pattern, two parameters")
    if sum(_is_number(cell) for cell in header) >= LEAST_NUMBERS_OF_A_ROW:
        places = tuple(str(place + 1) for place in range(len(header)))
        return Recognised("csv", "", "", columns=places, delimiter=delimiter, headless=True)
    found = Recognised("csv", "", "", columns=tuple(header), delimiter=delimiter)
    return _known_table(found)


def _known_table(found: Recognised) -> Recognised:
    for table in (*TABLE_FORMATS, *(_as_spelt(table, found.columns) for table in TABLE_FORMATS)):
        if table.matches(found.columns):
            why = f"columns {', '.join(table.columns.values())}"
            return replace(found, format=table.id, why=why, table=_with_synonyms(table, found.columns))
    return found


def _as_spelt(table: TableFormat, columns: Sequence[str]) -> TableFormat:
    """The format with its columns as this file spells them: in other case, or with underscores for blanks."""
    spelt = {column.lower().replace(" ", "_"): column for column in columns}

    def names(roles: Mapping[str, str]) -> dict[str, str]:
        return {role: spelt.get(name.lower().replace(" ", "_"), name) for role, name in roles.items()}

    return replace(table, columns=names(table.columns), optional=names(table.optional))


def _with_synonyms(table: TableFormat, columns: Sequence[str]) -> TableFormat:
    """The format with further optional columns that the file has under a name that speaks for itself."""
    taken = {**table.columns, **{role: name for role, name in table.optional.items() if name in columns}}
    found = {role: name for role, name in speaking(columns).items() if role in LATE_ROLES and role not in taken}
    found = {role: name for role, name in found.items() if name not in taken.values()}
    return replace(table, optional={**table.optional, **found})


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
    if not columns:
        refuse_sums(found.columns, name=name)
    mapping = dict(columns)
    for role, column in speaking(found.columns).items():
        replaced = role in ("input", "appended", "written") and ("input" in columns or "appended" in columns)
        if role not in mapping and not replaced and column not in mapping.values():
            mapping[role] = column
    has_input = "input" in mapping or ("appended" in mapping and "hit" in mapping)
    if not (has_input and "output" in mapping):
        lacking = "output" if has_input else "input"
        if found.headless:
            raise InputError(
                Problem(
                    what=f"its first line names no columns, so which of the {len(found.columns)} is which is unknown",
                    fix="name them by their place: --columns time=1,input=2,output=3; or add a line of names",
                    where=f"{name}:1",
                )
            )
        if found.container == "csv" and any(set(cell) & set("=:[](){}") for cell in found.columns):
            raise InputError(
                Problem(
                    what=f"its first line is no header of a table: {_listed(found.columns)}",
                    fix="text logs are not read: write one request a line as CSV or JSON, with time and token counts",
                    where=f"{name}:1",
                )
            )
        raise InputError(
            Problem(
                what=f"cannot tell which column holds the {lacking} tokens; it has {_listed(found.columns)}",
                fix=f"say it: --columns {lacking}=NAME (roles: {', '.join(ROLES)})",
                where=name,
            )
        )
    needed = {role: column for role, column in mapping.items() if role not in MAY_BE_EMPTY or role in columns}
    if "appended" in columns and "hit" in mapping:
        needed["hit"] = mapping["hit"]
    others = {role: column for role, column in mapping.items() if role not in needed}
    table = TableFormat(id=GENERIC, title=OTHER_FORMATS[GENERIC], columns=needed, optional=others)
    listed = ", ".join(f"{role}={column}" for role, column in mapping.items())
    return replace(found, format=GENERIC, why=f"column map {listed}" if listed else "column map", table=table)


def with_parquet_columns(
    found: Recognised, names: Sequence[str], *, name: str, columns: Mapping[str, str]
) -> Recognised:
    """Recognise a Parquet file once its column names are known."""
    found = replace(found, columns=tuple(names))
    if not columns:
        known = _known_table(found)
        if known.format:
            return known
    return _by_columns(found, columns, name=name)


def _listed(columns: Sequence[str]) -> str:
    shown = [repr(column) if len(column) <= 40 else repr(column[:37] + "...") for column in columns[:15]]
    return ", ".join(shown) + (", ..." if len(columns) > len(shown) else "")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
