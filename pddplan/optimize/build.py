"""From a question to the numbers of its program: candidates, costs, limits, and what can be left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pddplan.domain.plan import Path, Pool, Role
from pddplan.economics.unit_costs import chip_power_w
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.stages import decode_cap
from pddplan.optimize.data import PoolOption, ProgramData
from pddplan.optimize.few_shapes import best_of_each, cheapest_paths, few_shapes, undominated
from pddplan.optimize.flow_program import Candidates, Ways, candidates_of, flow_count
from pddplan.optimize.kinds import as_kinds, kinds_of
from pddplan.optimize.levels import Levels, LineLevel, PoolLevel
from pddplan.optimize.mix import Mix, first_mix, pools_of
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.points import Points
from pddplan.optimize.promise_rows import promise_rows
from pddplan.optimize.question_limits import BUSIEST, chip_limits, instance_cost, options_of, owned_kinds, rate_range
from pddplan.optimize.reduction import Reduced, reduce_candidates, with_relays
from pddplan.optimize.topologies import Shapes, Topology, candidate_paths, candidate_pools, paces, path_count, ways_of
from pddplan.units import WATTS_PER_KW

MOST_IN_HASTE = 40
"""Of the paths between the cheapest pools this many are searched where there is no time for that program."""
FLOWS_PER_SECOND = 2_000
"""What can be written down and solved per second of the time limit, on a slow and busy machine."""
INSTANCES_BEYOND_NEED = 2.0
"""A pool may grow to this multiple of what its load needs (waits and E2E promises may ask for spare)."""
LARGEST_POOL = 100_000
MOST_PATHS = 200
"""Beyond this a linear program over all candidates first says which pools are worth a search."""
MOST_SEARCHED = 400
"""Of the paths between the pools kept no more than this are searched, or only those that carry anything there."""


def build(
    problem: Problem,
    topology: Topology,
    *,
    objective: Objective,
    limits: Limits,
    shapes: Shapes,
    also: frozenset[str] = frozenset(),
    only: frozenset[str] | None = None,
    hasty: bool = False,
) -> Points | None:
    """The candidates of a question as an operating model; None when the topology has no path here at all.

    ``also`` names pools to look at beside the few shapes that promise most, ``only`` those to look at instead;
    ``hasty`` takes the cheapest of each site and role instead of asking a program.
    """
    able, considered, alone, cost = considered_pools(problem, topology, limits=limits, shapes=shapes)
    pools = considered
    if only is not None:
        pools = tuple(pool for pool in able if pool.id in only)
    elif not limits.every_shape:
        few = {pool.id for pool in undominated(problem, few_shapes(problem, able, alone, cost), alone, cost)}
        pools = tuple(pool for pool in able if pool.id in few or pool.id in also)
    bound, cut = math.inf, False
    paths: list[Path] = []
    ways = ways_of(problem.sites, topology, pools)
    if path_count(topology, pools, ways) <= MOST_PATHS:
        paths = list(candidate_paths(problem.sites, topology, pools))
    elif hasty or too_large(problem, pools, ways, time_limit_s=limits.time_limit_s):
        cut = True
    else:
        given = candidates_at(problem, pools, ways, topology=topology, limits=limits, mix=alone)
        reduced, bound = _reduced(given, objective=objective, limits=limits, time_limit_s=0.5 * limits.time_limit_s)
        if not reduced.feasible:
            return None
        cut = not reduced.solved
        if not cut:
            kept = with_relays(pools, reduced, cost)
            pools = tuple(pool for pool in pools if pool.id in kept)
            paths = [p for p in candidate_paths(problem.sites, topology, pools) if _worth_it(p, pools, reduced)]
        if len(paths) > MOST_SEARCHED:  # the program's own flows need no others
            paths = [
                p for p in paths if p.decode is None or (p.relay is None and (p.prefill, p.decode) in reduced.pairs)
            ]
    if cut:
        kept = best_of_each(problem, pools, alone, cost)
        pools = tuple(pool for pool in pools if pool.id in kept)
        paths = list(candidate_paths(problem.sites, topology, pools))
        paths = cheapest_paths(problem, pools, paths, alone, cost, most=MOST_IN_HASTE)
    pools, drawn = _connected(pools, paths)
    if not drawn:
        return None
    mix = first_mix(problem, pools, drawn)
    points = unsized(problem, pools, drawn, mix, objective=objective, limits=limits, bound=bound)
    points = sized(points, limits=limits)
    points.considered, points.cut = considered, cut
    return points


def considered_pools(
    problem: Problem, topology: Topology, *, limits: Limits, shapes: Shapes
) -> tuple[list[Pool], tuple[Pool, ...], Mix, dict[str, float]]:
    """Pools that can serve anything; those of them on a path that no other beats; a mix and prices to tell by."""
    pools = candidate_pools(
        problem.sites,
        topology,
        shapes=shapes,
        allowed_chips=limits.allowed_chips,
        paces=paces(problem.workload.promises),
    )
    alone = first_mix(problem, pools, ())  # paths grow with the square of pools: first leave out what cannot win
    able = [p for p in pools if p.role is Role.PREFILL or decode_cap(problem, p, alone.decode[p.id]).batch >= 1]
    cost = {pool.id: instance_cost(problem, pool) for pool in able}
    return able, _reachable(undominated(problem, able, alone, cost), problem, topology), alone, cost


def too_large(problem: Problem, pools: Sequence[Pool], ways: Ways, *, time_limit_s: float) -> bool:
    """True when not even writing the program of flows down is possible in time."""
    classes = int((problem.workload.classes.weight > 0).sum())
    return flow_count(pools, ways, classes) > FLOWS_PER_SECOND * time_limit_s


def candidates_at(
    problem: Problem,
    pools: Sequence[Pool],
    ways: Ways,
    *,
    topology: Topology,
    limits: Limits,
    mix: Mix | None = None,
) -> Candidates:
    """What a program of flows may use: pools, ways, line options, and their prices."""
    lines = sorted({line for targets in ways.values() for _, line in targets if line is not None})
    return candidates_of(
        problem,
        pools,
        ways=ways,
        options=options_of(problem, lines, limits),
        cost={pool.id: instance_cost(problem, pool) for pool in pools},
        promises=promise_rows(problem),
        mix=mix or first_mix(problem, pools, ()),
        ceiling=min(limits.max_utilization, BUSIEST),
        owned=owned_kinds(problem, pools),
        redundant_instances=limits.redundant_instances,
        decode_cache=topology.name != "cross-dc",
    )


def _reduced(given: Candidates, *, objective: Objective, limits: Limits, time_limit_s: float) -> tuple[Reduced, float]:
    """The pools worth a search, and the score that no plan of any pools exceeds."""
    lowest, highest = rate_range(given.problem, given.pools, objective=objective, limits=limits)
    most = objective.kind == "rps"

    def program(rate_rps: float, *, inventory: bool) -> Reduced:
        return reduce_candidates(
            given,
            rate_rps=rate_rps,
            most_requests=most,
            budget=objective.budget_per_month,
            time_limit_s=time_limit_s,
            inventory=inventory,
        )

    reduced = program(highest, inventory=True)
    if most:
        return reduced, reduced.rate_bound_rps if reduced.rate_bound_rps is not None else math.inf
    if lowest == highest:
        return reduced, -reduced.cost_bound if reduced.cost_bound is not None else math.inf
    # at any rate: cost per request is least where inventory does not bind
    free = program(highest, inventory=False)
    return reduced, highest / free.cost_bound if free.cost_bound else math.inf


def fractional_bound(
    problem: Problem,
    topology: Topology,
    pools: Sequence[Pool],
    *,
    objective: Objective,
    limits: Limits,
    time_limit_s: float,
) -> float | None:
    """Score that no plan of these pools exceeds, as if instances and lines came in fractions; None when out of time."""
    kinds = kinds_of(pools, {pool.id: instance_cost(problem, pool) for pool in pools})
    first = {kind[0] for kind in kinds}
    ways = ways_of(problem.sites, topology, pools)
    few = [pool for pool in pools if pool.id in first]
    if too_large(problem, few, {p: ways[p] for p in ways if p in first}, time_limit_s=time_limit_s):
        return None
    given = as_kinds(candidates_at(problem, pools, ways, topology=topology, limits=limits), kinds)
    _, bound = _reduced(given, objective=objective, limits=limits, time_limit_s=time_limit_s)
    return bound if math.isfinite(bound) else None


def _reachable(pools: Sequence[Pool], problem: Problem, topology: Topology) -> tuple[Pool, ...]:
    """Pools that lie on some path: prefill that may send somewhere, decode where something arrives, relays beside."""
    ways = {pool_id: targets for pool_id, targets in ways_of(problem.sites, topology, pools).items() if targets}
    receiving = {site for targets in ways.values() for site, _ in targets}
    sending = {pool.site for pool in pools if pool.id in ways}
    return tuple(
        pool
        for pool in pools
        if pool.role is Role.AGGREGATED
        or pool.id in ways
        or (pool.role is Role.DECODE and pool.site in receiving)
        or (pool.role is Role.RELAY and pool.site in sending)
    )


def _worth_it(path: Path, pools: Sequence[Pool], reduced: Reduced) -> bool:
    """Keep paths inside a site, and those across that the linear program uses (or did not judge)."""
    if path.line is None or not reduced.ways:
        return True
    site = next(pool.site for pool in pools if pool.id == path.decode)
    return (path.prefill, site) in reduced.ways


def unsized(
    problem: Problem,
    pools: Sequence[Pool],
    paths: Sequence[Path],
    mix: Mix,
    *,
    objective: Objective,
    limits: Limits,
    bound: float = math.inf,
) -> Points:
    """The operating model of candidates under a mix, before it is known how large each pool may become.

    Enough to ask for its routes; ``sized`` makes it ready for a search.
    """
    lowest, highest = rate_range(problem, pools, objective=objective, limits=limits)
    used_lines = {path.line for path in paths if path.line is not None}
    data = ProgramData(
        weight=problem.workload.classes.weight,
        pools=(),
        lines=options_of(problem, sorted(used_lines), limits),
        routes=(),
        promises=tuple(promise_rows(problem)),
        min_rate_rps=lowest,
        max_rate_rps=highest,
        chip_limits=chip_limits(problem, pools),
        owned=owned_kinds(problem, pools),
        power_limits_kw={
            site.id: site.power_limit_kw for site in problem.sites.sites.values() if site.power_limit_kw is not None
        },
        budget=objective.budget_per_month,
        max_chips=limits.max_chips,
    )
    return Points(problem, tuple(pools), tuple(paths), data, mix, bound)


def _connected(pools: Sequence[Pool], paths: Sequence[Path]) -> tuple[tuple[Pool, ...], tuple[Path, ...]]:
    used = {pool_id for path in paths for pool_id in pools_of(path)}
    return tuple(pool for pool in pools if pool.id in used), tuple(paths)


def sized(points: Points, *, limits: Limits) -> Points:
    """The operating model with its pools and how large each may become."""
    points.data = _with_pools(points, limits=limits)
    return points


def _with_pools(points: Points, *, limits: Limits) -> ProgramData:
    problem, data = points.problem, points.data
    cost = {pool.id: instance_cost(problem, pool) for pool in points.pools}
    # the best corner of the whole space, as the search asks for it first
    fastest = {o.line: LineLevel(o, 0.0) for o in sorted(data.lines, key=lambda o: (o.capacity_bytes_per_s, o.id))}
    routes = points.routes(Levels({pool.id: PoolLevel(1, 0.0, 1.0) for pool in points.pools}, fastest))
    options = []
    for pool in points.pools:
        most = max(
            (float(data.weight @ np.where(r.allowed > 0, r.work[pool.id], 0.0)) for r in routes if pool.id in r.work),
            default=0.0,
        )
        need = INSTANCES_BEYOND_NEED * most * data.max_rate_rps / limits.max_utilization
        inventory = data.chip_limits.get((pool.site, pool.chip))
        largest = math.ceil(min(need, LARGEST_POOL - 4)) + 4
        if inventory is not None:
            largest = min(largest, inventory // pool.shape.chips - limits.redundant_instances)
        site = problem.sites.sites[pool.site]
        power = (
            chip_power_w(problem.chips[pool.chip], site, finance=problem.sites.finance) / WATTS_PER_KW
            if site.power_limit_kw is not None
            else 0.0
        )
        options.append(
            PoolOption(
                id=pool.id,
                site=pool.site,
                chip=pool.chip,
                role=pool.role.value,
                chips_per_instance=pool.shape.chips,
                monthly_cost_per_instance=cost[pool.id],
                max_utilization=min(limits.max_utilization, BUSIEST),
                max_instances=max(largest, 0),
                redundant_instances=limits.redundant_instances,
                power_kw_per_instance=power * pool.shape.chips,
                pace=f"@{pool.tpot_s:g}" if pool.tpot_s is not None else "",
            )
        )
    return replace(data, pools=tuple(options))
