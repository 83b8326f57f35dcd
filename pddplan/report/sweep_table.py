"""``pddplan sweep`` on the terminal: what varies, and the figures that people look at first."""

from __future__ import annotations

from collections.abc import Sequence

from pddplan.report.numbers import amount, count, plain_text, seconds, short
from pddplan.report.sweep_file import header
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.studies.axes import Axis

MOST_ROWS = 24
"""Longer sweeps show their two ends; the file has all of them."""


def render(axes: Sequence[Axis], rows: Sequence[Sequence[str]], screen: Screen) -> str:
    """The rows of a sweep as a table; ``rows`` are those of its file."""
    names = [axis.column for axis in axes]
    records = [dict(zip(header(axes), row, strict=True)) for row in rows]
    currency = next((record["currency"] for record in records if record["currency"]), "")
    columns = [
        *(Column(name, right=True, importance=0) for name in names),
        Column(f"{currency}/month".lstrip("/"), right=True, importance=0),
        Column("chips", right=True, importance=0),
        Column("P : RLD : MD : AGG", right=True, importance=4),
        Column("line Gbit/s", right=True, importance=3),
        Column("BCR", right=True, importance=1),
        Column("TTFT P90", right=True, importance=2),
        Column("TTFT P99", right=True, importance=2),
        Column("", importance=1),
    ]
    left_out = len(records) - MOST_ROWS
    shown = records if left_out <= 0 else [*records[: MOST_ROWS // 2], *records[-MOST_ROWS // 2 :]]
    cells = [_cells(record, names) for record in shown]
    if left_out > 0:
        cells.insert(MOST_ROWS // 2, ["..." if i == 0 else "" for i in range(len(columns))])
    lines = table(columns, cells, width=screen.width, paint=screen.paint)
    if left_out > 0:
        lines += paragraph(f"... {count(left_out)} rows in between are in the file only", width=screen.width)
    return "\n".join(lines) + "\n"


def _cells(record: dict[str, str], names: Sequence[str]) -> list[str]:
    roles = [record.get(f"chips_{role}", "") for role in ("prefill", "relay", "decode", "aggregated")]
    planned = record["status"] == "plan"
    return [
        *(_axis(record[name]) for name in names),
        *(
            (
                amount(_number(record["monthly_cost"])),
                record["chips"],
                " : ".join(roles),
                record["line_gbps"],
                short(_number(record["bcr_rps_per_1000_monthly_cost"])),
                seconds(_number(record["ttft_p90_s"])),
                seconds(_number(record["ttft_p99_s"])),
                "",
            )
            if planned
            else ("-", "-", "", "", "", "", "", plain_text(f"{record['status']}: {record['why_not']}"))
        ),
    ]


def _axis(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return plain_text(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
