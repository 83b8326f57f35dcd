"""The optimiser's front door: a question in, the best plan with its proof out."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome, SolverReport
from pddplan.domain.plan import Path, Pool
from pddplan.errors import InfeasibleError, SolverError
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize.build import build, with_mix
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.points import Points, mix_of_plan
from pddplan.optimize.search import Candidate, Search, SearchResult
from pddplan.optimize.solution import plan_of
from pddplan.optimize.topologies import Shapes, Topology, find_topology

BEST_RATIO = Objective()
DEFAULT_LIMITS = Limits()
SAME_WORK = 0.01
SAME_TAIL = 0.02
"""Mixes whose work and uncovered tails differ by less than these fractions need no further round."""
MOST_ROUNDS = 6
"""Rounds in which the mix of each pool is brought up to date from the plan found."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A plan as found: its outcome, and the model and numbers it came from."""

    outcome: Outcome
    points: Points
    candidate: Candidate


def size(
    problem: Problem,
    *,
    topology: str = "pdd",
    objective: Objective = BEST_RATIO,
    limits: Limits = DEFAULT_LIMITS,
    shapes: Shapes,
) -> Outcome:
    """Find the best plan of a topology for a question, evaluated by the one evaluator, with its proof.

    Raises InfeasibleError with the smallest relaxation of each promise or limit when no plan exists,
    SolverError when time ran out before any plan was found, InputError for settings that make no sense.
    """
    return find(problem, topology=topology, objective=objective, limits=limits, shapes=shapes).outcome


def find(
    problem: Problem,
    *,
    topology: str,
    objective: Objective = BEST_RATIO,
    limits: Limits = DEFAULT_LIMITS,
    shapes: Shapes,
) -> Found:
    """As ``size``, and also give the model the plan came from (for explanations)."""
    objective.check()
    limits.check()
    chosen = find_topology(topology)
    started = time.perf_counter()
    points = build(problem, chosen, objective=objective, limits=limits, shapes=shapes)
    if points is None:
        raise _no_path(problem, chosen, shapes, objective=objective, limits=limits)
    return _rounds(problem, chosen, points, objective=objective, limits=limits, started=started, shapes=shapes)


def _rounds(
    problem: Problem,
    topology: Topology,
    points: Points,
    *,
    objective: Objective,
    limits: Limits,
    started: float,
    shapes: Shapes,
) -> Found:
    best: Found | None = None
    last_value = math.nan
    start: tuple[Candidate, ...] = ()
    report: SolverReport | None = None
    for _ in range(MOST_ROUNDS):
        remaining = limits.time_limit_s - (time.perf_counter() - started)
        if best is not None and remaining <= 0:
            break
        search = Search(points, search_objective(objective), max(remaining, 0.2), limits.gap, start=start)
        result = search.run()
        if result.best is None:
            if best is not None:
                break
            raise _nothing_found(result, problem, topology, objective=objective, limits=limits, shapes=shapes)
        plan = plan_of(
            result.best,
            points.data,
            topology=topology.name,
            pools=points.pools,
            paths=points.paths,
            batches={p.id: points.batch(p.id) for p in points.pools if p.id in points.mix.decode},
        )
        outcome = evaluate(problem, plan)
        report = SolverReport(
            result.solver, result.status, result.gap, round(time.perf_counter() - started, 3)
        )
        found = Found(replace(outcome, solver=report), points, result.best)
        if outcome.keeps_promises and (best is None or _better(outcome, best.outcome, objective)):
            best = found
        settled = outcome.keeps_promises and _close(result.value, last_value, limits.gap)
        if settled or result.status == "interrupted":
            break
        mix = mix_of_plan(problem, plan, before=points.mix, paths=points.paths, pools=points.pools)
        updated = with_mix(problem, points.pools, points.paths, mix, objective=objective, limits=limits)
        if outcome.keeps_promises and same_numbers(points, updated, result.best):
            break
        last_value, points = result.value, updated
        start = (result.best,)
    if best is None:
        raise SolverError(
            "the plans found keep their promises only under a mix of traffic they do not have",
            fix="allow fewer chips or one topology at a time, or raise --time-limit",
        )
    return best


def search_objective(objective: Objective) -> str:
    """At a given rate the best ratio is the least cost."""
    return "cost" if objective.kind == "bcr" and objective.rate_rps is not None else objective.kind


def _better(one: Outcome, other: Outcome, objective: Objective) -> bool:
    if search_objective(objective) == "cost":
        return one.cost.monthly_total < other.cost.monthly_total
    return one.bcr > other.bcr if objective.kind == "bcr" else one.goodput_rps > other.goodput_rps


def _close(one: float, other: float, gap: float) -> bool:
    return math.isfinite(other) and abs(one - other) <= max(gap, 1e-9) * abs(other)


def same_numbers(before: Points, after: Points, candidate: Candidate) -> bool:
    """True when two mixes give every path the same work and coverage at a plan's operating point, nearly."""
    levels = candidate.levels
    if levels is None:
        return False
    for one, other in zip(before.routes(levels), after.routes(levels), strict=True):
        used = one.allowed > 0
        for pool, work in one.work.items():
            if (abs(work - other.work[pool]) > SAME_WORK * work + 1e-9)[used].any():
                return False
        for row, covered in one.coverage.items():
            if (abs(covered - other.coverage[row]) > SAME_TAIL * (1 - covered) + 1e-5)[used].any():
                return False
    return True


def _no_path(problem: Problem, topology: Topology, shapes: Shapes, *, objective: Objective, limits: Limits) -> Exception:
    return InfeasibleError(f"topology {topology.name} has no path here: {topology.about}")


def _nothing_found(
    result: SearchResult,
    problem: Problem,
    topology: Topology,
    *,
    objective: Objective,
    limits: Limits,
    shapes: Shapes,
) -> Exception:
    if result.status == "infeasible":
        return InfeasibleError("no plan keeps every promise within the limits")
    return SolverError(
        f"no plan found within {limits.time_limit_s:g} s", fix="raise --time-limit, or allow fewer kinds of chips"
    )


__all__ = ["Found", "Path", "Pool", "find", "size"]
