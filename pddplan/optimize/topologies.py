"""A topology is nothing but the set of paths that plans may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pddplan.domain.plan import Path, PathKind, Plan, Pool, Role, Shape
from pddplan.domain.sites import Sites
from pddplan.domain.workload import Promises
from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.units import MS_PER_S

_INSIDE = ("pd", "pd-hetero", "prfaas", "any")
_ACROSS = ("cross-dc", "cross-dc-drc", "pdd", "prfaas", "any")
Shapes = Callable[[str, Role], Sequence[Shape]]
"""Shapes an instance of a chip may take in a role, best first."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Which paths are allowed, and in a sentence why one would want them."""

    name: str
    roles: frozenset[Role]
    about: str


TOPOLOGIES: dict[str, Topology] = {
    t.name: t
    for t in (
        Topology("colocated", frozenset({Role.AGGREGATED}), "prefill and decode on the same instances"),
        Topology("pd", frozenset({Role.PREFILL, Role.DECODE}), "prefill and decode apart, one site, one kind of chip"),
        Topology("pd-hetero", frozenset({Role.PREFILL, Role.DECODE}), "prefill and decode apart, one site, any chips"),
        Topology(
            "cross-dc", frozenset({Role.PREFILL, Role.DECODE}), "decode at another site; the whole KV crosses the line"
        ),
        Topology(
            "cross-dc-drc",
            frozenset({Role.PREFILL, Role.DECODE}),
            "decode at another site that caches earlier turns; only missing KV crosses",
        ),
        Topology(
            "pdd",
            frozenset({Role.PREFILL, Role.RELAY, Role.DECODE}),
            "decode at another site, a relay pool beside prefill hides the transfer",
        ),
        Topology(
            "prfaas",
            frozenset({Role.PREFILL, Role.DECODE}),
            "long prefills go to another site, short ones and all decode stay",
        ),
        Topology("any", frozenset(Role), "all of these paths at once"),
    )
}


def find_topology(name: str) -> Topology:
    """Look a topology up by name, or say which there are."""
    if name in TOPOLOGIES:
        return TOPOLOGIES[name]
    raise InputError(
        Problem(
            what=f"topology {name!r} is unknown{did_you_mean(name, TOPOLOGIES)}",
            fix=f"use one of: {', '.join(TOPOLOGIES)}",
            where="--topology",
        )
    )


def paces(promises: Promises) -> tuple[float | None, ...]:
    """TPOTs that decoding pools may be run for: that of all requests, and what single traffic classes ask beyond it."""
    common = promises.tpot_s
    asked = {part.tpot_s for part in promises.by_class.values() if part.tpot_s is not None}
    return (None, *sorted(tpot for tpot in asked if common is None or tpot < common))


def candidate_pools(
    sites: Sites,
    topology: Topology,
    *,
    shapes: Shapes,
    allowed_chips: Sequence[str] | None,
    paces: Sequence[float | None] = (None,),
) -> tuple[Pool, ...]:
    """Every pool a plan of this topology could open, with one instance each; decoding pools once per pace."""
    found: list[Pool] = []
    for site in sites.sites.values():
        for site_chip in site.chips.values():
            if allowed_chips is not None and site_chip.chip not in allowed_chips:
                continue
            for role in Role:
                if role not in topology.roles or (site_chip.roles is not None and role.value not in site_chip.roles):
                    continue
                for shape in shapes(site_chip.chip, role):
                    if site_chip.shapes is not None and str(shape) not in site_chip.shapes:
                        continue
                    if site_chip.max_chips is None or shape.chips <= site_chip.max_chips:
                        pool_id = f"{site.id}/{role.value}/{site_chip.chip}/{shape}"
                        pool = Pool(pool_id, site.id, role, site_chip.chip, shape, instances=1)
                        found += [pool] if role is Role.PREFILL else [_paced(pool, pace) for pace in paces]
    return tuple(found)


def _paced(pool: Pool, tpot_s: float | None) -> Pool:
    return pool if tpot_s is None else replace(pool, id=f"{pool.id}@{tpot_s * MS_PER_S:g}ms", tpot_s=tpot_s)


def candidate_paths(sites: Sites, topology: Topology, pools: Sequence[Pool]) -> tuple[Path, ...]:
    """Every path of this topology through the given pools and the lines between their sites."""
    return tuple(path for name in _parts(topology) for path in _paths_of(name, sites, pools))


def paths_outside(sites: Sites, topology: Topology, plan: Plan) -> list[Path]:
    """Paths of a plan that a topology does not allow, whatever they are called."""
    allowed = {_way(path) for path in candidate_paths(sites, topology, plan.pools)}
    return [path for path in plan.paths if _way(path) not in allowed]


