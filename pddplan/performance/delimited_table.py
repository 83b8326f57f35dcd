"""Tables as people save them: commas, semicolons or tabs, names in any case, numbers with signs of their own.

Nothing is lost on the way: cells are kept as written, and what cannot be told apart is refused.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pddplan.errors import InputError, Problem
from pddplan.files import read_text

LONGEST_HEADER = 10_000
DELIMITERS = (",", ";", "\t", "|")
BLANKS = frozenset(("", "nan", "none", "null", "n/a", "#n/a", "na", "-", "—", "?", "unknown", "auto", "default"))
"""Cells that say nothing."""
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([,_' ]\d{3})+(\.\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One line of a table."""

    where: str
    """``file:line``."""
    cells: Mapping[str, str]
    """By the name in the header, as written."""
    surplus: int = 0
    """Cells beyond the header."""
    decimal_comma: bool = False
    """Where semicolons divide the cells, a comma stands before the fraction of a number."""

    def named(self) -> dict[str, str]:
        """Cells by plain names: lower case, underscores, no spaces around."""
        return {plain_name(name): cell.strip() for name, cell in self.cells.items()}


def plain_name(name: str) -> str:
    """``" ISL Tokens"`` is ``isl_tokens``."""
    return re.sub(r"[\s\-]+", "_", name.strip().lower())


def parse_number(text: str, *, decimal_comma: bool = False) -> float:
    """A number as written in a table; ``1,024`` has a thousands mark, except where commas stand before fractions.

    Raises:  ValueError for anything else than one number.
    """
    text = text.strip()
    if decimal_comma and _DECIMAL_COMMA.fullmatch(text):
        return float(text.replace(",", "."))
    if _THOUSANDS.fullmatch(text):
        text = re.sub(r"[,_' ]", "", text)
    if "_" in text:  # Python's own, but no number in a table
        raise ValueError(text)
    return float(text)


def header_of(path: Path) -> list[str]:
    """Plain names of the columns of a table; empty where the file cannot be read as text."""
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
            first = stream.readline(LONGEST_HEADER)
        return [plain_name(column) for column in next(csv.reader([first], delimiter=delimiter_of(first)), [])]
    except (OSError, ValueError, csv.Error):
        return []


def read_rows(path: Path, *, limit: int, needed: tuple[str, ...] = ()) -> list[TableRow]:
    """All rows that are not blank.

    Raises:  InputError when the file is no readable table, a needed column is missing or one stands twice.
    """
    text = read_text(path, limit=limit)
    try:
        return _rows(text, str(path), needed)
    except csv.Error as fault:
        raise InputError(
            Problem(what=f"cannot read: {fault}", fix="give a readable UTF-8 comma-separated table", where=str(path))
        ) from fault


def _rows(text: str, name: str, needed: tuple[str, ...]) -> list[TableRow]:
    delimiter = delimiter_of(text.partition("\n")[0])
    if text.count('"') % 2:
        line = 1 + text.count("\n", 0, text.rindex('"'))
        raise InputError(
            Problem(
                what="a quotation mark is opened and never closed, so it is not clear where cells end",
                fix="close it, or write two of them inside a quoted cell",
                where=f"{name} (the last one is in line {line})",
            )
        )
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header = next(reader, [])
    while header and not header[-1].strip():
        header.pop()  # spreadsheets end lines with empty cells
    plain = [plain_name(column) for column in header]
    missing = [column for column in needed if column not in plain]
    twice = [column for column, count in Counter(plain).items() if count > 1]
    if missing or twice:
        raise InputError(
            Problem(
                what=f"no column {', '.join(missing)}" if missing else f"column {', '.join(twice)} stands twice",
                fix="give a comma-separated table whose first line names each column once"
                + (f", among them {', '.join(needed)}" if needed else ""),
                where=f"{name}:1",
            )
        )
    return list(_body(reader, header, name, decimal_comma=delimiter == ";"))


def _body(reader: Iterator[list[str]], header: list[str], name: str, *, decimal_comma: bool) -> Iterator[TableRow]:
    lines = getattr(reader, "line_num", 0)
    for cells in reader:
        first, lines = lines + 1, getattr(reader, "line_num", 0)
        if not any(cell.strip() for cell in cells):
            continue
        padded = cells + [""] * (len(header) - len(cells))
        surplus = sum(1 for cell in cells[len(header) :] if cell.strip())
        yield TableRow(f"{name}:{first}", dict(zip(header, padded, strict=False)), surplus, decimal_comma)


def delimiter_of(header: str) -> str:
    """What divides the names in the first line of a table; quoted names count as one."""
    bare = re.sub(r'"[^"]*"', "", header)
    return max(DELIMITERS, key=lambda mark: (bare.count(mark), mark == ","))
