"""Hand-over of the eager tokens from relay to main decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array

_MOST_ROUNDS = 64
_WORST_DEVIATIONS = 3.5
"""Largest of some hundred normal values, in standard deviations."""


@dataclass(frozen=True, slots=True, eq=False)
class Handover:
    """What a hand-over costs; arrays over classes."""

    occupancy_s: Array
    """Time the relay slot is still held after the KV has landed."""
    gap_s: Array
    """Longest gap between two output tokens that the user sees."""
    rounds: Array
    """Messages sent over the line."""
    extra_tokens: Array
    """Tokens the relay still emits during the rounds before the last."""


def extend_decode(
    eager_tokens: Array,
    *,
    mode: str,
    threshold_tokens: float,
    extend_s: Callable[[Array], Array],
    one_way_s: float,
    relay_token_s: float,
    overhead_s: float = 0.0,
) -> Handover:
    """Extend-Decode: token ids cross the line, main decode recomputes their KV in one multi-token step.

    Formula:     round(n) = RTT/2 + t_extend(n) + overhead.
                 One-Shot: the relay stops; occupancy = gap = round(e).
                 Catch-Up: the relay keeps emitting; rounds of n, n' = round(n) / t_relay, ... follow until a round
                 held no more than the threshold; then it stops, and the sequence, running already, takes the rest
                 with its next step: occupancy = sum of rounds + gap, gap = RTT/2 + t_extend(rest)
    Parameters:  eager_tokens e >= 0, shape (classes,); mode ``one-shot`` or ``catch-up``; threshold_tokens;
                 extend_s: step time of main decode for n tokens of one sequence beside its batch [s];
                 one_way_s = RTT/2 [s]; relay_token_s [s]; overhead_s of the two engines per round [s]
    Returns:     Handover; zero for a class without eager tokens
    Raises:      nothing
    Holds when:  a round takes less time than the relay needs for as many tokens; else rounds stop shrinking, and
                 Catch-Up ends with what is there.
    References:  pdd-report, A1
    """
    waiting = np.asarray(eager_tokens, dtype=float)
    relayed = waiting > 0
    zero = np.zeros_like(waiting)
    if mode == "one-shot" or relay_token_s <= 0:
        once = np.where(relayed, one_way_s + extend_s(waiting) + overhead_s, 0.0)
        return Handover(occupancy_s=once, gap_s=once, rounds=relayed.astype(float), extra_tokens=zero)
    occupancy, extra, rounds = zero.copy(), zero.copy(), zero.copy()
    running = relayed.copy()
    for _ in range(_MOST_ROUNDS):
        if not running.any():
            break
        took = one_way_s + extend_s(waiting) + overhead_s
        made = took / relay_token_s
        occupancy = np.where(running, occupancy + took, occupancy)
        extra = np.where(running, extra + made, extra)
        rounds = rounds + running
        small_or_stuck = (waiting <= threshold_tokens) | (made >= waiting)
        waiting = np.where(running, made, waiting)
        running &= ~small_or_stuck
    gap = np.where(relayed, one_way_s + extend_s(waiting), 0.0)
    return Handover(occupancy_s=occupancy + gap, gap_s=gap, rounds=rounds + relayed, extra_tokens=extra)


@dataclass(frozen=True, slots=True)
class HandoverTime:
    """Duration of one hand-over, and how far it spreads."""

    mean_s: float
    std_s: float
    worst_s: float
    """Of the number of hand-overs asked for."""
    payload_bytes: float


def kv_handover(
    payload_bytes: float,
    *,
    rate_bytes_per_s: float,
    one_way_s: float,
    noise_mean_s: float,
    copy_s: float,
    of: int = 100,
) -> HandoverTime:
    """Hand-over that sends the eager tokens' KV instead of their ids.

    Formula:     T = z/r + RTT/2 + copy + Exp(noise); worst of k: base + noise * (1 + 1/2 + ... + 1/k)
    Parameters:  payload_bytes z [bytes]; rate_bytes_per_s r one transfer gets; one_way_s = RTT/2 [s];
                 noise_mean_s of the line's congestion [s]; copy_s into the device [s]; of k >= 1 hand-overs
    Returns:     HandoverTime
    Raises:      nothing
    Holds when:  congestion delays are exponential and independent.
    References:  pdd-report, A2; ross2014, chapter 5
    """
    base = payload_bytes / rate_bytes_per_s + one_way_s + copy_s
    worst = base + noise_mean_s * float((1.0 / np.arange(1, of + 1)).sum())
    return HandoverTime(base + noise_mean_s, noise_mean_s, worst, payload_bytes)


def id_handover(
    tokens: float, *, token_id_bytes: float, extend_s: float, one_way_s: float, overhead_s: float, jitter_s: float = 0.0
) -> HandoverTime:
    """Hand-over of token ids (Extend-Decode, One-Shot): nearly nothing crosses, so nearly nothing spreads.

    Formula:     T = RTT/2 + t_extend + overhead, +- jitter; worst = mean + 3.5 jitter
    Parameters:  tokens n; token_id_bytes; extend_s: step over n tokens [s]; one_way_s [s]; overhead_s [s];
                 jitter_s: standard deviation of step and host [s]
    Returns:     HandoverTime
    Raises:      nothing
    Holds when:  ids fit into one packet train, which congestion hardly delays.
    References:  pdd-report, A2
    """
    mean = one_way_s + extend_s + overhead_s
    payload = float(token_id_payload_bytes(tokens, token_id_bytes=token_id_bytes))
    return HandoverTime(mean, jitter_s, mean + _WORST_DEVIATIONS * jitter_s, payload)


def token_id_payload_bytes(tokens: Array | float, *, token_id_bytes: float) -> Array:
    """Bytes on the line that hand over token ids.

    Formula:     z = n * bytes per id
    Parameters:  tokens n >= 0; token_id_bytes (15: 1.5 KB for 100 ids as published)
    Returns:     [bytes]
    Raises:      nothing
    Holds when:  ids travel with a small record around each.
    References:  pdd-report, A2
    """
    return np.asarray(tokens, dtype=float) * token_id_bytes
