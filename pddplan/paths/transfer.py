"""The transfer of one request's KV: what of it can be seen after prefill has ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.network.feed import NO_EFFECT, FeedEffect, tail_factor
from pddplan.network.sharing import idle_transfer_s, shared_delay_probability
from pddplan.paths.latency import LatencySum
from pddplan.queueing.wait import Wait


@dataclass(frozen=True, slots=True, eq=False)
class TransferStage:
    """A line (or RDMA fabric) at one operating point; arrays put operating points in front of classes."""

    rate_bytes_per_s: Array | float
    """Shared by all transfers."""
    utilization: Array | float = 0.0
    tail_ratio: Array | float = 0.0
    """Mean extra time per second that a payload's bytes occupy the whole line (sharing_tail_ratio)."""
    transfer_bytes_per_s: float = np.inf
    """Most that one transfer gets."""
    effect: FeedEffect = NO_EFFECT
    """What the feeding pools change about the tail."""
    large_bytes: float = 0.0
    """E[z^2]/E[z] of the payloads that share the line: the size that effects are measured by."""
    rtt_s: float = 0.0
    swell: Wait | None = None
    """Others on the line as a request meets them in waves of traffic, where there are any (see waved_wait); in units of
    the time that a payload's bytes occupy the line."""
    noise_mean_s: float = 0.0
    """Mean of an extra exponential delay per transfer, outside our control."""


def transfer_latency(
    stage: TransferStage,
    payload_bytes: Array,
    *,
    hidden_s: Array | float = 0.0,
    last_fraction: float = 0.0,
    swells: float = 1.0,
) -> LatencySum:
    """Time from the end of prefill until the last byte of the KV has arrived, on a shared line.

    Formula:     T = max(z / min(r, C) + X - h, f z / min(r, C)) + RTT/2 + N;
                 X = 0 or, with chance p = shared_delay_probability, Exp(g z/C tail_factor(z) / p);  N ~ Exp(noise).
                 Beyond the hidden part h the tail has no memory, so the maximum is again an atom and the same tail.
    Parameters:  stage (C, r [bytes/s], g, RTT [s], noise [s]); payload_bytes z, shape (..., classes) [bytes];
                 hidden_s h: the part of prefill during which earlier layers were already sent [s];
                 last_fraction f of the payload that cannot leave before prefill has ended (the last layer's)
    Returns:     LatencySum [s]; zero for a class with nothing to carry
    Raises:      nothing
    Holds when:  layers leave at an even pace during prefill; see hidden_prefill_s for h.
    References:  lindberger1999; kleinrock1976, chapter 4
    """
    payload = np.asarray(payload_bytes, dtype=float)
    sent = payload > 0
    occupied = idle_transfer_s(payload, stage.rate_bytes_per_s)
    alone = np.maximum(idle_transfer_s(payload, stage.transfer_bytes_per_s), occupied)
    size = payload / stage.large_bytes if stage.large_bytes > 0 else np.ones_like(payload)
    shared = np.asarray(stage.tail_ratio) > 0
    parallel = float(np.max(stage.rate_bytes_per_s)) / stage.transfer_bytes_per_s
    chance = shared_delay_probability(stage.utilization, relative_size=size, parallel=parallel)
    chance = np.where(sent & shared & (chance > 0), chance, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        tail = np.where(chance > 0, occupied * stage.tail_ratio * tail_factor(size, stage.effect) / chance, 0.0)
    spare = np.maximum(np.asarray(hidden_s) - alone * (1.0 - last_fraction), 0.0)
    shift = np.maximum(alone - hidden_s, alone * last_fraction) + np.where(sent, 0.5 * stage.rtt_s, 0.0)
    extra = Wait(chance, tail)
    if stage.swell is not None and swells > 0.0:
        extra = _swollen(extra, stage, occupied, sent=sent, swells=swells)
    terms = [_beyond(extra, spare)]
    if stage.noise_mean_s > 0:
        terms.append(Wait(sent.astype(float), stage.noise_mean_s))
    return LatencySum(shift, tuple(terms))


def _swollen(calm: Wait, stage: TransferStage, occupied_s: Array, *, sent: NDArray[np.bool_], swells: float) -> Wait:
    """Extra time of each class with the swells of the traffic: more chance and mean, and the slow phase of the wave."""
    assert stage.swell is not None
    swell, occupied = stage.swell, np.where(sent, occupied_s, 0.0)
    slow = float(swell.delay_probability) * (1.0 - float(swell.fast_share)) * swells
    more = max(float(swell.mean_s) - float(np.max(stage.tail_ratio)), 0.0) * swells
    slow_mean = np.asarray(swell.tail_mean_s * occupied)
    chance = np.where(sent, np.clip(np.maximum(np.asarray(calm.delay_probability), slow), 0.0, 1.0), 0.0)
    rest = np.maximum(chance - slow, 0.0)
    left = np.maximum(calm.mean_s + more * occupied - slow * slow_mean, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        fast = np.where(rest > 0.0, left / rest, 0.0)
        share = np.where(chance > 0.0, rest / chance, 0.0)
    return Wait(chance, slow_mean, share, np.minimum(fast, slow_mean))


def _beyond(wait: Wait, spare_s: Array) -> Wait:
    """What is left of a wait of which the first part is hidden."""
    chance, share = np.asarray(wait.delay_probability, dtype=float), np.asarray(wait.fast_share, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        slow, fast = (
            chance * part * np.where(spare_s > 0.0, np.where(mean > 0.0, np.exp(-spare_s / mean), 0.0), 1.0)
            for part, mean in ((1.0 - share, np.asarray(wait.tail_mean_s)), (share, np.asarray(wait.fast_mean_s)))
        )
        whole = slow + fast
        return Wait(whole, wait.tail_mean_s, np.where(whole > 0.0, fast / whole, 0.0), wait.fast_mean_s)


def hidden_prefill_s(prefill_s: Array, *, layers: int, overlap: str) -> Array:
    """Part of prefill under which the transfer of finished layers hides.

    Formula:     h = t_prefill (1 - 1/layers) with layer-wise overlap, else 0
    Parameters:  prefill_s, shape (classes,) [s]; layers >= 1; overlap ``none`` or ``layerwise``
    Returns:     shape (classes,) [s]
    Raises:      nothing
    Holds when:  layers take equal time and send as soon as they are done; the last one has nothing to hide under.
    References:  patel2024
    """
    if overlap == "none":
        return np.zeros_like(prefill_s)
    return prefill_s * (1.0 - 1.0 / layers)
