"""The table of a sweep on disk: one row per question, written as it comes, so that a stopped sweep can go on."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pddplan.errors import InputError, Problem
from pddplan.files import append, home_path, is_file, is_replaced, read_text, write_atomically
from pddplan.report.csv_costs import safe_text
from pddplan.studies.axes import Axis, as_cell
from pddplan.studies.levers import Value, takes_words
from pddplan.studies.sweep import FIGURES, WORDS, Row, Sweep
from pddplan.units import MIB

MAX_TABLE_BYTES = 64 * MIB
LAST = "question"
"""Fingerprint of all that is asked beside the values: rows with the same one may be compared and put together."""


def header(axes: Sequence[Axis]) -> list[str]:
    """Columns: what varies, then whether there is a plan, then its figures, then what was asked."""
    varied = [axis.column for axis in axes]
    return [*varied, "status", "why_not", *(name for name in FIGURES if name not in varied), LAST]


def cells(row: Row, axes: Sequence[Axis]) -> list[str]:
    """One line of the table; no text of it can be run by a spreadsheet."""
    skipped = {axis.column for axis in axes}
    figures = [row.figures.get(name, "") for name in FIGURES if name not in skipped]
    return [*key(row.values), row.status, safe_text(row.why_not), *map(_cell, figures), row.question]


def key(values: Sequence[Value]) -> tuple[str, ...]:
    """What tells rows apart."""
    return tuple(_cell(value) for value in values)


def _cell(value: Value | int) -> str:
    return safe_text(value) if isinstance(value, str) else as_cell(value)


def table(rows: Iterable[Sequence[str]], axes: Sequence[Axis]) -> str:
    """The whole file as text."""
    return _lines([header(axes), *rows])


def _lines(rows: Iterable[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def as_data(rows: Sequence[Sequence[str]], axes: Sequence[Axis]) -> dict[str, Any]:
    """The table as a record for JSON: numbers as numbers, null where there is none."""
    return {"varied": [axis.column for axis in axes], "rows": [_record(row, axes) for row in rows]}


def _record(row: Sequence[str], axes: Sequence[Axis]) -> dict[str, str | float | None]:
    """A row by columns.

    Raises:  ValueError where a number should stand and does not.
    """
    words = {*WORDS, *(axis.column for axis in axes if takes_words(axis.name))}
    return {
        name: cell if name in words else float(cell) if cell else None
        for name, cell in zip(header(axes), row, strict=True)
    }


def part_of(path: Path) -> Path:
    """Where rows are kept until the sweep is complete."""
    path = home_path(path)
    return path.with_name(path.name + ".part")


def done_before(path: Path, asked: Sweep) -> list[list[str]]:
    """Rows of an earlier run of the same sweep (its partial file, else the finished one).

    Lines that are torn, faults of the program and questions that ran out of time are asked again.

    Raises:  InputError if the file is of another sweep or of other inputs, or has rows that are not asked for now.
    """
    found = next((p for p in (part_of(path), home_path(path)) if is_file(p)), None)
    if found is None:
        return []
    text = read_text(found, limit=MAX_TABLE_BYTES)
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error:
        rows = []
    names = header(asked.axes)
    if not rows or rows[0] != names:
        raise _another("its columns differ", found)
    fingerprints = {key(values): asked.fingerprint(values) for values in asked.points()}
    kept = []
    for row in rows[1:]:
        if len(row) != len(names):
            continue
        wanted = fingerprints.get(tuple(row[: len(asked.axes)]))
        if wanted is None:
            raise _another("it has rows for values that are not asked for now", found)
        if row[-1] != wanted:
            raise _another("workload, sites, limits or version of its rows differ", found)
        if row[names.index("status")] in SURE and _readable(row, asked.axes):
            kept.append(row)
    return kept


def _readable(row: Sequence[str], axes: Sequence[Axis]) -> bool:
    try:
        _record(row, axes)
    except ValueError:
        return False
    return True


SURE = ("plan", "infeasible", "wrong question")
"""What another try would answer in the same way."""


def _another(why: str, path: Path) -> InputError:
    return InputError(
        Problem(
            what=f"the file is no table of this sweep: {why}",
            fix="give another --csv FILE, or leave --resume away to start anew",
            where=str(path),
        )
    )


class RowWriter:
    """Keeps rows, in a partial file where there is one to be; at the end sorted like the grid, as the finished file."""

    def __init__(self, path: Path | None, axes: Sequence[Axis], earlier: Sequence[Sequence[str]]) -> None:
        self.path, self.axes = path, axes
        self.rows: dict[tuple[str, ...], list[str]] = {tuple(row[: len(axes)]): list(row) for row in earlier}
        # a device or pipe takes all rows at the end
        self.part = part_of(path) if path is not None and is_replaced(path) else None
        if self.part is not None:
            write_atomically(self.part, table(self.rows.values(), axes))

    def add(self, row: Row) -> None:
        """Keep one row, on disk at once."""
        line = cells(row, self.axes)
        self.rows[tuple(line[: len(self.axes)])] = line
        if self.part is not None:
            append(self.part, _lines([line]))

    def finish(self, points: Sequence[Sequence[Value]]) -> list[list[str]]:
        """The rows in the order of the grid; written to the file, and the partial one dropped."""
        ordered = [self.rows[key(values)] for values in points if key(values) in self.rows]
        if self.path is not None:
            write_atomically(self.path, table(ordered, self.axes))
        if self.part is not None:
            self.part.unlink(missing_ok=True)
        return ordered
