"""What plans of any shapes could reach: a bound that is tightened where it looks too good, until a plan meets it.

The program of flows over every shape starts from loads, prices and prefill times alone. Where these leave a better
plan possible it learns what each way can do at its best: idle pools, idle lines of the thickest tier. Of the pools that
its solution uses it then learns what they lose by waiting, and of the lines what thinner tiers lose. What still looks
better than the plan found is searched, and left out from then on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from pddplan.domain.plan import PathKind, Pool, Role
from pddplan.domain.workload import Array
from pddplan.evaluate.problem import Problem
from pddplan.optimize.build import FLOWS_PER_SECOND, candidates_at, considered_pools, sized, too_large, unsized
from pddplan.optimize.cells import root_cell
from pddplan.optimize.data import Quantile, Route
from pddplan.optimize.flow_program import (
    MOST_INSTANCES,
    Candidates,
    FlowProgram,
    formulate_flows,
    most_instances,
    take_off,
)
from pddplan.optimize.levels import Levels, LineLevel, PoolLevel
from pddplan.optimize.mix import first_mix, pools_of
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.points import Points
from pddplan.optimize.question_limits import rate_range
from pddplan.optimize.solver import SolveStatus, solve
from pddplan.optimize.topologies import Shapes, Topology, candidate_paths, ways_of
from pddplan.units import KILO

if TYPE_CHECKING:
    import pulp

MOST_FLOWS = 6_000
"""Programs with more flows are not asked."""
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
"""Instances at which the waits of a pool are looked at."""
BEYOND_SLACK = 1.3
"""Waits count from where they would cost this multiple of what a promise leaves to spare."""
LEAST_SLACK = 1e-4
HALVINGS = 9
USED = 1e-6
SLIGHTLY = 1e-6
"""A plan counts as better from this fraction on."""


@dataclass(frozen=True, slots=True)
class Bound:
    """No plan that the program still allows is better than ``score``; the pools that would reach it."""

    score: float
    """Larger is better: less the monthly cost, or requests per second. -inf when no other plan exists."""
    pools: frozenset[str]
    lines: frozenset[str] = frozenset()
    """Line options taken."""


@dataclass(frozen=True, slots=True, eq=False)
class _AtBest:
    """What each way can do at its best."""

    points: Points
    """Operating points of every shape beside the quickest partners."""
    routes: tuple[Route, ...]
    """Their routes with idle pools and idle lines of the thickest tier."""
    most: Mapping[str, int]
    """Instances of each pool that no better plan exceeds."""


@dataclass(slots=True, eq=False)
class EveryShape:
    """The program over every shape, as tight as it has been made so far."""

    given: Candidates
    look: Callable[[Candidates], _AtBest]
    """Works out the operating points."""
    objective: Objective
    rate_rps: float
    relative_gap: float
    built: FlowProgram = field(init=False)
    _seen: _AtBest | None = None
    _known: set[str] = field(default_factory=set)
    _known_score: float = -math.inf
    _searched: list[frozenset[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._write()

    @property
    def _most_requests(self) -> bool:
        return self.objective.kind == "rps"

    @property
    def seen(self) -> _AtBest:
        """Operating points: worked out when the plain program is not enough."""
        if self._seen is None:
            self._seen = self.look(self.given)
        return self._seen

    def _write(self) -> None:
        """Write the program down, with what was asked of it before."""
        self.built = formulate_flows(
            self.given,
            rate_rps=self.rate_rps,
            most_requests=self._most_requests,
            budget=self.objective.budget_per_month,
            whole=True,
        )
        for searched in self._searched:
            self._without(searched)
        if math.isfinite(self._known_score):
            self.only_better_than(self._known_score)

    def bound(self, *, time_limit_s: float) -> Bound | None:
        """Solve what is known so far; None when time ran out before there was a bound.

        Without pools no other plan is better than the one known, or time ran out before one was seen.
        """
        solved = solve(self.built.program, time_limit_s=time_limit_s, gap=self.relative_gap)
        if not solved.has_plan:
            if solved.status is SolveStatus.INFEASIBLE:
                return Bound(self._known_score, frozenset())
            score = solved.bound if self._most_requests else -solved.bound * KILO  # all that the time was enough for
            return Bound(score, frozenset()) if math.isfinite(score) else None
        pools = frozenset(p for p, opened in self.built.open.items() if solved.values[opened.name] > USED)
        lines = frozenset(o for o, taken in self.built.taken.items() if solved.values[taken.name] > USED)
        return Bound(solved.bound if self._most_requests else -solved.bound * KILO, pools, lines)

    def only_better_than(self, score: float) -> None:
        """Ask for plans better than one known alone: where there are none, that is proven sooner."""
        import pulp

        program, row = self.built.program, "better_than_known"
        program.constraints.pop(row, None)
        better = score + SLIGHTLY * abs(score)
        if self._most_requests:
            program += self.built.rate >= min(better, float(self.built.rate.upBound)), row
        else:
            program += pulp.LpAffineExpression(self.built.spent) <= -better / KILO, row
        self._known_score = score

    def leave_out(self, searched: frozenset[str]) -> None:
        """Plans of these pools alone have been searched: others use at least one more."""
        self._searched.append(searched)
        self._without(searched)

    def _without(self, searched: frozenset[str]) -> None:
        import pulp

        others = [opened for pool_id, opened in self.built.open.items() if pool_id not in searched]
        self.built.program += pulp.LpAffineExpression([(opened, 1.0) for opened in others]) >= 1

    def tighten(self, bound: Bound) -> bool:
        """Learn what the ways can do at best, then what a solution's pools and lines lose; False when all was known."""
        if self._seen is None:
            self.given = _at_best(self.given, self.seen.points, self.seen.routes)
            self._write()
            return True
        learnt = False
        for name in sorted(bound.pools | bound.lines):
            if name not in self._known:
                self._known.add(name)
                learnt |= self._waits(name) if name in self.built.open else self._thin(name)
        return learnt

    def _waits(self, pool_id: str) -> bool:
        """A pool either keeps enough idle instances, or what it serves is late that often."""
        given = self.built.given
        by_kind = {path.kind: r for r, path in enumerate(self.seen.points.paths) if pool_id in pools_of(path)}
        rows = list(by_kind.values())  # partners stand idle: one path of each kind tells what waits here cost
        if not rows or self.seen.most[pool_id] > MOST_INSTANCES:
            return False  # a row with such numbers is more than the solver takes; the bound holds without it
        counts = [n for n in COUNTS if n < self.seen.most[pool_id]] + [self.seen.most[pool_id]]
        learnt = False
        for promise in given.promises:
            best = np.max([self.seen.routes[r].coverage[promise.name] for r in rows], axis=0)
            slack = float(self.seen.points.data.weight @ best) - promise.quantile * promise.share
            allowed = BEYOND_SLACK * max(slack, LEAST_SLACK)
            found = [self._most_load(pool_id, rows, n, promise=promise, allowed=allowed) for n in counts]
            binding = [
                late for n, (load, late) in zip(counts, found, strict=True) if load < given.ceiling * n * (1 - USED)
            ]
            if binding:
                loads = np.array([load for load, _ in found])
                self._either(pool_id, promise.name, np.array(counts, dtype=float), loads, np.min(binding, axis=0))
                learnt = True
        return learnt

    def _most_load(
        self, pool_id: str, rows: Sequence[int], instances: int, *, promise: Quantile, allowed: float
    ) -> tuple[float, Array]:
        """Load up to which no more than the share allowed is late for waits; and what is late of each class there."""

        def late(load: float) -> Array:
            levels = Levels({pool_id: PoolLevel(instances, load)}, self._thickest())
            return np.asarray(np.min([self._lost(r, levels, promise) for r in rows], axis=0))

        weight = self.seen.points.data.weight
        low, high = 0.0, self.built.given.ceiling * instances
        at_most = late(high)
        if float(weight @ at_most) <= allowed:
            return high, at_most
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            here = late(middle)
            if float(weight @ here) <= allowed:
                low = middle
            else:
                high, at_most = middle, here
        return high, at_most

    def _lost(self, row: int, levels: Levels, promise: Quantile) -> Array:
        covered = self.seen.points.route(row, levels).coverage[promise.name]
        return np.maximum(self.seen.routes[row].coverage[promise.name] - covered, 0.0)

    def _either(self, pool_id: str, promise: str, counts: Array, loads: Array, late: Array) -> None:
        """Load below a line over the counts, or so many late. The line lies above what waits allow at every count."""
        import pulp

        built = self.built
        slope = float((loads[-1] - loads[0]) / (counts[-1] - counts[0])) if counts.size > 1 else float(loads[0])
        start = float((loads - slope * counts).max()) if counts.size > 1 else 0.0
        late_on = pulp.LpVariable(f"w_{len(built.program.constraints)}", 0, 1, cat="Integer")
        count, opened = built.count[pool_id], built.open[pool_id]
        most = built.given.ceiling * float(counts[-1]) + abs(start)
        rows = [*built.load[pool_id], (opened, -start), (count, -slope), (late_on, -most)]
        built.program += pulp.LpAffineExpression(rows) <= 0
        flows = [(flow, float(late[k])) for k in built.classes for flow in built.through(pool_id, k)]
        self._miss(promise, flows, late_on, float(self.seen.points.data.weight @ late))

    def _thin(self, option_id: str) -> bool:
        """On a thinner tier transfers take longer even when nothing else crosses (a relay answers before they end)."""
        built, given = self.built, self.built.given
        option = next(o for o in given.options if o.id == option_id)
        levels = Levels({}, {**self._thickest(), option.line: LineLevel(option, 0.0)})
        learnt = False
        for promise in given.promises:
            flows, most = [], 0.0
            lost_by: dict[int, Array] = {}
            for (pool_id, at, k), flow in built.send.items():
                target, line = given.ways[pool_id][at]
                row = self._direct(pool_id, target, line) if line == option.line else None
                if row is None:
                    continue
                lost = float(lost_by.setdefault(row, self._lost(row, levels, promise))[k])
                if lost > USED:
                    flows.append((flow, lost))
                    most = max(most, lost)
            if flows:
                self._miss(promise.name, flows, built.taken[option_id], most)
                learnt = True
        return learnt

    def _miss(self, promise: str, flows: list[tuple[pulp.LpVariable, float]], on: pulp.LpVariable, most: float) -> None:
        """Take off a promise's row what is late, where ``on`` is 1; all traffic late at ``most`` is the largest."""
        import pulp

        built = self.built
        missed = pulp.LpVariable(f"m_{len(built.program.constraints)}", 0)
        largest = most * float(built.rate.upBound)
        built.program += pulp.LpAffineExpression([*flows, (missed, -1.0), (on, largest)]) <= largest
        take_off(built, promise, missed)

    def _thickest(self) -> dict[str, LineLevel]:
        return dict(root_cell(self.seen.points.data).best().lines)

    def _direct(self, pool_id: str, target: str, line: str | None) -> int | None:
        return _row(self.seen.points, PathKind.P_MD, pool_id, target, line)


