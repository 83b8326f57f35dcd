"""What plans of any shapes could reach: a bound that is tightened where it looks too good, until a plan meets it.

The program of flows over every shape starts from loads, prices and prefill times alone, with shapes of one size as one
kind. Where these leave a better plan possible it learns what each way can do at its best: idle pools, idle lines of the
thickest tier. Of the pools that its solution uses it then learns what they lose by waiting, of the lines what thinner
tiers lose, and of the kinds what their single shapes are. What still looks better than the plan found is searched, and
left out from then on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from pddplan.domain.plan import PathKind, Pool, Role
from pddplan.domain.workload import Array
from pddplan.evaluate.problem import Problem
from pddplan.optimize.build import FLOWS_PER_SECOND, candidates_at, considered_pools, sized, too_large, unsized
from pddplan.optimize.data import LineOption, Quantile
from pddplan.optimize.flow_program import (
    MOST_INSTANCES,
    Candidates,
    FlowProgram,
    formulate_flows,
    most_instances,
    take_off,
)
from pddplan.optimize.kinds import Kind, as_kinds, divided, kinds_of
from pddplan.optimize.learning import ANY_WAY, Learning, Waits, Way, counts_up_to, line_above, row_of
from pddplan.optimize.levels import LineLevel
from pddplan.optimize.mix import first_mix, pools_of
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.points import Points
from pddplan.optimize.question_limits import instance_cost, rate_range
from pddplan.optimize.solver import Solved, SolveStatus, solve
from pddplan.optimize.topologies import Shapes, Topology, candidate_paths, ways_of
from pddplan.units import KILO

if TYPE_CHECKING:
    import pulp

MOST_FLOWS = 6_000
"""Programs with more flows are not asked."""
USED = 1e-6
SLIGHTLY = 1e-6
"""A plan counts as better from this fraction on."""
DINKELBACH_STEPS = 8
CLOSE_TO_NOTHING = 0.1
"""Of the gap that a program is solved to: so close R - price x cost is to nothing in the end."""


@dataclass(frozen=True, slots=True)
class Bound:
    """No plan that the program still allows is better than ``score``; the pools that would reach it."""

    score: float
    """Larger is better: less the monthly cost, or requests per second. -inf when no other plan exists."""
    pools: frozenset[str]
    """Every shape of the kinds that are open."""
    lines: frozenset[str] = frozenset()
    """Line options taken."""


@dataclass(slots=True, eq=False)
class EveryShape:
    """The program over every shape, as tight as it has been made so far."""

    given: Candidates
    look: Callable[[], Points]
    """Works out the operating points of every shape beside the quickest partners."""
    objective: Objective
    rate_rps: float
    relative_gap: float
    kinds: tuple[Kind, ...]
    lowest_rate_rps: float = 0.0
    """Where the rate is free (best ratio)."""
    built: FlowProgram = field(init=False)
    _learning: Learning | None = None
    _known: set[str] = field(default_factory=set)
    """Kinds, by their first shape, and line options of which is known what they lose."""
    _known_score: float = -math.inf
    _searched: list[frozenset[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._write()

    @property
    def _most_requests(self) -> bool:
        return self.objective.kind == "rps"

    @property
    def _ratio(self) -> bool:
        return is_ratio(self.objective)

    @property
    def learning(self) -> Learning:
        """What waiting costs: worked out when the plain program is not enough."""
        if self._learning is None:
            self._learning = Learning(self.look())
        return self._learning

    def _write(self) -> None:
        """Write the program down, with what was asked of it and what it has learnt before."""
        self.built = formulate_flows(
            as_kinds(self.given, self.kinds),
            rate_rps=self.rate_rps,
            most_requests=self._most_requests or self._ratio,
            budget=self.objective.budget_per_month,
            whole=True,
        )
        if self._ratio:
            self.built.rate.lowBound = self.lowest_rate_rps
        for searched in self._searched:
            self._without(searched)
        for name in sorted(self._known):
            self._learn(name)
        if math.isfinite(self._known_score):
            self.only_better_than(self._known_score)

    def bound(self, *, time_limit_s: float) -> Bound | None:
        """Solve what is known so far; None when time ran out before there was a bound.

        Without pools no other plan is better than the one known, or time ran out before one was seen.
        """
        if self._ratio:
            return self._best_ratio(time_limit_s=time_limit_s)
        solved = solve(self.built.program, time_limit_s=time_limit_s, gap=self.relative_gap)
        if not solved.has_plan:
            if solved.status is SolveStatus.INFEASIBLE:
                return Bound(self._known_score, frozenset())
            score = solved.bound if self._most_requests else -solved.bound * KILO  # all that the time was enough for
            return Bound(score, frozenset()) if math.isfinite(score) else None
        return self._bound(solved, solved.bound if self._most_requests else -solved.bound * KILO)

    def _bound(self, solved: Solved, score: float) -> Bound:
        used = {first for first, opened in self.built.open.items() if solved.values[opened.name] > USED}
        pools = frozenset(pool_id for kind in self.kinds if kind[0] in used for pool_id in kind)
        lines = frozenset(o for o, taken in self.built.taken.items() if solved.values[taken.name] > USED)
        return Bound(score, pools, lines)

    def _best_ratio(self, *, time_limit_s: float) -> Bound | None:
        """Dinkelbach: raise the price of money until the best of R - price x cost is nothing.

        A bound b of that best says R / cost <= price + b / cost of every plan, and none costs less than the cheapest.
        """
        import pulp

        built, deadline = self.built, time.perf_counter() + time_limit_s
        price, found = max(self._known_score, 0.0), None
        close = CLOSE_TO_NOTHING * self.relative_gap * self.rate_rps
        for _ in range(DINKELBACH_STEPS):
            spent = [(variable, -price * each) for variable, each in built.spent]
            built.program.setObjective(pulp.LpAffineExpression([(built.rate, 1.0), *spent]))
            left_s = deadline - time.perf_counter()
            solved = solve(built.program, time_limit_s=left_s, gap=0.0, absolute_gap=close)
            if solved.status is SolveStatus.INFEASIBLE:
                return Bound(self._known_score, frozenset())
            beyond = max(solved.bound, 0.0)
            if not math.isfinite(beyond) or (beyond > 0 and self._least_spent <= 0):
                return found
            score = price + (beyond / self._least_spent if beyond > 0 else 0.0)
            score = score if found is None else min(score, found.score)
            if not solved.has_plan:
                return Bound(score, frozenset()) if found is None else replace(found, score=score)
            found = self._bound(solved, score)
            cost = sum(solved.values[variable.name] * each for variable, each in built.spent)
            if solved.objective <= close or cost <= 0 or left_s <= 0:
                break
            price = solved.values[built.rate.name] / cost
        return found

    @property
    def _least_spent(self) -> float:
        """Thousands that the cheapest fleet of any plan costs: an instance of all roles, or one of each."""
        cheapest = dict.fromkeys(Role, math.inf)
        for pool in self.given.pools:
            cheapest[pool.role] = min(cheapest[pool.role], self.given.cost[pool.id])
        apart = cheapest[Role.PREFILL] + min(cheapest[Role.DECODE], cheapest[Role.RELAY])
        fleet = min(cheapest[Role.AGGREGATED], apart) * (1 + self.given.redundant_instances)
        credit = sum(kind.count * kind.credit_per_chip for kind in self.given.owned)
        return max(fleet - credit, 0.0) / KILO

    def only_better_than(self, score: float) -> None:
        """Ask for plans better than one known alone: where there are none, that is proven sooner."""
        import pulp

        program, row = self.built.program, "better_than_known"
        program.constraints.pop(row, None)
        better = score + SLIGHTLY * abs(score)
        if self._ratio:
            spent = [(variable, -better * each) for variable, each in self.built.spent]
            program += pulp.LpAffineExpression([(self.built.rate, 1.0), *spent]) >= 0, row
        elif self._most_requests:
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

        others = [self.built.open[kind[0]] for kind in self.kinds if not searched.issuperset(kind)]
        self.built.program += pulp.LpAffineExpression([(opened, 1.0) for opened in others]) >= 1

    def tighten(self, bound: Bound) -> bool:
        """Learn what the ways can do at best, then what a solution's pools and lines lose; False when all was known."""
        if self._learning is None:
            self.given = _at_best(self.given, self.learning, self.rate_rps)
            self._write()
            return True
        learnt = False
        for name in sorted((bound.pools & self.built.open.keys()) | bound.lines):
            if name not in self._known:
                self._known.add(name)
                learnt |= self._learn(name)
        return learnt

    def divide(self, bound: Bound) -> bool:
        """Tell the shapes of a solution's kinds apart; False when they are single shapes."""
        kinds = divided(self.kinds, bound.pools)
        if len(kinds) == len(self.kinds):
            return False
        before = {pool_id for kind in self.kinds if kind[0] in self._known for pool_id in kind}
        self._known |= {kind[0] for kind in kinds if before.issuperset(kind)}
        self.kinds = kinds
        self._write()
        return True

    def _learn(self, name: str) -> bool:
        if name in self.built.open:
            return self._waits(next(kind for kind in self.kinds if kind[0] == name))
        return self._thin(name) if name in self.built.taken else False

    def _waits(self, kind: Kind) -> bool:
        """A pool either keeps enough idle instances, or what it serves is late that often."""
        given = self.built.given
        if given.most[kind[0]] > MOST_INSTANCES:
            return False  # a row with such numbers is more than the solver takes; the bound holds without it
        counts = counts_up_to(given.most[kind[0]])
        learnt = False
        for promise in given.promises:
            found = [self.learning.waits(pool_id, promise, counts=counts, ceiling=given.ceiling) for pool_id in kind]
            loads = np.max([own.loads for own in found], axis=0)
            late = [own.late[at] for at in range(len(counts)) for own in found if _all_late(found, at)]
            binding = [by_way for by_way in late if by_way is not None]
            if binding:
                ways = set.intersection(*(set(by_way) for by_way in binding))
                least = {way: np.min([by_way[way] for by_way in binding], axis=0) for way in ways}
                self._either(kind[0], promise.name, np.array(counts, dtype=float), loads, least)
                learnt = True
        return learnt

    def _either(self, pool_id: str, promise: str, counts: Array, loads: Array, late: Mapping[Way, Array]) -> None:
        """Load below a line over the counts, or so many late. The line lies above what waits allow at every count."""
        import pulp

        built = self.built
        slope, start = line_above(counts, loads, ceiling=built.given.ceiling)
        late_on = pulp.LpVariable(f"w_{len(built.program.constraints)}", 0, 1, cat="Integer")
        count, opened = built.count[pool_id], built.open[pool_id]
        most = built.given.ceiling * float(counts[-1]) + abs(start)
        rows = [*built.load[pool_id], (opened, -start), (count, -slope), (late_on, -most)]
        built.program += pulp.LpAffineExpression(rows) <= 0
        flows = [(flow, float(late.get(way, late[ANY_WAY])[k])) for flow, way, k in self._ways_through(pool_id)]
        by_class = np.max(list(late.values()), axis=0)
        self._miss(promise, flows, late_on, float(self.learning.points.data.weight @ by_class))

    def _ways_through(self, pool_id: str) -> Iterator[tuple[pulp.LpVariable, Way, int]]:
        """Flows through a pool with the way that each takes, as far as the program tells ways apart, and its class."""
        built = self.built
        known: dict[str, Way] = {}
        for kind, sent in ((PathKind.P_MD, built.send), (PathKind.P_RLD_MD, built.relayed)):
            for (sender, at, _), flow in sent.items():
                if sender == pool_id:
                    known[flow.name] = (kind, *built.given.ways[pool_id][at])
        known |= {
            flow.name: (PathKind.P_RLD, None, None) for (sender, _), flow in built.odd.items() if sender == pool_id
        }
        for k in built.classes:
            for flow in built.through(pool_id, k):
                yield flow, known.get(flow.name, ANY_WAY), k

    def _thin(self, option_id: str) -> bool:
        """On a thinner tier transfers take longer even when nothing else crosses."""
        built, given = self.built, self.built.given
        option = next(o for o in given.options if o.id == option_id)
        members = {kind[0]: kind for kind in self.kinds}
        learnt = self._relayed_on(option)
        for promise in given.promises:
            flows, most = [], 0.0
            lost_by: dict[tuple[str, str], Array | None] = {}
            for (pool_id, at, k), flow in built.send.items():
                target, line = given.ways[pool_id][at]
                if line != option.line:
                    continue
                if (pool_id, target) not in lost_by:
                    lost_by[pool_id, target] = self._lost_on(members[pool_id], target, option, promise)
                lost = lost_by[pool_id, target]
                if lost is not None and lost[k] > USED:
                    flows.append((flow, float(lost[k])))
                    most = max(most, float(lost[k]))
            if flows:
                self._miss(promise.name, flows, built.taken[option_id], most)
                learnt = True
        return learnt

    def _relayed_on(self, option: LineOption) -> bool:
        """Where this option is taken relays make no more tokens than fit into a transfer when it is filled."""
        import pulp

        built, on = self.built, self.built.taken[option.id]
        shares = self.learning.eager({option.line: filled(option, self.given, self.rate_rps)})
        weight = self.learning.points.data.weight
        learnt = False
        for (line, site, _, k), (made, flows) in built.made.items():
            if line == option.line and (line, site) in shares:
                most = float(shares[line, site][1][k])
                largest = float(built.rate.upBound) * float(weight[k])
                rows = [(made, 1.0), *((flow, -most) for flow, _ in flows), (on, largest)]
                built.program += pulp.LpAffineExpression(rows) <= largest
                learnt |= most < 1
        return learnt

    def _lost_on(self, kind: Kind, target: str, option: LineOption, promise: Quantile) -> Array | None:
        found = [self.learning.thin(pool_id, target, option, promise) for pool_id in kind]
        known = [lost for lost in found if lost is not None]
        return np.min(known, axis=0) if len(known) == len(found) else None

    def _miss(self, promise: str, flows: list[tuple[pulp.LpVariable, float]], on: pulp.LpVariable, most: float) -> None:
        """Take off a promise's row what is late, where ``on`` is 1; all traffic late at ``most`` is the largest."""
        import pulp

        built = self.built
        missed = pulp.LpVariable(f"m_{len(built.program.constraints)}", 0)
        largest = most * float(built.rate.upBound)
        built.program += pulp.LpAffineExpression([*flows, (missed, -1.0), (on, largest)]) <= largest
        take_off(built, promise, missed)


