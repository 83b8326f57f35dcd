"""From a plan that the evaluator finds wanting to one that keeps every promise there, step by step.

The program's numbers hold for an assumed mix of traffic; here each step is judged by the one evaluator itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.rounding import exceeds
from pddplan.optimize.judge import Candidate, Judge
from pddplan.optimize.points import Points
from pddplan.optimize.solution import searched_plan
from pddplan.units import gbps_to_bytes_per_s

STEPS = 24
STEP_DIVISOR = 12
"""Large pools grow by this part of themselves at a time; what was too much is taken back."""
BACK_OFF = (0.995, 0.99, 0.98, 0.97, 0.95, 0.92, 0.88, 0.83, 0.77, 0.7, 0.6, 0.5)
"""Shares of the rate tried where the rate is free."""
STRETCH = 0.05
FINEST_STRETCH = 2e-4
"""How much more than found a fleet is tried at, and how finely, as fractions."""
WORST = 1e3
"""Most that one broken promise counts, as a multiple of what was promised."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A candidate, its plan as the evaluator sees it, and by how much it falls short (0 = keeps all)."""

    candidate: Candidate
    outcome: Outcome
    short: float


def judged(points: Points, candidate: Candidate, *, topology: str, detail: bool = True) -> Judged:
    """Evaluate a candidate. Promises must hold with and without the instances and lines in reserve."""
    plan = searched_plan(points, candidate, topology=topology)
    outcome = evaluate(points.problem, plan, detail=detail)
    bare, short = _without_reserves(points, plan), shortfall(points, outcome)
    if bare != plan:
        reduced = evaluate(points.problem, bare, cost=outcome.cost, detail=False)
        short = max(short, shortfall(points, reduced))
    return Judged(candidate, outcome, short)


def shortfall(points: Points, outcome: Outcome) -> float:
    """By how much promises and ceilings are missed, each as a fraction of what was promised; 0 when all hold."""
    missed = sum(min(abs(broken.predicted / broken.promised - 1.0), WORST) for broken in outcome.violations)
    ceiling = {option.id: option.max_utilization for option in points.data.pools}
    for pool in outcome.pools:
        if exceeds(pool.utilization, ceiling[pool.pool]):
            missed += min(pool.utilization, 1.0) - ceiling[pool.pool]
    capacity = {(o.line, o.gbps, o.count): o.capacity_bytes_per_s for o in points.data.lines}
    for line in outcome.lines:
        most, sent = capacity.get((line.line, line.gbps, line.count), math.inf), gbps_to_bytes_per_s(line.mean_gbps)
        if exceeds(sent, most):
            missed += min(sent / most - 1.0, WORST)
    return missed


def mended(
    points: Points, wanting: Judged, *, topology: str, deadline: float, cheaper_than: float = math.inf
) -> Judged | None:
    """The plan with more instances or thicker lines, or fewer requests where the rate is free; None in vain.

    Fleets that cost ``cheaper_than`` or more are not asked for.
    """
    bigger = _grown(points, wanting, topology=topology, deadline=deadline, cheaper_than=cheaper_than)
    if bigger is not None:
        return _trimmed(points, bigger, topology=topology, deadline=deadline)
    judge = Judge(points)
    data = points.data
    if data.min_rate_rps < data.max_rate_rps:
        candidate = wanting.candidate
        for share in BACK_OFF:
            if candidate.rate_rps * share < data.min_rate_rps or time.perf_counter() > deadline:
                break
            slower = judge.priced(candidate.instances, candidate.taken, candidate.flow * share)
            tried = judged(points, slower, topology=topology, detail=False)
            if tried.short <= 0:
                return tried
    return None


