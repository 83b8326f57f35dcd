"""Tables for a terminal: aligned, and narrowed by leaving out the least important columns."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TextIO

from rich.cells import cell_len, set_cell_size

GAP = 2
MIN_WIDTH, MAX_WIDTH = 60, 200


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False
    importance: int = 1
    """0 = never left out; the highest goes first when the terminal is narrow."""


@dataclass(frozen=True, slots=True)
class Paint:
    """Colour, only where wanted; everything must read as well without."""

    on: bool = False

    def bold(self, text: str) -> str:
        return self._wrap("1", text)

    def dim(self, text: str) -> str:
        return self._wrap("2", text)

    def good(self, text: str) -> str:
        return self._wrap("32", text)

    def bad(self, text: str) -> str:
        return self._wrap("31;1", text)

    def warn(self, text: str) -> str:
        return self._wrap("33", text)

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and text else text


def wants_colour(stream_is_terminal: bool) -> bool:
    """Colour only on a terminal, never with NO_COLOR (https://no-color.org), always with FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream_is_terminal and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True, slots=True)
class Screen:
    """What the place that output goes to can show."""

    width: int
    paint: Paint
    ascii_only: bool

    @classmethod
    def of(cls, stream: TextIO) -> Screen:
        """Width of the terminal (COLUMNS wins; 100 for a file), colour, and whether it knows block characters."""
        terminal = stream.isatty()
        width = shutil.get_terminal_size(fallback=(100, 40)).columns
        encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("_", "-")
        return cls(
            width=min(max(width, MIN_WIDTH), MAX_WIDTH),
            paint=Paint(on=wants_colour(terminal)),
            ascii_only=not encoding.startswith("utf"),
        )


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, width: int, paint: Paint | None = None
) -> list[str]:
    """Lines of a table at most ``width`` cells wide; the header is part of it."""
    paint = paint or Paint()
    if not rows:
        return []
    kept = list(range(len(columns)))
    widths = [max(cell_len(column.title), *(cell_len(row[i]) for row in rows)) for i, column in enumerate(columns)]
    while _total(widths, kept) > width:
        droppable = [i for i in kept if columns[i].importance > 0]
        if not droppable:
            break
        kept.remove(max(droppable, key=lambda i: (columns[i].importance, i)))
    _squeeze(widths, kept, columns, width)
    head = _line([columns[i].title for i in kept], kept, widths, columns)
    return [paint.dim(head), *(_line([row[i] for i in kept], kept, widths, columns) for row in rows)]


def paragraph(text: str, *, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """Text wrapped to the width; ``first`` is the indent of its first line."""
    lead = indent if first is None else first
    return wrap(text, width=max(width, 20), initial_indent=lead, subsequent_indent=indent, break_on_hyphens=False) or [
        ""
    ]


def _total(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[i] for i in kept) + GAP * (len(kept) - 1)


def _squeeze(widths: list[int], kept: Sequence[int], columns: Sequence[Column], width: int) -> None:
    """Shorten the widest text columns when leaving columns out was not enough."""
    while (excess := _total(widths, kept) - width) > 0:
        texts = [i for i in kept if not columns[i].right and widths[i] > 8]
        if not texts:
            return
        widest = max(texts, key=lambda i: widths[i])
        widths[widest] -= min(excess, max(1, widths[widest] - 8))


def _line(cells: Sequence[str], kept: Sequence[int], widths: Sequence[int], columns: Sequence[Column]) -> str:
    out = []
    for cell, i in zip(cells, kept, strict=True):
        fitted = cell if cell_len(cell) <= widths[i] else set_cell_size(cell, widths[i] - 1) + "…"
        padding = " " * (widths[i] - cell_len(fitted))
        out.append(padding + fitted if columns[i].right else fitted + padding)
    return (" " * GAP).join(out).rstrip()
