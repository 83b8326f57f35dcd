"""What a request of each class meets on one path, once the states of pools and lines are known.

No shares are needed here: the optimiser asks the same functions for the constants of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pddplan.domain.plan import Path, PathKind, Plan, Pool
from pddplan.domain.workload import Array
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.stages import LineState, PrefillState
from pddplan.paths.decoding import DecodePoint, averaged_sd
from pddplan.paths.first_token import DecodeStage, PrefillStage, first_token
from pddplan.paths.handover import Handover, extend_decode
from pddplan.paths.latency import LatencySum
from pddplan.paths.relay import Relay, relay
from pddplan.paths.transfer import TransferStage, hidden_prefill_s, transfer_latency
from pddplan.queueing.flows import burstiness, split_scv
from pddplan.queueing.moments import Moments
from pddplan.queueing.wait import Wait
from pddplan.queueing.waves import passed_swells, slow_wave, thinned

_GAP_QUANTILE = 0.99
"""How rare a wait for a slot may be to count for the longest gap at hand-over."""


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """States of all pools and lines, by id."""

    prefill: Mapping[str, PrefillState]
    lines: Mapping[str, LineState]
    decode: Mapping[str, DecodePoint]


@dataclass(frozen=True, slots=True, eq=False)
class PathResult:
    """One path, per class (last axis)."""

    path: Path
    ttft: LatencySum
    e2e: LatencySum
    transfer: LatencySum | None
    """Over the line; None when no line is crossed."""
    payload_bytes: Array
    """On the line, token ids included."""
    relay_tokens: Array
    """Output tokens made by the relay pool."""
    relay_hold_s: Array
    """Time a relay slot is held."""
    main_tokens: Array
    """Output tokens made by the main (or aggregated) pool."""
    main_extend_s: Array
    """Time of main decode taken by multi-token steps of hand-overs."""
    tpot_s: Array
    """(E2E - TTFT) / (O - 1), mean of the class."""
    worst_gap_s: Array
    """Longest gap between two output tokens."""
    decode_spread_s: Array
    """Standard deviation of the time after the first token: batches come and go, prefills interrupt."""
    tpot_most_s: Array
    """TPOT at full batches: fluctuations stop here; inf where prefills interrupt."""


def transfer_of(problem: Problem, plan: Plan, path: Path, states: States, *, swells: float = 1.0) -> LatencySum:
    """KV from the prefill pool to the main pool: over the line, or over RDMA inside a site."""
    pool = plan.pool(path.prefill)
    service = states.prefill[path.prefill].stage.service_s
    hidden = hidden_prefill_s(service, layers=problem.layers, overlap=problem.settings.overlap)
    stage = states.lines[path.line].stage if path.line is not None else rdma_stage(problem, pool)
    return transfer_latency(
        stage,
        problem.payload_bytes(pool, decode_cache=path.decode_cache),
        hidden_s=hidden,
        last_fraction=0.0 if problem.settings.overlap == "none" else 1.0 / problem.layers,
        swells=swells,
    )


@dataclass(frozen=True, slots=True, eq=False)
class WaitsInARow:
    """Waits of a path's stations one after the other, each with the swells of traffic that reach it."""

    prefill: PrefillStage
    line_swells: float
    slot: Wait


def waits_in_a_row(problem: Problem, path: Path, states: States, point: DecodePoint, *, crossed: bool) -> WaitsInARow:
    """Prefill, line (if ``crossed`` before) and slots of a pool, in waves of traffic.

    In a row of full stations the whole wait is that of the one which swells lengthen most (fluid tandem, leboudec2001):
    it keeps all of them, the others what would swamp them and not it (passed_swells).
    """
    first = states.prefill[path.prefill]
    stage, wave = first.stage, slow_wave(problem.workload.arrival)
    if wave is None or stage.calm_wait is None:
        return WaitsInARow(stage, 0.0, point.wait)
    line = states.lines[path.line] if crossed and path.line is not None else None
    loads = [first.utilization, line.utilization if line is not None else 0.0, point.utilization]
    more = [
        float(np.mean(stage.wait.mean_s)) - float(np.mean(stage.calm_wait.mean_s)),
        line.swell_mean_s if line is not None else 0.0,
        float(point.wait.mean_s) - float(point.calm_wait.mean_s),
    ]
    worst = int(np.argmax(np.where(np.isnan(more), np.inf, more)))
    shares = [
        1.0 if station == worst else passed_swells(wave, before=loads[worst], here=load)
        for station, load in enumerate(loads)
    ]
    prefill = replace(stage, wait=thinned(stage.calm_wait, stage.wait, shares[0]))
    return WaitsInARow(prefill, shares[1], thinned(point.calm_wait, point.wait, shares[2]))


def rdma_stage(problem: Problem, pool: Pool) -> TransferStage:
    """The fabric inside a site as a line without contention."""
    return TransferStage(problem.rdma_bytes_per_s(pool), rtt_s=2.0 * problem.settings.rdma_latency_s)


