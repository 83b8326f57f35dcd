"""A program of flows over many candidates: from prefill pools to sites, and from sites to decode pools.

Paths grow with the square of the pools, so with many sites, chips or shapes they are not written down. A request over a
relay is still one flow over its line: of its tokens a share is made by the relay, the others by the main pool.
Every plan is a solution of this program, so none is better than its optimum.

Variables     x[p,w,k]  requests per second of class k from prefill pool p by way w    z[c,k]  taken by pool c
              r[p,w,k]  the same over a relay (its tokens: e[w,s,k])                    o[p,k]  finished on the relay
              n[c], u[c], t[o], R  as in docs/milp.md
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pddplan.domain.plan import Path, PathKind, Pool, Role
from pddplan.domain.workload import Array
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.stages import decode_cap, prefill_servers
from pddplan.optimize.data import LineOption, OwnedChips, Quantile
from pddplan.optimize.mix import Mix, allowed_classes
from pddplan.optimize.promise_rows import rows_of
from pddplan.units import GIGA, KILO

if TYPE_CHECKING:
    import pulp

    Terms = list[tuple[pulp.LpVariable, float]]
    Flows = dict[tuple[str, int, int], pulp.LpVariable]

Ways = Mapping[str, Sequence[tuple[str, str | None]]]
"""Per prefill pool: (site of decode, line or None) it may send to."""
Covered = Mapping[str, Array]
"""Per promise: the most of each class that can be within it."""


LEAD_S = 2.0
"""More than a relay waits for anything but the transfer."""
MOST_INSTANCES = 1e9
"""No pool has more; HiGHS refuses rows with numbers beyond 1e15."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What may be used, at what price, and what each of it can do at best."""

    problem: Problem
    pools: tuple[Pool, ...]
    ways: Ways
    options: tuple[LineOption, ...]
    cost: Mapping[str, float]
    """Monthly cost of one instance."""
    work: Mapping[str, Array]
    """Instance-seconds that a request of each class asks of a pool (all of its prefill, or all of its tokens)."""
    promises: tuple[Quantile, ...]
    ceiling: float
    owned: tuple[OwnedChips, ...]
    redundant_instances: int
    direct: Mapping[tuple[str, int], Covered]
    """Coverage per (prefill pool, way)."""
    relayed: Mapping[tuple[str, int], Covered]
    """The same over a relay."""
    here: Mapping[str, Covered]
    """Of aggregated pools, and of prefill pools with a relay that finishes odd traffic."""
    decode_cache: bool = True
    """False where the whole KV crosses."""
    eager: Mapping[tuple[str, str], tuple[Array, Array]] = field(default_factory=dict)
    """Per (line, site of the relay): least and most of a relayed request's tokens that its relay makes, as shares."""
    relay_pace: Mapping[str, float] = field(default_factory=dict)
    """Per site of relays: time per token at the ceiling over that of a full batch (slots are held for a time)."""
    most: Mapping[str, int] = field(default_factory=dict)
    """Instances of each pool that no better plan exceeds, where more is known than its load says."""


def candidates_of(
    problem: Problem,
    pools: Sequence[Pool],
    *,
    ways: Ways,
    options: Sequence[LineOption],
    cost: Mapping[str, float],
    promises: Sequence[Quantile],
    mix: Mix,
    ceiling: float,
    owned: Sequence[OwnedChips] = (),
    redundant_instances: int = 0,
    decode_cache: bool = True,
) -> Candidates:
    """Candidates that are covered by nothing but their own prefill; tighter numbers may replace these."""
    in_time = {pool.id: _in_time(problem, pool) for pool in pools if pool.role in (Role.PREFILL, Role.AGGREGATED)}
    both = {(pool_id, at): in_time[pool_id] for pool_id, targets in ways.items() for at in range(len(targets))}
    return Candidates(
        problem,
        tuple(pools),
        ways,
        tuple(options),
        cost,
        {pool.id: _work(problem, pool, mix) for pool in pools},
        tuple(promises),
        ceiling,
        tuple(owned),
        redundant_instances,
        direct=both,
        relayed=both,
        here=in_time,
        decode_cache=decode_cache,
        eager=_eager_at_most(problem, pools, ways, options, mix=mix, ceiling=ceiling, decode_cache=decode_cache),
        relay_pace=_relay_pace(problem, pools, mix, ceiling=ceiling),
    )


