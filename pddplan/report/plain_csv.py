"""A plain table as CSV: a header, then rows; numbers as files hold them, nothing for what is not known."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence

from pddplan.report.csv_costs import safe_text
from pddplan.report.numbers import exported


def plain_csv(columns: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> str:
    """CSV text with Unix line ends; text that a spreadsheet could run is neutralised."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: str | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return safe_text(value)
    if isinstance(value, int):
        return str(value)
    return repr(exported(value)).removesuffix(".0") if math.isfinite(value) else ""
