"""The question behind ``pddplan simulate``: does a plan do in simulation what its closed forms say?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan
from pddplan.errors import InputError
from pddplan.errors import Problem as Fault
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.simulate.replay import Progress
from pddplan.simulate.result import SimulationResult
from pddplan.simulate.run import DEFAULT_REQUESTS, LEAST_RATE_RPS, MOST_RATE_RPS, Draw, simulate
from pddplan.simulate.trace_mode import LEAST_TRACE_REQUESTS, TraceTraffic, nearest_class, simulate_trace


@dataclass(frozen=True, slots=True)
class Ask:
    """What to simulate; None = as the plan and its workload say."""

    trace: Path | None = None
    """A real trace instead of drawn requests."""
    requests: int | None = None
    seed: int = 0
    seeds: int = 1
    rate_rps: float | None = None
    scv: float | None = None
    mean_batch: float = 1.0
    output_scv: float = 0.0
    chunk_tokens: float | None = None
    prefill_cache_tokens: int | None = None
    decode_cache_tokens: int | None = None


def check_plan(
    problem: Problem, plan: Plan, ask: Ask, *, progress: Progress | None = None
) -> tuple[Outcome, SimulationResult]:
    """Evaluate and simulate a plan at the same rate.

    Parameters:  problem, plan: as for evaluate(); ask; progress: called with the share that is done
    Returns:     (Outcome of the closed forms, SimulationResult)
    Raises:      InputError for what cannot be simulated
    """
    if ask.trace is not None:
        return _on_trace(problem, plan, ask, progress=progress)
    at_rate = plan if ask.rate_rps is None else replace(plan, rate_rps=ask.rate_rps)
    asked = problem if ask.scv is None else _with_scv(problem, ask.scv)
    arrival = asked.workload.arrival
    draw = Draw(
        requests=DEFAULT_REQUESTS if ask.requests is None else ask.requests,
        scv=arrival.scv,
        dispersion=arrival.dispersion,
        mean_batch=ask.mean_batch,
        output_scv=ask.output_scv,
    )
    result = simulate(
        asked, at_rate, draw=draw, seed=ask.seed, seeds=ask.seeds, chunk_tokens=ask.chunk_tokens, progress=progress
    )
    return evaluate(asked, at_rate), result


def _on_trace(problem: Problem, plan: Plan, ask: Ask, *, progress: Progress | None) -> tuple[Outcome, SimulationResult]:
    from pddplan.simulate.trace_traffic import traffic_of
    from pddplan.traces.reading import read_trace

    if ask.seeds != 1 or ask.scv is not None or ask.mean_batch != 1 or ask.output_scv != 0:
        raise InputError(
            Fault(
                what="a trace brings its own arrivals and answers",
                fix="leave --seeds, --scv, --bunch and --output-scv away, or leave --trace away",
            )
        )
    if ask.seed < 0:
        raise InputError(Fault(f"--seed must not be negative, got {ask.seed}", "for example --seed 1"))
    if ask.requests is not None and ask.requests < LEAST_TRACE_REQUESTS:
        raise InputError(
            Fault(
                what=f"--requests must be at least {LEAST_TRACE_REQUESTS} of a trace, got {ask.requests}",
                fix="leave it away to replay the whole trace",
            )
        )
    assert ask.trace is not None
    traffic = traffic_of(
        read_trace(ask.trace),
        prefill_cache_tokens=ask.prefill_cache_tokens,
        decode_cache_tokens=ask.decode_cache_tokens,
        requests=ask.requests,
        seed=ask.seed,
    )
    if ask.rate_rps is not None and np.isfinite(traffic.rate_rps):
        if not LEAST_RATE_RPS <= ask.rate_rps <= MOST_RATE_RPS:
            raise InputError(
                Fault(
                    what=f"--rps must lie between {LEAST_RATE_RPS:g} and {MOST_RATE_RPS:g}, got {ask.rate_rps:g}",
                    fix=f"leave it away for the trace's own {traffic.rate_rps:.3g}",
                )
            )
        traffic = traffic.at_rate(ask.rate_rps, seed=ask.seed)
    result = simulate_trace(
        problem,
        plan,
        traffic,
        seed=ask.seed,
        decode_cache_tokens=ask.decode_cache_tokens,
        chunk_tokens=ask.chunk_tokens,
        progress=progress,
    )
    seen, routed = as_classes(problem, plan, traffic)
    return evaluate(seen, routed), replace(result, notes=(*result.notes, *_trace_notes(plan, traffic.rate_rps)))


def as_classes(problem: Problem, plan: Plan, traffic: TraceTraffic) -> tuple[Problem, Plan]:
    """The question and plan as the closed forms see a trace: its own classes, rate and arrivals.

    Each class made from the trace is routed as the class of the plan's workload that it resembles most, like the
    requests themselves.
    """
    from pddplan.traces.arrival_pattern import arrival_pattern
    from pddplan.traces.classes import build_classes

    classes = build_classes(
        input_tokens=traffic.input_tokens.astype(float),
        miss_prefill_tokens=traffic.miss_prefill_tokens.astype(float),
        miss_decode_tokens=traffic.miss_decode_tokens.astype(float),
        output_tokens=traffic.output_tokens.astype(float),
    )
    pattern = arrival_pattern(traffic.arrival_s - float(traffic.arrival_s[0]))
    arrival = replace(
        problem.workload.arrival,
        rate_rps=traffic.rate_rps,
        scv=pattern.scv if pattern is not None else problem.workload.arrival.scv,
        dispersion=pattern.dispersion if pattern is not None else {},
    )
    nearest = nearest_class(classes, problem.workload.classes)
    share = plan.share[:, nearest]
    known, promises = problem.workload.classes.group, problem.workload.promises
    if known:  # a request belongs to the traffic class that it resembles most
        classes = replace(classes, group=tuple(known[k] for k in nearest))
        met = {name: part for name, part in promises.by_class.items() if name in classes.groups}
        promises = replace(promises, by_class=met)
    workload = replace(problem.workload, classes=classes, arrival=arrival, promises=promises)
    # a fresh memo: what was remembered belongs to the classes of the plan
    seen = replace(problem, workload=workload, memo={})
    return seen, replace(plan, rate_rps=traffic.rate_rps, share=share)


def _with_scv(problem: Problem, scv: float) -> Problem:
    """The same problem with renewal arrivals of this variability; measured waves do not belong to it."""
    workload = problem.workload
    arrival = replace(workload.arrival, scv=scv, dispersion={})
    # a fresh memo: what was remembered belongs to the other arrivals
    return replace(problem, workload=replace(workload, arrival=arrival), memo={})


def _trace_notes(plan: Plan, rate_rps: float) -> tuple[str, ...]:
    notes = [
        "users of a trace do not wait for each other: a slow system does not slow their next requests down",
        "the closed form here is that of the trace: its classes, rate and arrivals, routed as the plan routes its own",
    ]
    if not 0.9 <= rate_rps / plan.rate_rps <= 1.1:
        notes.insert(
            0,
            f"the trace brings {rate_rps:.3g} requests per second, the plan was made for {plan.rate_rps:.3g}; "
            f"--rps {plan.rate_rps:.3g} replays it at the plan's rate",
        )
    return tuple(notes)
