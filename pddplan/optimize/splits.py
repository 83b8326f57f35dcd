"""Plans to start from in which short and long requests part: each pool serves, and waits for, its own kind only.

A search starts from a mix of all traffic in every pool. Where only a fleet that parts the traffic keeps the promises
(long prefills no longer stand before short ones), or one that sends all of it over one path, that mix never shows it.
So traffic is taken whole, and cut in two by prefill work, by answers, by contexts and by traffic class; each part goes
its own path; and the evaluator says what such a fleet needs.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.plan import Plan
from pddplan.domain.workload import Array, RequestClasses
from pddplan.optimize.cells import root_cell
from pddplan.optimize.data import ProgramData, Route
from pddplan.optimize.judge import COVERAGE_MARGIN, Candidate, Judge
from pddplan.optimize.mending import Judged, judged, mended, stretched
from pddplan.optimize.points import Points
from pddplan.optimize.solution import searched_plan
from pddplan.optimize.starts import COARSE_RATE, at_highest_rate, in_time

SHARES_BELOW = (0.25, 0.5, 0.75)
"""Of the work of all requests, what lies below a cut."""
PATHS_PER_PART = 12
"""Cheapest paths of each part that are put together, beside the cheapest through each pool."""
MOST_PRICED = 2_000
MOST_FLEETS = 24
MOST_CUTS = 6
"""Most fleets that are priced before anything waits; that are worked out; and of these with the same two paths."""
STEPS_OF_RATE = 12

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some of the traffic on one path, at one request per second of all traffic."""

    row: int
    flow: Array
    price: float
    """Monthly cost of its load, in fractions of instances and lines."""
    load: Mapping[str, float]
    sent: Mapping[str, float]
    covered: Mapping[str, float]


def cuts(classes: RequestClasses) -> list[Mask]:
    """Ways to cut the traffic in two: True for the longer part, or for one traffic class; each way once."""
    used = classes.weight > 0
    ways: list[Mask] = []
    for length in (classes.miss_prefill_tokens, classes.output_tokens, classes.input_tokens):
        order = np.argsort(length, kind="stable")
        below = np.cumsum((classes.weight * length)[order])
        for share in SHARES_BELOW:
            at = length[order][min(int(np.searchsorted(below, share * below[-1])), length.size - 1)]
            ways += [length > at, length >= at]
    ways += [classes.members(group) > 0 for group in classes.groups if group]
    seen: set[bytes] = set()
    found: list[Mask] = []
    for long in ways:
        upper = long & used if not (long & used)[np.argmax(used)] else used & ~long  # a cut and its mirror are one
        if upper.any() and upper.tobytes() not in seen:
            seen.add(upper.tobytes())
            found.append(upper)
    return found


def split_plans(
    points: Points,
    remixed: Callable[[Plan], Points],
    *,
    topology: str,
    deadline: float,
    score: Callable[[Candidate], float],
    least: float = -math.inf,
    cheaper_than: float = math.inf,
    most: int = MOST_FLEETS,
) -> Iterator[tuple[Points, Judged]]:
    """Fleets for traffic on one path, or in two parts, under their own mix, as the evaluator sees them; best first.

    Those that nothing mends come as they are, short of a promise: their mix is still one to search.
    ``remixed`` gives the operating points under the mix of a plan. Fleets whose score is not above the ``least`` before
    anything waits are left out, and none is made to cost ``cheaper_than`` or more.
    """
    judge = Judge(points)
    fleets = _fleets(points)[:MOST_PRICED]
    ideal = (at_highest_rate(points.data, partial(_sized, judge, parts)) for parts in fleets)
    ranked = [
        (-score(fleet), at, fleet) for at, fleet in enumerate(ideal) if fleet is not None and score(fleet) > least
    ]
    for opposite, at, candidate in _spread(sorted(ranked, key=lambda entry: entry[:2]), most=most):
        if time.perf_counter() > deadline or -opposite <= least:
            return
        own = remixed(searched_plan(points, candidate, topology=topology))
        wanting = judged(own, candidate, topology=topology)
        if wanting.short > 0 and points.data.min_rate_rps >= points.data.max_rate_rps:
            better = mended(own, wanting, topology=topology, deadline=deadline, cheaper_than=cheaper_than)
            wanting = better or wanting
        elif wanting.short > 0:
            slower = (
                _rebalanced(own, fleets[at], topology=topology, most_rps=candidate.rate_rps),
                _slowed(own, wanting, topology=topology, deadline=deadline),
            )
            wanting = max((s for s in slower if s is not None), key=lambda s: score(s.candidate), default=wanting)
        if wanting.short <= 0:
            least = max(least, score(wanting.candidate))
        yield own, wanting


def _spread(ranked: Sequence[tuple[float, int, Candidate]], *, most: int) -> list[tuple[float, int, Candidate]]:
    """The first of fleets in order, of those on the same paths a few only."""
    seen: Counter[bytes] = Counter()
    kept = []
    for entry in ranked:
        paths = entry[2].used.tobytes()
        seen[paths] += 1
        if seen[paths] <= MOST_CUTS:
            kept.append(entry)
    return kept[:most]


