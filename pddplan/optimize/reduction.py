"""Large questions: a linear program over all candidates gives a bound for every plan, and the few pools worth a search.

Instances and lines may be fractions there, and pools wait for nothing. Pools that it leaves empty are rarely part of
a good plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pddplan.domain.plan import Pool, Role
from pddplan.optimize.flow_program import Candidates, FlowProgram, formulate_flows
from pddplan.optimize.solver import solve
from pddplan.units import KILO

USED = 1e-6
"""Load in instances from which a pool counts as used."""


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


def reduce_candidates(
    given: Candidates,
    *,
    rate_rps: float,
    most_requests: bool,
    budget: float | None,
    time_limit_s: float,
    inventory: bool = True,
) -> Reduced:
    """Solve the program: least cost at a rate, or most requests within budget and inventory."""
    built = formulate_flows(given, rate_rps=rate_rps, most_requests=most_requests, budget=budget, inventory=inventory)
    solved = solve(built.program, time_limit_s=time_limit_s, relax_integers=True)
    if not solved.has_plan:
        out_of_time = solved.status.value == "time limit"
        return Reduced(frozenset(p.id for p in given.pools), frozenset(), None, None, feasible=out_of_time)
    used = {pool_id for pool_id, terms in built.load.items() if sum(solved.values[v.name] * c for v, c in terms) > USED}
    carried = {
        (pool_id, given.ways[pool_id][at][0])
        for (pool_id, at, _), v in built.send.items()
        if solved.values[v.name] > USED * 1e-3
    }
    return Reduced(
        frozenset(used),
        frozenset(carried),
        None if most_requests else max(solved.bound * KILO, 0.0),
        solved.bound if most_requests else None,
        feasible=True,
        pairs=_pairs(built, solved.values),
    )


def _pairs(built: FlowProgram, values: Mapping[str, float]) -> frozenset[tuple[str, str]]:
    """Hand what arrives at each site to its decode pools in turn, class by class (the north-west corner rule)."""
    given: dict[tuple[str, int], list[tuple[str, float]]] = {}
    for (pool_id, at, k), variable in built.send.items():
        if values[variable.name] > USED * 1e-3:
            given.setdefault((built.given.ways[pool_id][at][0], k), []).append((pool_id, values[variable.name]))
    site_of = {pool.id: pool.site for pool in built.given.pools if pool.role is Role.DECODE}
    taken: dict[tuple[str, int], list[tuple[str, float]]] = {}
    for (pool_id, k), variable in built.take.items():
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
