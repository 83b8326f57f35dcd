"""Which shapes of instances are worth a search: those that no other beats, and of these the few that promise most."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pddplan.domain.plan import Path, Pool, Role
from pddplan.domain.workload import Array
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.stages import decode_cap, prefill_servers
from pddplan.optimize.mix import Mix, pools_of

SHAPES_PER_CHIP = 4
"""Most of them that are searched for one role at one site."""
NEARLY_SAME_PRICE = 0.02
"""Fraction within which prices per request count as one."""
ABOUT = 1.05
"""A shape this close to another in price per request and in latency, and no smaller, is not looked at."""
DEAREST = 2.0
"""Beside the quickest and the smallest, shapes that cost at most this multiple per request."""


_Ranked = tuple[tuple[float, float, float], Pool]


@dataclass(frozen=True, slots=True, eq=False)
class _Standing:
    """What a pool is compared by: smaller is better, of all but servers."""

    pool: Pool
    cost: float
    limited: bool
    """Its chips are counted at the site, or what they draw."""
    owned: bool
    prefill_s: Array | None = None
    servers: float = 0.0
    speed: tuple[float, ...] = ()


def undominated(problem: Problem, pools: Sequence[Pool], mix: Mix, cost: Mapping[str, float]) -> tuple[Pool, ...]:
    """Leave out pools that another of the same site and role beats in price, speed and footprint."""
    groups: dict[tuple[str, Role], list[_Standing]] = {}
    for pool in pools:
        groups.setdefault((pool.site, pool.role), []).append(_standing(problem, pool, mix, cost[pool.id]))
    beaten = {
        own.pool.id
        for group in groups.values()
        for own in group
        if any(_beats(rival, own) for rival in group if rival is not own)
    }
    return tuple(pool for pool in pools if pool.id not in beaten)


def _standing(problem: Problem, pool: Pool, mix: Mix, cost: float) -> _Standing:
    chip = problem.sites.sites[pool.site].chips[pool.chip]
    prefills = pool.role in (Role.PREFILL, Role.AGGREGATED)
    return _Standing(
        pool,
        cost,
        limited=chip.max_chips is not None or problem.sites.sites[pool.site].power_limit_kw is not None,
        owned=chip.owned_chips > 0,
        prefill_s=problem.prefill_s(pool) if prefills else None,
        servers=prefill_servers(problem, pool, instances=1) if prefills else 0.0,
        speed=_decode_figures(problem, pool, mix) if pool.role is not Role.PREFILL else (),
    )


def few_shapes(problem: Problem, pools: Sequence[Pool], mix: Mix, cost: Mapping[str, float]) -> tuple[Pool, ...]:
    """Few shapes per site, role and chip: the cheapest per request, the quickest, the smallest, and the next cheapest.

    A shape that another is about as cheap, quick and small as (all three at once) is left out; of near-equals in
    price the smaller comes first, since it is bought in finer steps.
    """
    groups: dict[tuple[str, str, str, float | None], list[_Ranked]] = {}
    for pool in pools:
        figures = _shape_figures(problem, pool, mix, cost[pool.id])
        groups.setdefault((pool.site, pool.role.value, pool.chip, pool.tpot_s), []).append((figures, pool))
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


def best_of_each(problem: Problem, pools: Sequence[Pool], mix: Mix, cost: Mapping[str, float]) -> set[str]:
    """The cheapest pool per request of each site and role: what to search when there was no time to choose better."""
    price = _prices(problem, pools, mix, cost)
    best: dict[tuple[str, str], str] = {}
    for pool in pools:
        key = (pool.site, pool.role.value)
        best[key] = min(best.get(key, pool.id), pool.id, key=lambda pool_id: (price[pool_id], pool_id))
    return set(best.values())


def cheapest_paths(
    problem: Problem, pools: Sequence[Pool], paths: Sequence[Path], mix: Mix, cost: Mapping[str, float], *, most: int
) -> list[Path]:
    """The cheapest paths by the prices of their pools per request."""
    price = _prices(problem, pools, mix, cost)
    return sorted(paths, key=lambda path: (sum(price[p] for p in pools_of(path)), path.id))[:most]


def _prices(problem: Problem, pools: Sequence[Pool], mix: Mix, cost: Mapping[str, float]) -> dict[str, float]:
    return {pool.id: _shape_figures(problem, pool, mix, cost[pool.id])[0] for pool in pools}


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


def _beats(one: _Standing, other: _Standing) -> bool:
    """True when ``one`` can always stand in for ``other``; of equals the first by id wins."""
    chips, chips_other = one.pool.shape.chips, other.pool.shape.chips
    if chips > chips_other or one.cost > other.cost or one.servers < other.servers:
        return False
    if (one.limited or one.owned or other.owned) and one.pool.chip != other.pool.chip:
        return False
    if any(a > b for a, b in zip(one.speed, other.speed, strict=True)):
        return False
    pairs = [(one.cost, other.cost), (other.servers, one.servers), *zip(one.speed, other.speed, strict=True)]
    if one.prefill_s is not None and other.prefill_s is not None:
        if (one.prefill_s > other.prefill_s).any():
            return False
        pairs.append((float(one.prefill_s.sum()), float(other.prefill_s.sum())))
    return any(a < b for a, b in pairs) or one.pool.id < other.pool.id


def _decode_figures(problem: Problem, pool: Pool, mix: Mix) -> tuple[float, float, float]:
    """(instance-seconds per token, time per token alone, time per token full): smaller is better."""
    work = mix.decode[pool.id]
    cap = decode_cap(problem, pool, work)
    curve = problem.curve(pool, work)
    full = max(cap.batch, 1)
    return curve.token(full) / full, curve.token(1.0), curve.token(full)
