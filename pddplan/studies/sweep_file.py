"""The table of a sweep on disk: one row per question, written as it comes, so that a stopped sweep can go on."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from pddplan.errors import InputError, Problem
from pddplan.files import append, home_path, is_file, is_replaced, read_text, write_atomically
from pddplan.studies.sweep import FIGURES, Axis, Row, Value
from pddplan.units import MIB

MAX_TABLE_BYTES = 64 * MIB


def header(axes: Sequence[Axis]) -> list[str]:
    """Columns: what varies, then whether there is a plan, then its figures."""
    return (
        [axis.name for axis in axes] + ["status", "why_not"] + [f for f in FIGURES if f not in {a.name for a in axes}]
    )


def cells(row: Row, axes: Sequence[Axis]) -> list[str]:
    """One line of the table."""
    skipped = {axis.name for axis in axes}
    figures = [row.figures.get(name, "") for name in FIGURES if name not in skipped]
    return [*map(_text, row.values), row.status, row.why_not, *map(_text, figures)]


def table(rows: Iterable[Sequence[str]], axes: Sequence[Axis]) -> str:
    """The whole file as text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header(axes))
    writer.writerows(rows)
    return out.getvalue()


def part_of(path: Path) -> Path:
    """Where rows are kept until the sweep is complete."""
    path = home_path(path)
    return path.with_name(path.name + ".part")


def done_before(path: Path, axes: Sequence[Axis]) -> list[list[str]]:
    """Rows of an earlier run of the same sweep (its partial file, else the finished one).

    Raises:  InputError if the file is of another sweep.
    """
    found = next((p for p in (part_of(path), home_path(path)) if is_file(p)), None)
    if found is None:
        return []
    text = read_text(found, limit=MAX_TABLE_BYTES)
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error:
        rows = []
    if not rows or rows[0] != header(axes):
        raise InputError(
            Problem(
                what="the file is no table of this sweep: its columns differ",
                fix="give another --csv FILE, or leave --resume away to start anew",
                where=str(found),
            )
        )
    width = len(rows[0])
    return [row for row in rows[1:] if len(row) == width]  # a torn last line is asked again


def key(values: Sequence[Value]) -> tuple[str, ...]:
    """What tells rows apart."""
    return tuple(_text(value) for value in values)


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
            out = io.StringIO()
            csv.writer(out, lineterminator="\n").writerow(line)
            append(self.part, out.getvalue())

    def finish(self, points: Sequence[Sequence[Value]]) -> list[list[str]]:
        """The rows in the order of the grid; written to the file, and the partial one dropped."""
        ordered = [self.rows[key(values)] for values in points if key(values) in self.rows]
        if self.path is not None:
            write_atomically(self.path, table(ordered, self.axes))
        if self.part is not None:
            self.part.unlink(missing_ok=True)
        return ordered


def _text(value: Value | int) -> str:
    return f"{value:.10g}" if isinstance(value, float | int) else value
