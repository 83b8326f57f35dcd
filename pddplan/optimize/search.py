"""Branch and bound over operating points: integer programs inside, boxes of waits outside.

At fixed operating points coverage and work are constants and the program is linear; but the points depend on
the plan. So the search divides the space of operating points into cells. In each cell the program is solved
with the coverage of the cell's best corner: no plan inside the cell can be better (a bound). The solution is
then judged at the operating points it really has: if it keeps every promise, the cell is settled; if not, it
is repaired into a feasible plan and the cell is divided where most coverage was missed.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from pddplan.domain.workload import Array
from pddplan.optimize.data import ProgramData, Route
from pddplan.optimize.formulation import formulate
from pddplan.optimize.levels import Cell, Levels, LineCell, LineLevel, PoolCell, PoolLevel
from pddplan.optimize.solver import Solved, SolveStatus, solve

COVERAGE_MARGIN = 1e-6
"""Coverage asked beyond each promise, so that rounding in the evaluator never turns a kept promise into a broken one."""
LOAD_TOLERANCE = 1e-7
_STEPS_OF_REPAIR = 40
_NODES_PER_REPAIR = 5
"""Once a plan is known, repairing costs more than it gives: only every so many nodes."""


class OperatingModel(Protocol):
    """Gives the numbers of the program at any operating point."""

    data: ProgramData
    """Everything but routes."""

    def routes(self, levels: Levels) -> tuple[Route, ...]:
        """Work, payload and coverage of every path at these levels."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A plan in numbers: instances per pool, options per line, requests per second per route and class."""

    instances: Mapping[str, int]
    taken: tuple[str, ...]
    flow: Array
    """shape (routes, classes) [req/s]"""
    rate_rps: float
    monthly_cost: float
    levels: Levels | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """Best plan found, and how much better any plan could still be."""

    best: Candidate | None
    status: str
    gap: float
    nodes: int
    seconds: float
    solver: str
    value: float = math.nan


