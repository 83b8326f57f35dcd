"""Does a leased line carry the KV traffic of a workload? Bytes, headroom and times, per tier and hit rate."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pddplan.domain.outcome import Percentiles
from pddplan.domain.sites import Line, Tier
from pddplan.domain.workload import Array, RequestClasses, Workload
from pddplan.evaluate.problem import KvBytes
from pddplan.evaluate.settings import Settings
from pddplan.evaluate.stages import LineState, line_state
from pddplan.paths.handover import token_id_payload_bytes
from pddplan.paths.mixture import mixture_percentiles
from pddplan.paths.transfer import transfer_latency
from pddplan.units import bytes_per_s_to_gbps

CEILING = 0.8
"""Share of the usable rate that a line is planned to at peak: KV comes in bursts (reference/README, network facts)."""
HANDOVER_TOKENS = 100.0
"""Eager tokens of the hand-over that is shown: the published example."""
HIT_RATES = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
NO_TRANSFER = Percentiles(0.0, 0.0, 0.0, 0.0)
QUANTILE_NAMES = {0.5: "P50", 0.9: "P90", 0.99: "P99"}


@dataclass(frozen=True, slots=True)
class UniformKv:
    """KV of so many bytes per token, for models of which nothing else is known."""

    growing_bytes_per_token: float
    fixed_bytes: float = 0.0

    def sequence_bytes(self, tokens: Array) -> Array:
        return self.increment_bytes(total_tokens=tokens, missing_tokens=tokens)

    def increment_bytes(self, *, total_tokens: Array, missing_tokens: Array) -> Array:
        missing = np.minimum(np.asarray(missing_tokens, dtype=float), total_tokens)
        return np.where(missing > 0, self.growing_bytes_per_token * missing + self.fixed_bytes, 0.0)


@dataclass(frozen=True, slots=True)
class TierCheck:
    """One tier of the tariff ladder under the traffic, with all lines up and with one down."""

    gbps: float
    count: int
    usable_gbps: float
    """Payload rate that all transfers share."""
    transfer_gbps: float
    """Payload rate of a transfer that has the line for itself."""
    limit: str
    """What sets the latter: ``line``, ``window`` or ``loss``."""
    mean_utilization: float
    peak_utilization: float
    one_down_utilization: float
    """At peak with one line fewer; inf when there is only one."""
    feasible: bool
    """Peak utilisation within the ceiling."""
    largest_rps: float
    """Request rate at which the peak reaches the ceiling."""
    transfer: Percentiles
    """Over the requests that send something, at peak."""
    monthly_cost: float
    currency: str


@dataclass(frozen=True, slots=True)
class HitRateRow:
    """The same line if every request found this share of its input at the decode side."""

    hit_rate: float
    payload_bytes: float
    peak_gbps: float
    peak_utilization: float
    largest_rps: float
    transfer: Percentiles


@dataclass(frozen=True, slots=True, eq=False)
class LineCheck:
    """Everything ``pddplan wan check`` says."""

    workload: str
    llm: str
    line: Line
    drc: bool
    rate_rps: float
    peak_rps: float
    ceiling: float
    growing_bytes_per_token: float
    fixed_bytes: float
    """Windows and recurrent state: sent whole with every transfer, whatever the hit rate."""
    classes: RequestClasses
    sent_tokens: Array
    payload_bytes: Array
    payload_mean_bytes: float
    mean_gbps: float
    peak_gbps: float
    peak_gbps_without_drc: float
    growing_cut: float
    """Times fewer growing bytes with the decode-side cache than without."""
    whole_cut: float
    """The same with the fixed state, which no cache saves."""
    tiers: tuple[TierCheck, ...]
    chosen: TierCheck | None
    """The tier asked for, else the smallest feasible one, else the largest."""
    hit_rates: tuple[HitRateRow, ...]
    ttft_promises_s: tuple[tuple[str, float, float], ...]
    """(quantile, promised TTFT, transfer at that quantile on the chosen tier): what the line takes of a promise."""
    handover_ids_bytes: float
    handover_kv_bytes: float
    """KV of the same tokens, windows and state included."""
    handover_kv: Percentiles
    """Time to send that KV on the chosen tier at peak."""
    handover_ids_s: float
    """Time of an Extend-Decode hand-over without main decode's own step: RTT/2 and the engines."""