def _all_late(found: Sequence[Waits], at: int) -> bool:
    """At a number of instances waits may cost too much with each of these shapes."""
    return all(own.late[at] is not None for own in found)


def every_shape(
    problem: Problem,
    topology: Topology,
    pools: Sequence[Pool],
    *,
    objective: Objective,
    limits: Limits,
    score: float | None,
    time_limit_s: float,
    apart: bool = False,
) -> EveryShape | None:
    """The program over all these pools; None where it is too large to ask. ``score`` is that of a plan known.

    Shapes of one size are one kind at first; ``apart`` tells them apart from the start.
    """
    ways = ways_of(problem.sites, topology, pools)
    alike = kinds_of(pools, {pool.id: instance_cost(problem, pool) for pool in pools})
    kinds = tuple((pool.id,) for pool in pools) if apart else alike
    first = {kind[0] for kind in kinds}
    few = [pool for pool in pools if pool.id in first]
    own_ways = {pool_id: targets for pool_id, targets in ways.items() if pool_id in first}
    if too_large(problem, few, own_ways, time_limit_s=min(time_limit_s, MOST_FLOWS / FLOWS_PER_SECOND)):
        return None
    lowest, highest = rate_range(problem, pools, objective=objective, limits=limits)
    spend = objective.budget_per_month
    if is_ratio(objective):
        if score is None or not 0 < score < math.inf:
            return None  # the price of money starts at the ratio of a plan
        spend = min(highest / score * KILO, math.inf if spend is None else spend)
    elif objective.kind != "rps":
        spend = -score if score is not None else None
    given = candidates_at(problem, pools, ways, topology=topology, limits=limits)
    weight = problem.workload.classes.weight
    full = {pool.id: highest * float(weight @ given.work[pool.id]) for pool in pools}

    def look() -> Points:
        points = _beside_the_quickest(problem, topology, pools, objective=objective, limits=limits)
        points.full_load = {
            pool.id: max(full[pool.id], USED) for pool in pools if pool.role in (Role.PREFILL, Role.AGGREGATED)
        }
        return points

    given = replace(given, most=_most(given, full, spend=spend))
    return EveryShape(given, look, objective, highest, 0.1 * limits.gap, kinds, lowest)


