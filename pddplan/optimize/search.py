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
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pddplan.domain.workload import Array
from pddplan.optimize.cells import program_of, root_cell, tightened
from pddplan.optimize.data import ProgramData, Route
from pddplan.optimize.division import divide
from pddplan.optimize.formulation import MONEY, formulate, name
from pddplan.optimize.judge import Candidate, Judge, OperatingModel, score_of
from pddplan.optimize.levels import Cell, Levels
from pddplan.optimize.repair import bigger_fleet, fewer_requests, more_requests, smaller_fleet
from pddplan.optimize.solver import Solved, SolveStatus, solve
from pddplan.optimize.starts import MOST_STARTS, SHARES_FOR_RATIO, filled_plan, single_path_plans, spread_plan

INTERRUPTED = "interrupted"
"""Status of a search that Ctrl-C ended."""
BEST_FOUND = "best found"
"""Status of a plan that is not proven as close as was asked, although the search came to its end."""
MOST_RUNNERS_UP = 8
"""Candidates that a search keeps beside its best one."""
_DINKELBACH_STEPS = 12
_NODES_PER_REPAIR = 5
"""Repairing costs more than a node: after the first nodes only every so many."""


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
    acceptable_gap: float = 0.0
    """Once ``patience`` nodes brought no better plan, a proof this close is enough."""
    patience: int = 30
    most_starts: int = MOST_STARTS
    """Paths tried alone before the search."""
    max_nodes: int = 20_000
    known_bound: float = math.inf
    """Score that no plan exceeds, known beforehand."""
    start: Sequence[Candidate] = ()
    """Plans known beforehand (of another round, or the user's own): judged first."""
    best: Candidate | None = None
    best_score: float = -math.inf
    runners_up: list[Candidate] = field(default_factory=list)
    """The best of the other candidates that keep every promise under this mix: its own mix may suit one better."""
    solver: str = "HiGHS"
    judge: Judge = field(init=False)
    _nodes: int = 0
    _improved_at: int = 0
    _deadline: float = 0.0
    _open: list[tuple[float, int, Cell]] = field(default_factory=list)
    _ticket: itertools.count[int] = field(default_factory=itertools.count)
    _current: tuple[float, Cell] | None = None
    _hit_limit: bool = False
    _lost_bound: float = -math.inf

    def __post_init__(self) -> None:
        self.judge = Judge(self.model)

    def run(self) -> SearchResult:
        """Search until the best plan is proven within the gap, or time is up; Ctrl-C keeps what was found."""
        started = time.perf_counter()
        self._deadline = started + self.time_limit_s
        status = "optimal"
        try:
            # first of all: what is not looked at counts in the gap, whenever the search ends
            self._push(min(self.known_bound, self._trivial_bound()), root_cell(self.model.data))
            for candidate in self.start:  # a plan of another round may need a little more under this round's mix
                if not self._accept_if_feasible(candidate):
                    routes = self.model.routes(root_cell(self.model.data).best(), used=candidate.used)
                    self._repair(candidate, self.judge.levels_of(candidate, routes), routes)
            if self.best is None and (spread := spread_plan(self.judge)) is not None:
                self._accept_if_feasible(spread)
            shares = SHARES_FOR_RATIO if self.objective == "bcr" else (1.0,)
            for candidate in single_path_plans(self.judge, self.score, most=self.most_starts, shares=shares):
                self._accept_if_feasible(candidate)
                if time.perf_counter() >= self._deadline and self.best is not None:
                    break
            filled = filled_plan(self.judge, deadline=self._deadline) if self.objective == "rps" else None
            if filled is not None:
                self._accept_if_feasible(filled)
            while self._open:
                key, _, cell = heapq.heappop(self._open)
                if self._settled(-key):
                    continue
                if time.perf_counter() >= self._deadline or self._nodes >= self.max_nodes or self._patience_over(-key):
                    self._push(-key, cell)
                    status = "time limit"
                    break
                self._current = (-key, cell)
                self._visit(cell, bound=-key)
                self._current = None
        except KeyboardInterrupt:
            if self.best is None:
                raise
            status = INTERRUPTED
            if self._current is not None:
                self._push(*self._current)
        if self._hit_limit and status == "optimal":
            status = "time limit"
        gap = self._proven_gap()
        if self.best is None:
            status = "infeasible" if status == "optimal" else status
        elif status == "time limit" and gap <= max(self.gap, self.acceptable_gap):
            status = "optimal"
        return SearchResult(
            self.best, status, gap, self._nodes, time.perf_counter() - started, self.solver, self.best_score
        )

    # ---- scores: larger is better, whatever the objective

    def score(self, candidate: Candidate) -> float:
        """Value of a candidate in the direction of the objective."""
        return score_of(candidate, self.objective)

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

    def _trivial_bound(self) -> float:
        """What no plan can exceed whatever it is: one instance of each pool of the cheapest path, all of the rate."""
        data = self.model.data
        if self.objective == "rps":
            return data.max_rate_rps
        least = cheapest_path(replace(data, routes=self.model.routes(root_cell(data).best())))
        if self.objective == "cost":
            return -least
        return data.max_rate_rps / least if least > 0 else math.inf

    def _patience_over(self, bound: float) -> bool:
        """True when the last nodes brought no better plan and the proof is close enough (best bound first)."""
        if self.best is None or self._nodes - self._improved_at < self.patience:
            return False
        bound = max(bound, self._lost_bound)
        return bound <= self.best_score + self.acceptable_gap * abs(self.best_score)

    def _proven_gap(self) -> float:
        if self.best is None or not math.isfinite(self.best_score):
            return math.inf if self.best is None else 0.0
        bound = max([self.best_score, self._lost_bound, *(-key for key, _, _ in self._open)])
        if self.best_score == 0:
            return 0.0 if bound <= 0 else math.inf
        return max((bound - self.best_score) / abs(self.best_score), 0.0)

    # ---- cells

    def _push(self, bound: float, cell: Cell) -> None:
        heapq.heappush(self._open, (-bound, next(self._ticket), cell))

    def _visit(self, cell: Cell, *, bound: float) -> None:
        node = self._node(cell)
        if node is None:
            return
        cell, routes = node
        solved, bound = self._solve(program_of(self.model.data, cell, routes), bound=bound)
        if solved is None:
            return
        candidate = self._candidate(solved, routes)
        if self._settled(bound):
            return
        true_levels = self.judge.levels_of(candidate, routes)
        true_routes = self.model.routes(true_levels, used=candidate.used)
        if self.judge.keeps_all(candidate, true_routes) and self.judge.within_limits(candidate):
            self._accept(candidate, true_levels)
            if solved.status is not SolveStatus.OPTIMAL:
                self._lost_bound = max(self._lost_bound, bound)
            return
        if self._nodes % (1 if self._nodes < _NODES_PER_REPAIR else _NODES_PER_REPAIR) == 0:
            self._repair(candidate, true_levels, routes)
            if self._settled(bound):
                return
        self._divide(cell, candidate, true_levels, bound=bound)

    def _node(self, cell: Cell) -> tuple[Cell, Sequence[Route]] | None:
        """The next node: what is left of a cell, and its routes at their best; None where no plan can lie in it."""
        self._nodes += 1
        routes = self.model.routes(cell.best())
        tight = tightened(self.model.data, cell, routes)
        if tight is None:
            return None
        return (tight, routes) if tight == cell else (tight, self.model.routes(tight.best()))

    def _divide(self, cell: Cell, candidate: Candidate, levels: Levels, *, bound: float) -> None:
        """Queue the parts of a cell, divided where a candidate's true levels lie."""
        children = divide(self.judge, cell, candidate, levels)
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
            reached = -solved.bound * MONEY if self.objective == "cost" else solved.bound
            return solved, min(bound, reached)
        return self._solve_ratio(data, bound=bound)

    def _solve_ratio(self, data: ProgramData, *, bound: float) -> tuple[Solved | None, float]:
        """Dinkelbach: raise the weight of money until the best of R - weight * cost is zero.

        A bound b of that best proves R / cost <= weight + b / cost for every plan of the cell, and no plan
        costs less than the cheapest path.
        """
        weight = max(self._target(), 0.0) * MONEY if self.best is not None else 0.0
        least_cost = cheapest_path(data) / MONEY
        scale = self.best.rate_rps if self.best is not None else data.max_rate_rps
        solved: Solved | None = None
        for _ in range(_DINKELBACH_STEPS):
            program, _ = formulate(data, objective="ratio", money_weight=weight)
            latest = solve(
                program,
                time_limit_s=self._deadline - time.perf_counter(),
                gap=0.1 * self.gap,
                absolute_gap=0.1 * self.gap * scale,
            )
            self._note(latest)
            if not latest.has_plan:
                if latest.status is SolveStatus.TIME_LIMIT:
                    self._lost_bound = max(self._lost_bound, bound)
                return solved, bound
            cost_k = _cost_of(latest, data)
            beyond = max(latest.bound, 0.0) / least_cost if least_cost > 0 else math.inf
            bound = min(bound, (weight + beyond) / MONEY)
            if latest.objective <= 0.1 * self.gap * scale:  # nothing in the cell beats this weight by more
                return solved or latest, bound
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
        flow = np.zeros((len(routes), data.weight.size))
        for r, route in enumerate(routes):
            stem = f"y_{name(route.id)}_"
            for k in range(data.weight.size):
                flow[r, k] = values.get(f"{stem}{k}", 0.0)
        flow[flow < 1e-9 * max(values["R"], 1e-9)] = 0.0
        instances = {p.id: int(values.get(f"n_{name(p.id)}", 0)) for p in data.pools}
        taken = tuple(o.id for o in data.lines if values.get(f"t_{name(o.id)}", 0) > 0.5)
        return self.judge.priced(*self._opened(instances, taken, flow), flow)

    def _opened(
        self, instances: dict[str, int], taken: tuple[str, ...], flow: Array
    ) -> tuple[dict[str, int], tuple[str, ...]]:
        """Open what carries a trickle that the solver's tolerance took for nothing."""
        lines = {o.line for o in self.model.data.lines if o.id in taken}
        for index in np.flatnonzero(flow.any(axis=1)):
            pools, line = self.model.members(int(index))
            for pool in pools:
                instances[pool] = max(instances[pool], 1)
            if line is not None and line not in lines:
                options = [o for o in self.model.data.lines if o.line == line]
                taken += (min(options, key=lambda o: (o.monthly_cost, o.id)).id,)
                lines.add(line)
        return instances, taken

    def _repair(self, candidate: Candidate, levels: Levels, routes: Sequence[Route]) -> None:
        fixed = bigger_fleet(self.judge, candidate, levels)
        if fixed is None and self.model.data.min_rate_rps < self.model.data.max_rate_rps:
            fixed = fewer_requests(self.judge, candidate, routes)
        if fixed is not None:
            self._accept_if_feasible(smaller_fleet(self.judge, fixed))

    def _accept(self, candidate: Candidate, levels: Levels) -> None:
        score, candidate = self.score(candidate), replace(candidate, levels=levels)
        if score > self.best_score and self.model.data.min_rate_rps < self.model.data.max_rate_rps:
            candidate = more_requests(self.judge, candidate, self.model.routes(levels, used=candidate.used))
            score = self.score(candidate)
        beaten = candidate if score <= self.best_score else self.best
        if score > self.best_score:
            self.best, self.best_score = candidate, score
            self._improved_at = self._nodes
        if beaten is not None:
            self.runners_up.append(beaten)
        if len(self.runners_up) > 2 * MOST_RUNNERS_UP:
            self.runners_up = sorted(self.runners_up, key=self.score, reverse=True)[:MOST_RUNNERS_UP]

    def _accept_if_feasible(self, candidate: Candidate) -> bool:
        if not self.judge.within_limits(candidate):
            return False
        base = self.model.routes(root_cell(self.model.data).best(), used=candidate.used)
        if candidate.flow.shape[0] != len(base):
            return False
        levels = self.judge.levels_of(candidate, base)
        routes = self.model.routes(levels, used=candidate.used)
        if not self.judge.keeps_all(candidate, routes):
            return False
        self._accept(candidate, levels)
        return True


def cheapest_path(data: ProgramData) -> float:
    """Least monthly cost of any plan: one instance of each pool of the cheapest path."""
    price = {pool.id: pool.monthly_cost_per_instance for pool in data.pools}
    credit = sum(kind.credit_per_chip * kind.count for kind in data.owned)
    costs = [sum(price[pool] for pool in route.work if pool in price) for route in data.routes if route.allowed.any()]
    return max(min(costs, default=0.0) - credit, 0.0)


def _cost_of(solved: Solved, data: ProgramData) -> float:
    """Cost in thousands of a solution, from its own variables."""
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
