"""How far the optimiser reaches: 8 sites x 10 chips x 64 classes, drawn at random; prints gap and seconds.

    python benchmarks/optimizer_scaling.py [--sites 8] [--chips 10] [--classes 64] [--seconds 30] [--topology any]

Chips, prices and lines are drawn from a seed; speeds are straight lines, so that only the optimiser is timed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from pddplan.domain.chip import Chip, Fabric, Price
from pddplan.domain.plan import Pool, Shape
from pddplan.domain.sites import Line, Site, SiteChip, Sites, Tier
from pddplan.domain.workload import Arrival, Promises, RequestClasses, Workload
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Objective, size
from tests.fakes import LinearInstance, LinearKv


@dataclass(frozen=True, slots=True)
class Speeds:
    """Speed of each chip: (prefill seconds per token, decode step)."""

    of: dict[str, tuple[float, float]] = field(default_factory=dict)

    def instance(self, pool: Pool) -> LinearInstance:
        prefill_s, step_s = self.of[pool.chip]
        return LinearInstance(
            chip_id=pool.chip,
            shape=pool.shape,
            kv=LinearKv(5e3, 4.5e6),
            prefill_fixed_s=0.1,
            prefill_s_per_token=prefill_s,
            step_a_s=step_s,
            step_b_s=2e-4,
            batch_cap=96,
        )


def question(sites: int, chips: int, *, classes: int, rate_rps: float, seed: int) -> Problem:
    """A random question of a given size."""
    draw = random.Random(seed)
    names = [f"chip{i}" for i in range(chips)]
    speeds = Speeds({n: (draw.uniform(3e-5, 2e-4), draw.uniform(0.008, 0.03)) for n in names})
    price = {n: 0.6 * (1.2e-4 / speeds.of[n][0]) ** 0.5 + 0.9 * (0.02 / speeds.of[n][1]) ** 0.7 for n in names}
    menu = {
        n: Chip(n, n, "any", 2025, {"bf16": 1e15}, 80e9, 3e12, 4e11, 8, Fabric.SWITCH, 5e10, 700.0, Price(p, p))
        for n, p in price.items()
    }
    places = {
        f"s{i}": Site(
            f"s{i}",
            {n: SiteChip(n, draw.choice([128, 256, 512]), 0, price[n] * draw.uniform(0.8, 1.3)) for n in names},
        )
        for i in range(sites)
    }
    tiers = tuple(Tier(g, c) for g, c in ((10.0, 2450.0), (40.0, 5240.0), (100.0, 8660.0), (400.0, 18500.0)))
    pairs = [(i, (i + 1) % sites) for i in range(sites)] + [(i, (i + 3) % sites) for i in range(sites)]
    lines = {
        f"l{a}-{b}": Line(f"l{a}-{b}", f"s{a}", f"s{b}", tiers, draw.uniform(0.002, 0.04), max_lines=2)
        for a, b in pairs
        if a != b
    }
    numbers = np.random.default_rng(seed)
    length = np.clip(numbers.lognormal(9.9, 1.0, classes), 256, 131072)
    miss = np.maximum(length * numbers.beta(0.5, 2.0, classes), 64)
    weight = numbers.dirichlet(np.ones(classes))
    mix = RequestClasses(weight, length, miss, miss, numbers.uniform(100, 1500, classes))
    promises = Promises(ttft_p90_s=6.0, ttft_p99_s=15.0, tpot_s=0.05)
    workload = Workload("scaling", "none", mix, Arrival(rate_rps), promises)
    return Problem(workload, Sites("scaling", places, lines), menu, None, speeds.instance)


def main() -> None:
    """Ask, time, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("sites", 8), ("chips", 10), ("classes", 64), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=400.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--topology", default="any")
    parser.add_argument("--objective", default="cost")
    asked = parser.parse_args()
    problem = question(asked.sites, asked.chips, classes=asked.classes, rate_rps=asked.rate, seed=asked.seed)
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = size(
        problem,
        topology=asked.topology,
        objective=Objective(asked.objective),
        limits=Limits(time_limit_s=asked.seconds),
        shapes=lambda _chip, _role: [Shape(tp=8)],
    )
    solver = outcome.solver
    print(
        f"{asked.sites} sites x {asked.chips} chips x {asked.classes} classes, {asked.topology}: "
        f"{solver.status if solver else '?'}, gap {solver.gap if solver else float('nan'):.2%}, "
        f"{time.perf_counter() - wall:.1f} s wall, {time.process_time() - cpu:.1f} s CPU; "
        f"{sum(p.chips for p in outcome.plan.pools)} chips in {len(outcome.plan.pools)} pools, "
        f"{len(outcome.plan.lines)} lines, {outcome.cost.monthly_total:,.0f} per month, "
        f"promises {'kept' if outcome.keeps_promises else 'broken'}"
    )


if __name__ == "__main__":
    main()
