"""Search, bring the mix of traffic up to date from the plan found, and search again until nothing moves."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pddplan.domain.outcome import Outcome, SolverReport
from pddplan.evaluate.problem import Problem
from pddplan.optimize.build import with_mix
from pddplan.optimize.cells import root_cell
from pddplan.optimize.judge import Candidate, Judge
from pddplan.optimize.mending import Judged, judged, mended, stretched
from pddplan.optimize.mix import mix_of_plan
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.points import Points
from pddplan.optimize.repair import smaller_fleet
from pddplan.optimize.search import INTERRUPTED, Search, SearchResult
from pddplan.optimize.starts import MOST_STARTS
from pddplan.optimize.tidy import tidied

MOST_ROUNDS = 6
"""Rounds in which the mix of each pool is brought up to date from the plan found."""
ROUNDS_AFTER_PLAN = 2
NODES_AFTER_PLAN = 20
"""Once a plan is found, further rounds only look whether its own mix of traffic allows a better one."""
SAME_WORK = 0.01
SAME_TAIL = 0.02
"""Mixes whose work and uncovered tails differ by less than these fractions need no further round."""
FIRST_SHARE = 0.6
"""Of the time left, what a round may take while no plan is found: its plan may ask for another round."""
LEAST_TIME_S = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A plan as found: its outcome, and the model and numbers it came from."""

    outcome: Outcome
    points: Points
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class NothingFound:
    """No plan: because there is none (``proven``), or because time ran out."""

    proven: bool
    why: str


def settled(
    problem: Problem,
    topology: str,
    points: Points,
    *,
    objective: Objective,
    limits: Limits,
    started: float,
    start: Sequence[Candidate] = (),
) -> Found | NothingFound:
    """The best plan of the candidates under the traffic it has itself; never one that breaks a promise there."""
    deadline = started + limits.time_limit_s
    best: Found | None = None
    last: SearchResult | None = None
    further = 0
    for _ in range(MOST_ROUNDS):
        if further >= ROUNDS_AFTER_PLAN:
            break
        further += best is not None
        remaining = deadline - time.perf_counter()
        if best is not None and remaining <= LEAST_TIME_S:
            break
        search = Search(
            points,
            search_objective(objective),
            max(remaining if best is not None else FIRST_SHARE * remaining, LEAST_TIME_S),
            limits.gap if math.isinf(points.bound) else max(limits.gap, limits.acceptable_gap),
            acceptable_gap=max(limits.gap, limits.acceptable_gap),
            known_bound=points.bound,
            most_starts=points.path_count if limits.every_shape else MOST_STARTS,
            max_nodes=limits.max_nodes if best is None else min(NODES_AFTER_PLAN, limits.max_nodes),
            start=start,
        )
        result = search.run()
        if result.best is None:
            if last is not None:
                break
            return _nothing(result, limits)
        value, last = (last.value if last is not None else math.nan), result
        judge = Judge(points)
        own = judged(points, tidied(judge, smaller_fleet(judge, result.best)), topology=topology)
        settles = own.short <= 0
        kept: Judged | None = own
        if settles:
            kept = stretched(points, own, topology=topology, deadline=deadline)
        else:
            kept = mended(points, own, topology=topology, deadline=max(deadline, time.perf_counter() + LEAST_TIME_S))
        if kept is not None and kept.short <= 0:
            if kept is not own:  # looked at in passing until now
                kept = judged(points, kept.candidate, topology=topology)
            found = _found(points, kept, search, result, seconds=time.perf_counter() - started)
            if best is None or better(found.outcome, best.outcome, objective):
                best = found
        if result.status == INTERRUPTED or (settles and _close(result.value, value, max(limits.gap, 1e-9))):
            break
        basis = kept or own
        mix = mix_of_plan(problem, basis.outcome.plan, before=points.mix, paths=points.paths, pools=points.pools)
        updated = with_mix(
            problem, points.pools, points.paths, mix, objective=objective, limits=limits, bound=points.bound
        )
        if settles and same_numbers(points, updated, result.best):
            break
        points, start = updated, (basis.candidate,)
    if best is None:
        return NothingFound(
            proven=False, why="the plans found keep their promises only under a mix of traffic they do not have"
        )
    return best


def _found(points: Points, kept: Judged, search: Search, result: SearchResult, *, seconds: float) -> Found:
    """The plan with what was proven: how far the search's bound lies above what the plan really reaches."""
    score, status = search.score(kept.candidate), result.status
    bound = result.value + result.gap * abs(result.value)
    if math.isfinite(points.bound):  # candidates were left out: only this bound speaks for all
        bound = points.bound
    gap = max((bound - score) / abs(score), 0.0) if score else result.gap
    if status == "optimal" and gap > max(search.gap, search.acceptable_gap) and math.isinf(points.bound):
        status = "settled"  # the proof was of a plan that kept its promises under another mix only
    report = SolverReport(result.solver, status, gap, round(seconds, 3))
    candidate = kept.candidate
    if candidate.levels is None:
        judge = Judge(points)
        base = points.routes(root_cell(points.data).best(), used=candidate.used)
        candidate = replace(candidate, levels=judge.levels_of(candidate, base))
    return Found(replace(kept.outcome, solver=report), points, candidate)


def in_terms_of(points: Points, found: Found) -> Candidate | None:
    """A plan of other candidates as one of these; None where it uses a path that is not among them."""
    row_of = {path.id: row for row, path in enumerate(points.paths)}
    flow = np.zeros((points.path_count, found.candidate.flow.shape[1]))
    for path, flows in zip(found.points.paths, found.candidate.flow, strict=True):
        if path.id in row_of:
            flow[row_of[path.id]] = flows
        elif flows.any():
            return None
    counts = {pool.id: found.candidate.instances.get(pool.id, 0) for pool in points.pools}
    return replace(found.candidate, instances=counts, flow=flow, levels=None)


def search_objective(objective: Objective) -> str:
    """At a given rate the best ratio is the least cost."""
    return "cost" if objective.kind == "bcr" and objective.rate_rps is not None else objective.kind


def same_numbers(before: Points, after: Points, candidate: Candidate) -> bool:
    """True when two mixes give the plan's paths the same work and coverage at its operating point, nearly.

    Pools that the plan does not use keep the mix assumed before, so only its own paths can differ.
    """
    levels = candidate.levels
    if levels is None:
        return False
    for one, other in zip(*(points.routes(levels, used=candidate.used) for points in (before, after)), strict=True):
        used = one.allowed > 0
        for pool, work in one.work.items():
            if (abs(work - other.work[pool]) > SAME_WORK * work + 1e-9)[used].any():
                return False
        for row, covered in one.coverage.items():
            if (abs(covered - other.coverage[row]) > SAME_TAIL * (1 - covered) + 1e-5)[used].any():
                return False
    return True


def _nothing(result: SearchResult, limits: Limits) -> NothingFound:
    if result.status == "infeasible":
        return NothingFound(proven=True, why="no plan keeps every promise within the limits")
    return NothingFound(proven=False, why=f"no plan found within {limits.time_limit_s:g} s")


def value_of(outcome: Outcome, objective: Objective) -> float:
    """What the objective makes of a plan: larger is better."""
    if search_objective(objective) == "cost":
        return -outcome.cost.monthly_total
    return outcome.bcr if objective.kind == "bcr" else outcome.goodput_rps


def better(one: Outcome, other: Outcome, objective: Objective) -> bool:
    """Whether a plan is better than another one."""
    return value_of(one, objective) > value_of(other, objective)


def _close(one: float, other: float, gap: float) -> bool:
    return math.isfinite(other) and abs(one - other) <= gap * abs(other)