def check_line(
    workload: Workload,
    kv: KvBytes,
    line: Line,
    *,
    gbps: float | None = None,
    count: int = 1,
    drc: bool = True,
    ceiling: float = CEILING,
    settings: Settings | None = None,
) -> LineCheck:
    """Judge a line by its traffic alone: transfers arrive independently, as if prefill pools were large.

    ``gbps`` picks the tier that the tables by class and hit rate are made for; a rate that is not on the ladder
    is judged without a price.
    """
    behaviour = settings or Settings()
    classes = workload.classes
    sent = classes.miss_decode_tokens if drc else classes.input_tokens
    payload = np.asarray(kv.increment_bytes(total_tokens=classes.input_tokens, missing_tokens=sent), dtype=float)
    whole = np.asarray(
        kv.increment_bytes(total_tokens=classes.input_tokens, missing_tokens=classes.input_tokens), dtype=float
    )
    rate = workload.arrival.rate_rps
    peak = rate * peak_factor(workload)
    mean_payload = classes.mean(payload)
    ladder = list(line.tiers)
    if gbps is not None and all(tier.gbps != gbps for tier in ladder):
        ladder.append(Tier(gbps, float("nan")))
    tiers = tuple(
        _tier(line, tier, workload, payload, rates=(rate, peak), count=count, ceiling=ceiling)
        for tier in sorted(ladder, key=lambda tier: tier.gbps)
    )
    chosen = _chosen(tiers, gbps)
    middle = float(np.dot(classes.weight, classes.input_tokens))
    example = np.asarray(
        kv.increment_bytes(total_tokens=np.array([middle]), missing_tokens=np.array([min(HANDOVER_TOKENS, middle)]))
    )
    missed, tokens = classes.mean(classes.miss_decode_tokens), classes.mean(classes.input_tokens)
    drc_payload = classes.mean(
        np.asarray(
            kv.increment_bytes(total_tokens=classes.input_tokens, missing_tokens=classes.miss_decode_tokens),
            dtype=float,
        )
    )
    return LineCheck(
        workload=workload.name,
        llm=workload.llm,
        line=line,
        drc=drc,
        rate_rps=rate,
        peak_rps=peak,
        ceiling=ceiling,
        growing_bytes_per_token=float(kv.growing_bytes_per_token),
        fixed_bytes=float(kv.fixed_bytes),
        classes=classes,
        sent_tokens=sent,
        payload_bytes=payload,
        payload_mean_bytes=mean_payload,
        mean_gbps=bytes_per_s_to_gbps(rate * mean_payload),
        peak_gbps=bytes_per_s_to_gbps(peak * mean_payload),
        peak_gbps_without_drc=bytes_per_s_to_gbps(peak * classes.mean(whole)),
        growing_cut=tokens / missed if missed > 0 else float("inf"),
        whole_cut=classes.mean(whole) / drc_payload if drc_payload > 0 else float("inf"),
        tiers=tiers,
        chosen=chosen,
        hit_rates=tuple(_at_hit_rate(hit, workload, kv, line, chosen, peak=peak, ceiling=ceiling) for hit in HIT_RATES)
        if chosen is not None
        else (),
        ttft_promises_s=_of_promises(workload, chosen),
        handover_ids_bytes=float(token_id_payload_bytes(HANDOVER_TOKENS, token_id_bytes=behaviour.token_id_bytes)),
        handover_kv_bytes=float(example[0]),
        handover_kv=_alone(line, chosen, workload, payload, example=example, rate_rps=peak),
        handover_ids_s=0.5 * line.rtt_s + behaviour.handover_overhead_s,
    )


def _alone(
    line: Line, chosen: TierCheck | None, workload: Workload, payload: Array, *, example: Array, rate_rps: float
) -> Percentiles:
    """Times of one more payload among the traffic of the chosen tier."""
    if chosen is None:
        return NO_TRANSFER
    state = _state(line, chosen.gbps, workload, payload, rate_rps=rate_rps, count=chosen.count)
    return transfer_percentiles(state, example, np.ones(1))


def _of_promises(workload: Workload, chosen: TierCheck | None) -> tuple[tuple[str, float, float], ...]:
    if chosen is None:
        return ()
    taken = {0.5: chosen.transfer.p50, 0.9: chosen.transfer.p90, 0.99: chosen.transfer.p99}
    return tuple((QUANTILE_NAMES[q], limit, taken[q]) for q, limit in workload.promises.ttft().items())


