"""``pddplan pareto``: a front of plans as text, JSON and CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

from pddplan.report.json_plan import finite
from pddplan.report.numbers import count, short
from pddplan.report.text_table import Column, Screen, table
from pddplan.studies.pareto import MEASURES, Front
from pddplan.studies.sweep import FIGURES, figures_of


def render(found: Front, screen: Screen) -> str:
    """One row per plan, and how much the last step was worth."""
    unit = MEASURES[found.y].unit
    currency = found.points[0].outcome.cost.currency
    columns = [
        Column(f"{found.x}" + (f" [{currency}/month]" if found.x == "cost" else ""), right=True, importance=0),
        Column(f"{found.y} [{unit}]", right=True, importance=0),
        Column("chips", right=True),
        Column("fleet"),
    ]
    rows = []
    for point in found.points:
        plan = point.outcome.plan
        fleet = ", ".join(f"{p.instances} x {p.chip} {p.shape} {p.role.value}" for p in plan.pools)
        rows.append([count(point.x), short(point.y), str(sum(p.chips for p in plan.pools)), fleet])
    title = f"{found.points[0].outcome.plan.topology}: {len(found.points)} plans of which none beats another"
    lines = [screen.paint.bold(title), "", *table(columns, rows, width=screen.width, paint=screen.paint)]
    if found.tightest is not None:
        lines += ["", f"no plan was found for {found.y} of {short(found.tightest)} {unit} or less"]
    return "\n".join(lines) + "\n"


def front_json(found: Front) -> dict[str, Any]:
    """The same as a record for JSON."""
    return {
        "x": found.x,
        "y": found.y,
        "tightest": found.tightest,
        "points": [finite({"x": p.x, "y": p.y, "promised": p.promised, **figures_of(p.outcome)}) for p in found.points],
    }


def front_csv(found: Front) -> str:
    """One row per plan: both axes, the promise it was sized for, and the figures of a sweep."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([found.x, found.y, "promised", *(name for name in FIGURES)])
    for point in found.points:
        figures = figures_of(point.outcome)
        promised = "" if point.promised is None else f"{point.promised:.10g}"
        writer.writerow([f"{point.x:.10g}", f"{point.y:.10g}", promised, *(figures[name] for name in FIGURES)])
    return out.getvalue()
