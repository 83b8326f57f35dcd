"""Which promises and limits to relax together, and by how little: one elastic program over operating points.

Nothing is forbidden any more, but everything beyond what was asked has a price: each promise or limit that is
relaxed counts 1, plus the fraction by which it is relaxed (a P99 of 12 s instead of 10 s: 1.2; 80 chips instead of
64: 1.25; two thirds of the rate: 1.33). Fractions have no unit, so promises, chips, money and power can be weighed
against each other, and the 1 keeps the set small. Promises move along a ladder of factors, since the coverage of a
limit is a constant of the program only while the limit is; how far the plan found really goes is read from the
evaluator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pddplan.domain.workload import Array
from pddplan.optimize.cells import program_of
from pddplan.optimize.data import ProgramData, Route
from pddplan.optimize.formulation import (
    MONEY,
    Variables,
    chips_held,
    cost_expression,
    formulate,
    name,
    power_drawn,
)
from pddplan.optimize.judge import COVERAGE_MARGIN, Candidate, Judge
from pddplan.optimize.levels import Cell, Levels
from pddplan.optimize.points import Points
from pddplan.optimize.promise_rows import PromiseRow
from pddplan.optimize.search import Search
from pddplan.optimize.solver import Solved, SolveStatus, solve

if TYPE_CHECKING:
    import pulp

RELAXED = 1.0
"""What it counts that something is relaxed at all, beside the fraction by which it is."""
LADDER = (1.0, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 16.0, 32.0, 64.0)
"""Factors by which a promise may be relaxed."""
RATE = "rate"
MOST = 64.0
"""A limit may be relaxed to this multiple."""
ROOM_COUNTS = 1e-4
"""Of equal sets the one with the larger fleets: they show how far promises must be relaxed at least."""
NODES = 40
CLOSE_ENOUGH = 1e-2


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the question that may be exceeded at a price."""

    key: str
    asked: float
    scale: float
    """What counts as relaxed by 1: what was asked, or one unit where that is nothing."""
    used: Callable[[ProgramData, Variables], pulp.LpAffineExpression]
    """In the program."""
    used_by: Callable[[Judge, Candidate], float]
    """By a candidate."""
    least: bool = False
    """It bounds from below (the rate), not from above."""


def chip_limit(site: str | None, chip: str | None, asked: int, *, step: int) -> Limit:
    """Chips of a kind at a site, or of all kinds and sites together."""

    def held(judge: Judge, candidate: Candidate) -> float:
        total = 0
        for pool in judge.model.data.pools:
            count = candidate.instances.get(pool.id, 0)
            if count and (site is None or pool.site == site) and (chip is None or pool.chip == chip):
                total += (count + pool.redundant_instances) * pool.chips_per_instance
        return float(total)

    key = f"chips {site} {chip}" if site is not None else "chips"
    scale = float(max(asked, step))
    return Limit(key, asked, scale, lambda data, v: chips_held(data, v, site=site, chip=chip), held)


def power_limit(site: str, asked_kw: float) -> Limit:
    """Power of a site [kW]."""

    def drawn(judge: Judge, candidate: Candidate) -> float:
        total = 0.0
        for pool in judge.model.data.pools:
            count = candidate.instances.get(pool.id, 0)
            if count and pool.site == site:
                total += (count + pool.redundant_instances) * pool.power_kw_per_instance
        return total

    return Limit(f"power {site}", asked_kw, max(asked_kw, 1.0), lambda data, v: power_drawn(data, v, site), drawn)


def budget_limit(asked: float) -> Limit:
    """Money a month."""
    return Limit(
        "budget",
        asked / MONEY,
        asked / MONEY,
        cost_expression,
        lambda judge, candidate: candidate.monthly_cost / MONEY,
    )


def rate_limit(asked_rps: float) -> Limit:
    """Requests per second to be served."""
    return Limit(
        RATE, asked_rps, asked_rps, lambda data, v: 1.0 * v.rate, lambda _, candidate: candidate.rate_rps, least=True
    )


@dataclass(frozen=True, slots=True, eq=False)
class Soft:
    """Everything of a question that may be relaxed."""

    promises: tuple[PromiseRow, ...]
    limits: tuple[Limit, ...]
    weight: Array
    """Of the request classes."""

    def ladder(self) -> tuple[PromiseRow, ...]:
        """A row for each promise and factor, whose coverage the program needs."""
        return tuple(_rung(row, factor) for row in self.promises for factor in LADDER)

    def price(self, judge: Judge, candidate: Candidate, routes: Sequence[Route]) -> float:
        """What a candidate's relaxations count at its operating points."""
        total = sum(_price(self._factor(row, candidate, routes)) for row in self.promises)
        for limit in self.limits:
            used = limit.used_by(judge, candidate)
            over = limit.asked - used if limit.least else used - limit.asked
            if over > 1e-6 * limit.scale:
                total += _price(1.0 + over / limit.scale)
        return total

    def _factor(self, row: PromiseRow, candidate: Candidate, routes: Sequence[Route]) -> float:
        asked = (row.promise.kind.quantile + 0.5 * COVERAGE_MARGIN) * float(self.weight @ row.to) * candidate.rate_rps
        for factor in LADDER:
            rung = _rung(row, factor).promise.name
            covered = sum(
                float(candidate.flow[r] @ np.nan_to_num(route.coverage[rung]))
                for r, route in enumerate(routes)
                if candidate.flow[r].any()
            )
            if covered >= asked * (1 - 1e-9):
                return factor
        return 2.0 * LADDER[-1]