def _relay_pace(problem: Problem, pools: Sequence[Pool], mix: Mix, *, ceiling: float) -> dict[str, float]:
    """The least of the relays of each site: no instance makes more tokens than when it is as full as it may be."""
    found: dict[str, float] = {}
    for pool in pools:
        if pool.role is Role.RELAY:
            curve = problem.curve(pool, mix.decode[pool.id])
            full = max(decode_cap(problem, pool, mix.decode[pool.id]).batch, 1)
            pace = curve.token(max(ceiling * full, 1.0)) / curve.token(full)
            found[pool.site] = min(found.get(pool.site, 1.0), pace)
    return found


def _eager_at_most(
    problem: Problem,
    pools: Sequence[Pool],
    ways: Ways,
    options: Sequence[LineOption],
    *,
    mix: Mix,
    ceiling: float,
    decode_cache: bool,
) -> dict[tuple[str, str], tuple[Array, Array]]:
    """Shares of a request's tokens that its relay makes: none, and as many as fit into a transfer on the worst line.

    Transfers on the thinnest tier, filled up, take z/C and on average as long again for each transfer before them;
    whatever else a relay waits for is put at LEAD_S.
    """
    classes = problem.workload.classes
    by_id = {pool.id: pool for pool in pools}
    found: dict[tuple[str, str], tuple[Array, Array]] = {}
    for pool_id, targets in ways.items():
        site = by_id[pool_id].site
        steps = [
            problem.curve(relay, mix.decode[relay.id]).token(1.0)
            for relay in pools
            if relay.role is Role.RELAY and relay.site == site
        ]
        for _, line in targets:
            if line is None or not steps or (line, site) in found:
                continue
            usable = min(o.capacity_bytes_per_s for o in options if o.line == line)
            payload = problem.payload_bytes(by_id[pool_id], decode_cache=decode_cache)
            queue = float(classes.weight @ payload) / max(1.0 - ceiling, 1e-9)
            time_s = (
                (payload + queue) / usable
                + problem.sites.lines[line].rtt_s
                + problem.sites.lines[line].noise_mean_s
                + LEAD_S
            )
            most = np.minimum(time_s / (min(steps) * np.maximum(classes.output_tokens, 1.0)), 1.0)
            found[line, site] = (np.zeros(classes.count), most)
    return found


def _in_time(problem: Problem, pool: Pool) -> Covered:
    """1 where prefill alone is within a limit; batches that keep a pace are what pools are capped at."""
    times = problem.prefill_s(pool)
    return {
        row.promise.name: (row.to if row.promise.kind.latency == "tpot" else (times <= row.promise.limit_s) * row.to)
        for row in rows_of(problem)
    }


def _work(problem: Problem, pool: Pool, mix: Mix) -> Array:
    if pool.role is Role.PREFILL:
        return np.asarray(problem.prefill_s(pool) / prefill_servers(problem, pool, instances=1))
    decode = mix.decode[pool.id]
    batch = max(decode_cap(problem, pool, decode).batch, 1)
    made = problem.workload.classes.output_tokens * problem.curve(pool, decode).token(batch) / batch
    return np.asarray(made + problem.prefill_stop_s(pool) if pool.role is Role.AGGREGATED else made)


@dataclass(slots=True, eq=False)
class FlowProgram:
    """The program, and its variables by what they stand for."""

    given: Candidates
    program: pulp.LpProblem
    rate: pulp.LpVariable
    classes: list[int]
    send: Flows = field(default_factory=dict)
    """From a prefill pool by one of its ways; with fractions of instances any of it may go over a relay."""
    relayed: Flows = field(default_factory=dict)
    """Over a relay, beside what is sent directly (whole instances only)."""
    odd: dict[tuple[str, int], pulp.LpVariable] = field(default_factory=dict)
    take: dict[tuple[str, int], pulp.LpVariable] = field(default_factory=dict)
    load: dict[str, Terms] = field(default_factory=dict)
    """Load of each pool in instances."""
    count: dict[str, pulp.LpVariable] = field(default_factory=dict)
    open: dict[str, pulp.LpVariable] = field(default_factory=dict)
    taken: dict[str, pulp.LpVariable] = field(default_factory=dict)
    made: dict[tuple[str, str, str, int], tuple[pulp.LpVariable, Terms]] = field(default_factory=dict)
    """Per (line, site of the relay, site of decode, class): what relays make of requests, and the flows it is of."""
    spent: Terms = field(default_factory=list)
    """Monthly cost in thousands."""
    covered: dict[str, Terms] = field(default_factory=dict)
    """Left side of each promise's row."""

    def through(self, pool_id: str, k: int) -> list[pulp.LpVariable]:
        """Flows of a class through a pool."""
        if (pool_id, k) in self.take:
            return [self.take[pool_id, k]]
        ways = range(len(self.given.ways.get(pool_id, ())))
        own = [flows[pool_id, at, k] for flows in (self.send, self.relayed) for at in ways if (pool_id, at, k) in flows]
        return own + ([self.odd[pool_id, k]] if (pool_id, k) in self.odd else [])


