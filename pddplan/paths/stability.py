"""Does the load of the relay settle? The decode-side cache lags behind where requests end on the relay.

A turn that is finished on the relay leaves its new tokens out of the decode-side cache, so the next turn of the
session misses more there, counts as a heavier transfer, and is sent to the relay again. A turn that is handed over
brings the cache up to date. Hence P-RLD as a general pipeline feeds itself until the relay overloads, and
P-MD with P-RLD-MD does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array, RequestClasses

SETTLED = 1e-4
MOST_TURNS = 400


@dataclass(frozen=True, slots=True)
class LagTurn:
    """State of all sessions after a number of turns."""

    turn: int
    relay_fraction: float
    """Share of requests whose transfer is heavy: they go to the relay."""
    lag_tokens: float
    """Mean tokens by which the decode-side cache is behind, beyond what the workload says."""
    missing_tokens: float
    """Mean tokens missing at the decode side."""
    relay_slots: float
    """Sequences that the relay holds."""
    line_utilization: float


@dataclass(frozen=True, slots=True)
class CacheLag:
    """How the feedback unfolds."""

    turns: tuple[LagTurn, ...]
    collapses: bool
    """The relay needs more slots than it has, or the line more than its rate."""
    collapse_turn: int | None
    settles: bool

    @property
    def last(self) -> LagTurn:
        return self.turns[-1]


def cache_lag(
    classes: RequestClasses,
    *,
    rate_rps: float,
    finished_fraction: float,
    heavy_tokens: float,
    turns_per_session: float,
    think_s: float,
    kv_bytes_per_token: float,
    kv_fixed_bytes: float,
    line_bytes_per_s: float,
    transfer_bytes_per_s: float,
    relay_token_s: float,
    relay_slots: float,
    handover_s: float = 0.0,
) -> CacheLag:
    """Iterate the lag of the decode-side cache turn by turn until it settles or the relay is full.

    Formula:     s = min(s_0 + lag, L); heavy when s > heavy_tokens;
                 lag' = stay * (heavy and finished on the relay: lag + m + O;
                                sent over the line: (m + O) (1 - exp(-T(s) / think));  else 0)
                 T(s) = z(s)/r + z(s)/C * u/(1-u),  u = lambda E[z; sent] / C;
                 slots = lambda E[heavy; finished: O t, handed over: min(T, O t) + hand-over]
    Parameters:  classes (s_0 missing at decode, m missing at prefill, O output); rate_rps lambda;
                 finished_fraction of heavy requests that end on the relay (1 = P-RLD as a general pipeline,
                 0 = P-RLD-MD); heavy_tokens: transfers above go to the relay; turns_per_session, think_s between
                 turns [s]; kv_bytes_per_token, kv_fixed_bytes; line_bytes_per_s C, transfer_bytes_per_s r;
                 relay_token_s t [s]; relay_slots there are; handover_s [s]
    Returns:     CacheLag with one LagTurn per iteration
    Raises:      nothing
    Holds when:  sessions are alike and end after a geometric number of turns; a mean-field view.
    References:  pdd-report, A1 (P-RLD is deliberately no general pipeline)
    """
    weight, output = classes.weight, classes.output_tokens
    new = classes.miss_prefill_tokens + output
    stay = 1.0 - 1.0 / max(turns_per_session, 1.0)
    # two kinds of sessions per class of the coming turn: the cache is up to date, or it lags
    lagging, lag = 0.0, 0.0
    turns: list[LagTurn] = []
    collapse: int | None = None
    settles = False
    utilization = 0.0
    for turn in range(1, MOST_TURNS + 1):
        state = [(1.0 - lagging, 0.0), (lagging, lag)]
        heavy_share = sent_bytes = slots = missing = 0.0
        next_lagging = next_lag = 0.0
        for share, behind in state:
            tokens = np.minimum(classes.miss_decode_tokens + behind, classes.input_tokens)
            heavy = tokens > heavy_tokens
            payload = np.where(tokens > 0, tokens * kv_bytes_per_token + kv_fixed_bytes, 0.0)
            crossing_s = _crossing_s(payload, line_bytes_per_s, transfer_bytes_per_s, utilization=utilization)
            finished = np.where(heavy, finished_fraction, 0.0)
            late = 1.0 - np.exp(-crossing_s / think_s) if think_s > 0 else np.ones_like(crossing_s)
            part = share * weight
            heavy_share += float(part @ heavy)
            missing += float(part @ tokens)
            sent_bytes += float(part @ ((1.0 - finished) * payload))
            handed = np.minimum(crossing_s, output * relay_token_s) + handover_s
            slots += float(part @ (np.where(heavy, finished * output * relay_token_s + (1.0 - finished) * handed, 0.0)))
            next_lagging += stay * float(part @ (finished + (1.0 - finished) * late))
            next_lag += stay * float(part @ (finished * (behind + new) + (1.0 - finished) * late * new))
        utilization = rate_rps * sent_bytes / line_bytes_per_s
        now = LagTurn(
            turn=turn,
            relay_fraction=heavy_share,
            lag_tokens=lagging * lag,
            missing_tokens=missing,
            relay_slots=rate_rps * slots,
            line_utilization=utilization,
        )
        turns.append(now)
        if collapse is None and (now.relay_slots > relay_slots or utilization >= 1.0):
            collapse = turn
        before = (lagging, lag)
        lagging, lag = next_lagging, next_lag / next_lagging if next_lagging > 0 else 0.0
        settles = abs(lagging - before[0]) < SETTLED and abs(lag - before[1]) < SETTLED * max(lag, 1.0)
        if settles and turn > 1:
            break
    return CacheLag(tuple(turns), collapse is not None, collapse, settles)


def _crossing_s(payload: Array, line: float, alone: float, *, utilization: float) -> Array:
    """Mean transfer time of payloads on a line at a utilisation; very long where it is full."""
    room = max(1.0 - utilization, 1e-3)
    return np.asarray(payload / min(alone, line) + payload / line * utilization / room)
