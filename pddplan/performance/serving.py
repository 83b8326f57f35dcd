"""From passes to what benchmarks report: static batches, closed loops, offline runs, split systems.

A RunLoad holds the passes of one measured (or planned) run. It does not depend on efficiencies, so a fit builds
it once; ``run_value`` turns it into the reported number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import DomainError
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.forward_pass import PassTime, added_time_s, pass_time
from pddplan.performance.load import PassLoad, PassModel, stack_loads

REQUESTS_PER_SLOT = 10.0
"""Requests that benchmark clients usually send for each one in flight."""
RAMP_SHARE = 1.0 + 0.5 / REQUESTS_PER_SLOT
"""A closed-loop run loses about half a residence time in filling and draining."""


class Quantity(IntEnum):
    """What a run reports."""

    OPERATORS_PREFILL = 0  # one pass added up from operators: the stack "operators" has no engine overheads
    OPERATORS_DECODE = 1
    PREFILL_LATENCY = 2
    DECODE_STEP = 3
    STATIC_THROUGHPUT = 4
    CLOSED_TPOT = 5
    CLOSED_THROUGHPUT = 6
    CLOSED_TTFT = 7
    OFFLINE_THROUGHPUT = 8
    INPUT_THROUGHPUT = 9
    DECODE_THROUGHPUT = 10  # of decoding chips alone
    CLOSED_MEDIAN_TTFT = 11  # of a closed loop, where the first wave does not count


@dataclass(frozen=True, slots=True, eq=False)
class RunLoad:
    """Passes of one run. All fields may be arrays over runs (see ``stack_runs``)."""

    quantity: Array
    prefill: PassLoad
    """One representative prefill pass."""
    prefill_passes: Array
    """Such passes that the quantity counts: of the whole batch (static), or of one request (else)."""
    decode: PassLoad
    """One step at mean context."""
    batch: Array
    output_tokens: Array
    chips: Array
    """Number that throughput is divided by (1 for the whole system)."""
    input_tokens: Array
    in_step: Array
    """1: equal requests on an engine that prefills first, which start and end together; 0: at unrelated times."""
    pass_prompts: Array
    """Prompts that one prefill pass of the instance holds."""


def prefill_run(
    model: PassModel, *, requests: float, new_tokens: float, cached_tokens: float, chunk_tokens: float
) -> tuple[PassLoad, float]:
    """A representative pass, and how many of them prefill ``requests`` prompts of equal length.

    Formula:     per attention rank T = m r / dp tokens in passes of at most C; a pass holds max(1, C/m) prompts per
                 rank of min(m, C) new tokens, over c + (m - min(m, C)) / 2 cached tokens in the mean
    Parameters:  model; requests r; new_tokens m, cached_tokens c per prompt [tokens]; chunk_tokens C per rank
    Returns:     PassLoad, passes (fractional)
    Raises:      nothing
    Holds when:  attention is linear in cached tokens, so that chunks may be averaged.
    References:  agrawal2024
    """
    dp = model.shape.dp
    size = min(new_tokens, chunk_tokens)
    per_rank = max(requests / dp, min(requests, 1.0))
    together = min(per_rank, max(chunk_tokens // max(size, 1.0), 1.0))
    ranks = min(dp, requests)
    load = model.load(
        sequences=together * ranks,
        new_tokens=size,
        cached_tokens=cached_tokens + (new_tokens - size) / 2,
        decode=False,
    )
    passes = (new_tokens / max(size, 1.0)) * per_rank / together
    return load, max(passes, 1.0)


def run_value(run: RunLoad, prefill: PassTime, decode: PassTime, efficiency: Efficiency) -> Array:
    """The number a run reports, from the times of its passes.

    Formula:     static throughput b O / (T_p + (O-1) t); closed TPOT t + interruption; closed throughput
                 b O / (TTFT + (O-1) TPOT) / ramp; mean TTFT + first wave / n; offline O / (x T_i + O t / b);
                 input tokens I / T_1
    Parameters:  run; prefill, decode: times of its passes; efficiency (interference x, host overhead)
    Returns:     shape (runs,), seconds or tokens per second
    Raises:      nothing
    Holds when:  the run is in steady state; T_p = whole batch, T_1 = one request, T_i = what of it stops decoding.
    References:  performance_terms
    """
    e = efficiency
    steps = np.maximum(run.output_tokens - 1.0, 0.0)
    output = np.maximum(run.output_tokens, 1.0)
    total_prefill = run.prefill_passes * prefill.total
    operators = np.where(run.quantity == Quantity.OPERATORS_PREFILL, prefill.total, decode.total)
    step = decode.total
    interrupting = interrupting_time_s(run, prefill, e)
    tpot = step + interruption_s(run, interrupting, e)
    ttft = closed_loop_ttft_s(total_prefill, step, tpot, run, e)
    first_wave = np.where(run.in_step > 0, 0.0, first_wave_wait_s(interrupting, run) / REQUESTS_PER_SLOT)
    choices = {
        Quantity.OPERATORS_PREFILL: operators,
        Quantity.OPERATORS_DECODE: operators,
        Quantity.PREFILL_LATENCY: total_prefill,
        Quantity.DECODE_STEP: step,
        Quantity.STATIC_THROUGHPUT: run.batch * output / (total_prefill + steps * step) / run.chips,
        Quantity.CLOSED_TPOT: tpot,
        Quantity.CLOSED_THROUGHPUT: run.batch * output / (ttft + steps * tpot) / run.chips / RAMP_SHARE,
        Quantity.CLOSED_TTFT: ttft + first_wave,
        Quantity.CLOSED_MEDIAN_TTFT: ttft,
        Quantity.OFFLINE_THROUGHPUT: output
        / (e.prefill_interference * interrupting + output * step / np.maximum(run.batch, 1.0))
        / run.chips,
        Quantity.DECODE_THROUGHPUT: run.batch / step / run.chips,
        Quantity.INPUT_THROUGHPUT: run.input_tokens / np.maximum(total_prefill, 1e-12) / run.chips,
    }
    result = np.zeros(np.broadcast(run.quantity, step, total_prefill).shape)
    for quantity, value in choices.items():
        result = np.where(run.quantity == quantity, value, result)
    return result


def interrupting_time_s(run: RunLoad, prefill: PassTime, efficiency: Efficiency) -> Array:
    """What the prefill of one request adds to the decoding steps of the others.

    Formula:     n times added_time_s; in step, where passes hold prompts alone, n times the pass
    Parameters:  run (n passes per request); prefill time of one pass [s]; efficiency
    Returns:     shape (runs,) [s]
    Raises:      nothing
    Holds when:  prompts ride in passes that decode anyway, so that weights are read and kernels launched once for both.
    References:  agrawal2024
    """
    added = added_time_s(prefill.total, run.prefill, efficiency)
    result: Array = run.prefill_passes * np.where(run.in_step > 0, prefill.total, added)
    return result


def interruption_s(run: RunLoad, interrupting_s: Array, efficiency: Efficiency) -> Array:
    """What the prompts of others add to each step of a request in a closed loop.

    Formula:     x w T_i / O, w = b - 1 prompts that come while it is answered; in step w = (b - p) / 2
    Parameters:  run (b requests, O output tokens, p prompts of a pass); interrupting_s T_i, shape of the run [s];
                 efficiency (x)
    Returns:     shape of the run [s]
    Raises:      nothing
    Holds when:  requests end at unrelated times; or all at once: then a request waits for the earlier passes of its
                 wave before its first token, and is held up by the later ones after it.
    References:  performance_terms
    """
    others = np.where(run.in_step > 0, (run.batch - run.pass_prompts) / 2.0, run.batch - 1.0)
    result: Array = (
        efficiency.prefill_interference * np.maximum(others, 0.0) * interrupting_s / np.maximum(run.output_tokens, 1.0)
    )
    return result


def closed_loop_ttft_s(prefill_s: Array, step_s: Array, tpot_s: Array, run: RunLoad, efficiency: Efficiency) -> Array:
    """Mean TTFT when a fixed number of requests is in flight.

    Formula:     h + T_1 (1 + rho / (2 (1 - rho))) + t / 2,  rho = b T_1 / (O TPOT) capped at 0.95;
                 in step h + T_1 (b + p) / 2
    Parameters:  prefill_s T_1 of one request, step_s t, tpot_s, shapes of the run [s]; run (b, O, p prompts of a pass);
                 efficiency (h)
    Returns:     shape (runs,) [s]
    Raises:      nothing
    Holds when:  requests finish at unrelated times, after the first wave (first_wave_wait_s); or all at once, in waves
                 whose passes follow each other.
    References:  performance_terms
    """
    rho = np.minimum(run.batch * prefill_s / np.maximum(run.output_tokens * tpot_s, 1e-12), 0.95)
    wait = rho / (2.0 * (1.0 - rho))
    apart = prefill_s * (1.0 + wait) + step_s / 2.0
    together = prefill_s * (run.batch + np.minimum(run.pass_prompts, run.batch)) / 2.0
    result: Array = efficiency.host_overhead_s + np.where(run.in_step > 0, together, apart)
    return result


def first_wave_wait_s(added_s: Array, run: RunLoad) -> Array:
    """Mean wait of the requests that a closed-loop client sends together when it starts.

    Formula:     (b - 1) T_i / 2: a prompt waits for half of the others of its wave
    Parameters:  added_s T_i: what each prompt adds to passes that run anyway, shape of the run [s];
                 run (b sequences of one attention rank)
    Returns:     shape of the run [s]
    Raises:      nothing
    Holds when:  prompts are prefilled in turn. Of a run's requests, one in REQUESTS_PER_SLOT is in this wave; engines
                 and clients that stay in step wait like this again and again.
    References:  performance_terms
    """
    result: Array = np.maximum(run.decode.sequences - 1.0, 0.0) * added_s / 2.0
    return result


def run_times(run: RunLoad, efficiency: Efficiency) -> tuple[Array, PassTime, PassTime]:
    """Value, prefill pass and decode pass of one run (or of stacked runs)."""
    prefill, decode = pass_time(run.prefill, efficiency), pass_time(run.decode, efficiency)
    return run_value(run, prefill, decode, efficiency), prefill, decode


def stack_runs(runs: Sequence[RunLoad]) -> RunLoad:
    """Many runs as one, shape (runs,)."""
    if not runs:
        raise DomainError("runs", "has at least one run", 0)

    def column(name: str) -> Array:
        return np.array([float(np.asarray(getattr(run, name)).reshape(-1)[0]) for run in runs])

    return replace(
        runs[0],
        quantity=column("quantity"),
        prefill=stack_loads([run.prefill for run in runs]),
        prefill_passes=column("prefill_passes"),
        decode=stack_loads([run.decode for run in runs]),
        batch=column("batch"),
        output_tokens=column("output_tokens"),
        chips=column("chips"),
        input_tokens=column("input_tokens"),
        in_step=column("in_step"),
        pass_prompts=column("pass_prompts"),
    )


@dataclass(frozen=True, slots=True)
class SplitSystem:
    """Steady state of prefill workers feeding decode workers in a closed loop."""

    tpot_s: float
    ttft_s: float
    rate_rps: float
    batch_per_worker: float
    bound: str
    """``prefill`` or ``concurrency``: what keeps the rate from growing."""


def split_system(
    *,
    in_flight: float,
    output_tokens: float,
    prefill_servers: float,
    prefill_s: float,
    decode_workers: float,
    batch_cap: float,
    step_s: object,
    fixed_s: float,
) -> SplitSystem:
    """Balance prefill and decode workers around a fixed number of requests in flight.

    Formula:     X = min(N_p / T_1, decode(b)) with b sequences per worker; decode(b) = N_d b / (O t(b));
                 Little: in flight = N_d b + X (T_1 + wait + fixed)
    Parameters:  in_flight requests; output_tokens O; prefill_servers N_p with prefill_s T_1 each [s];
                 decode_workers N_d; batch_cap sequences per worker; step_s: function batch -> seconds; fixed_s [s]
    Returns:     SplitSystem
    Raises:      nothing
    Holds when:  requests are alike; transfer is part of fixed_s.
    References:  performance_terms
    """
    assert callable(step_s)
    top_rate = prefill_servers / max(prefill_s, 1e-12)
    low, high = 0.0, max(min(in_flight / decode_workers, batch_cap), 1e-6)

    def rate(batch: float) -> float:
        return decode_workers * batch / (output_tokens * float(step_s(max(batch, 1e-3))))

    def surplus(batch: float) -> float:
        x = rate(batch)
        waiting = min(x, top_rate) * (prefill_s + fixed_s)
        return decode_workers * batch + waiting - in_flight if x <= top_rate else 1.0

    for _ in range(60):
        middle = (low + high) / 2
        if surplus(middle) > 0:
            high = middle
        else:
            low = middle
    batch = high
    x = min(rate(batch), top_rate)
    tpot = float(step_s(max(batch, 1e-3)))
    bound = "prefill" if rate(batch) >= top_rate * (1 - 1e-3) else "concurrency"
    queued = max(in_flight - decode_workers * batch, 0.0)
    return SplitSystem(
        tpot_s=tpot,
        ttft_s=max(queued / max(x, 1e-12), prefill_s + fixed_s),
        rate_rps=x,
        batch_per_worker=batch,
        bound=bound,
    )