def flow_count(pools: Sequence[Pool], ways: Ways, classes: int) -> int:
    """How many flows the program has."""
    taking = sum(pool.role is not Role.PREFILL for pool in pools)
    return classes * (taking + sum(len(targets) for targets in ways.values()))


def formulate_flows(
    given: Candidates,
    *,
    rate_rps: float,
    most_requests: bool,
    budget: float | None,
    inventory: bool = True,
    whole: bool = False,
) -> FlowProgram:
    """Write the program down: least cost at a rate, or most requests within budget and inventory.

    With ``whole`` instances and line tiers are whole, and of one chip in one role at one site only one shape is open.
    """
    import pulp

    weight = given.problem.workload.classes.weight
    built = FlowProgram(
        given,
        pulp.LpProblem("all_candidates", pulp.LpMaximize if most_requests else pulp.LpMinimize),
        pulp.LpVariable("R", 0 if most_requests else rate_rps, rate_rps),
        [k for k in range(weight.size) if weight[k] > 0],
    )
    _flows(built, whole=whole)
    _loads(built)
    spent = _instances(built, rate_rps) if whole else _fractions(built)
    spent += _lines(built, whole=whole)
    spent += _credit(built)
    built.spent = [(variable, price / KILO) for variable, price in _merged(spent)]
    total = pulp.LpAffineExpression(built.spent)
    built.program += (1.0 * built.rate) if most_requests else total
    if budget is not None:
        built.program += total <= budget / KILO
    _balance(built)
    if inventory:
        _inventory(built)
    _coverage(built)
    return built


def _flows(built: FlowProgram, *, whole: bool) -> None:
    import pulp

    given = built.given
    relays = {pool.site for pool in given.pools if pool.role is Role.RELAY}
    site_of = {pool.id: pool.site for pool in given.pools}
    number = {pool.id: index for index, pool in enumerate(given.pools)}
    for pool_id, targets in given.ways.items():
        p = number[pool_id]
        for at, (_, line) in enumerate(targets):
            for k in built.classes:
                built.send[pool_id, at, k] = pulp.LpVariable(f"x_{p}_{at}_{k}", 0)
                if whole and line is not None and site_of[pool_id] in relays:
                    built.relayed[pool_id, at, k] = pulp.LpVariable(f"r_{p}_{at}_{k}", 0)
        if site_of[pool_id] in relays:
            path = Path("odd", PathKind.P_RLD, pool_id, relay="any")
            allowed = allowed_classes(given.problem, path)
            built.odd.update({(pool_id, k): pulp.LpVariable(f"o_{p}_{k}", 0) for k in built.classes if allowed[k] > 0})
    for pool in given.pools:
        if pool.role is not Role.PREFILL:
            for k in built.classes:
                built.take[pool.id, k] = pulp.LpVariable(f"z_{number[pool.id]}_{k}", 0)


def _loads(built: FlowProgram) -> None:
    for pool_id, work in built.given.work.items():
        built.load[pool_id] = [(flow, float(work[k])) for k in built.classes for flow in built.through(pool_id, k)]


def _fractions(built: FlowProgram) -> Terms:
    """Instances as if they could be had in fractions: paid for by the load."""
    given = built.given
    return [(v, c * given.cost[pool_id] / given.ceiling) for pool_id, terms in built.load.items() for v, c in terms]


