"""``pddplan sweep --html``: the figures of a sweep drawn over what varies, and its table, as one page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pddplan.report import page
from pddplan.report.heat_map import heat_map
from pddplan.report.numbers import short
from pddplan.report.page import text
from pddplan.report.page_charts import Axis as DrawnAxis
from pddplan.report.page_charts import Line, chart
from pddplan.report.sweep_file import header
from pddplan.report.sweep_layout import Layout, Panel, axis_words, laid_out
from pddplan.studies.axes import Axis
from pddplan.studies.sweep import PLAN

FIRST = ("monthly_cost", "bcr_rps_per_1000_monthly_cost", "chips", "ttft_p90_s", "ttft_p99_s", "line_gbps")
"""Figures that every page draws."""
_TABLE = (
    "status",
    "why_not",
    "topology",
    "monthly_cost",
    "chips",
    "bcr_rps_per_1000_monthly_cost",
    "ttft_p90_s",
    "ttft_p99_s",
    "solver_gap_fraction",
)


def page_of(axes: Sequence[Axis], rows: Sequence[Sequence[str]], figures: Sequence[str] = ()) -> str:
    """The page; ``rows`` are those of the sweep's file, ``figures`` are drawn beside the usual ones."""
    names = header(axes)
    varied = [axis.column for axis in axes]
    planned = sum(row[len(axes)] == PLAN for row in rows)
    parts = [f"<h1>Sweep over {text(', '.join(varied))}</h1>"]
    parts.append(f'<p class="soft">{len(rows)} questions, {planned} with a plan.</p>')
    for column in dict.fromkeys((*figures, *FIRST)):
        parts += _drawings(laid_out(axes, rows, column, names))
    shown = [*varied, *(name for name in _TABLE if name not in varied)]
    places = [names.index(name) for name in shown]
    parts.append("<h2>All questions</h2>")
    parts.append(page.table(shown, [[row[place] for place in places] for row in rows]))
    return page.document("Sweep", "\n".join(parts))


def _drawings(layout: Layout) -> list[str]:
    """The panels of one figure on one scale; nothing where no question has a plan."""
    points = [point for panel in layout.panels for curve in panel.curves.values() for point in curve]
    values = [value for _, value in points if math.isfinite(value)]
    if not values:
        return []
    parts = [f"<h2>{text(layout.title)}</h2>"]
    for panel in layout.panels:
        caption = f"<figcaption>{text(panel.title)}</figcaption>" if panel.title else ""
        parts.append(f"<figure>{caption}{_panel(panel, layout, values)}</figure>")
    if layout.left_out:
        parts.append(f'<p class="soft">{layout.left_out} more drawings are left out; the table has all values.</p>')
    return parts


def _panel(panel: Panel, layout: Layout, values: Sequence[float]) -> str:
    label = f"{layout.title} {panel.title}".strip()
    if panel.across is None:
        top = max(values)
        bars = [
            (name, value / top if top > 0 and math.isfinite(value) else 0.0, _told(layout, value))
            for name, ((_, value),) in panel.curves.items()
        ]
        return page.bars(bars, label=label)
    if panel.shaded and panel.other is not None:
        return heat_map(
            [[value for _, value in points] for points in panel.curves.values()],
            x=[short(place) for place, _ in next(iter(panel.curves.values()))],
            y=[name.removeprefix(f"{panel.other.column} ") for name in panel.curves],
            ends=(min(values), max(values)),
            titles=(axis_words(panel.across), axis_words(panel.other)),
            write=layout.write,
            label=label,
        )
    places = [place for points in panel.curves.values() for place, _ in points]
    x = DrawnAxis(axis_words(panel.across), min(places), max(places), short)
    y = DrawnAxis(layout.title, min(0.0, *values), max(values) or 1.0, layout.write)
    lines = [
        Line(name, [(at, value) for at, value in points if math.isfinite(value)])
        for name, points in panel.curves.items()
    ]
    return chart(lines, x=x, y=y, label=label)


def _told(layout: Layout, value: float) -> str:
    return layout.write(value) if math.isfinite(value) else "no plan"
