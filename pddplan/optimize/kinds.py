"""Shapes of one size as one pool of the program of flows, which does at best what any of them does.

Fewer pools make the program quicker, and what is learnt of a kind is learnt of all its shapes at once. Every plan of
the shapes is one of the kinds, so a bound over kinds holds. Where it is not enough a kind is divided again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pddplan.domain.plan import Pool
from pddplan.domain.workload import Array
from pddplan.optimize.flow_program import Candidates, Covered

Kind = tuple[str, ...]
"""Ids of pools that stand as one in the program, under the id of the first."""


def kinds_of(pools: Sequence[Pool], cost: Mapping[str, float]) -> tuple[Kind, ...]:
    """Pools of the same site, role, chip, pace, size and price together."""
    found: dict[tuple[object, ...], list[str]] = {}
    for pool in pools:
        alike = (pool.site, pool.role, pool.chip, pool.tpot_s, pool.shape.chips, cost[pool.id])
        found.setdefault(alike, []).append(pool.id)
    return tuple(tuple(ids) for ids in found.values())


def divided(kinds: Sequence[Kind], used: frozenset[str]) -> tuple[Kind, ...]:
    """The same kinds with those that ``used`` names as single shapes."""
    found: list[Kind] = []
    for kind in kinds:
        found += [(pool_id,) for pool_id in kind] if kind[0] in used else [kind]
    return tuple(found)


def as_kinds(given: Candidates, kinds: Sequence[Kind]) -> Candidates:
    """The candidates with one pool for each kind: the least work, the most coverage of each class."""
    members = {kind[0]: kind for kind in kinds}
    first = members.keys()
    return replace(
        given,
        pools=tuple(pool for pool in given.pools if pool.id in first),
        ways={pool_id: targets for pool_id, targets in given.ways.items() if pool_id in first},
        work={kind[0]: np.min([given.work[pool_id] for pool_id in kind], axis=0) for kind in kinds},
        direct=_best_of_ways(given.direct, members),
        relayed=_best_of_ways(given.relayed, members),
        here={kind[0]: _best([given.here[pool_id] for pool_id in kind]) for kind in kinds if kind[0] in given.here},
        most={kind[0]: max(given.most[pool_id] for pool_id in kind) for kind in kinds} if given.most else {},
    )


def _best_of_ways(
    covered: Mapping[tuple[str, int], Covered], members: Mapping[str, Kind]
) -> dict[tuple[str, int], Covered]:
    return {
        (pool_id, at): _best([covered[other, at] for other in members[pool_id]])
        for pool_id, at in covered
        if pool_id in members
    }


def _best(covered: Sequence[Covered]) -> dict[str, Array]:
    return {name: np.max([one[name] for one in covered], axis=0) for name in covered[0]}
