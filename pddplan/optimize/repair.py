"""From a plan that misses a promise to one that keeps it: more instances, or fewer requests."""

from __future__ import annotations

from collections.abc import Sequence

from pddplan.optimize.data import Route
from pddplan.optimize.judge import Candidate, Judge
from pddplan.optimize.levels import Levels, PoolLevel

STEPS_OF_REPAIR = 40
STEPS_OF_SCALING = 14


def more_instances(judge: Judge, candidate: Candidate, levels: Levels) -> Candidate | None:
    """Open one more instance where it helps most, until all promises hold."""
    current = candidate
    for _ in range(STEPS_OF_REPAIR):
        routes = judge.model.routes(levels)
        if judge.keeps_all(current, routes):
            return current
        pool = _guilty_pool(judge, current, levels, routes)
        if pool is None:
            return None
        counts = {**current.instances, pool: current.instances[pool] + 1}
        current = judge.priced(counts, current.taken, current.flow)
        if not judge.within_limits(current):
            return None
        level = levels.pools[pool]
        levels = levels.with_pool(pool, PoolLevel(level.instances + 1, level.load))
    return None


def _guilty_pool(judge: Judge, candidate: Candidate, levels: Levels, routes: Sequence[Route]) -> str | None:
    for pool in judge.model.data.pools:
        level = levels.pools.get(pool.id)
        if level is not None and level.load > pool.max_utilization * level.instances * (1 + 1e-9):
            return pool.id
    worst, guilty = judge.shortfall(candidate, routes) * (1 - 1e-6), None
    for pool_id, level in levels.pools.items():
        eased = levels.with_pool(pool_id, PoolLevel(level.instances + 1, level.load))
        missing = judge.shortfall(candidate, judge.model.routes(eased))
        if missing < worst:
            worst, guilty = missing, pool_id
    return guilty


def fewer_requests(judge: Judge, candidate: Candidate, routes: Sequence[Route]) -> Candidate | None:
    """Serve fewer requests with the same fleet: the largest share of the flow that keeps the promises."""
    low, high = 0.0, 1.0
    floor = judge.model.data.min_rate_rps / max(candidate.rate_rps, 1e-12)
    found: Candidate | None = None
    for _ in range(STEPS_OF_SCALING):
        share = 0.5 * (low + high)
        if share < floor:
            break
        scaled = judge.priced(candidate.instances, candidate.taken, candidate.flow * share)
        if judge.keeps_all(scaled, judge.model.routes(judge.levels_of(scaled, routes))):
            found, low = scaled, share
        else:
            high = share
    return found