def every_shape(
    problem: Problem,
    topology: Topology,
    pools: Sequence[Pool],
    *,
    objective: Objective,
    limits: Limits,
    score: float | None,
    time_limit_s: float,
) -> EveryShape | None:
    """The program over all these pools; None where it is too large to ask. ``score`` is that of a plan known."""
    ways = ways_of(problem.sites, topology, pools)
    if too_large(problem, pools, ways, time_limit_s=min(time_limit_s, MOST_FLOWS / FLOWS_PER_SECOND)):
        return None
    _, highest = rate_range(problem, pools, objective=objective, limits=limits)
    spend = objective.budget_per_month if objective.kind == "rps" else -score if score is not None else None

    def look(given: Candidates) -> _AtBest:
        points = _beside_the_quickest(problem, topology, pools, objective=objective, limits=limits)
        full = {pool.id: highest * float(points.data.weight @ given.work[pool.id]) for pool in pools}
        points.full_load = {
            pool.id: max(full[pool.id], USED) for pool in pools if pool.role in (Role.PREFILL, Role.AGGREGATED)
        }
        credit = sum(kind.count * kind.credit_per_chip for kind in given.owned)
        most = {pool_id: most_instances(load) for pool_id, load in full.items()}
        for pool_id, price in given.cost.items():
            if spend is not None and price > 0:
                most[pool_id] = max(min(most[pool_id], math.ceil((spend + credit) / price)), 1)
        return _AtBest(points, points.routes(root_cell(points.data).best()), most)

    given = candidates_at(problem, pools, ways, topology=topology, limits=limits)
    return EveryShape(given, look, objective, highest, 0.1 * limits.gap)


