"""Objects of JSON lines, or of one JSON array, each with its line; what cannot be read is named."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pddplan.errors import InputError, Problem
from pddplan.traces.rows import BadRow
from pddplan.traces.source import Source, TextBlock

Objects = Iterator[tuple[int, Mapping[str, Any] | BadRow]]
"""Line (from 1), and the object there or what is wrong with it."""


def json_objects(block: TextBlock) -> Objects:
    """Objects of JSON lines."""
    for place, raw in enumerate(block.data.split(b"\n")):
        if not raw.strip():
            continue
        line = block.first_line + place
        try:
            value = json.loads(raw, parse_constant=lambda word: math.nan)
        except UnicodeDecodeError:
            yield line, bad_line(block, line, "is not UTF-8 text")
            continue
        except (ValueError, RecursionError):
            yield line, bad_line(block, line, "is not whole JSON (cut off?)")
            continue
        yield line, value if isinstance(value, dict) else bad_line(block, line, "is not a JSON object")


def whole_json(source: Source, *, limit: int) -> Objects:
    """Elements of one JSON array, or a single object; they are counted instead of lines.

    Raises:  InputError when the file is too large or not whole.
    """
    data = source.read_all(limit=limit)
    try:
        values = json.loads(data, parse_constant=lambda word: math.nan)
    except (ValueError, RecursionError) as error:
        where = f"{source.name}:{getattr(error, 'lineno', 1)}"
        raise InputError(
            Problem(what="is not whole JSON (cut off?)", fix="check the end of the file", where=where)
        ) from None
    for place, value in enumerate(values if isinstance(values, list) else [values], start=1):
        yield place, value if isinstance(value, dict) else BadRow(place, "is not a JSON object")


def bad_line(block: TextBlock, line: int, what: str) -> BadRow:
    """A line that cannot be used; the last of a file may just have been cut off."""
    is_last = line == block.first_line + block.data.count(b"\n")
    return BadRow(line, what, cut_off=is_last and not block.data.endswith(b"\n"))


def number_of(value: Any) -> float:
    """A number, also when written as text; NaN for anything else."""
    if isinstance(value, bool) or value is None:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