def path_result(problem: Problem, plan: Plan, path: Path, states: States) -> PathResult:
    """Latencies, tokens and occupancies of one path for every class."""
    if path.kind is PathKind.P_RLD_MD:
        return _relayed(problem, plan, path, states)
    classes = problem.workload.classes
    output = classes.output_tokens
    zero = np.zeros_like(output)
    on_relay = path.kind is PathKind.P_RLD
    decoder = path.relay if on_relay else path.prefill if path.kind is PathKind.AGGREGATED else path.decode
    point = states.decode[_given(decoder, path)]
    payload, crossing = zero, None
    row = waits_in_a_row(problem, path, states, point, crossed=path.kind is PathKind.P_MD)
    if path.kind is PathKind.AGGREGATED:
        moved = LatencySum(zero)
    elif on_relay:
        moved = _to_relay(problem, plan.pool(path.prefill))
    else:
        moved = transfer_of(problem, plan, path, states, swells=row.line_swells)
        if path.line is not None:
            payload = problem.payload_bytes(plan.pool(path.prefill), decode_cache=path.decode_cache)
            crossing = moved
    ttft = first_token(path.kind, row.prefill, transfer=moved, decode=DecodeStage(point.step_s, row.slot))
    gap = point.cap_step_s + zero
    token_s = point.token_s + point.token_crowding_s
    after_first = np.maximum(output - 1.0, 0.0) * token_s
    spread = _batch_spread_s(point, output, output)
    most = point.cap_token_s + zero
    if path.kind is PathKind.AGGREGATED:
        gap = np.full_like(output, problem.longest_mixed_step_s(plan.pool(path.prefill), point.cap_step_s))
        most = np.full_like(output, np.inf)
        state, arrival = states.prefill[path.prefill], problem.workload.arrival
        part = min(state.rate_rps / arrival.rate_rps, 1.0) / state.instances if arrival.rate_rps > 0 else 1.0
        spread = np.hypot(
            spread,
            interruption_spread_s(
                after_first,
                stop_rate_per_s=state.rate_rps / state.instances,
                stop=state.stop,
                dispersion=split_scv(part, scv=burstiness(arrival, after_first)),
            ),
        )
    return PathResult(
        path=path,
        ttft=ttft,
        e2e=_spread_out(ttft, after_first, spread),
        transfer=crossing,
        payload_bytes=payload,
        relay_tokens=output if on_relay else zero,
        relay_hold_s=output * point.token_s if on_relay else zero,
        main_tokens=zero if on_relay else output,
        main_extend_s=zero,
        tpot_s=zero + token_s,
        worst_gap_s=gap,
        decode_spread_s=spread,
        tpot_most_s=most,
    )


def _batch_spread_s(point: DecodePoint, output_tokens: Array, made_tokens: Array) -> Array:
    """Spread of the decoding time of tokens made in a pool whose batch comes and goes [s]."""
    sd = averaged_sd(point.token_sd_s, output_tokens * point.token_s, memory_s=point.token_memory_s)
    return np.maximum(made_tokens - 1.0, 0.0) * sd


def _spread_out(ttft: LatencySum, after_first_s: Array, spread_s: Array) -> LatencySum:
    """E2E: TTFT and a decoding time whose spread is read as an exponential part of that mean."""
    varied = np.minimum(spread_s, after_first_s)
    return ttft.plus(after_first_s - varied, Wait((varied > 0).astype(float), varied))


def interruption_spread_s(
    decode_s: Array, *, stop_rate_per_s: float, stop: Moments, dispersion: Array | float = 1.0
) -> Array:
    """How far the decoding time of a request spreads because prefills of others stop it at random.

    Formula:     sd = min(sqrt(v D (E[p^2] + (I - 1) E[p]^2)), v D E[p]),  v = prefills per second on the instance,
                 D decoding time
    Parameters:  decode_s D with the mean interruption in it, shape (classes,) [s]; stop_rate_per_s v;
                 stop: moments of p; dispersion I of the instance's arrivals over D
    Returns:     shape (classes,) [s], at most the mean interruption
    Raises:      nothing
    Holds when:  lengths of interruptions are independent (compound process); read as the mean and spread of an
                 exponential part.
    References:  ross2014, chapter 5
    """
    each = np.maximum(stop.second + (np.asarray(dispersion) - 1.0) * stop.mean**2, 0.0)
    spread = np.sqrt(stop_rate_per_s * decode_s * each)
    return np.asarray(np.minimum(spread, stop_rate_per_s * decode_s * stop.mean))