def stretched(points: Points, kept: Judged, *, topology: str) -> Judged:
    """The same fleet at the highest rate that the evaluator lets it serve, where the rate is free.

    The search keeps to a rate that holds under the mix it assumed; the plan's own mix may allow a little more.
    """
    data, judge, current = points.data, Judge(points), kept
    most = data.max_rate_rps / max(kept.candidate.rate_rps, 1e-12)
    if data.min_rate_rps >= data.max_rate_rps or most <= 1.0 + FINEST_STRETCH:
        return kept
    low, share, step = 1.0, min(most, 1.0 + STRETCH), STRETCH
    high = most
    while high - low > FINEST_STRETCH:
        faster = judge.priced(kept.candidate.instances, kept.candidate.taken, kept.candidate.flow * share)
        tried = judged(points, faster, topology=topology, detail=False)
        if tried.short <= 0:
            current, low, step = tried, share, 2.0 * step
        else:
            high, step = share, math.inf
        share = min(0.5 * (low + high), low + step)
    return current


def _grown(points: Points, wanting: Judged, *, topology: str, deadline: float, cheaper_than: float) -> Judged | None:
    judge = Judge(points)
    current = wanting
    for _ in range(STEPS):
        if current.short <= 0:
            return current
        best, most = None, 0.0
        for larger in (*_more_instances(judge, current.candidate), *_thicker_lines(judge, current.candidate)):
            if time.perf_counter() > deadline:
                return None
            if larger.monthly_cost < cheaper_than and judge.within_limits(larger):
                tried = judged(points, larger, topology=topology, detail=False)
                price = max(larger.monthly_cost - current.candidate.monthly_cost, 1e-6 * larger.monthly_cost, 1e-6)
                if (current.short - tried.short) / price > most:
                    best, most = tried, (current.short - tried.short) / price
        if best is None:
            return None
        current = best
    return current if current.short <= 0 else None


def _more_instances(judge: Judge, candidate: Candidate) -> Iterator[Candidate]:
    for pool_id, count in candidate.instances.items():
        if count > 0:
            counts = {**candidate.instances, pool_id: count + 1 + count // STEP_DIVISOR}
            yield judge.priced(counts, candidate.taken, candidate.flow)


def _thicker_lines(judge: Judge, candidate: Candidate) -> Iterator[Candidate]:
    options = {option.id: option for option in judge.model.data.lines}
    for taken in candidate.taken:
        now = options[taken]
        thicker = [
            o for o in options.values() if o.line == now.line and o.capacity_bytes_per_s > now.capacity_bytes_per_s
        ]
        if thicker:
            option = min(thicker, key=lambda o: (o.capacity_bytes_per_s, o.id))
            lines = tuple(option.id if o == taken else o for o in candidate.taken)
            yield judge.priced(candidate.instances, lines, candidate.flow)


def _trimmed(points: Points, kept: Judged, *, topology: str, deadline: float) -> Judged:
    """Take instances away while all promises hold; dearest instances first."""
    judge, current = Judge(points), kept
    for pool in sorted(points.data.pools, key=lambda p: (-p.monthly_cost_per_instance, p.id)):
        while current.candidate.instances.get(pool.id, 0) > 1 and time.perf_counter() < deadline:
            now = current.candidate
            fewer = {**now.instances, pool.id: now.instances[pool.id] - 1}
            tried = judged(points, judge.priced(fewer, now.taken, now.flow), topology=topology, detail=False)
            if tried.short > 0:
                break
            current = tried
    return current


def _without_reserves(points: Points, plan: Plan) -> Plan:
    """The plan with what is counted on only: no spare instances, and of each bundle the lines that work."""
    reserve = {option.id: option.redundant_instances for option in points.data.pools}
    working = {(o.line, o.gbps, o.count): o.working for o in points.data.lines}
    pools = tuple(replace(pool, instances=pool.instances - reserve.get(pool.id, 0)) for pool in plan.pools)
    lines = tuple(replace(taken, count=working[taken.line, taken.gbps, taken.count]) for taken in plan.lines)
    if pools == plan.pools and lines == plan.lines:
        return plan
    return replace(plan, pools=pools, lines=lines)