def peak_factor(workload: Workload) -> float:
    """Peak over mean rate: what the workload states, or its busiest hour if that is more."""
    hourly = workload.arrival.hourly_profile
    return max(workload.arrival.peak_to_mean, max(hourly) if hourly else 1.0, 1.0)


def _tier(
    line: Line,
    tier: Tier,
    workload: Workload,
    payload: Array,
    *,
    rates: tuple[float, float],
    count: int,
    ceiling: float,
) -> TierCheck:
    classes, (mean_rps, peak_rps) = workload.classes, rates
    state = _state(line, tier.gbps, workload, payload, rate_rps=peak_rps, count=count)
    fewer = _state(line, tier.gbps, workload, payload, rate_rps=peak_rps, count=count - 1) if count > 1 else None
    ratio = mean_rps / peak_rps if peak_rps > 0 else 1.0
    return TierCheck(
        gbps=tier.gbps,
        count=count,
        usable_gbps=bytes_per_s_to_gbps(state.rate.bytes_per_s),
        transfer_gbps=bytes_per_s_to_gbps(state.rate.transfer_bytes_per_s),
        limit=state.rate.limit,
        mean_utilization=state.utilization * ratio,
        peak_utilization=state.utilization,
        one_down_utilization=fewer.utilization if fewer is not None else float("inf"),
        feasible=state.utilization <= ceiling,
        largest_rps=_largest_rps(state, classes.mean(payload), ceiling=ceiling, peak_to_mean=1.0 / ratio),
        transfer=transfer_percentiles(state, payload, classes.weight),
        monthly_cost=tier.monthly_cost * count,
        currency=tier.currency,
    )


def _state(line: Line, gbps: float, workload: Workload, payload: Array, *, rate_rps: float, count: int) -> LineState:
    return line_state(
        line,
        gbps,
        count=count,
        transfer_rate_rps=rate_rps * workload.classes.weight,
        payload_bytes=payload,
        arrival_scv=workload.arrival.scv,
    )


def _largest_rps(state: LineState, mean_payload_bytes: float, *, ceiling: float, peak_to_mean: float) -> float:
    if mean_payload_bytes <= 0:
        return float("inf")
    return ceiling * state.rate.bytes_per_s / mean_payload_bytes / peak_to_mean


def _chosen(tiers: tuple[TierCheck, ...], gbps: float | None) -> TierCheck | None:
    if gbps is not None:
        return next(tier for tier in tiers if tier.gbps == gbps)
    feasible = [tier for tier in tiers if tier.feasible]
    return feasible[0] if feasible else tiers[-1] if tiers else None


def _at_hit_rate(
    hit: float, workload: Workload, kv: KvBytes, line: Line, chosen: TierCheck, *, peak: float, ceiling: float
) -> HitRateRow:
    classes = workload.classes
    tokens = classes.input_tokens
    payload = np.asarray(kv.increment_bytes(total_tokens=tokens, missing_tokens=(1.0 - hit) * tokens), dtype=float)
    even = replace(workload, classes=replace(classes, miss_decode_tokens=(1.0 - hit) * tokens))
    state = _state(line, chosen.gbps, even, payload, rate_rps=peak, count=chosen.count)
    return HitRateRow(
        hit_rate=hit,
        payload_bytes=classes.mean(payload),
        peak_gbps=bytes_per_s_to_gbps(state.mean_bytes_per_s),
        peak_utilization=state.utilization,
        largest_rps=_largest_rps(state, classes.mean(payload), ceiling=ceiling, peak_to_mean=peak_factor(workload)),
        transfer=transfer_percentiles(state, payload, classes.weight),
    )


def transfer_percentiles(state: LineState, payload_bytes: Array, weight: Array) -> Percentiles:
    """Transfer times over the requests of a mix that send something [s]."""
    sent = (payload_bytes > 0) & (weight > 0)
    if not sent.any():
        return NO_TRANSFER
    latency = transfer_latency(state.stage, payload_bytes)
    return mixture_percentiles(latency.prepared().rows(sent), weight[sent][None], mean_s=latency.mean_s[sent][None])[0]
