"""Plans of small questions on real profiles, cheapest first: shapes, counts, tiers, and shares of classes per path.

Pools and paths are written down here once more, from what docs/milp.md says of each topology, so that a path the
optimiser forgets is missed by one of the two only. Fleets are taken in the order of their cost, from below what load
alone asks for, and the first that keeps every promise is the best there is: whatever the fleet, no count is left out.
"""

from __future__ import annotations

import heapq
import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pddplan.domain.plan import LinePlan, Path, PathKind, Plan, Pool, Role
from pddplan.domain.sites import Sites
from pddplan.domain.workload import Array, Promises
from pddplan.evaluate.evaluate import evaluate
from pddplan.optimize.mix import allowed_classes, pools_of
from tests.oracles.wide_space import Case, Everything

BETTER = 5e-4
"""A plan counts as better from this share on."""
_PLENTY = 1000
_SLACK = 0.97
"""Loads of a mixture are guessed from those of its classes alone, and taken this much lower."""
_INSIDE = {"pd-hetero", "prfaas", "any"}
_ACROSS = {"cross-dc", "cross-dc-drc", "pdd", "prfaas", "any"}


def every_pool(case: Case) -> Iterator[Pool]:
    """Each role, chip, shape and pace that a site allows."""
    promises = case.problem.workload.promises
    for site in case.problem.sites.sites.values():
        for offer, role in itertools.product(site.chips.values(), Role):
            if offer.roles is not None and role not in offer.roles:
                continue
            for shape in case.shapes(offer.chip, role):
                if offer.shapes is None or str(shape) in offer.shapes:
                    pool_id = f"{site.id} {role} {offer.chip} {shape}"
                    pool = Pool(pool_id, site.id, role, offer.chip, shape, 1)
                    yield pool
                    if role is not Role.PREFILL:
                        yield from (replace(pool, id=f"{pool_id} {p}", tpot_s=p) for p in _quicker(promises))


def _quicker(promises: Promises) -> set[float]:
    """TPOTs promised to single traffic classes beyond that of all."""
    own = {part.tpot_s for part in promises.by_class.values() if part.tpot_s is not None}
    return {tpot for tpot in own if promises.tpot_s is None or tpot < promises.tpot_s}


def every_path(case: Case, pools: Sequence[Pool]) -> Iterator[Path]:
    """The paths of a topology, as docs/milp.md has them."""
    name, sites = case.topology, case.problem.sites
    by_role = {role: [pool for pool in pools if pool.role is role] for role in Role}
    if name in ("colocated", "any"):
        yield from (Path(pool.id, PathKind.AGGREGATED, pool.id) for pool in by_role[Role.AGGREGATED])
    for first, last in itertools.product(by_role[Role.PREFILL], by_role[Role.DECODE]):
        if first.site == last.site and (name in _INSIDE or (name == "pd" and first.chip == last.chip)):
            yield Path(f"{first.id} > {last.id}", PathKind.P_MD, first.id, decode=last.id)
        for line in _between(sites, first, last) if name in _ACROSS else ():
            way = f"{first.id} > {line} > {last.id}"
            yield Path(way, PathKind.P_MD, first.id, decode=last.id, line=line, decode_cache=name != "cross-dc")
    if name not in ("pdd", "any"):
        return
    for first, relay in itertools.product(by_role[Role.PREFILL], by_role[Role.RELAY]):
        if first.site != relay.site:
            continue
        yield Path(f"{first.id} > {relay.id}", PathKind.P_RLD, first.id, relay=relay.id)
        for last in by_role[Role.DECODE]:
            for line in _between(sites, first, last):
                way = f"{first.id} > {relay.id} > {line} > {last.id}"
                yield Path(way, PathKind.P_RLD_MD, first.id, relay=relay.id, decode=last.id, line=line)


def _between(sites: Sites, first: Pool, last: Pool) -> list[str]:
    ends = {first.site, last.site}
    return [line.id for line in sites.lines.values() if len(ends) == 2 and {line.from_site, line.to_site} == ends]


def real_space(case: Case) -> Everything:
    """The pools and paths of a case."""
    pools = tuple(every_pool(case))
    return Everything(case.problem, pools, tuple(every_path(case, pools)), case)


@dataclass(frozen=True, eq=False)
class Fleet:
    """A routing and the lines it takes; what is open is to be counted."""

    paths: tuple[Path, ...]
    share: Array
    lines: tuple[LinePlan, ...]
    least: Mapping[str, float]
    """Instances per pool that load alone asks for at the rate of the workload, rather too few."""