def is_ratio(objective: Objective) -> bool:
    """The best ratio is asked for at any rate; at a given one it is the least cost."""
    return objective.kind == "bcr" and objective.rate_rps is None


def _most(given: Candidates, full: Mapping[str, float], *, spend: float | None) -> dict[str, int]:
    """Instances of each pool that no plan worth its money exceeds."""
    most = {pool_id: most_instances(load) for pool_id, load in full.items()}
    credit = sum(kind.count * kind.credit_per_chip for kind in given.owned)
    for pool_id, price in given.cost.items():
        if spend is not None and price > 0:
            most[pool_id] = max(min(most[pool_id], math.ceil((spend + credit) / price)), 1)
    return most


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


def _at_best(given: Candidates, learning: Learning, rate_rps: float) -> Candidates:
    """The candidates with the coverage that idle pools and idle thick lines give, and what relays can make at most."""
    points, best = learning.points, learning.best
    direct, relayed, here = dict(given.direct), dict(given.relayed), dict(given.here)
    for pool_id, targets in given.ways.items():
        for at, (target, line) in enumerate(targets):
            for kind, covered in ((PathKind.P_MD, direct), (PathKind.P_RLD_MD, relayed)):
                row = row_of(points, kind, pool_id, target, line)
                if row is not None:
                    covered[pool_id, at] = best[row].coverage
    for row, path in enumerate(points.paths):
        if path.kind in (PathKind.AGGREGATED, PathKind.P_RLD):
            here[path.prefill] = best[row].coverage
    return replace(given, direct=direct, relayed=relayed, here=here, eager=_eager(given, learning, rate_rps))


def _eager(given: Candidates, learning: Learning, rate_rps: float) -> dict[tuple[str, str], tuple[Array, Array]]:
    """Least and most of a request's tokens that its relay makes: on the best line, and on the thinnest one filled."""
    lines = {option.line for option in given.options}
    thinnest = {
        line: filled(
            min((o for o in given.options if o.line == line), key=lambda o: o.capacity_bytes_per_s), given, rate_rps
        )
        for line in lines
    }
    return learning.eager(thinnest)


def filled(option: LineOption, given: Candidates, rate_rps: float) -> LineLevel:
    """A line of one option that carries as much as it may, or all there is to carry."""
    weight = given.problem.workload.classes.weight
    by_id = {pool.id: pool for pool in given.pools}
    senders = [p for p, targets in given.ways.items() if p in by_id and any(line == option.line for _, line in targets)]
    payload = [given.problem.payload_bytes(by_id[p], decode_cache=given.decode_cache) for p in senders]
    most = rate_rps * float(weight @ np.max(payload, axis=0)) if payload else math.inf
    return LineLevel(option, min(option.capacity_bytes_per_s, most))
