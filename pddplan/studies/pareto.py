"""Plans that trade one thing for another: the cheapest plan for each promise, from the loosest to the tightest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pddplan.domain.outcome import Outcome
from pddplan.errors import InfeasibleError, InputError, Problem, SolverError, did_you_mean
from pddplan.evaluate.problem import Problem as Question
from pddplan.optimize import Limits, Objective, size, unbeaten
from pddplan.optimize.topologies import Shapes
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
    column: str
    """Its name in files, with the unit."""
    of: Callable[[Outcome], float]


MEASURES: Mapping[str, Measure] = {
    "ttft-p50": Measure("ttft_p50_s", "ttft_p50_s", lambda o: o.ttft.p50),
    "ttft-p90": Measure("ttft_p90_s", "ttft_p90_s", lambda o: o.ttft.p90),
    "ttft-p99": Measure("ttft_p99_s", "ttft_p99_s", lambda o: o.ttft.p99),
    "tpot": Measure("tpot_s", "tpot_p90_s", lambda o: o.tpot.p90 if o.tpot is not None else o.tpot_s),
    "e2e-p50": Measure("e2e_p50_s", "e2e_p50_s", lambda o: o.e2e.p50),
    "e2e-p90": Measure("e2e_p90_s", "e2e_p90_s", lambda o: o.e2e.p90),
    "e2e-p99": Measure("e2e_p99_s", "e2e_p99_s", lambda o: o.e2e.p99),
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
    x, y = (name.strip().lower().replace("_", "-") for name in (x, y))
    if x in MEASURES and y in PRICES:  # either may lie on either axis: the front is the same
        x, y = y, x
    _check(x, y, points)
    sized = _Sized(problem_of(inputs), shapes_of(inputs), MEASURES[y], topology, limits)
    loosest = sized.at(None)
    if loosest is None:
        raise InfeasibleError(f"no plan keeps the other promises, whatever the {y}")
    low, high = 0.0, sized.measure.of(loosest)
    for _ in range(_HALVINGS):  # the tightest promise that some plan keeps
        middle = 0.5 * (low + high)
        plan = sized.at(middle)
        if plan is None:
            low = middle
        else:
            high = sized.measure.of(plan)
    widest = sized.measure.of(loosest)
    for step in range(1, max(points - 1, 1)):
        sized.at(high * (widest / high) ** (step / max(points - 1, 1)) if high > 0 else widest * step / points)
    found = [Point(PRICES[x](plan), sized.measure.of(plan), promised, plan) for promised, plan in sized.found]
    return Front(x, y, tuple(nondominated(found)), low or None)


def nondominated(points: list[Point]) -> Iterator[Point]:
    """Points that no other beats in both directions, cheapest first; of equals one."""
    best = float("inf")
    for point in sorted(points, key=lambda p: (p.x, p.y)):
        if point.y < best * (1 - _SAME):
            best = point.y
            yield point


@dataclass(frozen=True, slots=True, eq=False)
class _Sized:
    """One question under one promise after the other; what is known of some answers what is asked of the next."""

    problem: Question
    shapes: Shapes
    measure: Measure
    topology: str
    limits: Limits
    found: list[tuple[float | None, Outcome]] = field(default_factory=list)

    def at(self, promised: float | None) -> Outcome | None:
        """The cheapest plan under a promise; None where there is none."""
        known, least = self._bracket(promised)
        if known is not None and _cost(known) <= least * (1 + self.limits.gap):
            return known  # as cheap as what a looser promise costs
        workload = self.problem.workload
        made: dict[str, Any] = {self.measure.field: promised}
        question = replace(self.problem, workload=replace(workload, promises=replace(workload.promises, **made)))
        goal = Objective("cost", rate_rps=workload.arrival.rate_rps)
        if known is not None and unbeaten(
            question,
            known,
            by=self.limits.gap,
            topology=self.topology,
            objective=goal,
            limits=self.limits,
            shapes=self.shapes,
        ):
            return known
        plan = self._sized(question, goal, known)
        if known is not None and (plan is None or not self._proven(plan)):
            # a start keeps narrower topologies from being searched first: what it leaves open, they may close
            afresh = self._sized(question, goal, None)
            plan = afresh if plan is None or (afresh is not None and _cost(afresh) <= _cost(plan)) else plan
        if plan is None:
            return None
        self.found.append((promised, plan))
        return plan

    def _sized(self, question: Question, goal: Objective, known: Outcome | None) -> Outcome | None:
        try:
            return size(
                question,
                topology=self.topology,
                objective=goal,
                limits=self.limits,
                shapes=self.shapes,
                relax=False,
                known=known.plan if known is not None else None,
            )
        except (InfeasibleError, SolverError):
            return None

    def _proven(self, plan: Outcome) -> bool:
        return plan.solver is None or plan.solver.gap <= max(self.limits.gap, self.limits.acceptable_gap)

    def _bracket(self, promised: float | None) -> tuple[Outcome | None, float]:
        """The cheapest plan found that keeps a promise, and what it costs at least: as much as a looser one."""
        if promised is None:
            return None, 0.0
        tail = 1.0 + self.problem.settings.tail_margin  # as promises are judged
        keeping = [plan for _, plan in self.found if tail * self.measure.of(plan) <= promised]
        looser = [
            _cost(plan) * (1 - plan.solver.gap)
            for limit, plan in self.found
            if plan.solver is not None and (limit is None or limit >= promised)
        ]
        return min(keeping, key=_cost, default=None), max(looser, default=0.0)


def _cost(outcome: Outcome) -> float:
    return outcome.cost.monthly_total


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
