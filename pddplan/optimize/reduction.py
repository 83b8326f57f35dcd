"""Large questions: a linear program over all candidates gives a bound for every plan, and the few pools worth a search.

Paths grow with the square of the pools, so with many sites and chips they are not written down at all. Instead
flows go from prefill pools to sites and from sites to decode pools; instances and lines may be fractions, and pools
wait for nothing. A request over a relay counts as one that is finished there for the share of its tokens made there.
Every plan is a solution of this program, so none is better than its optimum; and pools that it leaves empty are
rarely part of a good plan.

With ``whole`` instances are whole numbers, and of one chip in one role at one site only one shape is open: dearer to
solve, and a bound close enough to speak for shapes that no search looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pddplan.domain.plan import Pool, Role
from pddplan.domain.workload import Array
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.stages import decode_cap, prefill_servers
from pddplan.optimize.data import LineOption
from pddplan.optimize.mix import Mix
from pddplan.optimize.promise_rows import rows_of
from pddplan.optimize.solver import solve
from pddplan.units import GIGA, KILO

if TYPE_CHECKING:
    import pulp

MOST_WHOLE_FLOWS = 4_000
"""Programs with more flows are solved with fractions of instances only."""
USED = 1e-6
"""Load in instances from which a pool counts as used."""
_LEAST_TIME_S = 1.0


@dataclass(frozen=True, slots=True)
class Reduced:
    """What the linear program over all candidates says."""

    pools: frozenset[str]
    ways: frozenset[tuple[str, str]]
    """(prefill pool, site of decode) that carry anything."""
    cost_bound: float | None
    """No plan at the rate costs less per month; None when the program was not solved."""
    rate_bound_rps: float | None
    feasible: bool
    pairs: frozenset[tuple[str, str]] = frozenset()
    """(prefill pool, decode pool): few of them that together carry what the program carries."""

    @property
    def solved(self) -> bool:
        """True when there is a bound, not only a verdict."""
        return self.cost_bound is not None or self.rate_bound_rps is not None


Ways = Mapping[str, Sequence[tuple[str, str | None]]]
"""Per prefill pool: (site of decode or relay node, line or None) it may send to."""
_RELAY_NODE = "/RLD"
MOST_INSTANCES = 10**9
"""No pool has more; HiGHS refuses rows with numbers beyond 1e15."""
if TYPE_CHECKING:
    Terms = list[tuple[pulp.LpVariable, float]]
    Send = dict[tuple[str, int, int], pulp.LpVariable]
    Take = dict[tuple[str, int], pulp.LpVariable]


@dataclass(frozen=True, slots=True, eq=False)
class _Numbers:
    """Per pool: work per class [instance-seconds], monthly cost per busy instance, chips per busy instance."""

    work: Mapping[str, Array]
    cost: Mapping[str, float]
    chips: Mapping[str, float]
    in_time: Mapping[str, Mapping[str, Array]]
    """Per prefilling pool and promise: 1 where prefill alone keeps it."""


def reduce_candidates(
    problem: Problem,
    pools: Sequence[Pool],
    *,
    ways: Ways,
    options: Sequence[LineOption],
    mix: Mix,
    cost: Mapping[str, float],
    ceiling: float,
    rate_rps: float,
    most_requests: bool,
    budget: float | None,
    credit: float,
    time_limit_s: float,
    inventory: bool = True,
    whole: bool = False,
    redundant_instances: int = 0,
    gap: float = 0.0,
) -> Reduced:
    """Solve the program: least cost at a rate, or most requests within budget and inventory.

    ``ways`` gives per prefill pool the (site of decode, line or None) it may send to; ``credit`` is what owned
    chips may save at most. ``redundant_instances`` counts with ``whole`` only.
    """
    import pulp

    numbers = _numbers(problem, pools, mix, cost, ceiling)
    weight = problem.workload.classes.weight
    classes = [k for k in range(weight.size) if weight[k] > 0]
    program = pulp.LpProblem("all_candidates", pulp.LpMaximize if most_requests else pulp.LpMinimize)
    rate = pulp.LpVariable("R", 0 if most_requests else rate_rps, rate_rps)
    send = {
        (pool_id, at, k): pulp.LpVariable(f"x_{p}_{at}_{k}", 0)
        for p, (pool_id, targets) in enumerate(ways.items())
        for at in range(len(targets))
        for k in classes
    }
    take = {
        (pool.id, k): pulp.LpVariable(f"z_{p}_{k}", 0)
        for p, pool in enumerate(pools)
        if pool.role is not Role.PREFILL
        for k in classes
    }
    load = _loads(numbers, send, take)
    if whole:
        load = _whole(program, pools, numbers, load, rate_rps=rate_rps, weight=weight, spare=redundant_instances)
    lines = _line_loads(problem, pools, ways, send)
    spent: dict[pulp.LpVariable, float] = {}  # a flow may pay for its pool and for its line
    for pool_id, terms in load.items():
        for variable, work in terms:
            spent[variable] = spent.get(variable, 0.0) + work * numbers.cost[pool_id] / KILO
    for variable, price in _tiers(program, options, lines) if whole else _by_the_byte(options, lines):
        spent[variable] = spent.get(variable, 0.0) + price / KILO
    total = pulp.LpAffineExpression(spent)
    program += (1.0 * rate) if most_requests else total
    if budget is not None:
        program += total <= (budget + credit) / KILO
    _balance(program, pools, ways=ways, send=send, take=take, rate=rate, weight=weight, classes=classes)
    if inventory:
        _inventory(program, problem, pools, numbers, load)
    _coverage(program, problem, numbers, send=send, take=take, rate=rate)
    for line, terms in lines.items():
        most = max(o.capacity_bytes_per_s for o in options if o.line == line)
        program += pulp.LpAffineExpression([(v, c / GIGA) for v, c in terms]) <= most / GIGA
    limit_s = time_limit_s if whole else max(time_limit_s, _LEAST_TIME_S)
    solved = solve(program, time_limit_s=limit_s, gap=gap, relax_integers=not whole)
    if not solved.has_plan:
        out_of_time = solved.status.value == "time limit"
        return Reduced(frozenset(p.id for p in pools), frozenset(), None, None, feasible=out_of_time)
    used = {pool_id for pool_id, terms in load.items() if sum(solved.values[v.name] * c for v, c in terms) > USED}
    carried = {
        (pool_id, ways[pool_id][at][0]) for (pool_id, at, _), v in send.items() if solved.values[v.name] > USED * 1e-3
    }
    return Reduced(
        frozenset(used),
        frozenset(carried),
        None if most_requests else max(solved.bound * KILO - credit, 0.0),
        solved.bound if most_requests else None,
        feasible=True,
        pairs=_pairs(pools, ways, send, take, solved.values),
    )


def _pairs(
    pools: Sequence[Pool], ways: Ways, send: Send, take: Take, values: Mapping[str, float]
) -> frozenset[tuple[str, str]]:
    """Hand what arrives at each site to its decode pools in turn, class by class (the north-west corner rule)."""
    given: dict[tuple[str, int], list[tuple[str, float]]] = {}
    for (pool_id, at, k), variable in send.items():
        if values[variable.name] > USED * 1e-3:
            given.setdefault((ways[pool_id][at][0], k), []).append((pool_id, values[variable.name]))
    site_of = {pool.id: pool.site for pool in pools if pool.role is Role.DECODE}
    taken: dict[tuple[str, int], list[tuple[str, float]]] = {}
    for (pool_id, k), variable in take.items():
        if pool_id in site_of and values[variable.name] > USED * 1e-3:
            taken.setdefault((site_of[pool_id], k), []).append((pool_id, values[variable.name]))
    pairs: set[tuple[str, str]] = set()
    for key, senders in given.items():
        takers = list(taken.get(key, ()))
        for sender, amount in senders:
            while amount > USED * 1e-3 and takers:
                taker, room = takers[-1]
                pairs.add((sender, taker))
                handed = min(amount, room)
                amount -= handed
                takers[-1] = (taker, room - handed)
                if takers[-1][1] <= USED * 1e-3:
                    takers.pop()
    return frozenset(pairs)


def with_relay_ways(ways: Ways, pools: Sequence[Pool]) -> Ways:
    """Let requests be finished beside prefill as well, where a relay pool could do so and no decode pool stands for it.

    A relayed request is the sum of its tokens made by the relay and those made at the other site, so this bounds it:
    the relay holds it for longer than its tokens take, and its whole KV crosses the line, not a share of it.
    """
    decoding = {(pool.site, pool.chip, pool.shape) for pool in pools if pool.role is Role.DECODE}
    inside = {pool_id: {site for site, line in targets if line is None} for pool_id, targets in ways.items()}
    site_of = {pool.id: pool.site for pool in pools}
    alone = {
        pool.site
        for pool in pools
        if pool.role is Role.RELAY
        and not (
            (pool.site, pool.chip, pool.shape) in decoding
            and all(pool.site in inside[p] for p in ways if site_of[p] == pool.site)
        )
    }
    return {
        pool_id: [*targets, *([(site_of[pool_id] + _RELAY_NODE, None)] if site_of[pool_id] in alone else [])]
        for pool_id, targets in ways.items()
    }


def flow_count(pools: Sequence[Pool], ways: Ways, classes: int) -> int:
    """How many flows the program has."""
    taking = sum(pool.role is not Role.PREFILL for pool in pools)
    return classes * (taking + sum(len(targets) for targets in ways.values()))


def _whole(
    program: pulp.LpProblem,
    pools: Sequence[Pool],
    numbers: _Numbers,
    load: Mapping[str, Terms],
    *,
    rate_rps: float,
    weight: Array,
    spare: int,
) -> dict[str, Terms]:
    """Whole instances that carry the load; what is paid for from here on, in busy instances as ``numbers`` count."""
    import pulp

    paid: dict[str, Terms] = {}
    kinds: dict[tuple[str, str, str], Terms] = {}
    for index, pool in enumerate(pools):
        ceiling = pool.shape.chips / numbers.chips[pool.id]
        count = pulp.LpVariable(f"n_{index}", 0, cat="Integer")
        opened = pulp.LpVariable(f"u_{index}", 0, 1, cat="Integer")
        most = min(math.ceil(rate_rps * float(weight @ numbers.work[pool.id]) / ceiling) + 1, MOST_INSTANCES)
        program += pulp.LpAffineExpression([*load[pool.id], (count, -ceiling)]) <= 0
        program += count <= most * opened
        paid[pool.id] = [(count, ceiling), *([(opened, spare * ceiling)] if spare else [])]
        kinds.setdefault((pool.site, pool.role.value, pool.chip), []).append((opened, 1.0))
    for terms in kinds.values():
        if len(terms) > 1:
            program += pulp.LpAffineExpression(terms) <= 1
    return paid


def with_relays(pools: Sequence[Pool], reduced: Reduced, cost: Mapping[str, float]) -> set[str]:
    """The pools worth a search, and beside each sending prefill pool the cheapest relay of its site."""
    kept = set(reduced.pools)
    by_id = {pool.id: pool for pool in pools}
    senders = {pool_id for pool_id, target in reduced.ways if target in {pool.site for pool in pools}}
    for site in {by_id[p].site for p, target in reduced.ways if p in senders and target != by_id[p].site}:
        relays = [pool.id for pool in pools if pool.site == site and pool.role is Role.RELAY]
        if relays:
            kept.add(min(relays, key=lambda pool_id: (cost[pool_id], pool_id)))
    return kept


def _numbers(problem: Problem, pools: Sequence[Pool], mix: Mix, cost: Mapping[str, float], ceiling: float) -> _Numbers:
    output = problem.workload.classes.output_tokens
    rows = rows_of(problem)
    work: dict[str, Array] = {}
    in_time: dict[str, dict[str, Array]] = {}
    for pool in pools:
        if pool.role is Role.PREFILL:
            work[pool.id] = problem.prefill_s(pool) / prefill_servers(problem, pool, instances=1)
        else:
            decode = mix.decode[pool.id]
            batch = max(decode_cap(problem, pool, decode).batch, 1)
            work[pool.id] = output * problem.curve(pool, decode).token(batch) / batch
            if pool.role is Role.AGGREGATED:
                work[pool.id] = work[pool.id] + problem.prefill_stop_s(pool)
        if pool.role in (Role.PREFILL, Role.AGGREGATED):
            times = problem.prefill_s(pool)
            in_time[pool.id] = {r.promise.name: (times <= r.promise.limit_s) * r.to for r in rows}
    return _Numbers(
        work,
        {pool.id: cost[pool.id] / ceiling for pool in pools},
        {pool.id: pool.shape.chips / ceiling for pool in pools},
        in_time,
    )


def _loads(numbers: _Numbers, send: Send, take: Take) -> dict[str, Terms]:
    load: dict[str, Terms] = {pool_id: [] for pool_id in numbers.work}
    for (pool_id, _, k), variable in send.items():
        load[pool_id].append((variable, float(numbers.work[pool_id][k])))
    for (pool_id, k), variable in take.items():
        load[pool_id].append((variable, float(numbers.work[pool_id][k])))
    return load


def _line_loads(problem: Problem, pools: Sequence[Pool], ways: Ways, send: Send) -> dict[str, Terms]:
    by_id = {pool.id: pool for pool in pools}
    loads: dict[str, Terms] = {}
    for (pool_id, at, k), variable in send.items():
        _, line = ways[pool_id][at]
        if line is not None:
            payload = problem.payload_bytes(by_id[pool_id], decode_cache=True)[k]
            loads.setdefault(line, []).append((variable, float(payload)))
    return loads


def _by_the_byte(options: Sequence[LineOption], lines: Mapping[str, Terms]) -> Terms:
    """Lines as if they could be leased by the byte, at the price of their best tier."""
    prices: dict[str, float] = {}
    for option in options:
        price = option.monthly_cost / option.capacity_bytes_per_s
        prices[option.line] = min(prices.get(option.line, price), price)
    return [(variable, payload * prices[line]) for line, terms in lines.items() for variable, payload in terms]


def _tiers(program: pulp.LpProblem, options: Sequence[LineOption], lines: Mapping[str, Terms]) -> Terms:
    """Whole tiers: at most one per line, thick enough for what crosses."""
    import pulp

    paid: Terms = []
    for index, (line, terms) in enumerate(lines.items()):
        own = [option for option in options if option.line == line]
        taken = [pulp.LpVariable(f"t_{index}_{at}", 0, 1, cat="Integer") for at in range(len(own))]
        room = [(t, -o.capacity_bytes_per_s / GIGA) for t, o in zip(taken, own, strict=True)]
        program += pulp.LpAffineExpression([*[(v, c / GIGA) for v, c in terms], *room]) <= 0
        program += pulp.lpSum(taken) <= 1
        paid += [(t, o.monthly_cost) for t, o in zip(taken, own, strict=True)]
    return paid


def _balance(
    program: pulp.LpProblem,
    pools: Sequence[Pool],
    *,
    ways: Ways,
    send: Send,
    take: Take,
    rate: pulp.LpVariable,
    weight: Array,
    classes: Sequence[int],
) -> None:
    import pulp

    nodes = dict.fromkeys(node for pool in pools for node in (pool.site, pool.site + _RELAY_NODE))
    arriving: dict[tuple[str, int], Terms] = {(node, k): [] for node in nodes for k in classes}
    served: dict[int, Terms] = {k: [] for k in classes}
    for (pool_id, at, k), variable in send.items():
        arriving[ways[pool_id][at][0], k].append((variable, 1.0))
        served[k].append((variable, 1.0))
    for pool in pools:
        for k in classes:
            if pool.role in (Role.DECODE, Role.RELAY):
                node = pool.site if pool.role is Role.DECODE else pool.site + _RELAY_NODE
                arriving[node, k].append((take[pool.id, k], -1.0))
            elif pool.role is Role.AGGREGATED:
                served[k].append((take[pool.id, k], 1.0))
    for terms in arriving.values():
        if terms:
            program += pulp.LpAffineExpression(terms) == 0
    for k, terms in served.items():
        program += pulp.LpAffineExpression([*terms, (rate, -float(weight[k]))]) == 0


def _inventory(
    program: pulp.LpProblem, problem: Problem, pools: Sequence[Pool], numbers: _Numbers, load: Mapping[str, Terms]
) -> None:
    import pulp

    for site in problem.sites.sites.values():
        for chip in site.chips.values():
            mine = [p for p in pools if (p.site, p.chip) == (site.id, chip.chip) and p.id in load]
            if chip.max_chips is not None and mine:
                terms = [(v, c * numbers.chips[p.id]) for p in mine for v, c in load[p.id]]
                program += pulp.LpAffineExpression(terms) <= chip.max_chips


def _coverage(
    program: pulp.LpProblem, problem: Problem, numbers: _Numbers, *, send: Send, take: Take, rate: pulp.LpVariable
) -> None:
    import pulp

    weight = problem.workload.classes.weight
    for row in rows_of(problem):
        name, share = row.promise.name, float(weight @ row.to)
        if row.promise.kind.latency == "tpot":
            continue  # batches that keep it are what pools are capped at
        terms = [(v, float(numbers.in_time[p][name][k])) for (p, _, k), v in send.items()]
        terms += [(v, float(numbers.in_time[p][name][k])) for (p, k), v in take.items() if p in numbers.in_time]
        program += pulp.LpAffineExpression([*terms, (rate, -row.promise.kind.quantile * share)]) >= 0
