"""The optimiser against brute force: every integer plan of small random questions, judged by the one evaluator.

Brute force tries all instance counts and line tiers, with each class whole on one path. The optimiser may split
classes, so it may be better; it must never be worse than its proven gap allows.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import LinePlan, Path, Plan, Pool
from pddplan.domain.sites import SiteChip
from pddplan.domain.workload import Promises
from pddplan.errors import InfeasibleError
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Objective, size
from pddplan.optimize.mix import allowed_classes, pools_of
from pddplan.optimize.topologies import candidate_paths, candidate_pools, find_topology
from tests.unit.optimize.small_question import (
    PREFILL_FIXED_S,
    PREFILL_S_PER_TOKEN,
    classes,
    question,
    shapes,
    two_sites,
)

CEILING = 0.95
LINE_CEILING = 0.9
GAP = 1e-3
SEEDS = range(6)


def drawn(seed: int) -> Problem:
    """A random question: one to three classes, promises from tight to loose, random prices."""
    draw = random.Random(seed)
    count = draw.choice([1, 2, 3])
    tokens = [draw.choice([8e3, 32e3, 64e3]) for _ in range(count)]
    missing = [length * draw.uniform(0.01, 0.6) for length in tokens]
    longest_s = PREFILL_FIXED_S + PREFILL_S_PER_TOKEN * max(missing)
    p99 = longest_s * draw.uniform(1.3, 4.0)
    return question(
        draw.uniform(0.5, 4.0),
        promises=Promises(ttft_p90_s=p99 * draw.uniform(0.5, 1.0), ttft_p99_s=p99, tpot_s=0.05),
        mix=classes(
            [draw.uniform(0.1, 1.0) for _ in range(count)],
            tokens,
            missing,
            [draw.choice([200.0, 600.0, 1500.0]) for _ in range(count)],
        ),
        sites=two_sites(
            at_a=SiteChip("fast", price_per_chip_hour=draw.uniform(1, 3), roles=("P", "RLD", "MD", "AGG")),
            at_b=SiteChip("big", price_per_chip_hour=draw.uniform(1, 3), roles=("MD",)),
        ),
        scv=draw.choice([1.0, 1.0, 2.5]),
    )


@dataclass(frozen=True)
class Everything:
    """All plans of a question."""

    problem: Problem
    pools: tuple[Pool, ...]
    paths: tuple[Path, ...]

    def routings(self) -> Iterator[tuple[int, ...]]:
        """One path per class."""
        allowed = [allowed_classes(self.problem, path) for path in self.paths]
        kinds = range(self.problem.workload.classes.count)
        for routing in itertools.product(range(len(self.paths)), repeat=len(kinds)):
            if all(allowed[path][k] for k, path in enumerate(routing)):
                yield routing

    def plan(self, routing: Sequence[int], counts: Mapping[str, int], line: LinePlan | None, rate: float) -> Plan:
        used = sorted(set(routing))
        share = np.zeros((len(self.paths), len(routing)))
        share[list(routing), range(len(routing))] = 1.0
        kept = {pool for path in used for pool in pools_of(self.paths[path])}
        return Plan(
            "brute",
            rate,
            tuple(replace(pool, instances=counts[pool.id]) for pool in self.pools if pool.id in kept),
            (line,) if line else (),
            tuple(self.paths[path] for path in used),
            share[used],
        )

    def lines(self, routing: Sequence[int]) -> list[LinePlan | None]:
        if not any(self.paths[path].line for path in routing):
            return [None]
        tiers = self.problem.sites.lines["ab"].tiers
        return [LinePlan("ab", tier.gbps) for tier in tiers]

    def judged(self, plan: Plan) -> Outcome | None:
        outcome = evaluate(self.problem, plan)
        fits = all(load.utilization <= CEILING + 1e-6 for load in outcome.pools)
        fits = fits and all(load.utilization <= LINE_CEILING + 1e-6 for load in outcome.lines)
        return outcome if outcome.keeps_promises and fits else None

    def least_counts(self, routing: Sequence[int], line: LinePlan | None, rate: float) -> dict[str, int]:
        """Instances that the load alone asks for."""
        many = {pool.id: 1000 for pool in self.pools}
        loads = evaluate(self.problem, self.plan(routing, many, line, rate)).pools
        return {load.pool: max(1, math.ceil(load.utilization * 1000 / CEILING - 1e-6)) for load in loads}


def everything(problem: Problem, topology: str) -> Everything:
    chosen = find_topology(topology)
    pools = candidate_pools(problem.sites, chosen, shapes=shapes, allowed_chips=None)
    paths = candidate_paths(problem.sites, chosen, pools)
    used = {pool for path in paths for pool in pools_of(path)}
    return Everything(problem, tuple(pool for pool in pools if pool.id in used), tuple(paths))


def cheapest(space: Everything, rate: float, *, extra: int = 3) -> float:
    best = math.inf
    for routing in space.routings():
        for line in space.lines(routing):
            least = space.least_counts(routing, line, rate)
            for more in itertools.product(range(extra + 1), repeat=len(least)):
                counts = {pool: count + add for (pool, count), add in zip(least.items(), more, strict=True)}
                outcome = space.judged(space.plan(routing, counts, line, rate))
                if outcome is not None:
                    best = min(best, outcome.cost.monthly_total)
    return best


def best_ratio(space: Everything, demand: float) -> float:
    """Best req/s per 1,000 a month over all counts, each at the highest rate it serves."""
    best = 0.0
    for routing in space.routings():
        for line in space.lines(routing):
            most = space.least_counts(routing, line, demand)
            for values in itertools.product(*(range(1, count + 2) for count in most.values())):
                counts = dict(zip(most, values, strict=True))
                low, high = 0.0, demand
                for _ in range(16):
                    outcome = space.judged(space.plan(routing, counts, line, high if low == 0.0 else (low + high) / 2))
                    rate = high if low == 0.0 else (low + high) / 2
                    if outcome is not None:
                        best, low = max(best, outcome.bcr), rate
                        if rate == demand:
                            break
                    elif low == 0.0:
                        high /= 2
                    else:
                        high = rate
    return best


@pytest.mark.parametrize("topology", ["pd", "cross-dc-drc"])
@pytest.mark.parametrize("seed", SEEDS)
def test_least_cost_equals_brute_force(seed: int, topology: str) -> None:
    problem = drawn(seed)
    by_hand = cheapest(everything(problem, topology), problem.workload.arrival.rate_rps)
    try:
        found = size(
            problem,
            topology=topology,
            objective=Objective("cost"),
            limits=Limits(gap=GAP, acceptable_gap=GAP),
            shapes=shapes,
            relax=False,
        )
    except InfeasibleError:
        assert math.isinf(by_hand), "brute force found a plan where the optimiser saw none"
        return
    assert found.keeps_promises
    assert found.cost.monthly_total <= by_hand * (1 + 1.1 * GAP)


@pytest.mark.parametrize("seed", [0])
def test_relay_plans_are_not_worse_than_brute_force(seed: int) -> None:
    problem = drawn(seed)
    by_hand = cheapest(everything(problem, "pdd"), problem.workload.arrival.rate_rps, extra=1)
    found = size(
        problem, topology="pdd", objective=Objective("cost"), limits=Limits(gap=GAP), shapes=shapes, relax=False
    )
    assert found.cost.monthly_total <= by_hand * (1 + 0.011)


@pytest.mark.parametrize("seed", [0, 5])
def test_best_ratio_equals_brute_force(seed: int) -> None:
    problem = drawn(seed)
    by_hand = best_ratio(everything(problem, "pd"), problem.workload.arrival.rate_rps)
    found = size(
        problem,
        topology="pd",
        objective=Objective("bcr"),
        limits=Limits(gap=GAP, acceptable_gap=GAP),
        shapes=shapes,
        relax=False,
    )
    assert found.keeps_promises
    assert found.bcr >= by_hand * (1 - 2 * GAP)