def nothing_better(
    problem: Problem,
    topology: Topology,
    *,
    objective: Objective,
    limits: Limits,
    shapes: Shapes,
    score: float,
    time_limit_s: float,
) -> bool:
    """True when the plain program alone shows that no plan of any shapes is better than a score. Quick; may miss it."""
    _, pools, _, _ = considered_pools(problem, topology, limits=limits, shapes=shapes)
    every = every_shape(
        problem, topology, pools, objective=objective, limits=limits, score=score, time_limit_s=time_limit_s
    )
    if every is None:
        return False
    every.only_better_than(score)
    bound = every.bound(time_limit_s=time_limit_s)
    return bound is not None and not bound.pools and bound.score <= score


def _beside_the_quickest(
    problem: Problem, topology: Topology, pools: Sequence[Pool], *, objective: Objective, limits: Limits
) -> Points:
    """Every pool on paths with the quickest partner of each role and site: what it does at its best."""
    mix = first_mix(problem, pools, ())
    quickest: dict[tuple[str, Role], tuple[float, str]] = {}
    for pool in pools:
        if pool.role is Role.PREFILL:
            speed = float(problem.prefill_s(pool).sum())
        else:
            speed = problem.curve(pool, mix.decode[pool.id]).token(1.0)
        key = (pool.site, pool.role)
        quickest[key] = min(quickest.get(key, (speed, pool.id)), (speed, pool.id))
    partners = {pool_id for _, pool_id in quickest.values()}
    paths = [
        path
        for path in candidate_paths(problem.sites, topology, pools)
        if sum(pool_id not in partners for pool_id in pools_of(path)) <= 1
    ]
    used = {pool_id for path in paths for pool_id in pools_of(path)}
    drawn = tuple(pool for pool in pools if pool.id in used)
    points = unsized(problem, drawn, paths, first_mix(problem, drawn, paths), objective=objective, limits=limits)
    return sized(points, limits=limits)


