"""From a plan that misses a promise to one that keeps it: more instances, or fewer requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pddplan.optimize.data import Route
from pddplan.optimize.judge import Candidate, Judge
from pddplan.optimize.levels import Levels, LineLevel, PoolLevel

STEPS_OF_REPAIR = 40
STEPS_OF_SCALING = 14
FINEST_RISE = 1e-3
"""Smaller rises of the rate are not worth a look here: the evaluator looks at the end."""
STEP_DIVISOR = 25
WORTH_A_STEP = 1e-3
"""A step must remove at least this share of what is missing, per share it adds to the cost."""


def bigger_fleet(judge: Judge, candidate: Candidate, levels: Levels) -> Candidate | None:
    """Add one instance or take the next line option, whichever helps most per money, until all promises hold."""
    current = candidate
    for _ in range(STEPS_OF_REPAIR):
        routes = judge.model.routes(levels, used=candidate.used)
        if judge.keeps_all(current, routes):
            return current
        step = _best_step(judge, current, levels, missing=judge.missed(current, routes))
        if step is None:
            return None
        current, levels = step
    return None


def _best_step(
    judge: Judge, candidate: Candidate, levels: Levels, *, missing: float
) -> tuple[Candidate, Levels] | None:
    best: tuple[Candidate, Levels] | None = None
    most = WORTH_A_STEP * missing / max(candidate.monthly_cost, 1.0)
    for larger, eased in (*_more_instances(judge, candidate, levels), *_thicker_lines(judge, candidate, levels)):
        gain = missing - judge.missed(larger, judge.model.routes(eased, used=candidate.used))
        value = gain / max(larger.monthly_cost - candidate.monthly_cost, 1e-6 * candidate.monthly_cost, 1e-6)
        if value > most and judge.within_limits(larger):
            best, most = (larger, eased), value
    return best


def _more_instances(judge: Judge, candidate: Candidate, levels: Levels) -> Iterator[tuple[Candidate, Levels]]:
    most = {pool.id: pool.max_instances for pool in judge.model.data.pools}
    for pool_id, level in levels.pools.items():
        # large pools grow by more than one; smaller_fleet takes back
        more = min(1 + level.instances // STEP_DIVISOR, most[pool_id] - level.instances)
        if more < 1:
            continue
        counts = {**candidate.instances, pool_id: candidate.instances[pool_id] + more}
        yield (
            judge.priced(counts, candidate.taken, candidate.flow),
            levels.with_pool(pool_id, PoolLevel(level.instances + more, level.load)),
        )


def _thicker_lines(judge: Judge, candidate: Candidate, levels: Levels) -> Iterator[tuple[Candidate, Levels]]:
    for line_id, level in levels.lines.items():
        thicker = [
            option
            for option in judge.model.data.lines
            if option.line == line_id and option.capacity_bytes_per_s > level.option.capacity_bytes_per_s
        ]
        if thicker:
            option = min(thicker, key=lambda o: (o.capacity_bytes_per_s, o.id))
            taken = tuple(option.id if o == level.option.id else o for o in candidate.taken)
            yield (
                judge.priced(candidate.instances, taken, candidate.flow),
                levels.with_line(line_id, LineLevel(option, level.load_bytes_per_s)),
            )


def smaller_fleet(judge: Judge, candidate: Candidate) -> Candidate:
    """Close what carries nothing, and take instances away while all promises hold; dearest instances first."""
    used = {pool for index in np.flatnonzero(candidate.used) for pool in judge.model.members(int(index))[0]}
    lines = {judge.model.members(int(index))[1] for index in np.flatnonzero(candidate.used)}
    counts = {pool: count if pool in used else 0 for pool, count in candidate.instances.items()}
    line_of = {option.id: option.line for option in judge.model.data.lines}
    taken = tuple(option for option in candidate.taken if line_of[option] in lines)
    current = judge.priced(counts, taken, candidate.flow)
    routes = judge.model.routes(judge.levels_of(current, judge.model.routes(_levels(candidate))), used=current.used)
    if not judge.keeps_all(current, routes):
        return candidate
    for pool in sorted(judge.model.data.pools, key=lambda p: (-p.monthly_cost_per_instance, p.id)):
        most, least = current.instances.get(pool.id, 0), max(pool.min_instances, 1)
        while least < most:  # by halves: fleets may have a million instances
            middle = (least + most) // 2
            smaller = judge.priced({**current.instances, pool.id: middle}, current.taken, current.flow)
            levels = judge.levels_of(smaller, routes)
            if judge.keeps_all(smaller, judge.model.routes(levels, used=smaller.used)):
                current, most = smaller, middle
            else:
                least = middle + 1
    return replace(current, rate_rps=candidate.rate_rps, levels=judge.levels_of(current, routes))


def _levels(candidate: Candidate) -> Levels:
    return candidate.levels if candidate.levels is not None else Levels({}, {})


def fewer_requests(judge: Judge, candidate: Candidate, routes: Sequence[Route]) -> Candidate | None:
    """Serve fewer requests with the same fleet: the largest share of the flow that keeps the promises."""
    return _rescaled(judge, candidate, routes, low=0.0, high=1.0)


def more_requests(judge: Judge, candidate: Candidate, routes: Sequence[Route]) -> Candidate:
    """Serve as many requests as the same fleet can with the same shares; the candidate itself where that is no more."""
    most = judge.model.data.max_rate_rps / max(candidate.rate_rps, 1e-12)
    if most <= 1.0 + FINEST_RISE:
        return candidate
    return _rescaled(judge, candidate, routes, low=1.0, high=most) or candidate


def _rescaled(
    judge: Judge, candidate: Candidate, routes: Sequence[Route], *, low: float, high: float
) -> Candidate | None:
    """The largest multiple of the flow between two that keeps the promises; None if none above the lower does."""
    floor = judge.model.data.min_rate_rps / max(candidate.rate_rps, 1e-12)
    capacity = {option.id: option.capacity_bytes_per_s for option in judge.model.data.lines}
    found: Candidate | None = None
    for _ in range(STEPS_OF_SCALING):
        share = 0.5 * (low + high)
        if share < floor:
            break
        scaled = judge.priced(candidate.instances, candidate.taken, candidate.flow * share)
        levels = judge.levels_of(scaled, routes)
        if all(line.load_bytes_per_s <= capacity[line.option.id] for line in levels.lines.values()) and judge.keeps_all(
            scaled, judge.model.routes(levels, used=candidate.used)
        ):
            found, low = replace(scaled, levels=levels), share
        else:
            high = share
    return found
