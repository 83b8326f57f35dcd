"""Arrivals: the record of a pattern, coarse clocks, and the same traffic at another rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pddplan.domain.workload import Array
from pddplan.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

GRID_SHARE = 0.8
"""Share of the positive gaps that must be multiples of one step for the clock to count as quantised."""
GRID_TOLERANCE = 0.1
GRID_TIES = 0.2
"""Share of requests at the same instant as the one before that makes a grid suspicious."""
SPREAD_SEED = 0
MOST_SCALED = 1_000_000


class Scaling(StrEnum):
    """What makes the rate higher."""

    USERS = "users"  # more independent users of the same kind: bursts average out
    CLOCK = "clock"  # the same users, faster: bursts keep their shape


@dataclass(frozen=True, slots=True)
class ArrivalPattern:
    """What the arrival times of a trace say."""

    requests: int
    span_s: float
    trace_rate_rps: float
    raw_scv: float
    """SCV of the gaps as written."""
    scv: float
    """SCV of the gaps, quantised clocks spread out."""
    factor: float
    """Rate looked at over the rate of the trace; SCV, dispersion and peak are at that rate."""
    grid_s: float | None
    """Step of a quantised clock."""
    dispersion: Mapping[float, float]
    """Index of dispersion of counts per window length [s]."""
    raw_dispersion: Mapping[float, float]
    """The same with the times as written."""
    peak_to_mean: float
    peak_window_s: float
    hourly_profile: tuple[float, ...] | None
    counts: tuple[int, ...]
    """Requests in consecutive windows of ``counts_window_s``, for a picture."""
    counts_window_s: float


def scaled_arrivals(time_s: Array, *, factor: float, how: Scaling) -> Array:
    """Arrival times of the same kind of traffic at another rate.

    Formula:     more users: floor(factor) copies of the trace, each rotated by a random time, and a thinned one for
                 the rest; faster clock: t / factor. A trace shorter than a day is rotated by up to its span, a longer
                 one by up to an hour.
    Parameters:  time_s, ascending from 0 [s]; factor > 0, new rate over old rate
    Returns:     ascending times [s]; with more users the span stays, and beyond MOST_SCALED arrivals fewer copies
                 are drawn (the variability no longer changes)
    Holds when:  more users: users come independently of each other and keep their daily habits.
    References:  elementary
    """
    if how is Scaling.CLOCK:
        return time_s / factor
    span = float(time_s[-1])
    turn = span if span < SECONDS_PER_DAY else SECONDS_PER_HOUR
    draw = np.random.default_rng(SPREAD_SEED)
    whole = min(int(factor), max(MOST_SCALED // time_s.size, 1))
    parts = [time_s] if whole else []
    parts += [(time_s + draw.uniform(0.0, turn)) % span for _ in range(1, whole)]
    rest = factor - int(factor)
    if whole == int(factor) and rest > 0:
        parts.append(((time_s + draw.uniform(0.0, turn)) % span)[draw.random(time_s.size) < rest])
    merged = np.sort(np.concatenate(parts))
    return np.asarray(merged - merged[0]) if merged.size else time_s


def clock_grid_s(time_s: Array) -> float | None:
    """Step of a clock so coarse that many requests share an instant; None for a fine clock.

    Formula:     step = most frequent positive gap, if GRID_TIES of the gaps are zero and GRID_SHARE of the positive
                 gaps are multiples of it (within GRID_TOLERANCE of a step)
    References:  elementary
    """
    gaps = np.diff(time_s)
    positive = gaps[gaps > 0]
    if positive.size < 2 or positive.size > (1 - GRID_TIES) * gaps.size:
        return None
    values, counts = np.unique(np.round(positive, 6), return_counts=True)
    step = float(values[np.argmax(counts)])
    # gaps that vary a little around the step (2.999, 3.001 s) form one peak: centre it
    near = np.abs(positive - step) <= GRID_TOLERANCE * step
    if not near.any():
        return None  # gaps of about a microsecond or below, where rounding moves them: a fine clock
    step = float(np.median(positive[near]))
    multiples = positive / step
    fits = (multiples > 0.5) & (np.abs(multiples - np.round(multiples)) <= GRID_TOLERANCE)
    return step if fits.mean() >= GRID_SHARE else None
