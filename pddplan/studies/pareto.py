"""Plans that trade one thing for another: the cheapest plan for each promise, from the loosest to the tightest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pddplan.domain.outcome import Outcome
from pddplan.errors import InfeasibleError, InputError, Problem, SolverError, did_you_mean
from pddplan.optimize import Limits, Objective, size
from pddplan.questions import problem_of, shapes_of
from pddplan.sizing import Inputs

DEFAULT_POINTS = 8
LARGEST_POINTS = 100
_HALVINGS = 6
_SAME = 1e-3
"""Plans whose cost and latency differ by less than this fraction are one."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Something a promise bounds: its field in Promises and how an outcome reports it."""

    field: str
    unit: str
    of: Callable[[Outcome], float]


MEASURES: Mapping[str, Measure] = {
    "ttft-p50": Measure("ttft_p50_s", "s", lambda o: o.ttft.p50),
    "ttft-p90": Measure("ttft_p90_s", "s", lambda o: o.ttft.p90),
    "ttft-p99": Measure("ttft_p99_s", "s", lambda o: o.ttft.p99),
    "tpot": Measure("tpot_s", "s", lambda o: o.tpot.p90 if o.tpot is not None else o.tpot_s),
    "e2e-p50": Measure("e2e_p50_s", "s", lambda o: o.e2e.p50),
    "e2e-p90": Measure("e2e_p90_s", "s", lambda o: o.e2e.p90),
    "e2e-p99": Measure("e2e_p99_s", "s", lambda o: o.e2e.p99),
}
PRICES: Mapping[str, Callable[[Outcome], float]] = {
    "cost": lambda o: o.cost.monthly_total,
    "chips": lambda o: float(sum(pool.chips for pool in o.plan.pools)),
}


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One plan of the front: what it costs and what it reaches."""

    x: float
    y: float
    promised: float | None
    """The promise it was sized for; None for the cheapest plan of all."""
    outcome: Outcome


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """Plans of which none is better than another in both, cheapest first."""

    x: str
    y: str
    points: tuple[Point, ...]
    tightest: float | None
    """Below this no plan was found."""


def front(
    inputs: Inputs,
    *,
    x: str,
    y: str,
    topology: str,
    limits: Limits,
    points: int = DEFAULT_POINTS,
) -> Front:
    """Size for a row of promises on ``y``, each plan at least cost, and keep what nothing beats.

    The loosest promise is what the cheapest plan of all reaches (the other promises hold); the tightest is
    found by halving. Raises InputError for unknown axes, InfeasibleError when there is no plan at all.
    """
    _check(x, y, points)
    measure = MEASURES[y]
    loosest = _sized(_promising(inputs, measure, None), topology, limits)
    if loosest is None:
        raise InfeasibleError(f"no plan keeps the other promises, whatever the {y}")
    found = [Point(PRICES[x](loosest), measure.of(loosest), None, loosest)]
    low, high = 0.0, measure.of(loosest)
    for _ in range(_HALVINGS):  # the tightest promise that some plan keeps
        middle = 0.5 * (low + high)
        plan = _sized(_promising(inputs, measure, middle), topology, limits)
        if plan is None:
            low = middle
        else:
            high = measure.of(plan)
            found.append(Point(PRICES[x](plan), high, middle, plan))
    widest = found[0].y
    for step in range(1, max(points - 1, 1)):
        promise = high * (widest / high) ** (step / max(points - 1, 1)) if high > 0 else widest * step / points
        plan = _sized(_promising(inputs, measure, promise), topology, limits)
        if plan is not None:
            found.append(Point(PRICES[x](plan), measure.of(plan), promise, plan))
    return Front(x, y, tuple(nondominated(found)), low or None)


def nondominated(points: list[Point]) -> Iterator[Point]:
    """Points that no other beats in both directions, cheapest first; of equals one."""
    best = float("inf")
    for point in sorted(points, key=lambda p: (p.x, p.y)):
        if point.y < best * (1 - _SAME):
            best = point.y
            yield point


def _sized(inputs: Inputs, topology: str, limits: Limits) -> Outcome | None:
    rate = inputs.workload.arrival.rate_rps
    try:
        return size(
            problem_of(inputs),
            topology=topology,
            objective=Objective("cost", rate_rps=rate),
            limits=limits,
            shapes=shapes_of(inputs),
            relax=False,
        )
    except (InfeasibleError, SolverError):
        return None


def _promising(inputs: Inputs, measure: Measure, value: float | None) -> Inputs:
    made: dict[str, Any] = {measure.field: value}
    promises = replace(inputs.workload.promises, **made)
    return replace(inputs, workload=replace(inputs.workload, promises=promises))


def _check(x: str, y: str, points: int) -> None:
    faults = []
    if x not in PRICES:
        faults.append(Problem(f"{x!r} is unknown{did_you_mean(x, PRICES)}", f"use one of {', '.join(PRICES)}", "--x"))
    if y not in MEASURES:
        known = ", ".join(MEASURES)
        faults.append(Problem(f"{y!r} is unknown{did_you_mean(y, MEASURES)}", f"use one of {known}", "--y"))
    if not 2 <= points <= LARGEST_POINTS:
        faults.append(Problem(f"must lie from 2 to {LARGEST_POINTS}, got {points}", "write --points 8", "--points"))
    if faults:
        raise InputError(faults)
