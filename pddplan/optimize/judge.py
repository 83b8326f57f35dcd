"""What a candidate plan really does: its price, its operating points, and which promises it misses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.evaluate.rounding import exceeds
from pddplan.optimize.data import ProgramData, Route
from pddplan.optimize.levels import Levels, LineLevel, PoolLevel

COVERAGE_MARGIN = 1e-6
"""Coverage asked beyond each promise, so that rounding in the evaluator never breaks a kept one."""


class OperatingModel(Protocol):
    """Gives the numbers of the program at any operating point."""

    data: ProgramData
    """Everything but routes."""

    @property
    def path_count(self) -> int:
        """Number of paths."""
        ...

    def members(self, index: int) -> tuple[tuple[str, ...], str | None]:
        """Pools and line that a path uses."""
        ...

    def routes(self, levels: Levels, *, used: NDArray[Any] | None = None) -> tuple[Route, ...]:
        """Work, payload and coverage of every path at these levels (empty for paths not ``used``)."""
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

    @property
    def used(self) -> NDArray[Any]:
        """Which routes carry anything."""
        return np.asarray(self.flow.any(axis=1))


def score_of(candidate: Candidate, objective: str) -> float:
    """Value of a candidate: larger is better, whatever the objective (``cost``, ``rps`` or ``bcr``)."""
    if objective == "cost":
        return -candidate.monthly_cost
    if objective == "rps":
        return candidate.rate_rps
    return math.inf if candidate.monthly_cost <= 0 else candidate.rate_rps / candidate.monthly_cost


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Judges candidates of one operating model."""

    model: OperatingModel

    def priced(self, instances: Mapping[str, int], taken: tuple[str, ...], flow: Array) -> Candidate:
        """A candidate with its rate and cost filled in."""
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
        levels = Levels(self.pool_levels(candidate, routes), lines)
        return Levels(self.pool_levels(candidate, self.model.routes(levels, used=candidate.used)), lines)

    def pool_levels(self, candidate: Candidate, routes: Sequence[Route]) -> dict[str, PoolLevel]:
        """Instances and load of every open pool."""
        load: dict[str, float] = {}
        for r, route in enumerate(routes):
            if candidate.flow[r].any():
                for pool, work in route.work.items():
                    load[pool] = load.get(pool, 0.0) + float(candidate.flow[r] @ work)
        return {pool: PoolLevel(count, load.get(pool, 0.0)) for pool, count in candidate.instances.items() if count > 0}

    def shortfall(self, candidate: Candidate, routes: Sequence[Route]) -> float:
        """Coverage missing over all promises, in requests per second beyond the tolerance; 0 when all hold."""
        missing = 0.0
        for promise in self.model.data.promises:
            covered = sum(
                float(candidate.flow[r] @ route.coverage[promise.name])
                for r, route in enumerate(routes)
                if candidate.flow[r].any()
            )
            asked = (promise.quantile - 0.5 * COVERAGE_MARGIN) * promise.share * candidate.rate_rps
            missing += max(asked - covered, 0.0)
        return missing

    def fits(self, candidate: Candidate, routes: Sequence[Route]) -> bool:
        """True when no pool is busier than its ceiling."""
        data = self.model.data
        levels = self.pool_levels(candidate, routes)
        for pool in data.pools:
            level = levels.get(pool.id)
            if level is not None and exceeds(level.load, pool.max_utilization * level.instances):
                return False
        return True

    def within_limits(self, candidate: Candidate) -> bool:
        """True when counts respect inventory, power, budget and the limit on chips, and enough is served."""
        data = self.model.data
        if candidate.rate_rps < data.min_rate_rps * (1.0 - COVERAGE_MARGIN):
            return False
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
            and not any(exceeds(power.get(site, 0.0), limit) for site, limit in data.power_limits_kw.items())
            and (data.budget is None or not exceeds(candidate.monthly_cost, data.budget))
            and (data.max_chips is None or sum(chips.values()) <= data.max_chips)
        )

    def missed(self, candidate: Candidate, routes: Sequence[Route]) -> float:
        """Shortfall of coverage plus overload, as one number to compare causes with."""
        overload = 0.0
        levels = self.pool_levels(candidate, routes)
        for pool in self.model.data.pools:
            level = levels.get(pool.id)
            if level is not None:
                over = level.load - pool.max_utilization * level.instances
                overload += max(over, 0.0) / max(level.instances, 1) * candidate.rate_rps
        return self.shortfall(candidate, routes) + overload

    def keeps_all(self, candidate: Candidate, routes: Sequence[Route]) -> bool:
        """True when the candidate keeps every promise and fits its pools under these routes."""
        return self.shortfall(candidate, routes) <= 0 and self.fits(candidate, routes)
