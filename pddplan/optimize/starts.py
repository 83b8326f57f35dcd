"""Plans to start a search from: all traffic on one path, or spread over the cheapest paths as far as chips go."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.optimize.cells import root_cell
from pddplan.optimize.data import ProgramData, Route
from pddplan.optimize.judge import Candidate, Judge, OperatingModel
from pddplan.optimize.levels import Levels
from pddplan.optimize.repair import bigger_fleet, smaller_fleet

FULLNESS = (0.7, 0.9, 1.0)
"""How full pools and lines are planned in a first spread, of their ceilings."""
MOST_STARTS = 6
"""Paths tried, the most promising first."""
SHARES_FOR_RATIO = (1.0, 0.5, 0.25, 0.125)
"""Shares of the highest rate tried where the best ratio of requests to cost may be at any rate."""
MOST_FILLED = 12
LEAST_FILL = 0.01
"""Paths that share an inventory at most, and what one more must add to the rate."""
RATE_STEP = 3.0
FINEST_RATE = 4e-3
COARSE_RATE = 0.05
"""Highest rates are looked for by this factor downwards, then by halving to a fraction (coarse: nothing waits)."""


def single_path_plans(
    judge: Judge, score: Callable[[Candidate], float], *, most: int = MOST_STARTS, shares: Sequence[float] = (1.0,)
) -> Iterator[Candidate]:
    """Feasible plans that send every request over one path, at the highest rate within the limits; the best first.

    Before anything waits no fleet of a path is better than its smallest: those that cannot win are left out. Smaller
    ``shares`` of that rate are tried as well where they are asked for: whole instances may fit them better.
    """
    data = judge.model.data
    routes = judge.model.routes(root_cell(data).best())
    candidates = []
    for index in range(len(routes)):
        candidate = at_highest_rate(data, partial(_whole_traffic, judge, index, routes), finest=COARSE_RATE)
        if candidate is not None:
            candidates.append((-score(candidate), index, candidate))
    best = -math.inf
    for opposite, index, ideal in sorted(candidates, key=lambda c: c[:2])[:most]:
        if -opposite <= best and len(shares) == 1:
            break
        for share in shares:
            most_rps = share * ideal.rate_rps * (1.0 + COARSE_RATE)
            kept = at_highest_rate(data, partial(_kept, judge, index, routes), most_rps=most_rps)
            if kept is not None:
                best = max(best, score(kept))
                yield kept


def filled_plan(judge: Judge, *, deadline: float) -> Candidate | None:
    """One path after the other, each at the highest rate that the chips, power and money left by the others allow.

    For most requests within an inventory: no single path uses all of it. Each path serves all classes alike, and keeps
    the promises by itself. None where a single path takes all.
    """
    model = judge.model
    rest = _Rest(model, model.data)
    counts = {pool.id: 0 for pool in model.data.pools}
    taken: tuple[str, ...] = ()
    flow = np.zeros((model.path_count, model.data.weight.size))
    filled = 0
    for _ in range(MOST_FILLED):
        part = next(single_path_plans(Judge(rest), lambda candidate: candidate.rate_rps, most=MOST_STARTS), None)
        if part is None or time.perf_counter() > deadline or part.rate_rps < LEAST_FILL * float(flow.sum()):
            break
        counts |= {pool: count for pool, count in part.instances.items() if count}
        taken, flow, filled = taken + part.taken, flow + part.flow, filled + 1
        rest = _Rest(model, _left_by(rest.data, part))
    return judge.priced(counts, taken, flow) if filled > 1 else None


@dataclass(slots=True, eq=False)
class _Rest:
    """An operating model of which a part is taken."""

    model: OperatingModel
    data: ProgramData

    @property
    def path_count(self) -> int:
        return self.model.path_count

    def members(self, index: int) -> tuple[tuple[str, ...], str | None]:
        return self.model.members(index)

    def routes(self, levels: Levels, *, used: NDArray[Any] | None = None) -> tuple[Route, ...]:
        return self.model.routes(levels, used=used)


def _left_by(data: ProgramData, part: Candidate) -> ProgramData:
    """What a plan leaves to others: no pools of the kinds it opened, no lines it took, and what remains of limits."""
    opened = [pool for pool in data.pools if part.instances.get(pool.id, 0)]
    kinds = {pool.kind for pool in opened}
    chips: dict[tuple[str, str], int] = {}
    power: dict[str, float] = {}
    for pool in opened:
        count = part.instances[pool.id] + pool.redundant_instances
        chips[pool.site, pool.chip] = chips.get((pool.site, pool.chip), 0) + count * pool.chips_per_instance
        power[pool.site] = power.get(pool.site, 0.0) + count * pool.power_kw_per_instance
    lines = {option.line for option in data.lines if option.id in part.taken}
    return replace(
        data,
        pools=tuple(replace(pool, max_instances=0) if pool.kind in kinds else pool for pool in data.pools),
        lines=tuple(option for option in data.lines if option.line not in lines),
        chip_limits={key: limit - chips.get(key, 0) for key, limit in data.chip_limits.items()},
        power_limits_kw={site: limit - power.get(site, 0.0) for site, limit in data.power_limits_kw.items()},
        budget=None if data.budget is None else data.budget - part.monthly_cost,
        max_chips=None if data.max_chips is None else data.max_chips - sum(chips.values()),
        max_rate_rps=data.max_rate_rps - part.rate_rps,
    )


def at_highest_rate(
    data: ProgramData,
    made: Callable[[float], Candidate | None],
    *,
    most_rps: float = math.inf,
    finest: float = FINEST_RATE,
) -> Candidate | None:
    """What is made of the highest rate that leaves anything, by halving where the rate is free; else None."""
    least, high = data.min_rate_rps, min(data.max_rate_rps, most_rps)
    found = made(high)
    if found is not None or least >= high or made(least) is None:
        return found
    low = high
    while found is None:
        high, low = low, max(low / RATE_STEP, least)
        found = made(low)
        if low <= least:
            break
    while high > low * (1.0 + finest):
        middle = math.sqrt(low * high)
        candidate = made(middle)
        if candidate is None:
            high = middle
        else:
            found, low = candidate, middle
    return found


def spread_plan(judge: Judge) -> Candidate | None:
    """All traffic, each class alike, over the cheapest paths in turn, each as far as chips and lines go.

    A plan from the first moment where no site alone has the chips; without a solver.
    """
    routes = judge.model.routes(root_cell(judge.model.data).best())
    for fullness in FULLNESS:
        candidate = _spread(judge, routes, fullness)
        if candidate is None or not judge.within_limits(candidate):
            continue
        fixed = bigger_fleet(judge, candidate, judge.levels_of(candidate, routes))
        if fixed is not None:
            return smaller_fleet(judge, fixed)
    return None


def _spread(judge: Judge, routes: Sequence[Route], fullness: float) -> Candidate | None:
    data = judge.model.data
    pools = {pool.id: pool for pool in data.pools}
    chips_left = {key: float(limit) for key, limit in data.chip_limits.items()}
    most = {
        line: max(o.capacity_bytes_per_s for o in data.lines if o.line == line) for line in {o.line for o in data.lines}
    }
    kinds: dict[str, str] = {}
    flow = np.zeros((judge.model.path_count, data.weight.size))
    left = data.max_rate_rps
    for _, index in sorted((_price(data, route, fullness), index) for index, route in enumerate(routes)):
        route = routes[index]
        if (route.allowed[data.weight > 0] <= 0).any() or left <= 0:
            continue
        if any(kinds.get(pools[p].kind, p) != p for p in route.work):
            continue  # instances of one chip in one role at one site are alike
        asked = {p: float(data.weight @ work) / (fullness * pools[p].max_utilization) for p, work in route.work.items()}
        rate = left
        for pool_id, instances in asked.items():
            pool = pools[pool_id]
            chips = chips_left.get((pool.site, pool.chip), math.inf) / pool.chips_per_instance
            rate = min(rate, max(min(chips, pool.max_instances) - 1.0, 0.0) / max(instances, 1e-12))
        if route.line is not None and route.payload_bytes is not None:
            rate = min(rate, fullness * most[route.line] / max(float(data.weight @ route.payload_bytes), 1e-12))
        if rate <= 1e-6 * data.max_rate_rps:
            continue
        flow[index] += rate * data.weight
        left -= rate
        for pool_id, instances in asked.items():
            pool = pools[pool_id]
            kinds[pool.kind] = pool_id
            key = (pool.site, pool.chip)
            if key in chips_left:
                used = (math.ceil(rate * instances) + pool.redundant_instances) * pool.chips_per_instance
                chips_left[key] = max(chips_left[key] - used, 0.0)
        if route.line is not None and route.payload_bytes is not None:
            most[route.line] -= rate * float(data.weight @ route.payload_bytes) / fullness
    if left > 1e-6 * data.max_rate_rps and data.min_rate_rps == data.max_rate_rps:
        return None
    return _fleet(judge, flow, routes, fullness) if flow.any() else None


def _price(data: ProgramData, route: Route, fullness: float) -> float:
    """Monthly cost per request per second of a path, lines as if leased by the byte."""
    price = 0.0
    for pool in data.pools:
        if pool.id in route.work:
            price += float(data.weight @ route.work[pool.id]) * pool.monthly_cost_per_instance / fullness
    if route.line is not None and route.payload_bytes is not None:
        by_byte = min(
            (o.monthly_cost / o.capacity_bytes_per_s for o in data.lines if o.line == route.line), default=math.inf
        )
        price += float(data.weight @ route.payload_bytes) * by_byte
    return price


def _fleet(judge: Judge, flow: Array, routes: Sequence[Route], fullness: float) -> Candidate:
    """The instances and lines that carry a flow at this fullness."""
    data = judge.model.data
    load: dict[str, float] = {}
    bytes_per_s: dict[str, float] = {}
    for row, route in enumerate(routes):
        if flow[row].any():
            for pool_id, work in route.work.items():
                load[pool_id] = load.get(pool_id, 0.0) + float(flow[row] @ work)
            if route.line is not None and route.payload_bytes is not None:
                sent = float(flow[row] @ route.payload_bytes)
                bytes_per_s[route.line] = bytes_per_s.get(route.line, 0.0) + sent
    ceiling = {pool.id: pool.max_utilization for pool in data.pools}
    counts = {pool.id: 0 for pool in data.pools}
    counts |= {p: max(math.ceil(busy / (fullness * ceiling[p]) - 1e-9), 1) for p, busy in load.items()}
    taken = []
    for line, sent in bytes_per_s.items():
        own = [o for o in data.lines if o.line == line]
        fitting = [o for o in own if o.capacity_bytes_per_s >= sent] or own
        taken.append(min(fitting, key=lambda o: (o.monthly_cost, o.id)).id)
    return judge.priced(counts, tuple(taken), flow)


def _whole_traffic(judge: Judge, index: int, routes: Sequence[Route], rate_rps: float) -> Candidate | None:
    """The smallest fleet that carries a rate on one path, nothing waiting; None beyond limits."""
    data, route = judge.model.data, routes[index]
    if (route.allowed[data.weight > 0] <= 0).any():
        return None
    flow = np.zeros((judge.model.path_count, data.weight.size))
    flow[index] = rate_rps * data.weight
    if route.line is not None and route.payload_bytes is not None:
        load = float(flow[index] @ route.payload_bytes)
        if not any(o.line == route.line and o.capacity_bytes_per_s >= load for o in data.lines):
            return None
    candidate = _fleet(judge, flow, routes, 1.0)
    return candidate if judge.within_limits(candidate) else None


def _kept(judge: Judge, index: int, routes: Sequence[Route], rate_rps: float) -> Candidate | None:
    """The fleet that keeps the promises at a rate on one path; None where that is beyond the limits."""
    candidate = _whole_traffic(judge, index, routes, rate_rps)
    return in_time(judge, candidate, routes) if candidate is not None else None


def in_time(judge: Judge, candidate: Candidate, routes: Sequence[Route]) -> Candidate | None:
    """The fleet with what it takes to keep the promises, and no more; None where that is beyond the limits."""
    fixed = bigger_fleet(judge, candidate, judge.levels_of(candidate, routes))
    return smaller_fleet(judge, fixed) if fixed is not None else None
