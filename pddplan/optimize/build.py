"""From a question to the numbers of its program: candidates, costs, limits, and what can be left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pddplan.domain.plan import Path, Pool, Role
from pddplan.economics.costs import line_monthly_cost, owned_chip_credit, pool_monthly_cost_per_instance
from pddplan.economics.unit_costs import chip_power_w
from pddplan.errors import InputError
from pddplan.errors import Problem as Fault
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.stages import decode_cap, prefill_servers
from pddplan.optimize.data import LineOption, OwnedChips, PoolOption, ProgramData, Quantile
from pddplan.optimize.judge import COVERAGE_MARGIN
from pddplan.optimize.levels import Levels, LineLevel, PoolLevel
from pddplan.optimize.objective import SMALLEST_RATE_RPS, Limits, Objective
from pddplan.optimize.points import TPOT_QUANTILE, Mix, Points, e2e_rows, first_mix, line_options, pools_of, ttft_rows
from pddplan.optimize.reduction import (
    MOST_WHOLE_FLOWS,
    Reduced,
    Ways,
    flow_count,
    reduce_candidates,
    with_relay_ways,
    with_relays,
)
from pddplan.optimize.topologies import Shapes, Topology, candidate_paths, candidate_pools, path_count, ways_of
from pddplan.units import WATTS_PER_KW

INSTANCES_BEYOND_NEED = 2.0
"""A pool may grow to this multiple of what its load needs (waits and E2E promises may ask for spare)."""
LARGEST_POOL = 100_000
MOST_PATHS = 200
"""Beyond this a linear program over all candidates first says which pools are worth a search."""
MOST_SEARCHED = 400
"""Of the paths between the pools kept no more than this are searched, or only those that carry anything there."""
BUSIEST = 0.9995
"""No pool or line is planned busier, whatever the ceiling asked for: at 1 waits never end."""
SHAPES_PER_CHIP = 4
NEARLY_SAME_PRICE = 0.02
ABOUT = 1.05
"""A shape this close to another in price per request and in latency, and no smaller, is not looked at."""
DEAREST = 2.0
"""Beside the quickest and the smallest, shapes that cost at most this multiple per request."""
_Ranked = tuple[tuple[float, float, float], Pool]
SMALLEST_SHARE = 1e-3
"""A plan serves at least this share of the demand: serving nothing keeps every promise, but is no plan."""


def build(
    problem: Problem,
    topology: Topology,
    *,
    objective: Objective,
    limits: Limits,
    shapes: Shapes,
    also: frozenset[str] = frozenset(),
) -> Points | None:
    """The candidates of a question as an operating model; None when the topology has no path here at all.

    ``also`` names pools to look at beside the few shapes that promise most.
    """
    pools = candidate_pools(problem.sites, topology, shapes=shapes, allowed_chips=limits.allowed_chips)
    alone = first_mix(problem, pools, ())  # paths grow with the square of pools: first leave out what cannot win
    able = [p for p in pools if p.role is Role.PREFILL or decode_cap(problem, p, alone.decode[p.id]).batch >= 1]
    cost = {pool.id: _instance_cost(problem, pool) for pool in able}
    considered = _undominated(problem, able, alone, cost)
    pools = considered
    if not limits.every_shape:
        few = {pool.id for pool in _undominated(problem, _few_shapes(problem, able, alone, cost), alone, cost)}
        pools = tuple(pool for pool in able if pool.id in few or pool.id in also)
    bound, cut = math.inf, False
    ways = with_relay_ways(ways_of(problem.sites, topology, pools), pools)
    if path_count(topology, pools, ways) > MOST_PATHS:
        reduced, bound = _reduced(problem, pools, ways, alone, cost, objective=objective, limits=limits)
        if not reduced.feasible:
            return None
        cut = not reduced.solved
        kept = _best_of_each(problem, pools, alone, cost) if cut else with_relays(pools, reduced, cost)
        pools = tuple(pool for pool in pools if pool.id in kept)
        paths = [p for p in candidate_paths(problem.sites, topology, pools) if _worth_it(p, pools, reduced)]
        if len(paths) > MOST_SEARCHED and not cut:  # the program's own flows need no others
            paths = [
                p for p in paths if p.decode is None or (p.relay is None and (p.prefill, p.decode) in reduced.pairs)
            ]
    else:
        paths = list(candidate_paths(problem.sites, topology, pools))
    pools, drawn = _connected(pools, paths)
    if not drawn:
        return None
    mix = first_mix(problem, pools, drawn)
    points = with_mix(problem, pools, drawn, mix, objective=objective, limits=limits, bound=bound)
    points.considered, points.cut = considered, cut
    return points


def _best_of_each(problem: Problem, pools: Sequence[Pool], mix: Mix, cost: Mapping[str, float]) -> set[str]:
    """The cheapest pool per request of each site and role: what to search when there was no time to choose better."""
    price = {pool.id: _shape_figures(problem, pool, mix, cost[pool.id])[0] for pool in pools}
    best: dict[tuple[str, str], str] = {}
    for pool in pools:
        key = (pool.site, pool.role.value)
        best[key] = min(best.get(key, pool.id), pool.id, key=lambda pool_id: (price[pool_id], pool_id))
    return set(best.values())


def all_shapes(
    problem: Problem,
    topology: Topology,
    points: Points,
    *,
    objective: Objective,
    limits: Limits,
    time_limit_s: float,
) -> Reduced | None:
    """What no plan of any shapes exceeds, and the shapes that would reach it; None where that is too large to ask."""
    alone = first_mix(problem, points.considered, ())
    cost = {pool.id: _instance_cost(problem, pool) for pool in points.considered}
    pools = points.considered
    ways = with_relay_ways(ways_of(problem.sites, topology, pools), pools)
    weight = problem.workload.classes.weight
    if flow_count(pools, ways, int((weight > 0).sum())) > MOST_WHOLE_FLOWS:
        return None
    used_lines = sorted({line for targets in ways.values() for _, line in targets if line is not None})
    _, highest = _rates(problem, pools, objective=objective, limits=limits)
    return reduce_candidates(
        problem,
        pools,
        ways=ways,
        options=_options(problem, used_lines, limits),
        mix=alone,
        cost=cost,
        ceiling=min(limits.max_utilization, BUSIEST),
        rate_rps=highest,
        most_requests=objective.kind == "rps",
        budget=objective.budget_per_month,
        credit=sum(kind.count * kind.credit_per_chip for kind in _owned(problem, pools)),
        time_limit_s=time_limit_s,
        whole=True,
        redundant_instances=limits.redundant_instances,
        gap=0.1 * limits.gap,
    )


def _reduced(
    problem: Problem,
    pools: Sequence[Pool],
    ways: Ways,
    mix: Mix,
    cost: Mapping[str, float],
    *,
    objective: Objective,
    limits: Limits,
) -> tuple[Reduced, float]:
    """The pools worth a search, and the score that no plan of any pools exceeds."""
    lowest, highest = _rates(problem, pools, objective=objective, limits=limits)
    used_lines = sorted({line for targets in ways.values() for _, line in targets if line is not None})
    most = objective.kind == "rps"

    def program(rate_rps: float, *, inventory: bool) -> Reduced:
        return reduce_candidates(
            problem,
            pools,
            ways=ways,
            options=_options(problem, used_lines, limits),
            mix=mix,
            cost=cost,
            ceiling=min(limits.max_utilization, BUSIEST),
            rate_rps=rate_rps,
            most_requests=most,
            budget=objective.budget_per_month,
            credit=sum(kind.count * kind.credit_per_chip for kind in _owned(problem, pools)),
            time_limit_s=0.5 * limits.time_limit_s,
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


def _worth_it(path: Path, pools: Sequence[Pool], reduced: Reduced) -> bool:
    """Keep paths inside a site, and those across that the linear program uses (or did not judge)."""
    if path.line is None or not reduced.ways:
        return True
    site = next(pool.site for pool in pools if pool.id == path.decode)
    return (path.prefill, site) in reduced.ways


def with_mix(
    problem: Problem,
    pools: Sequence[Pool],
    paths: Sequence[Path],
    mix: Mix,
    *,
    objective: Objective,
    limits: Limits,
    bound: float = math.inf,
) -> Points:
    """The operating model of given candidates under a given mix."""
    lowest, highest = _rates(problem, pools, objective=objective, limits=limits)
    cost = {pool.id: _instance_cost(problem, pool) for pool in pools}
    used_lines = {path.line for path in paths if path.line is not None}
    data = ProgramData(
        weight=problem.workload.classes.weight,
        pools=(),
        lines=_options(problem, sorted(used_lines), limits),
        routes=(),
        promises=tuple(promise_rows(problem)),
        min_rate_rps=lowest,
        max_rate_rps=highest,
        chip_limits=_chip_limits(problem, pools),
        owned=_owned(problem, pools),
        power_limits_kw={
            site.id: site.power_limit_kw for site in problem.sites.sites.values() if site.power_limit_kw is not None
        },
        budget=objective.budget_per_month,
        max_chips=limits.max_chips,
    )
    points = Points(problem, tuple(pools), tuple(paths), data, mix, bound)
    points.data = _with_pools(points, cost, limits=limits)
    return points


def _options(problem: Problem, lines: Sequence[str], limits: Limits) -> tuple[LineOption, ...]:
    prices = {
        (line, tier.gbps): line_monthly_cost(problem.sites.lines[line], tier.gbps, sites=problem.sites)
        for line in lines
        for tier in problem.sites.lines[line].tiers
    }
    return line_options(
        problem,
        lines=lines,
        max_utilization=min(limits.max_line_utilization, BUSIEST),
        cost=prices,
        survive_loss=limits.survive_line_loss,
    )


def promise_rows(problem: Problem) -> list[Quantile]:
    """Promises as rows of the program."""
    promises = problem.workload.promises
    rows = [Quantile(row, q + COVERAGE_MARGIN) for row, q, _ in (*ttft_rows(promises), *e2e_rows(promises))]
    if promises.tpot_s is not None:
        rows.append(Quantile("TPOT P90", TPOT_QUANTILE))  # whole levels, as the evaluator counts them: no margin
    return rows


def _connected(pools: Sequence[Pool], paths: Sequence[Path]) -> tuple[tuple[Pool, ...], tuple[Path, ...]]:
    used = {pool_id for path in paths for pool_id in pools_of(path)}
    return tuple(pool for pool in pools if pool.id in used), tuple(paths)


def _with_pools(points: Points, cost: Mapping[str, float], *, limits: Limits) -> ProgramData:
    problem, data = points.problem, points.data
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
        largest = min(math.ceil(need) + 4, LARGEST_POOL)
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
            )
        )
    return replace(data, pools=tuple(options))


def _rates(problem: Problem, pools: Sequence[Pool], *, objective: Objective, limits: Limits) -> tuple[float, float]:
    """Lowest and highest rate a plan may serve."""
    demand = problem.workload.arrival.rate_rps
    if objective.kind == "rps":
        cap = objective.rate_rps
        most = cap if cap is not None else _largest_rate(problem, pools, objective=objective, limits=limits)
        lowest = max(SMALLEST_SHARE * most, SMALLEST_RATE_RPS)
        return lowest, max(most, lowest)
    if objective.rate_rps is not None:
        return objective.rate_rps, objective.rate_rps
    return (demand, demand) if objective.kind == "cost" else (SMALLEST_SHARE * demand, demand)


def _largest_rate(problem: Problem, pools: Sequence[Pool], *, objective: Objective, limits: Limits) -> float:
    """A rate no plan can exceed, from the first pools all requests pass: inventory, budget or chips bound it."""
    weight = problem.workload.classes.weight
    total = 0.0
    for pool in pools:
        if pool.role not in (Role.PREFILL, Role.AGGREGATED):
            continue
        bounds = [math.inf]
        inventory = problem.sites.sites[pool.site].chips[pool.chip].max_chips
        if inventory is not None:
            bounds.append(inventory // pool.shape.chips)
        if limits.max_chips is not None:
            bounds.append(limits.max_chips // pool.shape.chips)
        price = _instance_cost(problem, pool)
        if objective.budget_per_month is not None and price > 0:
            bounds.append(objective.budget_per_month / price)
        work = problem.prefill_s(pool) / prefill_servers(problem, pool, instances=1)
        fastest = np.min(work[weight > 0])
        total += min(bounds) / max(float(fastest), 1e-9)
    if not math.isfinite(total):
        raise InputError(
            Fault(
                what="most requests per second was asked for, but nothing limits the fleet",
                fix="give --budget, or max_chips per site and chip in the sites file, or --max-chips",
                where="--objective rps",
            )
        )
    return total


def _instance_cost(problem: Problem, pool: Pool) -> float:
    return pool_monthly_cost_per_instance(problem.sites, pool.site, chip=problem.chips[pool.chip], shape=pool.shape)


def _chip_limits(problem: Problem, pools: Sequence[Pool]) -> dict[tuple[str, str], int]:
    limits = {}
    for pool in pools:
        most = problem.sites.sites[pool.site].chips[pool.chip].max_chips
        if most is not None:
            limits[pool.site, pool.chip] = most
    return limits


def _owned(problem: Problem, pools: Sequence[Pool]) -> tuple[OwnedChips, ...]:
    found = []
    for site_id, chip_id in dict.fromkeys((pool.site, pool.chip) for pool in pools):
        count = problem.sites.sites[site_id].chips[chip_id].owned_chips
        if count > 0:
            credit = owned_chip_credit(problem.sites, site_id, chip=problem.chips[chip_id])
            held = 1.0 + problem.sites.finance.spare_fraction
            found.append(OwnedChips(site_id, chip_id, count, credit, held))
    return tuple(found)


def _undominated(problem: Problem, pools: Sequence[Pool], mix: Mix, cost: Mapping[str, float]) -> tuple[Pool, ...]:
    """Leave out pools that another of the same site and role beats in price, speed and footprint."""
    kept: list[Pool] = []
    speed = {pool.id: _decode_figures(problem, pool, mix) for pool in pools if pool.role is not Role.PREFILL}
    for pool in pools:
        rivals = [p for p in pools if (p.site, p.role) == (pool.site, pool.role) and p.id != pool.id]
        if not any(_beats(problem, rival, pool, speed, cost) for rival in rivals):
            kept.append(pool)
    return tuple(kept)


def _few_shapes(problem: Problem, pools: Sequence[Pool], mix: Mix, cost: Mapping[str, float]) -> tuple[Pool, ...]:
    """Few shapes per site, role and chip: the cheapest per request, the quickest, the smallest, and the next cheapest.

    A shape that another is about as cheap, quick and small as (all three at once) is left out; of near-equals in
    price the smaller comes first, since it is bought in finer steps.
    """
    groups: dict[tuple[str, str, str], list[_Ranked]] = {}
    for pool in pools:
        figures = _shape_figures(problem, pool, mix, cost[pool.id])
        groups.setdefault((pool.site, pool.role.value, pool.chip), []).append((figures, pool))
    kept: set[str] = set()
    for shapes in groups.values():
        shapes.sort(key=lambda entry: (_bucket(entry[0][0]), entry[0][2], entry[0][1], entry[1].id))
        front: list[_Ranked] = []
        for figures, pool in shapes:
            if not any(_stands_in(other, figures) for other, _ in front):
                front.append((figures, pool))
        chosen = [front[0], min(front, key=lambda e: (e[0][1], e[0][0])), min(front, key=lambda e: (e[0][2], e[0][0]))]
        chosen += [entry for entry in front if entry[0][0] <= DEAREST * front[0][0][0]]
        for _, pool in list({pool.id: (f, pool) for f, pool in chosen}.values())[:SHAPES_PER_CHIP]:
            kept.add(pool.id)
    return tuple(pool for pool in pools if pool.id in kept)


def _bucket(price: float) -> int:
    """Prices within about two per cent are one."""
    return round(math.log(max(price, 1e-300)) / NEARLY_SAME_PRICE)


def _stands_in(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """True when ``one`` is about as cheap and quick as ``other``, and no larger."""
    return one[0] <= ABOUT * other[0] and one[1] <= ABOUT * other[1] and one[2] <= other[2]


def _shape_figures(problem: Problem, pool: Pool, mix: Mix, cost: float) -> tuple[float, float, float]:
    """(cost per request, latency, chips per instance): smaller is better."""
    weight = problem.workload.classes.weight
    price = max(cost, 1e-9 * pool.shape.chips) + 1e-9
    per_request, latency = 0.0, 0.0
    if pool.role in (Role.PREFILL, Role.AGGREGATED):
        times = problem.prefill_s(pool)
        if pool.role is Role.PREFILL:
            per_request += price * float(weight @ times) / prefill_servers(problem, pool, instances=1)
        else:  # one prefill stops the decoding of its whole instance, whatever else could run beside it
            per_request += price * float(weight @ problem.prefill_stop_s(pool))
        latency += float(times[weight > 0].max())
    if pool.role is not Role.PREFILL:
        full, _, _ = _decode_figures(problem, pool, mix)
        per_request += price * full * float(weight @ problem.workload.classes.output_tokens)
    if pool.role is Role.RELAY:  # relays are few and mostly idle: what one instance costs decides
        per_request = price
    return per_request, latency, float(pool.shape.chips)


def _beats(
    problem: Problem, one: Pool, other: Pool, speed: Mapping[str, tuple[float, float, float]], cost: Mapping[str, float]
) -> bool:
    """True when ``one`` can always stand in for ``other``; of equals the first by id wins."""
    site = problem.sites.sites[one.site]
    limited = site.chips[one.chip].max_chips is not None or site.chips[one.chip].owned_chips > 0
    limited = limited or site.chips[other.chip].owned_chips > 0
    if limited and (one.chip != other.chip or one.shape.chips > other.shape.chips):
        return False
    if one.shape.chips > other.shape.chips or cost[one.id] > cost[other.id]:
        return False
    pairs: list[tuple[float, float]] = [(cost[one.id], cost[other.id])]
    if one.role in (Role.PREFILL, Role.AGGREGATED):
        first, second = problem.prefill_s(one), problem.prefill_s(other)
        if (first > second).any():
            return False
        servers = [prefill_servers(problem, p, instances=1) for p in (one, other)]
        if servers[0] < servers[1]:
            return False
        pairs += [(float(first.sum()), float(second.sum())), (-servers[0], -servers[1])]
    if one.role is not Role.PREFILL:
        speed_one, speed_other = speed[one.id], speed[other.id]
        if any(a > b for a, b in zip(speed_one, speed_other, strict=True)):
            return False
        pairs += list(zip(speed_one, speed_other, strict=True))
    better = any(a < b for a, b in pairs)
    return better or one.id < other.id


def _decode_figures(problem: Problem, pool: Pool, mix: Mix) -> tuple[float, float, float]:
    """(instance-seconds per token, time per token alone, time per token full): smaller is better."""
    work = mix.decode[pool.id]
    cap = decode_cap(problem, pool, work)
    curve = problem.curve(pool, work)
    full = max(cap.batch, 1)
    return curve.token(full) / full, curve.token(1.0), curve.token(full)
