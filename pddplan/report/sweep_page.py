"""``pddplan sweep --html``: the figures of a sweep drawn over what varies, and its table, as one page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pddplan.report import page
from pddplan.report.numbers import amount, seconds, short
from pddplan.report.page import text
from pddplan.report.page_charts import Axis, Line, Point, chart

MOST_LINES = 3
"""Curves in one drawing; more combinations than this are left to the table, and the page says so."""
_DRAWN: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("monthly_cost", "Cost a month, {currency}", amount),
    ("bcr", "BCR, req/s per 1,000 {currency} a month", short),
    ("chips", "Chips", short),
    ("ttft_p90_s", "TTFT P90", seconds),
    ("ttft_p99_s", "TTFT P99", seconds),
    ("line_gbps", "Line taken, Gbit/s", short),
)
_UNITS = {
    "rps": "requests per second",
    "link": "line, Gbit/s",
    "rtt": "RTT, ms",
    "ttft_p50": "TTFT P50 promised, s",
    "ttft_p90": "TTFT P90 promised, s",
    "ttft_p99": "TTFT P99 promised, s",
    "tpot": "TPOT promised, ms",
    "hit_rate": "share of input tokens found in the cache",
}
"""What varies, as an axis says it."""
_TABLE = ("status", "why_not", "topology", "monthly_cost", "chips", "bcr", "ttft_p90_s", "ttft_p99_s")


def page_of(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The page; ``header`` and ``rows`` are those of the sweep's file."""
    names = list(header[: header.index("status")])
    records = [dict(zip(header, row, strict=True)) for row in rows]
    across = next((name for name in names if _numbers(records, name)), None)
    parts = [f"<h1>Sweep over {text(', '.join(names))}</h1>"]
    planned = sum(record["status"] == "plan" for record in records)
    parts.append(f'<p class="soft">{len(records)} questions, {planned} with a plan.</p>')
    if across is not None:
        parts += _drawings(records, across, [name for name in names if name != across])
    shown = [*names, *(name for name in _TABLE if name not in names)]
    parts.append("<h2>All questions</h2>")
    parts.append(page.table(shown, [[record.get(name, "") for name in shown] for record in records]))
    return page.document("Sweep", "\n".join(parts))


def _numbers(records: Sequence[dict[str, str]], name: str) -> bool:
    """True where a column holds at least two different numbers and nothing else."""
    values = {_number(record[name]) for record in records}
    return len(values) > 1 and all(math.isfinite(value) for value in values)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _drawings(records: Sequence[dict[str, str]], across: str, others: Sequence[str]) -> list[str]:
    """One drawing per figure: a curve for each combination of what varies beside the axis."""
    curves: dict[str, list[dict[str, str]]] = {}
    for record in records:
        curves.setdefault(", ".join(f"{name} {record[name]}" for name in others) or "plan", []).append(record)
    kept = dict(list(curves.items())[:MOST_LINES])
    places = [_number(record[across]) for record in records]
    x = Axis(_UNITS.get(across, across), min(places), max(places), short)
    currency = next((record["currency"] for record in records if record.get("currency")), "")
    parts = []
    if len(kept) < len(curves):
        parts.append(f'<p class="soft">Drawn are the first {len(kept)} of {len(curves)} combinations.</p>')
    for column, words, write in _DRAWN:
        title = words.format(currency=currency)
        lines = [Line(name, _points(own, across, column)) for name, own in kept.items()]
        values = [value for line in lines for _, value in line.points]
        if not values:
            continue
        y = Axis(title, min(0.0, *values), max(values) or 1.0, write)
        drawn = chart(lines, x=x, y=y, label=f"{title} over {across}")
        parts.append(f"<h2>{text(title)}</h2><figure>{drawn}</figure>")
    return parts


def _points(records: Sequence[dict[str, str]], across: str, column: str) -> list[Point]:
    """Places of a figure along the axis; questions without a plan leave a gap."""
    pairs = [(_number(record[across]), _number(record.get(column, ""))) for record in records]
    return sorted(pair for pair in pairs if math.isfinite(pair[1]))
