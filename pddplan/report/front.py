"""``pddplan pareto``: a front of plans as text, JSON and CSV."""

from __future__ import annotations

from typing import Any

from pddplan.report.json_plan import finite
from pddplan.report.line_chart import line_chart
from pddplan.report.numbers import amount, plain_text, seconds, short
from pddplan.report.plain_csv import plain_csv
from pddplan.report.proof import PROOF_KEY, TIME_LIMIT, closeness
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.report.verdict import fleet_words
from pddplan.studies.pareto import MEASURES, Front
from pddplan.studies.sweep import FIGURES, figures_of
from pddplan.units import MS_PER_S

FLAGS = {"ttft-p50": "--ttft-p50", "ttft-p90": "--ttft-p90", "ttft-p99": "--ttft-p99", "tpot": "--tpot"}
"""Promises that ``size`` takes on its command line."""
_SHOWN = ("ttft-p50", "ttft-p90", "ttft-p99", "tpot")


def render(found: Front, screen: Screen) -> str:
    """One row per plan, the fleets behind them, and how to get one of them as a plan file."""
    currency = found.points[0].outcome.cost.currency
    beside = [name for name in _SHOWN if name != found.y]
    columns = [
        Column("plan", right=True, importance=0),
        Column(f"{currency}/month", right=True, importance=0),
        Column("chips", right=True, importance=0),
        Column(found.y, right=True, importance=0),
        Column("proof", right=True, importance=0),
        *(Column(name, right=True, importance=2 + _SHOWN.index(name)) for name in beside),
    ]
    rows: list[list[str]] = []
    fleets: dict[str, list[str]] = {}
    for number, point in enumerate(found.points, start=1):
        outcome = point.outcome
        latencies = [seconds(MEASURES[name].of(outcome)) for name in beside]
        chips = str(sum(pool.chips for pool in outcome.plan.pools))
        proof = closeness(outcome.solver) if outcome.solver is not None else "-"
        rows.append([str(number), amount(outcome.cost.monthly_total), chips, seconds(point.y), proof, *latencies])
        fleets.setdefault(fleet_words(outcome), []).append(str(number))
    title = f"{found.points[0].outcome.plan.topology}: {len(found.points)} plans of which none beats another"
    title += f" in both {found.x} and {found.y}"
    lines = [*(screen.paint.bold(line) for line in paragraph(title, width=screen.width)), ""]
    lines += table(columns, rows, width=screen.width, paint=screen.paint)
    lines += [screen.paint.dim(line) for line in paragraph(PROOF_KEY, width=screen.width)]
    listed = [f"{', '.join(numbers)}: {words}" for words, numbers in fleets.items()]
    lines += ["", screen.paint.bold("FLEETS"), *(part for text in listed for part in _wrapped(text, screen))]
    if found.tightest is not None:
        lines += ["", f"no plan was found for {found.y} of {seconds(found.tightest)} or less"]
    return "\n".join([*lines, *_unproven(found, screen), *_next_step(found, screen)]) + "\n"


def _wrapped(text: str, screen: Screen) -> list[str]:
    return paragraph(plain_text(text), width=screen.width, indent="    ", first="  ")


def _next_step(found: Front, screen: Screen) -> list[str]:
    """The option of ``size`` that gives the last plan, where there is one."""
    last = found.points[-1]
    if found.y not in FLAGS or last.promised is None or found.x != "cost":
        return []
    value = last.promised * (MS_PER_S if found.y == "tpot" else 1.0)
    option = f"{FLAGS[found.y]} {value:.4g} --out plan.json"
    said = f"plan {len(found.points)} as a file: the same question to pddplan size, with {option}"
    return paragraph(said, width=screen.width)


def _unproven(found: Front, screen: Screen) -> list[str]:
    """Which plans a longer search might still beat."""
    solvers = [point.outcome.solver for point in found.points]
    cut = [str(n) for n, solver in enumerate(solvers, start=1) if solver is not None and solver.status == TIME_LIMIT]
    if not cut:
        return []
    which = f"{'plans' if len(cut) > 1 else 'plan'} {', '.join(cut)}"
    said = f"the search for {which} stopped at its time limit: cheaper ones may exist, --time-limit 30 looks longer"
    return ["", *paragraph(said, width=screen.width)]


def front_json(found: Front) -> dict[str, Any]:
    """The same as a record for JSON."""
    return {
        "x": found.x,
        "y": found.y,
        "tightest": found.tightest,
        "points": [finite({"x": p.x, "y": p.y, "promised": p.promised, **figures_of(p.outcome)}) for p in found.points],
    }


def front_csv(found: Front) -> str:
    """One row per plan: both axes, the promise it was sized for, and the other figures of a sweep."""
    measure = MEASURES[found.y]
    pays = _COLUMNS.get(found.x, found.x)
    others = [name for name in FIGURES if name not in (pays, measure.column)]
    rows = []
    for point in found.points:
        figures = figures_of(point.outcome)
        rows.append([point.x, point.y, point.promised, *(figures[name] for name in others)])
    return plain_csv([pays, measure.column, f"promised_{measure.field}", *others], rows)


_COLUMNS = {"cost": "monthly_cost"}


def drawing(found: Front, screen: Screen) -> list[str]:
    """The front in characters: each plan by its number, in the table, over what it costs."""
    if len(found.points) < 2:
        return []
    x, y = [p.x for p in found.points], [p.y for p in found.points]
    write = amount if found.x == "cost" else short
    marks = {name: (p.x, p.y) for name, p in zip(_NAMES, found.points, strict=False)}
    labels = [(x[0], write(x[0])), (x[-1], write(x[-1]))]
    lines = line_chart(x, y, width=screen.width, marks=marks, write=seconds, x_labels=labels)
    return [f"{found.y} over {found.x}; plans 1 to 9, then a, b, ...", *lines]


_NAMES = "123456789abcdefghijklmnopqrstuvwxyz"