def _fleets(points: Points) -> list[tuple[_Part, ...]]:
    """Paths for all traffic, or one for each part of a cut, that would be in time if nothing waited; cheapest first."""
    data = points.data
    routes = points.routes(root_cell(data).best())
    kinds = {pool.id: pool.kind for pool in data.pools}
    used = data.weight > 0
    found: list[tuple[float, int, tuple[_Part, ...]]] = []
    for one in _parts(data, routes, used):
        if _in_time(data, one):
            found.append((one.price, len(found), (one,)))
    for upper in cuts(points.problem.workload.classes):
        sides = [_parts(data, routes, mask) for mask in (used & ~upper, upper)]
        for one, other in itertools.product(*sides):
            if one.row != other.row and _alike(kinds, one, other) and _in_time(data, one, other):
                found.append((one.price + other.price, len(found), (one, other)))
    return [parts for _, _, parts in sorted(found, key=lambda entry: entry[:2])]


def _parts(data: ProgramData, routes: Sequence[Route], mask: Mask) -> list[_Part]:
    """The cheapest paths that these classes may take, and the cheapest through each pool."""
    flow = np.where(mask, data.weight, 0.0)
    price = {pool.id: pool.monthly_cost_per_instance / pool.max_utilization for pool in data.pools}
    by_byte: dict[str, float] = {}
    for option in data.lines:
        own = option.monthly_cost / option.capacity_bytes_per_s
        by_byte[option.line] = min(by_byte.get(option.line, own), own)
    parts: list[_Part] = []
    for row, route in enumerate(routes):
        if not route.work or (route.allowed[mask] <= 0).any() or (route.line is not None and route.line not in by_byte):
            continue
        load = {pool: float(flow @ work) for pool, work in route.work.items()}
        sent = {route.line: float(flow @ route.payload_bytes)} if route.payload_bytes is not None and route.line else {}
        cost = sum(price[pool] * busy for pool, busy in load.items())
        cost += sum(by_byte[line] * amount for line, amount in sent.items())
        covered = {name: float(flow @ np.nan_to_num(share)) for name, share in route.coverage.items()}
        parts.append(_Part(row, flow, cost, load, sent, covered))
    parts.sort(key=lambda part: (part.price, part.row))
    seen: set[str] = set()
    kept = []
    for at, part in enumerate(parts):
        if at < PATHS_PER_PART or not part.load.keys() <= seen:
            kept.append(part)
        seen |= part.load.keys()
    return kept


def _alike(kinds: Mapping[str, str], one: _Part, other: _Part) -> bool:
    """Of one kind of chip in a role only one shape is open."""
    mine = {kinds[pool]: pool for pool in one.load}
    return all(mine.get(kinds[pool], pool) == pool for pool in other.load)


def _in_time(data: ProgramData, *parts: _Part) -> bool:
    return all(
        sum(part.covered[p.name] for part in parts) >= (p.quantile - COVERAGE_MARGIN) * p.share for p in data.promises
    )


def _sized(judge: Judge, parts: tuple[_Part, ...], rate_rps: float) -> Candidate | None:
    """The smallest fleet that carries the parts at a rate; None where it goes beyond a limit."""
    data = judge.model.data
    load: dict[str, float] = {}
    sent: dict[str, float] = {}
    flow = np.zeros((judge.model.path_count, data.weight.size))
    for part in parts:
        flow[part.row] += rate_rps * part.flow
        for pool, busy in part.load.items():
            load[pool] = load.get(pool, 0.0) + rate_rps * busy
        for line, amount in part.sent.items():
            sent[line] = sent.get(line, 0.0) + rate_rps * amount
    counts = {pool.id: 0 for pool in data.pools}
    ceiling = {pool.id: pool.max_utilization for pool in data.pools}
    counts |= {pool: max(math.ceil(busy / ceiling[pool] - 1e-9), 1) for pool, busy in load.items()}
    taken = []
    for line, amount in sent.items():
        fitting = [o for o in data.lines if o.line == line and o.capacity_bytes_per_s >= amount]
        if not fitting:
            return None
        taken.append(min(fitting, key=lambda o: (o.monthly_cost, o.id)).id)
    candidate = judge.priced(counts, tuple(taken), flow)
    return candidate if judge.within_limits(candidate) else None


def _rebalanced(points: Points, parts: tuple[_Part, ...], *, topology: str, most_rps: float) -> Judged | None:
    """The fleet that keeps the promises at the highest rate within the limits."""
    judge = Judge(points)
    routes = points.routes(root_cell(points.data).best())

    def kept(rate_rps: float) -> Candidate | None:
        candidate = _sized(judge, parts, rate_rps)
        return in_time(judge, candidate, routes) if candidate is not None else None

    found = at_highest_rate(points.data, kept, most_rps=most_rps, finest=COARSE_RATE)
    tried = judged(points, found, topology=topology) if found is not None else None
    if tried is None or tried.short > 0:
        return None
    return stretched(points, tried, topology=topology)


def _slowed(points: Points, wanting: Judged, *, topology: str, deadline: float) -> Judged | None:
    """The same fleet at the highest rate at which it keeps its promises."""
    data, judge, candidate = points.data, Judge(points), wanting.candidate
    low, high = data.min_rate_rps / max(candidate.rate_rps, 1e-12), 1.0
    found: Judged | None = None
    for _ in range(STEPS_OF_RATE):
        if time.perf_counter() > deadline:
            break
        middle = math.sqrt(low * high)
        slower = judge.priced(candidate.instances, candidate.taken, candidate.flow * middle)
        tried = judged(points, slower, topology=topology, detail=False)
        if tried.short <= 0:
            found, low = tried, middle
        else:
            high = middle
    return found
