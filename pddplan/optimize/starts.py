"""Plans to start a search from: all traffic on one path, with the fleet that path needs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pddplan.optimize.cells import root_cell
from pddplan.optimize.data import Route
from pddplan.optimize.judge import Candidate, Judge
from pddplan.optimize.repair import bigger_fleet, smaller_fleet

MOST_STARTS = 6
"""Paths tried, cheapest first."""


def single_path_plans(judge: Judge, *, most: int = MOST_STARTS) -> Iterator[Candidate]:
    """Feasible plans that send every request at the highest rate over one path; cheapest fleets first."""
    routes = judge.model.routes(root_cell(judge.model.data).best())
    candidates = []
    for index, route in enumerate(routes):
        candidate = _whole_traffic(judge, index, route)
        if candidate is not None and judge.within_limits(candidate):
            candidates.append((candidate.monthly_cost, index, candidate))
    best = math.inf
    for cost, _, candidate in sorted(candidates, key=lambda c: c[:2])[:most]:
        if cost >= best:
            break
        fixed = bigger_fleet(judge, candidate, judge.levels_of(candidate, routes))
        if fixed is not None:
            least = smaller_fleet(judge, fixed)
            best = min(best, least.monthly_cost)
            yield least


def _whole_traffic(judge: Judge, index: int, route: Route) -> Candidate | None:
    """The smallest fleet that carries all requests on one path, before waits and promises are looked at."""
    data = judge.model.data
    if (route.allowed[data.weight > 0] <= 0).any():
        return None
    flow = np.zeros((judge.model.path_count, data.weight.size))
    flow[index] = data.max_rate_rps * data.weight
    taken: tuple[str, ...] = ()
    if route.line is not None and route.payload_bytes is not None:
        load = float(flow[index] @ route.payload_bytes)
        fitting = [o for o in data.lines if o.line == route.line and o.capacity_bytes_per_s >= load]
        if not fitting:
            return None
        taken = (min(fitting, key=lambda o: (o.monthly_cost, o.id)).id,)
    ceiling = {pool.id: pool.max_utilization for pool in data.pools}
    counts = {pool.id: 0 for pool in data.pools}
    for pool, work in route.work.items():
        counts[pool] = max(math.ceil(float(flow[index] @ work) / ceiling[pool] - 1e-9), 1)
    return judge.priced(counts, taken, flow)