@dataclass(slots=True)
class Search:
    """One branch and bound run. ``objective`` is ``cost``, ``rps`` or ``bcr``."""

    model: OperatingModel
    objective: str
    time_limit_s: float
    gap: float
    max_nodes: int = 400
    start: Sequence[Candidate] = ()
    """Plans known beforehand (of another round, or the user's own): judged first."""
    best: Candidate | None = None
    best_score: float = -math.inf
    solver: str = "HiGHS"
    _nodes: int = 0
    _deadline: float = 0.0
    _open: list[tuple[float, int, Cell]] = field(default_factory=list)
    _ticket: itertools.count[int] = field(default_factory=itertools.count)
    _hit_limit: bool = False
    _lost_bound: float = -math.inf

    def run(self) -> SearchResult:
        """Search until the best plan is proven within the gap, or time is up; Ctrl-C keeps what was found."""
        started = time.perf_counter()
        self._deadline = started + self.time_limit_s
        status = "optimal"
        try:
            for candidate in self.start:
                self._accept_if_feasible(candidate)
            self._push(math.inf, self._root())
            while self._open:
                key, _, cell = heapq.heappop(self._open)
                if self._settled(-key):
                    continue
                if time.perf_counter() >= self._deadline or self._nodes >= self.max_nodes:
                    self._push(-key, cell)
                    status = "time limit" if self._nodes < self.max_nodes else "node limit"
                    break
                self._visit(cell, bound=-key)
        except KeyboardInterrupt:
            if self.best is None:
                raise
            status = "interrupted"
        if self._hit_limit and status == "optimal":
            status = "time limit"
        gap = self._proven_gap(status)
        if self.best is None:
            status = "infeasible" if status == "optimal" else status
        elif status == "node limit" and gap <= self.gap:
            status = "optimal"
        return SearchResult(
            self.best, status, gap, self._nodes, time.perf_counter() - started, self.solver, self.best_score
        )

    # ---- scores: larger is better, whatever the objective

    def score(self, candidate: Candidate) -> float:
        """Value of a candidate in the direction of the objective."""
        if self.objective == "cost":
            return -candidate.monthly_cost
        if self.objective == "rps":
            return candidate.rate_rps
        return math.inf if candidate.monthly_cost <= 0 else candidate.rate_rps / candidate.monthly_cost

    def _target(self) -> float:
        """Score that a cell must beat to be worth a look."""
        slack = self.gap * abs(self.best_score) if math.isfinite(self.best_score) else 0.0
        return self.best_score + slack

    def _settled(self, bound: float) -> bool:
        """True when nothing in a cell of this bound is worth a look; what is given up counts in the gap."""
        if self.best is None or bound > self._target() + 1e-12 * abs(self._target()):
            return False
        self._lost_bound = max(self._lost_bound, bound)
        return True

    def _proven_gap(self, status: str) -> float:
        if self.best is None or not math.isfinite(self.best_score):
            return math.inf if self.best is None else 0.0
        bound = max([self.best_score, self._lost_bound, *(-key for key, _, _ in self._open)])
        if not math.isfinite(bound):
            return math.inf
        if self.best_score == 0:
            return 0.0 if bound <= 0 else math.inf
        return max((bound - self.best_score) / abs(self.best_score), 0.0)

    # ---- cells

    def _root(self) -> Cell:
        data = self.model.data
        pools = {p.id: PoolCell(0, p.max_instances) for p in data.pools}
        lines: dict[str, LineCell] = {}
        for line in dict.fromkeys(o.line for o in data.lines):
            options = sorted((o for o in data.lines if o.line == line), key=lambda o: (o.capacity_bytes_per_s, o.id))
            lines[line] = LineCell(tuple(options))
        return Cell(pools, lines)

    def _push(self, bound: float, cell: Cell) -> None:
        heapq.heappush(self._open, (-bound, next(self._ticket), cell))

    def _tightened(self, cell: Cell, routes: Sequence[Route]) -> Cell | None:
        """Use the least load every plan must put on a pool or line; None when nothing is left of the cell."""
        data = self.model.data
        least_rate, most_rate = data.min_rate_rps, data.max_rate_rps
        pools = dict(cell.pools)
        for pool in data.pools:
            box = pools[pool.id]
            low = least_rate * _least(data, [r.work.get(pool.id) for r in routes], routes)
            high = most_rate * _most(data, [r.work.get(pool.id) for r in routes], routes)
            count_low, count_high = box.low, min(box.high, pool.max_instances)
            if low > 0:
                count_low = max(count_low, math.ceil(low / pool.max_utilization - 1e-9), 1)
                count_low = max(count_low, math.ceil(low + box.spare_low - 1e-9))
                spare_high = min(box.spare_high, count_high - low)
            else:
                spare_high = box.spare_high
            if math.isfinite(box.spare_high):
                count_high = min(count_high, math.floor(high + box.spare_high + 1e-9))
            if count_low > count_high or spare_high < box.spare_low - 1e-9:
                return None
            pools[pool.id] = PoolCell(count_low, count_high, box.spare_low, spare_high)
        lines = dict(cell.lines)
        for line, box_l in lines.items():
            low = least_rate * _least(data, [r.payload_bytes if r.line == line else None for r in routes], routes)
            options = tuple(o for o in box_l.options if o.capacity_bytes_per_s >= low * (1 - 1e-9))
            if (box_l.options and not options and low > 0) or low > box_l.load_high * (1 + 1e-9):
                return None
            lines[line] = LineCell(options, max(box_l.load_low, low), box_l.load_high)
        return Cell(pools, lines)

    def _program(self, cell: Cell, routes: Sequence[Route]) -> ProgramData:
        data = self.model.data
        pools = tuple(
            replace(
                p,
                min_instances=cell.pools[p.id].low,
                max_instances=cell.pools[p.id].high,
                spare_instances=cell.pools[p.id].spare_low,
            )
            for p in data.pools
            if cell.pools[p.id].high > 0
        )
        kept = {p.id for p in pools}
        lines = tuple(
            replace(o, capacity_bytes_per_s=min(o.capacity_bytes_per_s, cell.lines[o.line].load_high))
            for o in data.lines
            if o in cell.lines[o.line].options
        )
        open_lines = {o.line for o in lines}
        routes = [
            r if r.work.keys() <= kept and (r.line is None or r.line in open_lines) else replace(r, allowed=0 * r.allowed)
            for r in routes
        ]
        return replace(data, pools=pools, lines=lines, routes=tuple(routes))

    def _visit(self, cell: Cell, *, bound: float) -> None:
        self._nodes += 1
        routes = self.model.routes(cell.best())
        tight = self._tightened(cell, routes)
        if tight is None:
            return
        if tight != cell:
            cell = tight
            routes = self.model.routes(cell.best())
        solved, bound = self._solve(self._program(cell, routes), bound=bound)
        if solved is None:
            return
        candidate = self._candidate(solved, routes)
        if self._settled(bound):
            return
        true_levels = self.levels_of(candidate, routes)
        true_routes = self.model.routes(true_levels)
        if self._shortfall(candidate, true_routes) <= 0 and self._fits(candidate, true_routes):
            self._accept(candidate, true_levels)
            if solved.status is not SolveStatus.OPTIMAL:
                self._lost_bound = max(self._lost_bound, bound)
            return
        if self.best is None or self._nodes % _NODES_PER_REPAIR == 1:
            self._repair(candidate, true_levels)
            if self._settled(bound):
                return
        children = self._divide(cell, candidate, true_levels)
        if not children:
            self._lost_bound = max(self._lost_bound, bound)  # numerically nothing left to divide
        for child in children:
            self._push(bound, child)

    def _solve(self, data: ProgramData, *, bound: float) -> tuple[Solved | None, float]:
        """Solve a cell's program; gives the solution and the best score any plan of the cell can have."""
        remaining = self._deadline - time.perf_counter()
        if self.objective != "bcr":
            program, _ = formulate(data, objective=self.objective)
            solved = solve(program, time_limit_s=remaining, gap=0.1 * self.gap)
            self._note(solved)
            if not solved.has_plan:
                if solved.status is SolveStatus.TIME_LIMIT:
                    self._lost_bound = max(self._lost_bound, bound)
                return None, bound
            reached = -solved.bound * 1e3 if self.objective == "cost" else solved.bound
            return solved, min(bound, reached)
        return self._solve_ratio(data, bound=bound)

    def _solve_ratio(self, data: ProgramData, *, bound: float) -> tuple[Solved | None, float]:
        """Dinkelbach: raise the weight of money until the best of R - weight * cost is zero."""
        weight = max(self._target(), 0.0) * 1e3 if self.best is not None else 0.0
        solved: Solved | None = None
        for _ in range(12):
            program, _ = formulate(data, objective="ratio", money_weight=weight)
            latest = solve(program, time_limit_s=self._deadline - time.perf_counter(), gap=0.1 * self.gap)
            self._note(latest)
            if not latest.has_plan:
                if latest.status is SolveStatus.TIME_LIMIT:
                    self._lost_bound = max(self._lost_bound, bound)
                return solved, bound
            cost_k = _cost_of(latest, data)
            if latest.objective <= 1e-9 * max(1.0, latest.values["R"]):
                # nothing in the cell beats the weight asked for
                proven = weight / 1e3 if latest.bound <= 1e-7 * max(1.0, latest.values["R"]) else bound
                return (solved or latest), min(bound, max(proven, -math.inf))
            solved = latest
            if cost_k <= 0:
                return solved, bound
            weight = latest.values["R"] / cost_k
        return solved, bound

    def _note(self, solved: Solved) -> None:
        self.solver = solved.solver
        if solved.status is SolveStatus.TIME_LIMIT:
            self._hit_limit = True

    # ---- candidates

    def _candidate(self, solved: Solved, routes: Sequence[Route]) -> Candidate:
        data, values = self.model.data, solved.values
        from pddplan.optimize.formulation import name

        flow = np.zeros((len(routes), data.weight.size))
        for r, route in enumerate(routes):
            stem = f"y_{name(route.id)}_"
            for k in range(data.weight.size):
                flow[r, k] = values.get(f"{stem}{k}", 0.0)
        flow[flow < 1e-9 * max(values["R"], 1e-9)] = 0.0
        instances = {p.id: int(values.get(f"n_{name(p.id)}", 0)) for p in data.pools}
        taken = tuple(o.id for o in data.lines if values.get(f"t_{name(o.id)}", 0) > 0.5)
        return self._priced(instances, taken, flow)

    def _priced(self, instances: Mapping[str, int], taken: tuple[str, ...], flow: Array) -> Candidate:
        return Candidate(instances, taken, flow, float(flow.sum()), self.monthly_cost(instances, taken))

    def monthly_cost(self, instances: Mapping[str, int], taken: Sequence[str]) -> float:
        """Cost of counts and options by the program's own rows."""
        data = self.model.data
        chips: dict[tuple[str, str], int] = {}
        total = 0.0
        for pool in data.pools:
            count = instances.get(pool.id, 0)
            if count:
                count += pool.redundant_instances
                total += count * pool.monthly_cost_per_instance
                key = (pool.site, pool.chip)
                chips[key] = chips.get(key, 0) + count * pool.chips_per_instance
        total += sum(o.monthly_cost for o in data.lines if o.id in taken)
        for kind in data.owned:
            held = chips.get((kind.site, kind.chip), 0) * kind.chips_held_per_chip
            total -= kind.credit_per_chip * min(kind.count, held)
        return total

    def levels_of(self, candidate: Candidate, routes: Sequence[Route]) -> Levels:
        """Operating points a candidate really has. Line loads first: the relay's work depends on them."""
        data = self.model.data
        lines: dict[str, LineLevel] = {}
        for option in data.lines:
            if option.id in candidate.taken:
                load = sum(
                    float(candidate.flow[r] @ route.payload_bytes)
                    for r, route in enumerate(routes)
                    if route.line == option.line and route.payload_bytes is not None
                )
                lines[option.line] = LineLevel(option, load)
        levels = Levels(self._pool_levels(candidate, routes), lines)
        return Levels(self._pool_levels(candidate, self.model.routes(levels)), lines)

    def _pool_levels(self, candidate: Candidate, routes: Sequence[Route]) -> dict[str, PoolLevel]:
        load: dict[str, float] = {}
        for r, route in enumerate(routes):
            if candidate.flow[r].any():
                for pool, work in route.work.items():
                    load[pool] = load.get(pool, 0.0) + float(candidate.flow[r] @ work)
        return {
            pool: PoolLevel(count, load.get(pool, 0.0)) for pool, count in candidate.instances.items() if count > 0
        }

    def _shortfall(self, candidate: Candidate, routes: Sequence[Route]) -> float:
        """Coverage missing over all promises, in requests per second beyond the tolerance; 0 when all hold."""
        missing = 0.0
        for promise in self.model.data.promises:
            covered = sum(
                float(candidate.flow[r] @ np.nan_to_num(route.coverage[promise.name]))
                for r, route in enumerate(routes)
                if candidate.flow[r].any()
            )
            asked = (promise.quantile - 0.5 * COVERAGE_MARGIN) * candidate.rate_rps
            missing += max(asked - covered, 0.0)
        return missing

    def _fits(self, candidate: Candidate, routes: Sequence[Route]) -> bool:
        data = self.model.data
        levels = self._pool_levels(candidate, routes)
        for pool in data.pools:
            level = levels.get(pool.id)
            if level is not None and level.load > pool.max_utilization * level.instances + LOAD_TOLERANCE * (1 + level.load):
                return False
        return True

    def _within_limits(self, candidate: Candidate) -> bool:
        """Counts respect inventory, power and budget (checked for repaired candidates only)."""
        data = self.model.data
        chips: dict[tuple[str, str], int] = {}
        power: dict[str, float] = {}
        for pool in data.pools:
            count = candidate.instances.get(pool.id, 0)
            if count > pool.max_instances:
                return False
            if count:
                count += pool.redundant_instances
                key = (pool.site, pool.chip)
                chips[key] = chips.get(key, 0) + count * pool.chips_per_instance
                power[pool.site] = power.get(pool.site, 0.0) + count * pool.power_kw_per_instance
        return (
            all(chips.get(key, 0) <= limit for key, limit in data.chip_limits.items())
            and all(power.get(site, 0.0) <= limit + 1e-9 for site, limit in data.power_limits_kw.items())
            and (data.budget is None or candidate.monthly_cost <= data.budget * (1 + 1e-9))
            and (data.max_chips is None or sum(chips.values()) <= data.max_chips)
        )

    def _accept(self, candidate: Candidate, levels: Levels) -> None:
        score = self.score(candidate)
        if score > self.best_score:
            self.best, self.best_score = replace(candidate, levels=levels), score

    def _accept_if_feasible(self, candidate: Candidate) -> bool:
        if not self._within_limits(candidate):
            return False
        base = self.model.routes(self._root().best())
        if candidate.flow.shape[0] != len(base):
            return False
        levels = self.levels_of(candidate, base)
        routes = self.model.routes(levels)
        if self._shortfall(candidate, routes) > 0 or not self._fits(candidate, routes):
            return False
        self._accept(candidate, levels)
        return True

    # ---- repair: from a plan that breaks a promise to one that keeps it

    def _repair(self, candidate: Candidate, levels: Levels) -> None:
        if self._more_instances(candidate, levels):
            return
        if self.model.data.min_rate_rps < self.model.data.max_rate_rps:
            self._fewer_requests(candidate)

    def _more_instances(self, candidate: Candidate, levels: Levels) -> bool:
        """Open one more instance where it helps most, until all promises hold."""
        current = candidate
        for _ in range(_STEPS_OF_REPAIR):
            routes = self.model.routes(levels)
            if self._shortfall(current, routes) <= 0 and self._fits(current, routes):
                return self._accept_if_feasible(current)
            pool = self._guilty_pool(current, levels, routes)
            if pool is None:
                return False
            counts = {**current.instances, pool: current.instances[pool] + 1}
            current = self._priced(counts, current.taken, current.flow)
            if not self._within_limits(current):
                return False
            level = levels.pools[pool]
            levels = levels.with_pool(pool, PoolLevel(level.instances + 1, level.load))
        return False

    def _guilty_pool(self, candidate: Candidate, levels: Levels, routes: Sequence[Route]) -> str | None:
        for pool in self.model.data.pools:
            level = levels.pools.get(pool.id)
            if level is not None and level.load > pool.max_utilization * level.instances * (1 + 1e-9):
                return pool.id
        worst, guilty = self._shortfall(candidate, routes) * (1 - 1e-6), None
        for pool_id, level in levels.pools.items():
            eased = levels.with_pool(pool_id, PoolLevel(level.instances + 1, level.load))
            missing = self._shortfall(candidate, self.model.routes(eased))
            if missing < worst:
                worst, guilty = missing, pool_id
        return guilty

    def _fewer_requests(self, candidate: Candidate) -> None:
        """Serve fewer requests with the same fleet: the largest share of the flow that keeps the promises."""
        low, high = 0.0, 1.0
        floor = self.model.data.min_rate_rps / max(candidate.rate_rps, 1e-12)
        found: Candidate | None = None
        for _ in range(14):
            share = 0.5 * (low + high)
            if share < floor:
                return
            scaled = self._priced(candidate.instances, candidate.taken, candidate.flow * share)
            routes = self.model.routes(self.levels_of(scaled, self.model.routes(self._root().best())))
            if self._shortfall(scaled, routes) <= 0 and self._fits(scaled, routes):
                found, low = scaled, share
                if self.score(scaled) * (high / share) < self.best_score and self.objective != "cost":
                    return
            else:
                high = share
        if found is not None:
            self._accept_if_feasible(found)

    # ---- division

    def _divide(self, cell: Cell, candidate: Candidate, true: Levels) -> list[Cell]:
        """Split the cell at the pool or line whose true point costs most coverage or capacity."""
        best = cell.best()
        routes = self.model.routes(true)
        missing = self._missed(candidate, routes)
        gains: list[tuple[float, str, str]] = []
        for pool, level in true.pools.items():
            if level != best.pools.get(pool):
                eased = self.model.routes(true.with_pool(pool, best.pools[pool]))
                gains.append((missing - self._missed(candidate, eased), "pool", pool))
        for line, line_level in true.lines.items():
            if line_level != best.lines.get(line):
                eased = self.model.routes(true.with_line(line, best.lines[line]))
                gains.append((missing - self._missed(candidate, eased), "line", line))
        for _, kind, name in sorted(gains, key=lambda g: (-g[0], g[1], g[2])):
            children = (
                self._split_pool(cell, name, true.pools[name], candidate, true)
                if kind == "pool"
                else self._split_line(cell, name, true.lines[name])
            )
            if children:
                return children
        return []

    def _missed(self, candidate: Candidate, routes: Sequence[Route]) -> float:
        """Shortfall of coverage plus overload, as one number to compare causes with."""
        overload = 0.0
        levels = self._pool_levels(candidate, routes)
        for pool in self.model.data.pools:
            level = levels.get(pool.id)
            if level is not None:
                over = level.load - pool.max_utilization * level.instances
                overload += max(over, 0.0) / max(level.instances, 1) * candidate.rate_rps
        return self._shortfall(candidate, routes) + overload

    def _split_pool(self, cell: Cell, pool: str, level: PoolLevel, candidate: Candidate, true: Levels) -> list[Cell]:
        box = cell.pools[pool]
        spare = max(level.instances - level.load, 0.0)
        top = min(box.spare_high, float(box.high))
        if level.instances > max(box.low, 1):
            # which is to blame: the spare capacity the cell allows, or its fewer instances?
            counted = true.with_pool(pool, PoolLevel(level.instances, max(level.instances - top, 0.0)))
            eased_by_spare = self._shortfall(candidate, self.model.routes(counted))
            eased_by_count = self._shortfall(
                candidate,
                self.model.routes(true.with_pool(pool, PoolLevel(max(box.low, 1), max(max(box.low, 1) - spare, 0.0)))),
            )
            if eased_by_count < eased_by_spare or top - spare <= 1e-6 * max(top, 1.0):
                cut = level.instances - 1
                return [
                    cell.with_pool(pool, replace(box, high=cut)),
                    cell.with_pool(pool, replace(box, low=cut + 1)),
                ]
        if top - spare <= 1e-6 * max(top, 1.0):
            return []
        cut_at = 0.5 * (spare + self._spare_needed(pool, level, candidate, true, top=top))
        return [
            cell.with_pool(pool, replace(box, spare_low=max(box.spare_low, cut_at))),
            cell.with_pool(pool, replace(box, spare_high=cut_at)),
        ]

    def _spare_needed(self, pool: str, level: PoolLevel, candidate: Candidate, true: Levels, *, top: float) -> float:
        """Least spare capacity of the pool with which the candidate would keep its promises, others unchanged."""
        low, high = max(level.instances - level.load, 0.0), top

        def short(spare: float) -> bool:
            count = max(level.instances, math.ceil(spare))
            eased = true.with_pool(pool, PoolLevel(count, max(count - spare, 0.0)))
            return self._shortfall(candidate, self.model.routes(eased)) > 0

        if short(high):
            return min(high, 2.0 * low + 0.5)
        for _ in range(6):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if short(middle) else (low, middle)
        return high

    def _split_line(self, cell: Cell, line: str, level: LineLevel) -> list[Cell]:
        box = cell.lines[line]
        at = next(i for i, option in enumerate(box.options) if option.id == level.option.id)
        if len(box.options) > 1:
            cut = at if at < len(box.options) - 1 else at - 1
            return [
                cell.with_line(line, replace(box, options=box.options[: cut + 1])),
                cell.with_line(line, replace(box, options=box.options[cut + 1 :])),
            ]
        load = level.load_bytes_per_s
        cut_at = 0.5 * (box.load_low + load)
        if load - box.load_low <= 1e-4 * max(level.option.capacity_bytes_per_s, 1.0):
            return []
        return [
            cell.with_line(line, replace(box, load_high=cut_at)),
            cell.with_line(line, replace(box, load_low=cut_at)),
        ]


