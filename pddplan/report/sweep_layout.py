"""How a figure of a sweep is laid out, on a terminal and on a page: curves over one axis, shades over two, or bars."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.report.numbers import amount, percent, plain_text, seconds, short
from pddplan.report.page_charts import Point
from pddplan.studies.axes import Axis, as_cell
from pddplan.studies.levers import takes_words
from pddplan.studies.sweep import FIGURES, WORDS

MOST_CURVES = 6
"""Curves in one drawing; where the second axis has more numbers than this, shades tell more."""
MOST_PANELS = 6
"""Drawings of one figure; the table has the rest."""
_SHORT_NAMES = {
    "cost": "monthly_cost",
    "bcr": "bcr_rps_per_1000_monthly_cost",
    "line": "line_gbps",
    "wan": "wan_gbps",
    "ttft_p50": "ttft_p50_s",
    "ttft_p90": "ttft_p90_s",
    "ttft_p99": "ttft_p99_s",
    "tpot": "tpot_p90_s",
    "rps": "goodput_rps",
}
DRAWN = tuple(name for name in FIGURES if name not in WORDS)
"""Figures that are numbers."""
_TITLES = {
    "monthly_cost": "Cost a month, {currency}",
    "bcr_rps_per_1000_monthly_cost": "BCR, req/s per 1,000 {currency} a month",
    "goodput_rps": "Goodput, req/s",
    "chips": "Chips",
    "line_gbps": "Line taken, Gbit/s",
    "wan_gbps": "Mean traffic on lines, Gbit/s",
    "ttft_p50_s": "TTFT P50",
    "ttft_p90_s": "TTFT P90",
    "ttft_p99_s": "TTFT P99",
    "tpot_p90_s": "TPOT P90",
}
_AXES = {
    "hit_rate_fraction": "share of input tokens found in the cache",
    "link_gbps": "line, Gbit/s",
    "rps": "requests per second",
    "rtt_ms": "RTT, ms",
    "promised_tpot_ms": "TPOT promised, ms",
}


def figure_named(name: str) -> str:
    """The column that a name means.

    Raises:  InputError for names of no figure.
    """
    wanted = name.strip().lower().replace("-", "_")
    found = _SHORT_NAMES.get(wanted, wanted)
    if found not in DRAWN:
        known = (*_SHORT_NAMES, *DRAWN)
        raise InputError(
            Problem(
                f"{name!r} is no figure of a sweep{did_you_mean(wanted, known)}",
                fix=f"use one of {', '.join(known)}",
                where="--plot",
            )
        )
    return found


def axis_words(axis: Axis) -> str:
    """What varies, in words with its unit."""
    return _AXES.get(axis.column, axis.column)


def writer_of(column: str) -> Callable[[float], str]:
    """How values of a figure are written."""
    if column == "monthly_cost":
        return amount
    if column.endswith("_fraction"):
        return percent
    return seconds if column.endswith("_s") else short


@dataclass(frozen=True, slots=True)
class Panel:
    """One drawing: values of a figure over an axis, a curve for each value of another; NaN where there is no plan."""

    title: str
    """What else is fixed here; empty where nothing is."""
    across: Axis | None
    """The axis with numbers that curves run over; None where only words vary, and values are bars."""
    other: Axis | None
    curves: Mapping[str, Sequence[Point]]
    shaded: bool
    """Too many curves to tell apart: both axes are drawn, values are shades."""


@dataclass(frozen=True, slots=True)
class Layout:
    """All drawings of one figure of a sweep."""

    title: str
    write: Callable[[float], str]
    panels: tuple[Panel, ...]
    left_out: int
    """Drawings beyond MOST_PANELS, which are left to the table."""
    without_plan: int


def laid_out(axes: Sequence[Axis], rows: Sequence[Sequence[str]], column: str, header: Sequence[str]) -> Layout:
    """Lay a figure out: over the axis with most numbers, a curve per value of the next, a drawing for each rest."""
    at, currency_at = header.index(column), header.index("currency")
    currency = next((row[currency_at] for row in rows if row[currency_at]), "")
    values = {tuple(row[: len(axes)]): _number(row[at]) for row in rows}
    varied = [axis for axis in axes if len(axis.values) > 1]
    numeric = [axis for axis in varied if not takes_words(axis.name)]
    across = max(numeric, key=lambda axis: len(axis.values), default=None)
    others = sorted((axis for axis in varied if axis is not across), key=lambda axis: -len(axis.values))
    other = next(iter(others), None)
    fixed = [axis for axis in axes if axis is not across and axis is not other]
    panels = []
    for combination in itertools.product(*(axis.values for axis in fixed)):
        place = {axis.name: as_cell(value) for axis, value in zip(fixed, combination, strict=True)}
        curves = {}
        for own in other.values if other is not None else ("",):
            label = f"{other.column} {as_cell(own)}" if other is not None else "plan"
            here = place | ({other.name: as_cell(own)} if other is not None else {})
            curves[plain_text(label)] = _curve(axes, values, here, across)
        title = ", ".join(f"{axis.column} {place[axis.name]}" for axis in fixed if len(axis.values) > 1)
        many = other is not None and not takes_words(other.name) and len(other.values) > MOST_CURVES
        panels.append(Panel(plain_text(title), across, other, curves, shaded=many and across is not None))
    missing = sum(not math.isfinite(value) for value in values.values())
    title = _TITLES.get(column, column).format(currency=currency)
    return Layout(title, writer_of(column), tuple(panels[:MOST_PANELS]), max(len(panels) - MOST_PANELS, 0), missing)


def _curve(
    axes: Sequence[Axis], values: Mapping[tuple[str, ...], float], place: dict[str, str], across: Axis | None
) -> list[Point]:
    def at(x: str) -> float:
        own = place | ({across.name: x} if across is not None else {})
        return values.get(tuple(own[axis.name] for axis in axes), math.nan)

    if across is None:
        return [(0.0, at(""))]
    return sorted((float(x), at(as_cell(x))) for x in across.values)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
