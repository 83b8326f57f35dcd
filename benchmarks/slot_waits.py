"""Wait for a slot on aggregated instances: closed form against replay, where long prefills and waves fill the slots.

    python benchmarks/slot_waits.py                    # every case (minutes)
    python benchmarks/slot_waits.py --requests 20000   # rougher

Requests are replayed twice, on the pool as it is and on as many instances that only prefill; the difference is what
slots add: how many more wait, and how long those wait. The closed form of that is ``paths.occupancy``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.closed_form_vs_simulation import STRAIGHT, WEKA, Case, aggregated, traffic
from pddplan.domain.workload import Array
from pddplan.evaluate.flows import system
from pddplan.evaluate.problem import Problem
from pddplan.paths.latency import LatencySum
from pddplan.paths.mixture import mixture_quantiles
from pddplan.profiles.workload_profile import load_workload
from pddplan.simulate.arrivals import modulated_arrivals_s
from pddplan.simulate.fifo import multi_server_fifo
from pddplan.simulate.mixed import mixed_batch

SEEDS = 2
REQUESTS = 70_000
WARM_UP = 12
"""One part in so many of a run is left out."""


@dataclass(frozen=True, slots=True)
class SlotCase:
    mix: str
    instances: int
    utilization: float
    prefill_share: float
    batch: int
    dispersion: Mapping[float, float] = field(default_factory=dict)


CASES = [
    SlotCase("flat", 2, 0.75, 0.6, 24),
    SlotCase("flat", 2, 0.6, 0.6, 12),
    SlotCase("flat", 2, 0.85, 0.3, 24),
    SlotCase("flat", 4, 0.8, 0.5, 16),
    SlotCase("flat", 8, 0.85, 0.6, 12),
    SlotCase("skewed", 2, 0.75, 0.6, 24),
    SlotCase("skewed", 4, 0.8, 0.5, 16),
    SlotCase("skewed", 8, 0.85, 0.5, 12),
    SlotCase("weka-agentic", 2, 0.6, 0.4, 24),
    SlotCase("weka-agentic", 4, 0.7, 0.5, 24),
    SlotCase("weka-agentic", 8, 0.8, 0.5, 24),
    SlotCase("weka-agentic", 16, 0.85, 0.5, 24),
    SlotCase("prfaas-lognormal", 4, 0.8, 0.5, 16),
    SlotCase("flat", 4, 0.7, 0.5, 24, WEKA),
    SlotCase("skewed", 8, 0.7, 0.5, 24, WEKA),
    SlotCase("weka-agentic", 8, 0.7, 0.5, 24, WEKA),
]


def _replayed(problem: Problem, case: SlotCase, *, requests: int, seed: int) -> tuple[Array, Array]:
    """Waits of requests: for prefill alone, and with slots."""
    rng, classes = np.random.default_rng(seed), problem.workload.classes
    rate = problem.workload.arrival.rate_rps
    arrival = modulated_arrivals_s(requests, rate, scv=1.0, dispersion=case.dispersion, rng=rng)
    kind = rng.choice(classes.count, size=requests, p=classes.weight / classes.weight.sum())
    instance = STRAIGHT
    times = instance.prefill_time_s(
        new_tokens=classes.miss_prefill_tokens, cached_tokens=classes.cached_prefill_tokens
    )[kind]
    batches = np.arange(case.batch + 1.0)
    steps = np.asarray(instance.decode_step_s(batch=batches, context_tokens=batches), dtype=float)
    begun, _, _ = mixed_batch(
        arrival,
        times,
        tokens=classes.output_tokens[kind],
        instances=case.instances,
        second_per_token=steps.tolist(),
        chunk_s=np.inf,
    )
    alone = multi_server_fifo(arrival, times, servers=case.instances)
    kept = slice(requests // WARM_UP, None)
    return (alone - arrival)[kept], (begun - arrival)[kept]


def row(case: SlotCase, *, requests: int) -> str:
    """One line of the table: closed form over replay, and P99 of the whole wait, less one."""
    classes = traffic(case.mix) if case.mix in ("skewed", "flat") else load_workload(case.mix).classes
    problem, plan = aggregated(
        Case(case.mix, case.instances, case.utilization, 0.0, "colocated"),
        classes,
        prefill_share=case.prefill_share,
        batch=case.batch,
        waves=case.dispersion,
    )
    count = int(requests * max(((1.0 - 0.75) / (1.0 - case.utilization)) ** 1.5, 1.0))
    runs = [_replayed(problem, case, requests=count, seed=seed) for seed in range(SEEDS)]
    alone, whole = (np.concatenate(waits) for waits in zip(*runs, strict=True))
    more = float((whole > 0).mean() - (alone > 0).mean())
    mean = float(whole.mean() - alone.mean())
    states = system(problem, plan).states
    slot, prefill = states.decode["P"].wait, states.prefill["P"].stage.wait
    ready = LatencySum(np.zeros((1, 1)), (prefill, slot)).prepared()
    p99 = float(mixture_quantiles(ready, np.ones((1, 1)), quantiles=np.array([0.99]))[0, 0])
    chance, tail = float(slot.delay_probability), float(slot.tail_mean_s)
    seen = float(np.quantile(whole, 0.99))
    waves = "yes" if case.dispersion else "no"
    return (
        f"| {case.mix} | {waves} | {case.instances} | {case.utilization:.2f} | {case.prefill_share:.1f} | {case.batch} "
        f"| {more:.1%} | {chance / more:.2f} | {mean / more:.2f} s | {tail / (mean / more):.2f} "
        f"| {chance * tail / mean:.2f} | {p99 / seen - 1.0:+.0%} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=REQUESTS, help="requests of a run at 75 %% load; more above")
    options = parser.parse_args()
    sys.stdout.write(
        "| mix | waves | instances | load | prefill's part | batch | wait for a slot | closed / replay | they wait | "
        "closed / replay | mean, closed / replay | P99 of the whole wait |\n"
        f"|{' --- |' * 2}{' ---: |' * 10}\n"
    )
    for case in CASES:
        sys.stdout.write(row(case, requests=options.requests) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
