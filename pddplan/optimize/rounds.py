"""Rounds of search: each with the mix of traffic that the plan of the round before really has."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from pddplan.domain.outcome import Outcome, SolverReport
from pddplan.domain.plan import Plan
from pddplan.errors import SolverError
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize.build import all_shapes, build, with_mix
from pddplan.optimize.judge import Candidate, Judge
from pddplan.optimize.mix import mix_of_plan
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.points import Points
from pddplan.optimize.reduction import Reduced
from pddplan.optimize.repair import smaller_fleet
from pddplan.optimize.search import Search, SearchResult
from pddplan.optimize.solution import plan_of
from pddplan.optimize.starts import MOST_STARTS
from pddplan.optimize.tidy import tidied
from pddplan.optimize.topologies import Shapes, Topology

MOST_ROUNDS = 6
"""Rounds in which the mix of each pool is brought up to date from the plan found."""
ROUNDS_AFTER_PLAN = 2
NODES_AFTER_PLAN = 20
"""Once a plan is found, further rounds only look whether its own mix of traffic allows a better one."""
SHARE_FOR_SHAPES = 0.2
"""Of the time left, what the program over all shapes may take."""
_ANY = 0.01
"""Searches that stop at their first plan need no proof over shapes."""
SAME_WORK = 0.01
SAME_TAIL = 0.02
"""Mixes whose work and uncovered tails differ by less than these fractions need no further round."""
BACK_OFF = (0.995, 0.99, 0.98, 0.97, 0.95, 0.92, 0.88, 0.83, 0.77, 0.7)
"""Shares of the rate tried when rounds do not settle."""
FIRST_SHARE = 0.6
"""Of the time left, what a round may take while no plan is found: its plan may ask for another round."""
_LEAST_TIME_S = 0.2


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


def search_plans(
    problem: Problem, topology: Topology, *, objective: Objective, limits: Limits, shapes: Shapes
) -> Found | NothingFound:
    """Best plan of a topology, evaluated by the one evaluator; never one that breaks a promise there.

    The few shapes that promise most are searched first. Then a program over all shapes says how much better any plan
    could be, and which shapes such a plan would use: these are searched as well.
    """
    started = time.perf_counter()
    points = build(problem, topology, objective=objective, limits=limits, shapes=shapes)
    if points is None:
        return NothingFound(proven=True, why=f"topology {topology.name} has no path here ({topology.about})")
    found = _in_rounds(problem, topology, points, objective=objective, limits=limits, started=started)
    if limits.gap >= 1 - _ANY:
        return found
    return _over_all_shapes(
        problem, topology, points, found, objective=objective, limits=limits, shapes=shapes, started=started
    )


def _over_all_shapes(
    problem: Problem,
    topology: Topology,
    points: Points,
    found: Found | NothingFound,
    *,
    objective: Objective,
    limits: Limits,
    shapes: Shapes,
    started: float,
) -> Found | NothingFound:
    """Bound what any shapes could give, look at those that would give it, and say what was proven over which shapes."""
    first = points
    left_out = len(points.considered) > len(points.pools)
    gap: float | None = None
    if isinstance(found, Found) and found.outcome.solver is not None and not left_out:
        gap = found.outcome.solver.gap
    remaining = limits.time_limit_s - (time.perf_counter() - started)
    asked = limits.prove_shapes and left_out and (objective.kind == "rps" or search_objective(objective) == "cost")
    over_all = None
    if asked and remaining > _LEAST_TIME_S:
        over_all = all_shapes(
            problem,
            topology,
            points,
            objective=objective,
            limits=limits,
            time_limit_s=SHARE_FOR_SHAPES * remaining,
        )
    if over_all is not None and over_all.solved:
        gap = _gap_over_all(over_all, found, objective)
        more = over_all.pools - {pool.id for pool in points.pools}
        if more and (gap is None or gap > limits.gap):
            wider = build(problem, topology, objective=objective, limits=limits, shapes=shapes, also=more)
            if wider is not None and math.isinf(wider.bound):
                start = (_in_terms_of(wider, found),) if isinstance(found, Found) else ()
                again = _in_rounds(
                    problem, topology, wider, objective=objective, limits=limits, started=started, start=start
                )
                points = wider
                if isinstance(again, Found) and (
                    not isinstance(found, Found) or _better(again.outcome, found.outcome, objective)
                ):
                    found = again
                gap = _gap_over_all(over_all, found, objective)
    if isinstance(found, NothingFound):
        return found
    solver = found.outcome.solver
    if solver is None:
        return found
    report = replace(
        solver,
        status="time limit" if first.cut else solver.status,
        shapes_searched=len(points.pools),
        shapes_possible=len(points.considered),
        gap_over_all=gap,
    )
    return replace(found, outcome=replace(found.outcome, solver=report))


def _gap_over_all(over_all: Reduced, found: Found | NothingFound, objective: Objective) -> float | None:
    """How much better than the plan found any plan of any shapes can be, as a fraction."""
    if isinstance(found, NothingFound):
        return None
    if objective.kind == "rps":
        bound, value = over_all.rate_bound_rps, found.outcome.plan.rate_rps
        return max(bound / value - 1.0, 0.0) if bound is not None and value > 0 else None
    cost = found.outcome.cost.monthly_total
    return max(1.0 - over_all.cost_bound / cost, 0.0) if over_all.cost_bound is not None and cost > 0 else None


def _in_terms_of(points: Points, found: Found) -> Candidate:
    """A plan of fewer candidates as one of more."""
    row_of = {path.id: row for row, path in enumerate(points.paths)}
    flow = np.zeros((points.path_count, found.candidate.flow.shape[1]))
    for path, flows in zip(found.points.paths, found.candidate.flow, strict=True):
        if path.id in row_of:
            flow[row_of[path.id]] = flows
    counts = {pool.id: found.candidate.instances.get(pool.id, 0) for pool in points.pools}
    return replace(found.candidate, instances=counts, flow=flow, levels=None)


def _in_rounds(
    problem: Problem,
    topology: Topology,
    points: Points,
    *,
    objective: Objective,
    limits: Limits,
    started: float,
    start: tuple[Candidate, ...] = (),
) -> Found | NothingFound:
    """Search, bring the mix of traffic up to date from the plan found, and search again until nothing moves."""
    best: Found | None = None
    last_value = math.nan
    last: Found | None = None
    further = 0
    for _ in range(MOST_ROUNDS):
        if further >= ROUNDS_AFTER_PLAN:
            break
        further += best is not None
        remaining = limits.time_limit_s - (time.perf_counter() - started)
        if best is not None and remaining <= _LEAST_TIME_S:
            break
        result = Search(
            points,
            search_objective(objective),
            max(remaining if best is not None else FIRST_SHARE * remaining, _LEAST_TIME_S),
            limits.gap if math.isinf(points.bound) else max(limits.gap, limits.acceptable_gap),
            acceptable_gap=max(limits.gap, limits.acceptable_gap),
            known_bound=points.bound,
            most_starts=points.path_count if limits.every_shape else MOST_STARTS,
            max_nodes=limits.max_nodes if best is None else NODES_AFTER_PLAN,
            start=start,
        ).run()
        if result.best is None:
            if last is not None:
                break
            return _nothing(result, limits)
        found = _evaluated(problem, topology, points, result, best=result.best, seconds=time.perf_counter() - started)
        outcome = found.outcome
        last = found
        if outcome.keeps_promises and (best is None or _better(outcome, best.outcome, objective)):
            best = found
        if result.status == "interrupted" or (
            outcome.keeps_promises and _close(result.value, last_value, max(limits.gap, 1e-9))
        ):
            break
        mix = mix_of_plan(problem, outcome.plan, before=points.mix, paths=points.paths, pools=points.pools)
        updated = with_mix(
            problem, points.pools, points.paths, mix, objective=objective, limits=limits, bound=points.bound
        )
        if outcome.keeps_promises and same_numbers(points, updated, result.best):
            break
        last_value, points, start = result.value, updated, (result.best,)
    if best is None and last is not None:
        best = _backed_off(problem, last)
    if best is None:
        raise SolverError(
            "the plans found keep their promises only under a mix of traffic they do not have",
            fix="allow fewer chips or one topology at a time, or raise --time-limit",
        )
    return best


def _backed_off(problem: Problem, found: Found) -> Found | None:
    """A plan that nearly keeps its promises, made to keep them: a lower rate where it is free, else more instances.

    Needed when rounds do not settle, because each plan's own mix of traffic asks for another plan.
    """
    data, plan = found.points.data, found.outcome.plan
    if data.min_rate_rps < data.max_rate_rps:
        for share in BACK_OFF:
            slower = evaluate(problem, replace(plan, rate_rps=plan.rate_rps * share))
            if slower.keeps_promises and slower.plan.rate_rps >= data.min_rate_rps:
                return _unproven(found, slower)
        return None
    room = {option.id: option.max_instances + option.redundant_instances for option in data.pools}
    for _ in BACK_OFF:
        loads = {load.pool: load.utilization for load in evaluate(problem, plan).pools}
        growing = [pool for pool in plan.pools if pool.instances < room[pool.id]]
        if not growing:
            return None
        busiest = max(growing, key=lambda pool: (loads[pool.id], pool.id))
        pools = tuple(replace(p, instances=p.instances + 1) if p.id == busiest.id else p for p in plan.pools)
        plan = replace(plan, pools=pools)
        larger = evaluate(problem, plan)
        if larger.keeps_promises and _within_inventory(found.points, plan):
            return _unproven(found, larger)
    return None


def _within_inventory(points: Points, plan: Plan) -> bool:
    held: dict[tuple[str, str], int] = {}
    for pool in plan.pools:
        held[pool.site, pool.chip] = held.get((pool.site, pool.chip), 0) + pool.chips
    data = points.data
    return all(held.get(key, 0) <= limit for key, limit in data.chip_limits.items()) and (
        data.max_chips is None or sum(held.values()) <= data.max_chips
    )


def _unproven(found: Found, outcome: Outcome) -> Found:
    """The proof was of the plan before it was backed off; say by how much this one may be short of it."""
    before, after = found.outcome, outcome
    lost = max(
        1.0 - after.plan.rate_rps / before.plan.rate_rps,
        after.cost.monthly_total / max(before.cost.monthly_total, 1e-9) - 1.0,
    )
    solver = before.solver
    report = replace(solver, status="settled", gap=solver.gap + lost) if solver is not None else None
    return Found(replace(after, solver=report), found.points, found.candidate)


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


def _evaluated(
    problem: Problem, topology: Topology, points: Points, result: SearchResult, *, best: Candidate, seconds: float
) -> Found:
    judge = Judge(points)
    candidate = tidied(judge, smaller_fleet(judge, best))
    plan = plan_of(
        candidate,
        points.data,
        topology=topology.name,
        pools=points.pools,
        paths=points.paths,
        batches={p.id: points.batch(p.id) for p in points.pools if p.id in points.mix.decode},
    )
    gap, status = result.gap, result.status
    if math.isfinite(points.bound) and result.value:  # candidates were left out: only this bound speaks for all
        gap = max((points.bound - result.value) / abs(result.value), 0.0)
    report = SolverReport(result.solver, status, gap, round(seconds, 3))
    return Found(replace(evaluate(problem, plan), solver=report), points, candidate)


def _nothing(result: SearchResult, limits: Limits) -> NothingFound:
    if result.status == "infeasible":
        return NothingFound(proven=True, why="no plan keeps every promise within the limits")
    return NothingFound(proven=False, why=f"no plan found within {limits.time_limit_s:g} s")


def _better(one: Outcome, other: Outcome, objective: Objective) -> bool:
    if search_objective(objective) == "cost":
        return one.cost.monthly_total < other.cost.monthly_total
    return one.bcr > other.bcr if objective.kind == "bcr" else one.goodput_rps > other.goodput_rps


def _close(one: float, other: float, gap: float) -> bool:
    return math.isfinite(other) and abs(one - other) <= gap * abs(other)