def _relayed(problem: Problem, plan: Plan, path: Path, states: States) -> PathResult:
    classes, settings = problem.workload.classes, problem.settings
    output = classes.output_tokens
    near, far = states.decode[_given(path.relay, path)], states.decode[_given(path.decode, path)]
    to_relay = _to_relay(problem, plan.pool(path.prefill))
    row = waits_in_a_row(problem, path, states, near, crossed=False)
    later = waits_in_a_row(problem, path, states, far, crossed=True)
    near_wait, far_wait = row.slot, later.slot
    ttft = first_token(path.kind, row.prefill, transfer=to_relay, decode=DecodeStage(near.step_s, near_wait))
    crossing = transfer_of(problem, plan, path, states, swells=later.line_swells)
    # the relay hands over when the KV has landed; a wait for a slot of main decode is a gap that the user sees
    lead = to_relay.mean_s + near_wait.mean_s + near.step_s
    token_s = near.token_s
    relayed: Relay = relay(crossing, lead_s=lead, token_s=token_s, output_tokens=output)
    passed = _handover(problem, plan, path, states, eager_tokens=relayed.eager_tokens)
    unfinished = crossing.cdf(output * token_s + lead)
    # an overloaded relay makes no more tokens than it can
    served = 1.0 / max(near.utilization, 1.0)
    near_tokens = np.minimum(relayed.eager_tokens + unfinished * passed.extra_tokens, output) * served
    far_tokens = output - near_tokens
    no_slot = Wait(
        unfinished * far_wait.delay_probability, far_wait.tail_mean_s, far_wait.fast_share, far_wait.fast_mean_s
    )
    far_token_s = far.token_s + far.token_crowding_s
    decoding = near_tokens * token_s + far_tokens * far_token_s + unfinished * passed.gap_s
    gaps = np.maximum(output - 1.0, 1.0)
    ids = near_tokens * settings.token_id_bytes
    payload = problem.payload_bytes(plan.pool(path.prefill), decode_cache=path.decode_cache)
    after_first = np.where(output > 1.0, decoding * np.maximum(output - 1.0, 0.0) / np.maximum(output, 1.0), 0.0)
    spread = _batch_spread_s(far, output, far_tokens)
    return PathResult(
        path=path,
        ttft=ttft,
        e2e=_spread_out(ttft, after_first, spread).plus(0.0, no_slot),
        transfer=crossing if path.line is not None else None,
        payload_bytes=payload + ids if path.line is not None else 0.0 * output,
        relay_tokens=near_tokens,
        relay_hold_s=relayed.busy_s + near.step_s + unfinished * passed.occupancy_s,
        main_tokens=far_tokens,
        main_extend_s=unfinished
        * np.maximum(_extend_s(problem, plan, path, states)(relayed.eager_tokens) - far.step_s, 0.0),
        tpot_s=(after_first + no_slot.mean_s) / gaps,
        decode_spread_s=spread,
        tpot_most_s=(near_tokens * near.cap_token_s + far_tokens * far.cap_token_s + unfinished * passed.gap_s)
        / np.maximum(output, 1.0),
        worst_gap_s=np.maximum(
            np.where(unfinished > 0, passed.gap_s + far_wait.quantile_s(_GAP_QUANTILE), 0.0),
            max(near.cap_step_s, far.cap_step_s),
        ),
    )


def _handover(problem: Problem, plan: Plan, path: Path, states: States, *, eager_tokens: Array) -> Handover:
    settings = problem.settings
    rtt_s = states.lines[path.line].stage.rtt_s if path.line is not None else 2.0 * settings.rdma_latency_s
    return extend_decode(
        eager_tokens,
        mode=settings.handover,
        threshold_tokens=settings.handover_threshold_tokens,
        extend_s=_extend_s(problem, plan, path, states),
        one_way_s=0.5 * rtt_s,
        relay_token_s=states.decode[_given(path.relay, path)].token_s,
        overhead_s=settings.handover_overhead_s,
    )


def _extend_s(problem: Problem, plan: Plan, path: Path, states: States) -> Callable[[Array], Array]:
    """Step of main decode in which one sequence of the batch is extended by n tokens."""
    pool = plan.pool(_given(path.decode, path))
    instance = problem.instance_of(pool)
    context = problem.workload.classes.input_tokens
    step_s = states.decode[pool.id].step_s

    single = problem.single_step_s(pool)

    def extend_s(tokens: Array) -> Array:
        alone = instance.decode_step_s(
            batch=np.ones_like(context), context_tokens=context, tokens_per_sequence=np.maximum(tokens, 1.0)
        )
        return np.asarray(step_s + np.maximum(np.asarray(alone, dtype=float) - single, 0.0))

    return extend_s


def _to_relay(problem: Problem, pool: Pool) -> LatencySum:
    """The whole KV of a request crosses to the relay pool inside the site."""
    return transfer_latency(rdma_stage(problem, pool), problem.payload_bytes(pool, decode_cache=False))


def _given(pool_id: str | None, path: Path) -> str:
    if pool_id is None:
        raise ValueError(f"path {path.id} of kind {path.kind} lacks a pool")
    return pool_id
