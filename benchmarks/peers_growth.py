"""How our cost grows with classes, sites, chips and trace rows; and an integer programme in the manner of Mélange.

Questions are drawn from a seed (optimizer_scaling.py) and asked through the Python API; traces are synthetic sessions.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from peers_spent import Growth, growth

if TYPE_CHECKING:
    from pddplan.evaluate.problem import Problem

SEEDS = (1, 2)
BLOCK_TOKENS = 512
TURNS = 8
SLICES = 8
"""Mélange splits every bucket of requests into so many slices, each served by one kind of chip."""
ILP_SECONDS = 60
SEARCH_SECONDS = 30.0


def size_growth(topology: str = "any") -> Iterator[Growth]:
    """Exponents of ``optimize.size`` along each axis; the other two stay where they are."""
    base = {"sites": 2, "chips": 4, "classes": 16}
    axes = {"classes": (16, 64, 256), "sites": (2, 4, 8), "chips": (2, 4, 8)}
    for axis, sizes in axes.items():
        yield growth(
            axis,
            sizes,
            lambda n, axis=axis: statistics.median(  # type: ignore[misc]
                _size_cpu_s(**{**base, axis: n}, seed=seed, topology=topology) for seed in SEEDS
            ),
        )


def _size_cpu_s(*, sites: int, chips: int, classes: int, seed: int, topology: str) -> float:
    from optimizer_scaling import question

    from pddplan.domain.plan import Shape
    from pddplan.errors import PddplanError
    from pddplan.optimize import Limits, Objective, size

    problem = _patient(question(sites, chips, classes=classes, rate_rps=40.0, seed=seed))
    start = time.process_time()
    try:
        size(
            problem,
            topology=topology,
            objective=Objective("cost", rate_rps=40.0),
            limits=Limits(time_limit_s=SEARCH_SECONDS),
            shapes=lambda _chip, _role: [Shape(tp=8)],
        )
    except PddplanError as error:
        print(f"{sites} sites, {chips} chips, {classes} classes, seed {seed}: {error}", file=sys.stderr)
    return time.process_time() - start


def _patient(problem: Problem) -> Problem:
    """The question under promises that every draw of chips and lengths can keep, in aggregated plans too."""
    from pddplan.domain.workload import Promises

    promises = Promises(ttft_p90_s=60.0, ttft_p99_s=120.0, tpot_s=0.5)
    return replace(problem, workload=replace(problem.workload, promises=promises))


def import_growth(folder: Path, rows: Sequence[int]) -> Growth:
    """Exponent of importing a trace: reading, replaying both caches, classes, arrivals."""
    from pddplan.traces.importer import ImportSettings, import_file

    def cpu_s(count: int) -> float:
        path = folder / f"trace-{count}.jsonl"
        write_trace(path, count)
        start = time.process_time()
        import_file(path, ImportSettings(llm="qwen3-32b", name="synthetic"))
        spent = time.process_time() - start
        path.unlink()
        return spent

    return growth("trace rows", rows, cpu_s)


def write_trace(path: Path, rows: int, *, seed: int = 1) -> None:
    """A synthetic trace in Mooncake's format: sessions of growing prompts that share their prefix."""
    draw = random.Random(seed)
    next_id, clock_ms, live = 0, 0.0, [(0, 0, [0])][:0]
    with path.open("w", encoding="utf-8") as out:
        for _ in range(rows):
            clock_ms += draw.expovariate(0.02)
            if len(live) < 64 or draw.random() < 1.0 / TURNS:
                turn, length, ids = 0, 0, []
                if len(live) >= 64:
                    live.pop(draw.randrange(len(live)))
                live.append((turn, length, ids))
            place = draw.randrange(len(live))
            turn, length, ids = live[place]
            length += int(min(draw.lognormvariate(7.6, 0.8), 30_000)) + 1
            blocks = -(-length // BLOCK_TOKENS)
            # the last block was partly filled and is another one now
            kept = ids[:-1]
            ids = kept + list(range(next_id, next_id + blocks - len(kept)))
            next_id += blocks - len(kept)
            answer = int(min(draw.lognormvariate(5.5, 0.8), 4_000)) + 1
            out.write(
                f'{{"timestamp": {int(clock_ms)}, "input_length": {length}, "output_length": {answer}, '
                f'"hash_ids": {ids}}}\n'
            )
            if turn + 1 < 2 * TURNS:
                live[place] = (turn + 1, length, ids)
            else:
                live.pop(place)


def ilp_beside_size(*, classes: int = 16, chips: int = 4, seed: int = 1) -> tuple[float, float, str]:
    """Processor time of (our aggregated plan, a Mélange-style programme) on the same question, and its status.

    The programme is written from the paper, not its authors' code: one binary per (slice of a bucket, kind of chip),
    whole numbers of instances that carry the sum of the loads, least cost. Loads are 1 / (rate that one instance
    serves within the promises); waits, hit rates and places are not part of it.
    """
    import pulp
    from optimizer_scaling import question

    from pddplan.domain.plan import Shape
    from pddplan.optimize import Limits, Objective, size

    rate_rps = 50.0
    problem = _patient(question(1, chips, classes=classes, rate_rps=rate_rps, seed=seed))
    start = time.process_time()
    size(
        problem,
        topology="colocated",
        objective=Objective("cost", rate_rps=rate_rps),
        limits=Limits(time_limit_s=ILP_SECONDS),
        shapes=lambda _chip, _role: [Shape(tp=8)],
    )
    ours_s = time.process_time() - start

    start = time.process_time()
    mix, place = problem.workload.classes, next(iter(problem.sites.sites.values()))
    loads, prices = _loads(problem, rate_rps), {c: s.price_per_chip_hour or 0.0 for c, s in place.chips.items()}
    programme = pulp.LpProblem("melange_style", pulp.LpMinimize)
    instances = {c: pulp.LpVariable(f"instances_{i}", 0, None, "Integer") for i, c in enumerate(prices)}
    programme += pulp.lpSum(Shape(tp=8).chips * prices[c] * instances[c] for c in prices)
    carried: dict[str, list[pulp.LpAffineExpression]] = {c: [] for c in prices}
    for bucket in range(mix.count):
        for part in range(SLICES):
            takes = {c: pulp.LpVariable(f"takes_{bucket}_{part}_{i}", cat="Binary") for i, c in enumerate(prices)}
            programme += pulp.lpSum(takes.values()) == 1
            for c in prices:
                carried[c].append(loads[c][bucket] / SLICES * takes[c])
    for c in prices:
        programme += pulp.lpSum(carried[c]) <= instances[c]
    programme.solve(pulp.HiGHS(msg=False, timeLimit=ILP_SECONDS, gapRel=1e-4))
    return ours_s, time.process_time() - start, pulp.LpStatus[programme.status]


def _loads(problem: Problem, rate_rps: float) -> dict[str, list[float]]:
    """Instances that each bucket would keep busy, per kind of chip, at the largest batch within the TPOT promise."""
    import numpy as np

    from pddplan.domain.plan import Pool, Role, Shape

    loads: dict[str, list[float]] = {}
    mix, promises = problem.workload.classes, problem.workload.promises
    for chip in problem.chips:
        pool = Pool(chip, "s0", Role.AGGREGATED, chip, Shape(tp=8), 1)
        instance = problem.instance(pool)
        context = mix.input_tokens + mix.output_tokens / 2
        batches = np.arange(1.0, instance.max_batch(context_tokens=float(context.max()))[0] + 1)
        steps = np.array([instance.decode_step_s(batch=b, context_tokens=context) for b in batches])
        batch = batches[np.minimum((steps <= promises.tpot_s).sum(axis=0), len(batches)) - 1]
        step = instance.decode_step_s(batch=batch, context_tokens=context)
        prefill = instance.prefill_time_s(new_tokens=mix.miss_prefill_tokens, cached_tokens=mix.cached_prefill_tokens)
        loads[chip] = list(rate_rps * mix.weight * (prefill + mix.output_tokens * step / batch))
    return loads