def _row(points: Points, kind: PathKind, pool_id: str, target: str, line: str | None) -> int | None:
    """A path of this kind from a prefill pool to a site over a line."""
    for row, path in enumerate(points.paths):
        at = points.pool(path.decode).site if path.decode is not None else None
        if path.kind is kind and path.prefill == pool_id and path.line == line and at == target:
            return row
    return None


def _at_best(given: Candidates, points: Points, best: Sequence[Route]) -> Candidates:
    """The candidates with the coverage that idle pools and idle thick lines give, and what relays can make at most."""
    direct, relayed, here = dict(given.direct), dict(given.relayed), dict(given.here)
    for pool_id, targets in given.ways.items():
        for at, (target, line) in enumerate(targets):
            for kind, covered in ((PathKind.P_MD, direct), (PathKind.P_RLD_MD, relayed)):
                row = _row(points, kind, pool_id, target, line)
                if row is not None:
                    covered[pool_id, at] = best[row].coverage
    for row, path in enumerate(points.paths):
        if path.kind in (PathKind.AGGREGATED, PathKind.P_RLD):
            here[path.prefill] = best[row].coverage
    return replace(given, direct=direct, relayed=relayed, here=here, eager=_eager(given, points, best))


def _eager(given: Candidates, points: Points, best: Sequence[Route]) -> dict[tuple[str, str], tuple[Array, Array]]:
    """Least and most of a request's tokens that its relay makes: on the best line, and on the thinnest one filled."""
    output = np.maximum(given.problem.workload.classes.output_tokens, 1.0)
    thinnest: dict[str, LineLevel] = {}
    for option in sorted(given.options, key=lambda o: (-o.capacity_bytes_per_s, o.id)):
        thinnest[option.line] = LineLevel(option, option.capacity_bytes_per_s)
    found: dict[tuple[str, str], tuple[Array, Array]] = {}
    for row, path in enumerate(points.paths):
        quick = best[row].relay_tokens
        if path.line is None or quick is None:
            continue
        slow = points.route(row, Levels({}, thinnest)).relay_tokens
        if slow is not None:
            least, most = np.minimum(quick, slow) / output, np.minimum(np.maximum(quick, slow) / output, 1.0)
            before = found.get((path.line, points.pool(path.prefill).site), (least, most))
            found[path.line, points.pool(path.prefill).site] = (
                np.minimum(before[0], least),
                np.maximum(before[1], most),
            )
    return found