def _way(path: Path) -> tuple[object, ...]:
    return (path.kind, path.prefill, path.relay, path.decode, path.line, path.decode_cache)


def ways_of(sites: Sites, topology: Topology, pools: Sequence[Pool]) -> dict[str, list[tuple[str, str | None]]]:
    """Where each prefill pool may send its KV: (site of decode, line or None inside the site)."""
    decoding = {pool.site for pool in _of(pools, Role.DECODE)}
    ways: dict[str, list[tuple[str, str | None]]] = {}
    for pool in _of(pools, Role.PREFILL):
        ways[pool.id] = []
        if topology.name in _INSIDE and pool.site in decoding:
            ways[pool.id].append((pool.site, None))
        if topology.name in _ACROSS:
            for other in sorted(decoding - {pool.site}):
                ways[pool.id] += [(other, line) for line in _lines_between(sites, pool.site, other)]
    return ways


def path_count(topology: Topology, pools: Sequence[Pool], ways: Mapping[str, Sequence[tuple[str, str | None]]]) -> int:
    """How many paths candidate_paths would give, without drawing them."""
    decoders, relays = _per_site(pools, Role.DECODE), _per_site(pools, Role.RELAY)
    by_id = {pool.id: pool for pool in pools}
    total = len(_of(pools, Role.AGGREGATED))
    for pool_id, targets in ways.items():
        beside = relays.get(by_id[pool_id].site, 0) if Role.RELAY in topology.roles else 0
        total += beside + sum(decoders.get(site, 0) * (1 + (beside if line else 0)) for site, line in targets)
    return total


def _per_site(pools: Sequence[Pool], role: Role) -> dict[str, int]:
    count: dict[str, int] = {}
    for pool in _of(pools, role):
        count[pool.site] = count.get(pool.site, 0) + 1
    return count


def _parts(topology: Topology) -> tuple[str, ...]:
    # `any` is the union: prfaas and cross-dc-drc share their paths, pd is part of pd-hetero
    return ("colocated", "pd-hetero", "cross-dc-drc", "relay") if topology.name == "any" else (topology.name,)


def _paths_of(name: str, sites: Sites, pools: Sequence[Pool]) -> Iterator[Path]:
    if name == "colocated":
        for pool in _of(pools, Role.AGGREGATED):
            yield Path(f"AGG:{pool.id}", PathKind.AGGREGATED, pool.id)
        return
    if name in ("pd", "pd-hetero", "prfaas"):
        for first, last in _pairs(pools):
            if first.site == last.site and (name != "pd" or first.chip == last.chip):
                yield Path(f"P-MD:{first.id}>{last.id}", PathKind.P_MD, first.id, decode=last.id)
    if name in ("cross-dc", "cross-dc-drc", "prfaas", "pdd"):
        for first, last in _pairs(pools):
            for line in _lines_between(sites, first.site, last.site):
                yield Path(
                    f"P-MD:{first.id}>{last.id}@{line}",
                    PathKind.P_MD,
                    first.id,
                    decode=last.id,
                    line=line,
                    decode_cache=name != "cross-dc",
                )
    if name in ("pdd", "relay"):
        yield from _relayed(sites, pools)


def _relayed(sites: Sites, pools: Sequence[Pool]) -> Iterator[Path]:
    for relay in _of(pools, Role.RELAY):
        for first in _of(pools, Role.PREFILL):
            if first.site != relay.site:
                continue
            yield Path(f"P-RLD:{first.id}>{relay.id}", PathKind.P_RLD, first.id, relay=relay.id)
            for last in _of(pools, Role.DECODE):
                for line in _lines_between(sites, first.site, last.site):
                    yield Path(
                        f"P-RLD-MD:{first.id}>{relay.id}>{last.id}@{line}",
                        PathKind.P_RLD_MD,
                        first.id,
                        relay=relay.id,
                        decode=last.id,
                        line=line,
                    )


def _of(pools: Sequence[Pool], role: Role) -> list[Pool]:
    return [pool for pool in pools if pool.role is role]


def _pairs(pools: Sequence[Pool]) -> Iterator[tuple[Pool, Pool]]:
    for first in _of(pools, Role.PREFILL):
        for last in _of(pools, Role.DECODE):
            yield first, last


def _lines_between(sites: Sites, one: str, other: str) -> list[str]:
    """Lines run both ways at their full rate."""
    return [
        line.id
        for line in sites.lines.values()
        if one != other and {line.from_site, line.to_site} == {one, other} and line.tiers
    ]
