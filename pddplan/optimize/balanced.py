"""Fleets of a few kinds whose traffic is shared so that every pool keeps the most spare: quick plans without a search.

Where instances are whole few fleets lie between what a program without waits bounds and the best plan known. Each of
them needs one linear program for its flows, and the evaluator says whether it keeps the promises under its own mix.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from pddplan.domain.workload import Array
from pddplan.optimize.cells import root_cell
from pddplan.optimize.judge import Judge
from pddplan.optimize.mending import Judged, judged
from pddplan.optimize.points import Points
from pddplan.optimize.solver import solve

MOST_FLEETS = 8
"""Fleets tried, spread over all there are."""
MOST_LISTED = 20_000
"""Beyond so many numbers of instances they are not listed."""
POWERS_OF_SPARE = (0.5, 1.0)
"""Spare in proportion to the root of a pool's instances (equal chances to wait), and to the instances themselves."""
LONGEST_S = 60.0
"""Such a program takes milliseconds: the clock only ends one that went astray, on the slowest machine too."""


def balanced_fleet(points: Points, *, topology: str, above: float, below: float) -> Judged | None:
    """The cheapest fleet tried between two monthly costs that keeps every promise; None if none does.

    For one path per pool, as of aggregated pools, at the highest rate.
    """
    judge = Judge(points)
    for counts in _fleets(points, above=above, below=below):
        for power in POWERS_OF_SPARE:
            flow = _most_spare(points, counts, power=power)
            if flow is None:
                break
            candidate = judge.priced(counts, (), flow)
            if not judge.within_limits(candidate):
                break
            tried = judged(points, candidate, topology=topology)
            if tried.short <= 0:
                return tried
    return None


def _fleets(points: Points, *, above: float, below: float) -> Iterator[Mapping[str, int]]:
    """Numbers of instances whose cost lies between two, cheapest first; evenly chosen where there are many."""
    data, judge = points.data, Judge(points)
    most = []
    for pool in data.pools:
        price = max(pool.monthly_cost_per_instance, below / MOST_LISTED)
        most.append(max(min(pool.max_instances, math.floor(below / price)), 1))
    if not most or math.prod(most) > MOST_LISTED:
        return
    found = []
    for numbers in itertools.product(*(range(1, n + 1) for n in most)):
        counts = {pool.id: number for pool, number in zip(data.pools, numbers, strict=True)}
        cost = judge.monthly_cost(counts, ())
        if above <= cost < below:
            found.append((cost, numbers, counts))
    found.sort(key=lambda entry: entry[:2])
    step = max(len(found) / MOST_FLEETS, 1.0)
    yield from (found[int(at * step)][2] for at in range(min(len(found), MOST_FLEETS)))


def _most_spare(points: Points, counts: Mapping[str, int], *, power: float) -> Array | None:
    """Flows at the highest rate that leave every pool the most spare, as far as idle pools keep the promises.

    Formula:     maximise s:  load[c] + s n[c]^power <= ceiling n[c];  sum F y >= q w R with nothing waiting
    """
    import pulp

    data = points.data
    routes = points.routes(root_cell(data).best())
    rate = data.max_rate_rps
    program, spare = pulp.LpProblem("balanced", pulp.LpMaximize), pulp.LpVariable("s")
    program += spare
    used = [int(k) for k in np.flatnonzero(data.weight > 0)]
    flows = {
        (r, k): pulp.LpVariable(f"y_{r}_{k}", 0)
        for r, route in enumerate(routes)
        for k in used
        if route.allowed[k] > 0 and all(counts[pool] > 0 for pool in route.work)
    }
    for k in used:
        mine = [(flow, 1.0) for (_, at), flow in flows.items() if at == k]
        program += pulp.LpAffineExpression(mine) == float(data.weight[k]) * rate
    for pool in data.pools:
        load = [
            (flow, float(routes[r].work[pool.id][k])) for (r, k), flow in flows.items() if pool.id in routes[r].work
        ]
        count = counts[pool.id]
        program += pulp.LpAffineExpression([*load, (spare, float(count**power))]) <= pool.max_utilization * count
    for promise in data.promises:
        covered = [(flow, float(np.nan_to_num(routes[r].coverage[promise.name][k]))) for (r, k), flow in flows.items()]
        program += pulp.LpAffineExpression(covered) >= promise.covered_share * rate
    solved = solve(program, time_limit_s=LONGEST_S)
    if not solved.has_plan or solved.values["s"] < 0:
        return None
    flow = np.zeros((len(routes), data.weight.size))
    for (r, k), variable in flows.items():
        flow[r, k] = max(solved.values[variable.name], 0.0)
    flow[flow < 1e-9 * rate] = 0.0
    return flow
