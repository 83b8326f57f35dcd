"""Ties broken for who runs the fleet: among plans within a stated share of the best cost, the one nearest to today's.

With a plan at hand: fewest instances added or taken away (a line taken, left or changed counts as one). Without one:
fewest kinds of chips. Cost decides what is still equal.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pddplan.domain.plan import Plan
from pddplan.errors import InputError
from pddplan.errors import Problem as Fault
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize.build import build, sized, unsized
from pddplan.optimize.data import ProgramData
from pddplan.optimize.formulation import MONEY, Variables, chips_held, cost_expression, formulate, name
from pddplan.optimize.judge import Candidate, Judge
from pddplan.optimize.known import candidate_id, candidate_of, kind_of
from pddplan.optimize.mix import mix_of_plan
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.points import Points
from pddplan.optimize.rounds import Found
from pddplan.optimize.search import Search
from pddplan.optimize.settle import search_objective
from pddplan.optimize.solution import searched_plan
from pddplan.optimize.solver import Solved, SolveStatus, solve
from pddplan.optimize.tidy import tidied
from pddplan.optimize.topologies import Shapes, Topology

if TYPE_CHECKING:
    import pulp

WITHIN = 0.02
"""Share of the cost that nearness to an existing plan may take, unless said otherwise."""
ROUNDS = 4
NODES = 200
SHARE_OF_TIME = 0.5
COST_COUNTS = 0.5
"""Of the whole cost allowed: less than one change, so that it decides between equals only."""


@dataclass(frozen=True, slots=True, eq=False)
class Nearness:
    """What to be near to, and what share of the best cost that may take."""

    plan: Plan | None
    """None = fewest kinds of chips."""
    within: float = WITHIN

    def check(self, objective: Objective) -> None:
        """Raise InputError for a share that makes no sense, or an objective without a cost to weigh it against."""
        if search_objective(objective) != "cost":
            what = "nearness to a plan, or fewer kinds of chips, is weighed against cost at a given rate"
            raise InputError(Fault(what, fix="use --objective cost", where="--keep, --within"))
        if not 0 <= self.within <= 1:
            fault = Fault(f"must lie in [0, 1], got {self.within!r}", fix="write --within 0.02", where="--within")
            raise InputError(fault)


@dataclass(frozen=True, slots=True)
class Move:
    """One thing of a fleet that differs between two plans."""

    what: str
    before: float
    after: float
    unit: str


def moves(before: Plan, after: Plan) -> tuple[Move, ...]:
    """What to add, take away or change on the way from one plan to another."""
    found = []
    for kind in dict.fromkeys((*_held(before), *_held(after))):
        first, second = _held(before).get(kind, 0), _held(after).get(kind, 0)
        if first != second:
            found.append(Move(" ".join(kind), first, second, "instances"))
    lines = [{taken.line: taken for taken in plan.lines if taken.count} for plan in (before, after)]
    for line in dict.fromkeys((*lines[0], *lines[1])):
        was, will = (taken.get(line) for taken in lines)
        first_gbps, then_gbps = (taken.gbps * taken.count if taken else 0.0 for taken in (was, will))
        if first_gbps != then_gbps:
            found.append(Move(f"line {line}", first_gbps, then_gbps, "Gbit/s"))
        elif was and will and was.count != will.count:  # as much, over other lines: somebody still has to lay them
            tiers = f"lines, of {was.gbps:g} Gbit/s before and {will.gbps:g} after"
            found.append(Move(f"line {line}", was.count, will.count, tiers))
    return tuple(found)


def _held(plan: Plan) -> dict[tuple[str, str, str, str], int]:
    held: dict[tuple[str, str, str, str], int] = {}
    for pool in plan.pools:
        held[kind_of(pool)] = held.get(kind_of(pool), 0) + pool.instances
    return held


def nearest(
    problem: Problem,
    topology: Topology,
    found: Found,
    nearness: Nearness,
    *,
    objective: Objective,
    limits: Limits,
    shapes: Shapes,
) -> Found:
    """The plan nearest to what is there, among those that cost at most the stated share more than the best one.

    Raises:  nothing of its own (see Nearness.check).
    """
    best = found.outcome
    most = (1.0 + nearness.within) * best.cost.monthly_total
    bounded = replace(objective, budget_per_month=min(most, objective.budget_per_month or most))
    asked = replace(limits, time_limit_s=SHARE_OF_TIME * limits.time_limit_s)
    there = nearness.plan
    pool_ids = frozenset(candidate_id(pool) for pool in (*(there.pools if there else ()), *best.plan.pools))
    points = build(problem, topology, objective=bounded, limits=asked, shapes=shapes, also=pool_ids)
    if points is None:
        return found
    deadline = time.perf_counter() + asked.time_limit_s
    start = tuple(c for plan in (there, best.plan) if plan and (c := candidate_of(points, plan, best.plan.rate_rps)))
    mix = mix_of_plan(problem, best.plan, before=points.mix, paths=points.paths, pools=points.pools)
    near = found
    for _ in range(ROUNDS):
        points = unsized(problem, points.pools, points.paths, mix, objective=bounded, limits=limits)
        points = sized(points, limits=limits)
        result = _NearSearch(points, there, max(deadline - time.perf_counter(), 0.1), start).run()
        if result.best is None:
            break
        chosen = _evaluated(problem, topology, points, result.best, found)
        mix = mix_of_plan(problem, chosen.outcome.plan, before=mix, paths=points.paths, pools=points.pools)
        if chosen.outcome.keeps_promises and chosen.outcome.cost.monthly_total <= most * (1 + 1e-9):
            if _distance(chosen.outcome.plan, there) < _distance(near.outcome.plan, there):
                near = chosen
            break
        start = (result.best,)
    return near


def _distance(plan: Plan, there: Plan | None) -> float:
    if there is None:
        return float(len({pool.chip for pool in plan.pools}))
    return sum(abs(m.after - m.before) if m.unit == "instances" else 1.0 for m in moves(there, plan))


def _evaluated(problem: Problem, topology: Topology, points: Points, best: Candidate, found: Found) -> Found:
    candidate = tidied(Judge(points), best)
    plan = searched_plan(points, candidate, topology=topology.name)
    return Found(replace(evaluate(problem, plan), solver=found.outcome.solver), points, candidate)


class _NearSearch(Search):
    """Branch and bound for the fewest changes (or kinds of chips), cost deciding between equals."""

    def __init__(self, points: Points, there: Plan | None, time_limit_s: float, start: tuple[Candidate, ...]) -> None:
        super().__init__(points, "near", time_limit_s, gap=0.0, acceptable_gap=0.0, max_nodes=NODES, start=start)
        self.there = _there(points, there) if there is not None else None

    def score(self, candidate: Candidate) -> float:
        """Fewer changes are better; a little cost decides between equals."""
        data = self.model.data
        cost = COST_COUNTS * candidate.monthly_cost / (data.budget or 1.0)
        open_pools = [pool for pool in data.pools if candidate.instances.get(pool.id, 0) > 0]
        if self.there is None:
            return -len({pool.chip for pool in open_pools}) - cost
        changed = self.there.gone
        for pool in data.pools:
            count = candidate.instances.get(pool.id, 0)
            changed += abs(count + pool.redundant_instances * (count > 0) - self.there.instances.get(pool.id, 0))
        for line in {option.line for option in data.lines}:
            taken = {option.id for option in data.lines if option.line == line and option.id in candidate.taken}
            changed += taken != ({self.there.taken[line]} if line in self.there.taken else set())
        return -changed - cost

    def _trivial_bound(self) -> float:
        return 0.0

    def _solve(self, data: ProgramData, *, bound: float) -> tuple[Solved | None, float]:
        program, variables = formulate(data, objective="cost")
        program.setObjective(_distance_terms(program, data, variables, self.there))
        solved = solve(program, time_limit_s=self._deadline - time.perf_counter(), absolute_gap=1e-3)
        if not solved.has_plan:
            if solved.status is SolveStatus.TIME_LIMIT:
                self._hit_limit = True
                self._lost_bound = max(self._lost_bound, bound)
            return None, bound
        return solved, min(bound, -solved.bound)


@dataclass(frozen=True, slots=True)
class _There:
    """An existing plan in the ids of the program."""

    instances: Mapping[str, int]
    taken: Mapping[str, str]
    gone: float
    """Changes that every plan of the program makes: what it cannot keep."""


def _there(points: Points, plan: Plan) -> _There:
    held, known = {"/".join(kind): count for kind, count in _held(plan).items()}, {pool.id for pool in points.pools}
    lines = {option.line for option in points.data.lines}
    gone = float(sum(count for pool, count in held.items() if pool not in known))
    taken = {}
    for line in plan.lines:
        if line.count and line.line in lines:
            taken[line.line] = f"{line.line}:{line.count}x{line.gbps:g}"
        elif line.count:
            gone += 1.0
    return _There({pool: count for pool, count in held.items() if pool in known}, taken, gone)


def _distance_terms(
    program: pulp.LpProblem, data: ProgramData, v: Variables, there: _There | None
) -> pulp.LpAffineExpression:
    """Rows that count changes (or kinds of chips), and their sum with a little cost."""
    import pulp

    counted = cost_expression(data, v) * (COST_COUNTS * MONEY / (data.budget or 1.0))
    if there is None:
        for chip in sorted({pool.chip for pool in data.pools}):
            used = pulp.LpVariable(f"kind_{name(chip)}", 0, 1, cat=pulp.LpInteger)
            most = sum(p.max_instances * p.chips_per_instance for p in data.pools if p.chip == chip)
            program += chips_held(data, v, chip=chip) <= 2 * max(most, 1) * used, f"if_kind_{name(chip)}"
            counted += used
        return counted
    counted += there.gone
    kept = {pool.id for pool in data.pools}
    counted += float(sum(count for pool, count in there.instances.items() if pool not in kept))  # closed in this cell
    for pool in data.pools:
        changed = pulp.LpVariable(f"changed_{name(pool.id)}", 0)
        count = v.instances[pool.id] + (pool.redundant_instances * v.open[pool.id] if pool.redundant_instances else 0)
        was = there.instances.get(pool.id, 0)
        program += changed >= count - was, f"added_{name(pool.id)}"
        program += changed >= was - count, f"removed_{name(pool.id)}"
        counted += changed
    for line in {*(option.line for option in data.lines), *there.taken}:
        own = {option.id for option in data.lines if option.line == line}
        if line not in there.taken:
            counted += pulp.lpSum(v.taken[o] for o in sorted(own))
        else:
            counted += 1 - (v.taken[there.taken[line]] if there.taken[line] in own else 0)
    return counted