def _allowed(data: ProgramData, routes: Sequence[Route]) -> Array:
    return np.stack([route.allowed > 0 for route in routes])


def _least(data: ProgramData, per_route: Sequence[Array | None], routes: Sequence[Route]) -> float:
    """Mean over requests of the least that any allowed path asks."""
    rows = np.stack([np.zeros(data.weight.size) if row is None else row for row in per_route])
    least = np.where(_allowed(data, routes), rows, np.inf).min(axis=0)
    return float(data.weight @ np.where(np.isfinite(least), least, 0.0))


def _most(data: ProgramData, per_route: Sequence[Array | None], routes: Sequence[Route]) -> float:
    """Mean over requests of the most that any allowed path asks."""
    rows = np.stack([np.zeros(data.weight.size) if row is None else row for row in per_route])
    return float(data.weight @ np.where(_allowed(data, routes), rows, 0.0).max(axis=0))


def _cost_of(solved: Solved, data: ProgramData) -> float:
    """Cost in thousands of a solution, from its own variables."""
    from pddplan.optimize.formulation import MONEY, name

    total = 0.0
    for pool in data.pools:
        count = solved.values.get(f"n_{name(pool.id)}", 0.0)
        if count:
            total += (count + pool.redundant_instances) * pool.monthly_cost_per_instance
    total += sum(o.monthly_cost * solved.values.get(f"t_{name(o.id)}", 0.0) for o in data.lines)
    total -= sum(
        kind.credit_per_chip * solved.values.get(f"f_{name(kind.site)}_{name(kind.chip)}", 0.0) for kind in data.owned
    )
    return total / MONEY
