"""Simulate a plan: draw requests, replay them, measure; several seeds side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from pddplan.domain.plan import Plan
from pddplan.domain.workload import RequestClasses
from pddplan.errors import InputError
from pddplan.errors import Problem as Fault
from pddplan.evaluate.problem import Problem
from pddplan.simulate.arrivals import batch_arrivals_s, modulated_arrivals_s
from pddplan.simulate.build import build_scenario
from pddplan.simulate.measure import Run, measure, steady_part
from pddplan.simulate.replay import Progress, replay
from pddplan.simulate.result import SimulationResult
from pddplan.simulate.scenario import Requests, Scenario, choose_ways

DEFAULT_REQUESTS = 100_000
LEAST_REQUESTS = 100
MOST_REQUESTS = 20_000_000
LEAST_RATE_RPS = 1e-6
MOST_RATE_RPS = 1e6
MOST_SPREAD = 1e4
MOST_SEEDS = 1000
MOST_CHUNK_TOKENS = 1_000_000
_WORTH_A_PROCESS = 300_000
"""Requests over all seeds from which starting worker processes pays."""


@dataclass(frozen=True, slots=True)
class Draw:
    """How requests are drawn."""

    requests: int = DEFAULT_REQUESTS
    scv: float = 1.0
    """Squared coefficient of variation of the gaps between arrivals."""
    dispersion: Mapping[float, float] = field(default_factory=dict)
    """Index of dispersion of counts per window [s], where known: arrivals then come in waves."""
    mean_batch: float = 1.0
    """Above 1: Poisson bunches of this mean size instead of single arrivals."""
    output_scv: float = 0.0
    """Spread of answer lengths around that of the class (gamma); 0 = as the class says."""


def simulate(
    problem: Problem,
    plan: Plan,
    *,
    draw: Draw | None = None,
    seed: int = 0,
    seeds: int = 1,
    chunk_tokens: float | None = None,
    progress: Progress | None = None,
) -> SimulationResult:
    """Discrete-event simulation of a plan on drawn requests.

    Parameters:  problem, plan: as for evaluate(); draw: how many requests and how they arrive, None = as the
                 workload says; seed: first seed, seeds: number of independent runs (seed, seed + 1, ...);
                 chunk_tokens: prefill chunks that take turns with steps on aggregated pools, None = they ride on steps
    Returns:     SimulationResult; the same for the same arguments
    Raises:      InputError for a plan that does not fit the problem, or counts out of range
    """
    arrival = problem.workload.arrival
    asked = draw or Draw(scv=arrival.scv, dispersion=arrival.dispersion)
    _check(asked, plan.rate_rps, seed=seed, seeds=seeds, chunk_tokens=chunk_tokens)
    scenario = build_scenario(problem, plan, chunk_tokens=chunk_tokens)
    classes = problem.workload.classes
    numbers = tuple(range(seed, seed + seeds))
    runs: list[Run] = []
    elapsed = 0.0
    for run, seconds in _runs(scenario, classes, plan.rate_rps, draw=asked, seeds=numbers, progress=progress):
        runs.append(run)
        elapsed += seconds
        if progress is not None:
            progress(len(runs) / seeds)
    return measure(scenario, runs, seeds=numbers, elapsed_s=elapsed, group=classes.group)


def _check(draw: Draw, rate_rps: float, *, seed: int, seeds: int, chunk_tokens: float | None) -> None:
    ranges = [
        ("--requests", draw.requests, LEAST_REQUESTS, MOST_REQUESTS, DEFAULT_REQUESTS),
        ("the rate of the plan (--rps)", rate_rps, LEAST_RATE_RPS, MOST_RATE_RPS, 10),
        ("--seeds", seeds, 1, MOST_SEEDS, 8),
        ("--bunch", draw.mean_batch, 1, MOST_SPREAD, 4),
        ("--scv, the variability of arrivals,", draw.scv, 0, MOST_SPREAD, 1),
        ("--output-scv, the spread of answers,", draw.output_scv, 0, MOST_SPREAD, 1),
    ]
    if chunk_tokens is not None:
        ranges.append(("--chunk-tokens", chunk_tokens, 1, MOST_CHUNK_TOKENS, 8192))
    faults = [
        Fault(f"{name} must lie between {_plain(low)} and {_plain(high)}, got {_plain(got)}", f"for example {example}")
        for name, got, low, high, example in ranges
        if not low <= got <= high
    ]
    if seed < 0:
        faults.append(Fault(f"--seed must not be negative, got {seed}", "for example --seed 1"))
    if faults:
        raise InputError(faults)


def _plain(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def _runs(
    scenario: Scenario,
    classes: RequestClasses,
    rate_rps: float,
    *,
    draw: Draw,
    seeds: tuple[int, ...],
    progress: Progress | None,
) -> Iterator[tuple[Run, float]]:
    """One run per seed, in the order of the seeds; in worker processes where that pays."""
    if len(seeds) == 1 or draw.requests * len(seeds) < _WORTH_A_PROCESS:
        for done, number in enumerate(seeds):
            yield _one(scenario, classes, rate_rps, draw=draw, seed=number, progress=_part(progress, done, len(seeds)))
        return
    from joblib import Parallel, cpu_count, delayed

    workers = Parallel(n_jobs=min(len(seeds), cpu_count()), return_as="generator")
    yield from workers(delayed(_one)(scenario, classes, rate_rps, draw=draw, seed=number) for number in seeds)


def _part(progress: Progress | None, done: int, total: int) -> Progress | None:
    """Progress within one of several runs."""
    if progress is None:
        return None
    return lambda share: progress((done + share) / total)


def _one(
    scenario: Scenario,
    classes: RequestClasses,
    rate_rps: float,
    *,
    draw: Draw,
    seed: int,
    progress: Progress | None = None,
) -> tuple[Run, float]:
    begun = time.perf_counter()
    # Separate streams: changing the plan leaves arrivals and classes of a seed as they are.
    arrival_rng, class_rng, way_rng, stage_rng = (
        np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)
    )
    requests = draw_requests(scenario, classes, rate_rps=rate_rps, draw=draw, rngs=(arrival_rng, class_rng, way_rng))
    run = steady_part(replay(scenario, requests, rng=stage_rng, progress=progress))
    return run, time.perf_counter() - begun


def draw_requests(
    scenario: Scenario,
    classes: RequestClasses,
    *,
    rate_rps: float,
    draw: Draw,
    rngs: tuple[np.random.Generator, np.random.Generator, np.random.Generator],
) -> Requests:
    """Draw arrivals, classes, ways and answers; one random stream for each of the first three."""
    arrival_rng, class_rng, way_rng = rngs
    if draw.mean_batch > 1:
        arrival = batch_arrivals_s(draw.requests, rate_rps, mean_batch=draw.mean_batch, rng=arrival_rng)
    else:
        arrival = modulated_arrivals_s(
            draw.requests, rate_rps, scv=draw.scv, dispersion=draw.dispersion, rng=arrival_rng
        )
    edges = np.cumsum(classes.weight)
    request_class = np.searchsorted(edges / edges[-1], class_rng.random(draw.requests), side="right")
    request_class = np.minimum(request_class, classes.count - 1)
    output = classes.output_tokens[request_class]
    if draw.output_scv > 0:
        shape = 1.0 / draw.output_scv
        output = np.maximum(output * class_rng.gamma(shape, 1.0 / shape, output.size), 1.0)
    return Requests(
        arrival_s=arrival,
        kind=request_class,
        request_class=request_class,
        way=choose_ways(request_class, scenario.share, way_rng),
        output_tokens=output,
    )