def _instances(built: FlowProgram, rate_rps: float) -> Terms:
    """Whole instances that carry the load."""
    import pulp

    given = built.given
    weight = given.problem.workload.classes.weight
    paid: Terms = []
    kinds: dict[tuple[str, str, str, float | None], Terms] = {}
    for index, pool in enumerate(given.pools):
        count = pulp.LpVariable(f"n_{index}", 0, cat="Integer")
        opened = pulp.LpVariable(f"u_{index}", 0, 1, cat="Integer")
        built.count[pool.id], built.open[pool.id] = count, opened
        built.program += pulp.LpAffineExpression([*built.load[pool.id], (count, -given.ceiling)]) <= 0
        most = given.most.get(pool.id, most_instances(rate_rps * float(weight @ given.work[pool.id])))
        built.program += count <= most * opened
        built.program += count >= opened
        paid += [(count, given.cost[pool.id]), (opened, given.redundant_instances * given.cost[pool.id])]
        kinds.setdefault((pool.site, pool.role.value, pool.chip, pool.tpot_s), []).append((opened, 1.0))
    for terms in kinds.values():
        if len(terms) > 1:
            built.program += pulp.LpAffineExpression(terms) <= 1
    return paid


def most_instances(load: float) -> int:
    """More instances than any good plan has for a load: waits and promises may ask for spare."""
    return math.ceil(min(2.0 * load, MOST_INSTANCES)) + 4


def _lines(built: FlowProgram, *, whole: bool) -> Terms:
    """Lines that carry what crosses: whole tiers, or as if leased by the byte at the price of the best tier."""
    import pulp

    given = built.given
    by_id = {pool.id: pool for pool in given.pools}
    crossing: dict[str, Terms] = {}
    for (pool_id, at, k), flow in (*built.send.items(), *built.relayed.items()):
        line = given.ways[pool_id][at][1]
        if line is not None:
            payload = given.problem.payload_bytes(by_id[pool_id], decode_cache=given.decode_cache)[k]
            crossing.setdefault(line, []).append((flow, float(payload)))
    paid: Terms = []
    for line, terms in crossing.items():
        own = [option for option in given.options if option.line == line]
        used = [(flow, payload / GIGA) for flow, payload in terms]
        if whole:
            taken = {
                o.id: pulp.LpVariable(f"t_{len(built.taken)}_{at}", 0, 1, cat="Integer") for at, o in enumerate(own)
            }
            built.taken |= taken
            room = [(taken[o.id], -o.capacity_bytes_per_s / GIGA) for o in own]
            built.program += pulp.LpAffineExpression([*used, *room]) <= 0
            built.program += pulp.lpSum(taken.values()) <= 1
            paid += [(taken[o.id], o.monthly_cost) for o in own]
        else:
            price = min(o.monthly_cost / o.capacity_bytes_per_s for o in own)
            paid += [(flow, payload * price) for flow, payload in terms]
            most = max(o.capacity_bytes_per_s for o in own)
            built.program += pulp.LpAffineExpression(used) <= most / GIGA
    return paid


def chips_of(built: FlowProgram, site: str, chip: str) -> Terms:
    """Chips of one kind at one site: of whole instances, or of what the load asks for."""
    given = built.given
    terms: Terms = []
    for pool in given.pools:
        if (pool.site, pool.chip) != (site, chip):
            continue
        chips = float(pool.shape.chips)
        if built.count:
            terms += [(built.count[pool.id], chips), (built.open[pool.id], chips * given.redundant_instances)]
        else:
            terms += [(flow, work * chips / given.ceiling) for flow, work in built.load[pool.id]]
    return terms


def _credit(built: FlowProgram) -> Terms:
    """Owned chips in use cost no capital."""
    import pulp

    paid: Terms = []
    for index, kind in enumerate(built.given.owned):
        used = pulp.LpVariable(f"f_{index}", 0, kind.count)
        held = [(v, -kind.chips_held_per_chip * chips) for v, chips in chips_of(built, kind.site, kind.chip)]
        built.program += pulp.LpAffineExpression([(used, 1.0), *_merged(held)]) <= 0
        paid.append((used, -kind.credit_per_chip))
    return paid


def _inventory(built: FlowProgram) -> None:
    import pulp

    for site in built.given.problem.sites.sites.values():
        for chip in site.chips.values():
            terms = chips_of(built, site.id, chip.chip) if chip.max_chips is not None else []
            if terms:
                built.program += pulp.LpAffineExpression(_merged(terms)) <= chip.max_chips


def _merged(terms: Terms) -> Terms:
    total: dict[pulp.LpVariable, float] = {}
    for variable, factor in terms:
        total[variable] = total.get(variable, 0.0) + factor
    return list(total.items())