class UnfinishedError(Exception):
    """Brute force was not finished."""


@dataclass
class Search:
    """Looks for a plan that is better than one known."""

    space: Everything
    steps: int
    """Shares of a class are multiples of one by this."""
    left: int
    """Plans that may still be looked at."""
    best: float
    """Least cost (negative), best ratio or most requests so far."""
    plan: Plan | None = None

    @property
    def case(self) -> Case:
        return self.space.case

    @property
    def demand(self) -> float:
        return self.case.problem.workload.arrival.rate_rps

    def run(self) -> None:
        """Keep the best plan, if any is better.

        Raises:  UnfinishedError where some were not looked at.
        """
        fleets = [fleet for fleet in self.fleets() if self.bound(fleet) > self.better_than]
        if self.case.objective.kind == "cost":
            self.cheapest_first(fleets)
        else:
            for fleet in sorted(fleets, key=self.bound, reverse=True):
                self.quickest(fleet)

    @property
    def better_than(self) -> float:
        return self.best + BETTER * abs(self.best) if math.isfinite(self.best) else self.best

    def look(self) -> None:
        if self.left <= 0:
            raise UnfinishedError
        self.left -= 1

    def keeps(self, plan: Plan) -> bool:
        self.look()
        return self.space.keeps(plan, room=1e-9) and self.space.keeps_in_full(plan)

    def fleets(self) -> Iterator[Fleet]:
        """Every path alone, and every two paths with every split of the classes."""
        loads = {path.id: self.loads(path) for path in self.space.paths}
        classes = self.case.problem.workload.classes.count
        one = np.ones((1, classes))
        splits = [np.array(split) / self.steps for split in itertools.product(range(self.steps + 1), repeat=classes)]
        parted = [np.stack([split, 1.0 - split]) for split in splits if 0.0 < split.sum() < classes]
        known = range(len(self.space.paths))
        ways = [((i,), [one]) for i in known]
        ways += [(two, parted) for two in itertools.combinations(known, 2) if self.space.alike(two)]
        for routing, shares in ways:
            paths = tuple(self.space.paths[i] for i in routing)
            each = np.array([allowed_classes(self.case.problem, path) for path in paths], dtype=bool)
            for share in shares:
                if (share[~each] > 0).any():
                    continue
                least: dict[str, float] = {}
                for path, part in zip(paths, share, strict=True):
                    for pool, per_class in loads[path.id].items():
                        least[pool] = least.get(pool, 0.0) + float(per_class[part > 0] @ part[part > 0])
                for lines in self.space.lines(routing):
                    yield Fleet(paths, share, tuple(lines), least)

    def loads(self, path: Path) -> dict[str, Array]:
        """Instances per pool that each class asks for alone, on the thickest line."""
        index, classes = self.space.paths.index(path), self.case.problem.workload.classes.count
        lines = max(self.space.lines([index]), key=lambda taken: sum(line.gbps * line.count for line in taken))
        found = {pool: np.full(classes, np.inf) for pool in pools_of(path)}
        for k in np.flatnonzero(allowed_classes(self.case.problem, path)):
            alone = np.zeros((1, classes))
            alone[0, k] = 1.0
            fleet = Fleet((path,), alone, tuple(lines), {})
            many = self.with_counts(fleet, dict.fromkeys(found, _PLENTY), self.demand)
            for load in evaluate(self.case.problem, many, detail=False).pools:
                found[load.pool][k] = _SLACK * load.utilization * _PLENTY / self.case.limits.max_utilization
        return found

    def with_counts(self, fleet: Fleet, counts: Mapping[str, float], rate: float) -> Plan:
        pools = tuple(replace(p, instances=int(counts[p.id])) for p in self.space.pools if p.id in counts)
        return Plan(self.case.topology, rate, pools, fleet.lines, fleet.paths, fleet.share)

    def price(self, plan: Plan) -> float:
        return self.space.price(self.space.full(plan))

    def bound(self, fleet: Fleet) -> float:
        """No count of this fleet is better."""
        if not all(map(math.isfinite, fleet.least.values())):
            return -math.inf
        if self.case.objective.kind == "rps":
            return math.inf
        at_least = {pool: max(1, math.ceil(load - 1e-9)) for pool, load in fleet.least.items()}
        price = self.price(self.with_counts(fleet, at_least, self.demand))
        if self.case.objective.kind == "cost":
            return -price
        for pool, load in fleet.least.items():  # parts of instances, as a ratio may be best at any rate
            more = self.with_counts(fleet, {**at_least, pool: at_least[pool] + 1}, self.demand)
            price -= (at_least[pool] - load) * (self.price(more) - self.price(self.with_counts(fleet, at_least, 1.0)))
        return 1000.0 * self.demand / price

    def cheapest_first(self, fleets: Sequence[Fleet]) -> None:
        """Counts in the order of their price; the first that keeps everything is the best."""
        heap: list[tuple[float, int, bool, Fleet, dict[str, int]]] = []
        turn, seen = itertools.count(), set()

        def push(fleet: Fleet, counts: dict[str, int], *, known: bool) -> None:
            plan = self.with_counts(fleet, counts, self.demand)
            key = (id(fleet), known, *counts.values())
            if key not in seen and self.space.within(self.space.full(plan)):
                seen.add(key)
                heapq.heappush(heap, (self.price(plan), next(turn), known, fleet, counts))

        for fleet in fleets:
            push(fleet, {pool: max(1, math.ceil(load - 1e-9)) for pool, load in fleet.least.items()}, known=False)
        while heap:
            price, _, known, fleet, counts = heapq.heappop(heap)
            if -price <= self.better_than:
                return
            plan = self.with_counts(fleet, counts, self.demand)
            if not known:
                needed = self.needed(fleet, counts)
                if needed is not None:
                    push(fleet, needed, known=True)
            elif self.keeps(plan):
                self.best, self.plan = -price, plan
                return
            else:
                for pool in counts:
                    push(fleet, {**counts, pool: counts[pool] + 1}, known=True)

    def needed(self, fleet: Fleet, counts: dict[str, int]) -> dict[str, int] | None:
        """Instances that each pool needs where there are plenty of all others; None if plenty of all is too few."""
        many = {pool: _PLENTY + count for pool, count in counts.items()}

        def enough(pool: str, count: int) -> bool:
            return self.keeps(self.with_counts(fleet, {**many, pool: count}, self.demand))

        if not self.keeps(self.with_counts(fleet, many, self.demand)):
            return None
        found = {}
        for pool, low in counts.items():
            most = next(n for i in itertools.count() if enough(pool, n := min(low + 2**i - 1, many[pool])))
            found[pool] = low + bisect_left(range(low, most), True, key=lambda n, pool=pool: enough(pool, n))
        return found

    def quickest(self, fleet: Fleet) -> None:
        """The highest rate of each count of a fleet that could be better."""
        rate_of = {pool: self.demand / load for pool, load in fleet.least.items() if load > 0}
        ratio = self.case.objective.kind == "bcr"
        for counts in self.all_counts(fleet):
            self.look()
            plan = self.with_counts(fleet, counts, self.demand)
            per_rps = 1000.0 / self.price(plan) if ratio else 1.0
            most = min(counts[pool] * rate for pool, rate in rate_of.items())
            most = min(most, self.demand) if ratio else most
            low = max(self.better_than / per_rps, 1e-3 * most)
            if low >= most or not self.keeps(replace(plan, rate_rps=low)):
                continue
            high = most
            for _ in range(10):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if self.keeps(replace(plan, rate_rps=middle)) else (low, middle)
            self.best, self.plan = low * per_rps, replace(plan, rate_rps=low)

    def all_counts(self, fleet: Fleet) -> Iterator[dict[str, int]]:
        """Counts within the limits; of those without a price on more, only what nothing can be added to."""

        def fits(counts: dict[str, int]) -> bool:
            return self.space.within(self.space.full(self.with_counts(fleet, counts, self.demand)))

        def fill(counts: dict[str, int], rest: Sequence[str]) -> Iterator[dict[str, int]]:
            if not rest:
                if self.case.objective.kind == "bcr" or not any(fits({**counts, p: counts[p] + 1}) for p in counts):
                    yield counts
                return
            most = math.ceil(fleet.least[rest[0]] / _SLACK) + 2 if self.case.objective.kind == "bcr" else _PLENTY
            for count in range(1, most + 1):
                if not fits(more := {**counts, rest[0]: count}):
                    return
                yield from fill(more, rest[1:])

        ones = dict.fromkeys(fleet.least, 1)
        if fits(ones):
            yield from fill(ones, list(ones))