def _price(factor: float) -> float:
    return RELAXED + factor - 1.0 if factor > 1.0 else 0.0


def _rung(row: PromiseRow, factor: float) -> PromiseRow:
    kind = replace(row.promise.kind, name=f"{row.promise.kind.name} x{factor:g}")
    return PromiseRow(replace(row.promise, kind=kind, limit_s=row.promise.limit_s * factor), row.to)


@dataclass(frozen=True, slots=True, eq=False)
class _ElasticJudge(Judge):
    """Counts relaxations where others count what is missing."""

    soft: Soft

    def shortfall(self, candidate: Candidate, routes: Sequence[Route]) -> float:
        return self.soft.price(self, candidate, routes)


class ElasticSearch(Search):
    """Branch and bound for the set that counts least; every candidate that fits its pools is a plan."""

    def __init__(self, points: Points, soft: Soft, *, time_limit_s: float) -> None:
        super().__init__(
            points,
            "elastic",
            time_limit_s,
            CLOSE_ENOUGH,
            patience=NODES,
            most_starts=0,
            max_nodes=NODES,
            known_bound=0.0,
        )
        self.soft = soft
        self.judge = _ElasticJudge(points, soft)

    def _trivial_bound(self) -> float:
        return 0.0

    def _visit(self, cell: Cell, *, bound: float) -> None:
        node = self._node(cell)
        if node is None:
            return
        cell, routes = node
        solved = self._solved(program_of(self.model.data, cell, routes))
        if solved is None:
            return
        bound = min(bound, -solved.bound)
        candidate = self._candidate(solved, routes)
        levels = self.judge.levels_of(candidate, routes)
        true_routes = self.model.routes(levels, used=candidate.used)
        if self.judge.fits(candidate, true_routes):
            self._accept(candidate, levels)
        if self._settled(bound):
            return
        self._divide(cell, candidate, levels, bound=bound)

    def _solved(self, data: ProgramData) -> Solved | None:
        program, variables = formulate(data, objective="cost")
        program.setObjective(_relaxations(program, data, variables, self.soft))
        solved = solve(program, time_limit_s=self._deadline - time.perf_counter(), absolute_gap=CLOSE_ENOUGH)
        if not solved.has_plan and solved.status is SolveStatus.TIME_LIMIT:
            self._hit_limit = True
        return solved if solved.has_plan else None

    def _accept(self, candidate: Candidate, levels: Levels) -> None:
        routes = self.model.routes(levels, used=candidate.used)
        score = -self.soft.price(self.judge, candidate, routes)
        if score > self.best_score:
            self.best, self.best_score = replace(candidate, levels=levels), score


def _relaxations(program: pulp.LpProblem, data: ProgramData, v: Variables, soft: Soft) -> pulp.LpAffineExpression:
    """Rows that let promises and limits be relaxed, and what all relaxations count."""
    import pulp

    counted: list[tuple[pulp.LpVariable, float]] = []
    for at, row in enumerate(soft.promises):
        share = row.promise.kind.quantile * float(soft.weight @ row.to)
        rungs = [pulp.LpVariable(f"e_{at}_{j}", 0, 1, cat=pulp.LpInteger) for j in range(len(LADDER) + 1)]
        program += pulp.lpSum(rungs) == 1, f"one_rung_{at}"
        for rung, factor in zip(rungs, LADDER, strict=False):
            coverage = _rung(row, factor).promise.name
            terms = [(flow, float(data.routes[r].coverage[coverage][k])) for (r, k), flow in v.flow.items()]
            slack = share * data.max_rate_rps
            covered = pulp.LpAffineExpression([*terms, (v.rate, -share), (rung, -slack)])
            program += covered >= -slack, f"rung_{at}_{name(f'{factor:g}')}"
            counted.append((rung, _price(factor)))
        counted.append((rungs[-1], _price(2.0 * LADDER[-1])))
    for at, limit in enumerate(soft.limits):
        most = limit.scale if limit.least else MOST * limit.scale
        over = pulp.LpVariable(f"over_{at}", 0, most)
        relaxed = pulp.LpVariable(f"relaxed_{at}", 0, 1, cat=pulp.LpInteger)
        used = limit.used(data, v)
        program += (used + over >= limit.asked) if limit.least else (used - over <= limit.asked), f"limit_{at}"
        program += over <= most * relaxed, f"if_relaxed_{at}"
        counted += [(relaxed, RELAXED), (over, 1.0 / limit.scale)]
    larger = [
        (n, -ROOM_COUNTS / max(pool.max_instances, 1) / max(len(data.pools), 1))
        for pool in data.pools
        if (n := v.instances[pool.id]) is not None
    ]
    return pulp.LpAffineExpression([*counted, *larger])
