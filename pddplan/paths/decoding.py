"""Operating point of a decoding pool: batch, step time and slots from Little's law."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from pddplan.domain.workload import Array
from pddplan.paths.occupancy import CALM, Unrest, averaging_part, slot_occupancy
from pddplan.queueing.wait import NO_WAIT, OVERLOADED, Wait
from pddplan.queueing.waves import Wave, waved_wait

_GRID_POINTS = 48
_LEAST_FADING = 0.01
_MOST_PREFILLING = 0.95


class DecodingInstance(Protocol):
    """What is asked of an instance here (see performance.instance.InstancePerformance)."""

    def decode_step_s(self, *, batch: Array, context_tokens: Array, tokens_per_sequence: float = 1.0) -> Array: ...

    def tokens_per_step(self, *, batch: float) -> float: ...

    def max_batch(self, *, context_tokens: float) -> tuple[int, str]: ...


@dataclass(frozen=True, slots=True, eq=False)
class StepCurve:
    """Seconds per token of one sequence against the batch of its instance, on a grid."""

    batch: Array
    step_s: Array
    token_s: Array
    """step over tokens per step: what TPOT is made of."""

    def step(self, batch: float) -> float:
        return float(np.interp(batch, self.batch, self.step_s))

    def token(self, batch: float) -> float:
        return float(np.interp(batch, self.batch, self.token_s))


@dataclass(frozen=True, slots=True)
class BatchCap:
    """Largest batch of one instance and what sets it."""

    batch: int
    reason: str
    """``memory``, ``stack``, ``TPOT`` or ``plan``."""
    memory_batch: int
    memory_reason: str


@dataclass(frozen=True, slots=True)
class DecodePoint:
    """What a decoding pool does at a load."""

    batch: float
    """Mean sequences in flight per instance."""
    cap: BatchCap
    step_s: float
    token_s: float
    """Time per output token of a sequence."""
    cap_step_s: float
    """Step of a full batch: the longest gap that plain decoding shows."""
    cap_token_s: float
    """The same when the batch is full: the worst that an admitted request sees."""
    holding_s: float
    """Mean time a request keeps its slot."""
    utilization: float
    """Request rate over the largest rate that full batches can serve."""
    wait: Wait
    calm_wait: Wait = NO_WAIT
    """The same without slow waves of arrivals: what is left of it where a station before stops them."""
    token_sd_s: float = 0.0
    """Standard deviation of the time per token at a moment, as the batch comes and goes."""
    token_crowding_s: float = 0.0
    """How much slower requests see it on average than a clock does: in waves most come when it is full."""
    token_memory_s: float = 0.0
    """For how long that lasts: about one holding time, longer where it comes from waves of arrivals."""


def step_curve(instance: DecodingInstance, *, context_tokens: float, largest_batch: int) -> StepCurve:
    """Sample the step time over batches 1..largest, exactly at small batches and evenly in logarithm above.

    Formula:     token = step(b, context) / tokens_per_step(b)
    Parameters:  instance; context_tokens, mean over sequences in flight [tokens]; largest_batch >= 1
    Returns:     StepCurve [s]
    Raises:      nothing
    Holds when:  the step depends on the context through its mean (KV reads are linear in it).
    References:  kwon2023; leviathan2023
    """
    grid = np.unique(np.round(np.geomspace(1.0, max(largest_batch, 1), _GRID_POINTS)))
    step = np.asarray(
        instance.decode_step_s(batch=grid, context_tokens=np.full_like(grid, context_tokens)), dtype=float
    )
    gain = np.array([instance.tokens_per_step(batch=float(b)) for b in grid])
    return StepCurve(grid, step, step / gain)


def batch_cap(
    instance: DecodingInstance,
    curve: StepCurve | None = None,
    *,
    context_tokens: float,
    tpot_limit_s: float | None = None,
    plan_batch: int | None = None,
) -> BatchCap:
    """Largest batch that memory, stack, the TPOT promise and the plan allow.

    Formula:     min(memory or stack cap at the context, largest b with step(b)/tokens_per_step(b) <= TPOT, plan)
    Parameters:  instance; curve or None to sample it; context_tokens that a sequence holds memory for [tokens];
                 tpot_limit_s [s] and plan_batch or None
    Returns:     BatchCap; batch 0 when even one sequence breaks a limit
    Raises:      nothing
    Holds when:  the time per token does not fall with the batch.
    References:  kwon2023
    """
    memory, reason = instance.max_batch(context_tokens=context_tokens)
    best, why = memory, reason
    if tpot_limit_s is not None and memory >= 1:
        sampled = curve or step_curve(instance, context_tokens=context_tokens, largest_batch=memory)
        allowed = _largest_batch(sampled, tpot_limit_s)
        if allowed < best:
            best, why = allowed, "TPOT"
    if plan_batch is not None and plan_batch < best:
        best, why = plan_batch, "plan"
    return BatchCap(int(best), why, int(memory), reason)


def _largest_batch(curve: StepCurve, limit_s: float) -> int:
    within = curve.token_s <= limit_s * (1 + 1e-12)
    if within.all():
        return int(curve.batch[-1])
    first_over = int(np.argmin(within))
    if first_over == 0:
        return 0
    lo, hi = first_over - 1, first_over
    slope = (curve.token_s[hi] - curve.token_s[lo]) / (curve.batch[hi] - curve.batch[lo])
    return int(np.floor(curve.batch[lo] + (limit_s - curve.token_s[lo]) / slope + 1e-9))


def decode_point(
    curve: StepCurve,
    *,
    cap: BatchCap,
    instances: int,
    request_rate_rps: float,
    tokens_per_request: float,
    extra_holding_s: float = 0.0,
    prefill_s: float = 0.0,
    holding_scv: float = 1.0,
    unrest: Unrest = CALM,
    wave: Wave | None = None,
    calm: Unrest = CALM,
) -> DecodePoint:
    """Self-consistent batch of a pool and the wait for a slot.

    Formula:     b = lambda/n * (O t(b) + x), t(b) = token(b + 1/n) + b t_prefill / O  (Little's law, fixed point);
                 utilization = lambda (O token(cap) + x + cap t_prefill) / (n cap);
                 slot wait = slot_occupancy and the tail of G/G/c with c = n cap servers; in waves waved_wait of it,
                 and requests see t + sd(t) x sd(b) / b, x = waves' part of the variance: those of a level come at it
    Parameters:  curve, cap of an instance; instances n; request_rate_rps lambda; tokens_per_request O that are
                 made here; extra_holding_s x: time a slot is kept without making tokens; prefill_s: mean prefill
                 work per request that interrupts decoding here (aggregated pools); holding_scv of O t(b) + x;
                 unrest of all kinds; wave of the traffic, or None, and the unrest without it (calm)
    Returns:     DecodePoint; utilization >= 1 when full batches cannot serve the load
    Raises:      nothing
    Holds when:  requests go to the instance with the fewest sequences; step times change slowly.
    References:  little1961; performance_terms
    """
    per_instance = request_rate_rps / instances
    full = max(cap.batch, 1)
    at_cap = tokens_per_request * curve.token(full) + extra_holding_s + full * prefill_s
    utilization = per_instance * at_cap / full if cap.batch >= 1 else np.inf
    if request_rate_rps <= 0:
        utilization = 0.0
    # holding is linear between the nodes at which the batch that a request sees passes a grid point
    nodes = np.unique(np.clip(np.append(curve.batch - 1.0 / instances, (0.0, full)), 0.0, full))
    seen_at = np.clip(nodes + 1.0 / instances, 1.0, full)
    holding = tokens_per_request * np.interp(seen_at, curve.batch, curve.token_s) + extra_holding_s + nodes * prefill_s
    batch = float(full)
    if utilization < 1.0:
        batch = _first_crossing(nodes, nodes - per_instance * holding)
    held = float(np.interp(batch, nodes, holding))
    seen = min(max(batch + 1.0 / instances, 1.0), full)
    slowed = prefill_s / tokens_per_request if tokens_per_request > 0 else 0.0
    wait, calm_wait, batch_sd, in_waves = OVERLOADED, OVERLOADED, 0.0, 0.0
    if utilization < 1.0:
        slots = instances * full
        wait = calm_wait = NO_WAIT
        if utilization > 0:
            # work of one request for a full instance: its tokens, and the stops it brings
            work_s = utilization * instances / request_rate_rps
            stop = min(unrest.stop_mean_s / work_s, 1.0)
            varied = max(unrest.stop_second_s2 / work_s / work_s - stop**2, 0.0) + holding_scv * (1.0 - stop) ** 2
            occupy = partial(
                slot_occupancy,
                request_rate_rps,
                slots,
                instances=instances,
                nodes=nodes,
                holding_s=(holding - nodes * prefill_s) / (1.0 - per_instance * prefill_s) + unrest.stop_mean_s,
                utilization=utilization,
                work_scv=varied,
            )
            occupied = occupy(unrest=unrest)
            batch_sd, in_waves = occupied.sequences_sd / instances, occupied.waves_share
            settled = occupied if wave is None else occupy(unrest=calm)
            wait = calm_wait = Wait(settled.delay_probability, settled.excess * work_s / instances)
            if settled.at_load is not None:
                wait = waved_wait(
                    calm_wait,
                    wave,
                    utilization=_swamped_load(
                        curve,
                        per_instance,
                        full=full,
                        tokens=tokens_per_request,
                        extra_holding_s=extra_holding_s,
                        prefill_s=prefill_s,
                    ),
                    noise_s=work_s / instances * (1.0 + varied),
                    delayed=settled.at_load,
                    memory_s=held * averaging_part(unrest.overlap),
                )
    above, below = min(seen + batch_sd, full), max(seen - batch_sd, 1.0)
    # a fuller batch comes with more prefills, as b t_prefill / O says for the mean
    token_sd = 0.5 * (curve.token(above) - curve.token(below) + (above - below) * slowed)
    return DecodePoint(
        batch=batch if request_rate_rps > 0 else 0.0,
        cap=cap,
        step_s=curve.step(seen),
        token_s=curve.token(seen) + batch * slowed,
        cap_step_s=curve.step(full),
        cap_token_s=curve.token(full) + full * slowed,
        holding_s=held,
        utilization=float(utilization),
        wait=wait,
        calm_wait=calm_wait,
        token_sd_s=token_sd,
        token_crowding_s=token_sd * in_waves * batch_sd / batch if wave is not None and batch > 0.0 else 0.0,
        token_memory_s=held / max(1.0 - in_waves, _LEAST_FADING),
    )


def _swamped_load(
    curve: StepCurve, per_instance_rps: float, *, full: int, tokens: float, extra_holding_s: float, prefill_s: float
) -> float:
    """Load of slots that a swell has filled: what prefills and waits for prefill on the same instance holds no token.

    Formula:     lambda/n ((O token(b) + x) / b + t_prefill),  b = max(full - p - p^2/(1 - p), full / 2),
                 p = t_prefill / (t_prefill + (O token(full) + x) / full): one server that prefills behind freed slots
    Parameters:  curve; per_instance_rps lambda/n [1/s]; full batch; tokens O; extra_holding_s x, prefill_s [s]
    Returns:     utilization, that of full slots where nothing prefills here
    Raises:      nothing
    Holds when:  slots are full for longer than a prefill takes.
    References:  kleinrock1975, chapter 3
    """
    decoding = (tokens * curve.token(full) + extra_holding_s) / full
    busy = min(prefill_s / (prefill_s + decoding), _MOST_PREFILLING) if prefill_s > 0.0 else 0.0
    batch = max(full - busy - busy**2 / (1.0 - busy), 0.5 * full)
    return per_instance_rps * ((tokens * curve.token(batch) + extra_holding_s) / batch + prefill_s)


def averaged_sd(sd: float, lasts_s: Array, *, memory_s: float) -> Array:
    """Standard deviation of an average over a time, of something that fluctuates with a memory.

    Formula:     sd sqrt(2 (x - 1 + exp(-x)) / x^2),  x = time / memory
    Parameters:  sd at a moment; lasts_s, shape (classes,) [s]; memory_s [s]
    Returns:     shape (classes,), at most sd
    Raises:      nothing
    Holds when:  correlation falls exponentially with the memory; the batch of a pool forgets in one holding time.
    References:  law2015, chapter 4
    """
    x = np.maximum(np.asarray(lasts_s, dtype=float) / max(memory_s, 1e-12), 1e-6)
    return np.asarray(sd * np.sqrt(np.minimum(2.0 * (x - 1.0 + np.exp(-x)) / x**2, 1.0)))


def _first_crossing(x: Array, y: Array) -> float:
    """Smallest x at which a piecewise linear function reaches zero from below; the last x if it never does."""
    reached = np.flatnonzero(y >= 0.0)
    if reached.size == 0:
        return float(x[-1])
    at = int(reached[0])
    if at == 0:
        return float(x[0])
    step = (0.0 - y[at - 1]) / (y[at] - y[at - 1])
    return float(x[at - 1] + step * (x[at] - x[at - 1]))