def _balance(built: FlowProgram) -> None:
    """Each request is served; tokens that a relay makes are not made at the other site."""
    import pulp

    given, program = built.given, built.program
    site_of = {pool.id: pool.site for pool in given.pools}
    arriving: dict[tuple[str, int], Terms] = {(pool.site, k): [] for pool in given.pools for k in built.classes}
    near: dict[tuple[str, int], Terms] = {key: [] for key in arriving}
    served: dict[int, Terms] = {k: [] for k in built.classes}
    relays = {pool.site for pool in given.pools if pool.role is Role.RELAY}
    relayed: dict[tuple[str, str, str, int], Terms] = {}
    for (pool_id, at, k), flow in (*built.send.items(), *built.relayed.items()):
        target, line = given.ways[pool_id][at]
        arriving[target, k].append((flow, 1.0))
        served[k].append((flow, 1.0))
    for (pool_id, at, k), flow in (built.relayed or built.send).items():
        target, line = given.ways[pool_id][at]
        if line is not None and site_of[pool_id] in relays:
            relayed.setdefault((line, site_of[pool_id], target, k), []).append((flow, 1.0))
    for index, ((line, site, target, k), terms) in enumerate(relayed.items()):
        made = pulp.LpVariable(f"e_{index}", 0)
        built.made[line, site, target, k] = made, terms
        shares = given.eager.get((line, site))
        least, most = (0.0, 1.0) if shares is None else (float(shares[0][k]), float(shares[1][k]))
        program += pulp.LpAffineExpression([(made, 1.0), *((flow, -most) for flow, _ in terms)]) <= 0
        if least > 0:
            program += pulp.LpAffineExpression([(made, 1.0), *((flow, -least) for flow, _ in terms)]) >= 0
        arriving[target, k].append((made, -1.0))
        near[site, k].append((made, given.relay_pace.get(site, 1.0)))
    for (pool_id, k), flow in built.odd.items():
        near[site_of[pool_id], k].append((flow, 1.0))
        served[k].append((flow, 1.0))
    for pool in given.pools:
        for k in built.classes:
            if pool.role is Role.DECODE:
                arriving[pool.site, k].append((built.take[pool.id, k], -1.0))
            elif pool.role is Role.RELAY:
                near[pool.site, k].append((built.take[pool.id, k], -1.0))
            elif pool.role is Role.AGGREGATED:
                served[k].append((built.take[pool.id, k], 1.0))
    for terms in (*arriving.values(), *near.values()):
        if terms:
            program += pulp.LpAffineExpression(terms) == 0
    weight = given.problem.workload.classes.weight
    for k, terms in served.items():
        program += pulp.LpAffineExpression([*terms, (built.rate, -float(weight[k]))]) == 0


def _coverage(built: FlowProgram) -> None:
    """Each promise holds for its share of requests, as far as the best of each way allows."""
    import pulp

    given = built.given
    for promise in given.promises:
        terms: Terms = []
        for (pool_id, at, k), flow in built.send.items():
            terms.append((flow, _of(given.direct[pool_id, at], promise, k)))
        for (pool_id, at, k), flow in built.relayed.items():
            terms.append((flow, _of(given.relayed[pool_id, at], promise, k)))
        terms += [(flow, _of(given.here[pool_id], promise, k)) for (pool_id, k), flow in built.odd.items()]
        aggregated = {pool.id for pool in given.pools if pool.role is Role.AGGREGATED}
        terms += [
            (flow, _of(given.here[pool_id], promise, k))
            for (pool_id, k), flow in built.take.items()
            if pool_id in aggregated
        ]
        terms.append((built.rate, -promise.quantile * promise.share))
        built.covered[promise.name] = terms
        built.program += pulp.LpAffineExpression(_merged(terms)) >= 0, _row_name(built, promise.name)


def take_off(built: FlowProgram, promise: str, missed: pulp.LpVariable) -> None:
    """Let a promise's row count less by a variable: what is missed after all."""
    import pulp

    built.covered[promise].append((missed, -1.0))
    row = _row_name(built, promise)
    del built.program.constraints[row]
    built.program += pulp.LpAffineExpression(_merged(built.covered[promise])) >= 0, row


def _row_name(built: FlowProgram, promise: str) -> str:
    return f"promise_{[p.name for p in built.given.promises].index(promise)}"


def _of(covered: Covered, promise: Quantile, k: int) -> float:
    return float(covered[promise.name][k])
