"""Hand-over of the eager tokens from relay to main decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array

_MOST_ROUNDS = 64


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
                 One-Shot: occupancy = gap = round(e).
                 Catch-Up: while n > threshold send n, meanwhile the relay emits n' = round(n) / t_relay;
                 occupancy = sum of rounds, gap = round(last n)
    Parameters:  eager_tokens e >= 0, shape (classes,); mode ``one-shot`` or ``catch-up``; threshold_tokens;
                 extend_s: step time of main decode for n tokens of one sequence beside its batch [s];
                 one_way_s = RTT/2 [s]; relay_token_s [s]; overhead_s of the engines per round [s]
    Returns:     Handover; zero for a class without eager tokens
    Raises:      nothing
    Holds when:  a round takes less time than the relay needs for as many tokens; else Catch-Up stops shrinking
                 and goes over in one shot.
    References:  pdd, section A1
    """
    waiting = np.asarray(eager_tokens, dtype=float)
    relayed = waiting > 0
    occupancy, extra, rounds = np.zeros_like(waiting), np.zeros_like(waiting), relayed.astype(float)
    if mode == "catch-up" and relay_token_s > 0:
        for _ in range(_MOST_ROUNDS):
            took = one_way_s + extend_s(waiting) + overhead_s
            made = took / relay_token_s
            again = relayed & (waiting > threshold_tokens) & (made < waiting)
            if not again.any():
                break
            occupancy = np.where(again, occupancy + took, occupancy)
            extra = np.where(again, extra + made, extra)
            rounds = rounds + again
            waiting = np.where(again, made, waiting)
    last = np.where(relayed, one_way_s + extend_s(waiting) + overhead_s, 0.0)
    return Handover(occupancy_s=occupancy + last, gap_s=last, rounds=rounds, extra_tokens=extra)


def token_id_payload_bytes(tokens: Array | float, *, token_id_bytes: float) -> Array:
    """Bytes on the line that hand over token ids.

    Formula:     z = n * bytes per id
    Parameters:  tokens n >= 0; token_id_bytes (15: 1.5 KB for 100 ids as published)
    Returns:     [bytes]
    Raises:      nothing
    Holds when:  ids travel with a small record around each.
    References:  pdd, section A2
    """
    return np.asarray(tokens, dtype=float) * token_id_bytes
