"""How requests arrive: rate, variability at several time scales, peaks, daily profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pddplan.domain.workload import Array
from pddplan.units import HOURS_PER_DAY, SECONDS_PER_DAY, SECONDS_PER_HOUR, SECONDS_PER_MINUTE

DISPERSION_WINDOWS_S = (1.0, 10.0, 60.0)
FEWEST_WINDOWS = 10
"""Below this many windows a variance means nothing."""
FEWEST_PER_WINDOW = 5
"""Below this many requests per window on average a peak is chance."""
PEAK_WINDOWS_S = (60.0, 10.0, 1.0, 600.0, 3600.0)
FEWEST_FOR_PROFILE = 480
"""Requests below which a daily profile is chance: 20 an hour."""
GRID_SHARE = 0.8
"""Share of the positive gaps that must be multiples of one step for the clock to count as quantised."""
GRID_TOLERANCE = 0.1
GRID_TIES = 0.2
"""Share of requests at the same instant as the one before that makes a grid suspicious."""
SHORTEST_GAP_S = 1e-12
"""A mean gap below this is no gap."""
SPREAD_DRAWS = 5
SPREAD_SEED = 0
PICTURE_WINDOWS = 48
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


def arrival_pattern(
    time_s: Array,
    *,
    clock_start_s: float | None = None,
    rate_rps: float | None = None,
    how: Scaling = Scaling.USERS,
) -> ArrivalPattern | None:
    """Look at arrival times (ascending, from 0); None when there are too few to say anything.

    Parameters:  clock_start_s, seconds since midnight of the first arrival; rate_rps, look at the same traffic
                 scaled to this rate; how, see ``scaled_arrivals``
    """
    if time_s.size < 3 or time_s[-1] <= time_s[0]:
        return None
    span = float(time_s[-1] - time_s[0])
    grid = clock_grid_s(time_s)
    raw = gap_scv(time_s)
    spread = [spread_over_grid(time_s, grid, seed=SPREAD_SEED + k) for k in range(SPREAD_DRAWS)] if grid else []
    factor = 1.0 if rate_rps is None else rate_rps * span / (time_s.size - 1)
    if factor != 1.0:
        spread = [scaled_arrivals(spread[0] if spread else time_s, factor=factor, how=how)]
    if spread and (spread[0].size < 3 or spread[0][-1] <= spread[0][0]):
        return None
    scv = float(np.mean([gap_scv(times) for times in spread])) if spread else raw
    counted = spread[0] if spread else time_s
    counted_span = float(counted[-1] - counted[0])
    dispersion = {
        window: value
        for window in DISPERSION_WINDOWS_S
        if (value := dispersion_of_counts(counted, window)) is not None and (grid is None or window >= grid)
    }
    window = _peak_window_s(counted.size, counted_span)
    counts = window_counts(counted, window)
    picture = max(counted_span / PICTURE_WINDOWS, 1e-9)
    drawn = np.bincount(np.minimum((counted / picture).astype(int), PICTURE_WINDOWS - 1), minlength=PICTURE_WINDOWS)
    return ArrivalPattern(
        requests=int(time_s.size),
        span_s=span,
        trace_rate_rps=(time_s.size - 1) / span,
        raw_scv=raw,
        scv=scv,
        factor=factor,
        grid_s=grid,
        dispersion=dispersion,
        raw_dispersion={
            window: value
            for window in DISPERSION_WINDOWS_S
            if (value := dispersion_of_counts(time_s, window)) is not None
        },
        peak_to_mean=max(float(counts.max() / counts.mean()), 1.0),
        peak_window_s=window,
        hourly_profile=hourly_profile(time_s, clock_start_s=clock_start_s),
        counts=tuple(int(n) for n in drawn),
        counts_window_s=picture,
    )


def _peak_window_s(requests: int, span_s: float) -> float:
    """The minute, or what is nearest to it and has windows enough, and requests enough in each; else the whole span."""
    for window in PEAK_WINDOWS_S:
        if span_s / window >= FEWEST_WINDOWS and requests * window / span_s >= FEWEST_PER_WINDOW:
            return window
    return span_s


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


def gap_scv(time_s: Array) -> float:
    """Squared coefficient of variation of the gaps between arrivals.

    Formula:     c2 = var(gap) / mean(gap)^2
    Parameters:  time_s, ascending, shape (requests,) [s]
    Returns:     c2; 1 for Poisson arrivals
    References:  elementary
    """
    gaps = np.diff(time_s)
    mean = float(gaps.mean())
    return float((gaps / mean).var()) if mean > SHORTEST_GAP_S else 0.0


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


def spread_over_grid(time_s: Array, grid_s: float, *, seed: int) -> Array:
    """Arrivals drawn evenly over the step of the clock that follows each written time, ascending.

    Formula:     t' = t + U(0, step)
    References:  elementary
    """
    drawn = time_s + np.random.default_rng(seed).uniform(0.0, grid_s, size=time_s.size)
    return np.asarray(np.sort(drawn) - drawn.min())


def window_counts(time_s: Array, window_s: float) -> Array:
    """Arrivals in each whole window."""
    windows = int((time_s[-1] - time_s[0]) / window_s)
    place = ((time_s - time_s[0]) / window_s).astype(np.int64)
    return np.bincount(place[place < max(windows, 1)], minlength=max(windows, 1)).astype(np.float64)


def dispersion_of_counts(time_s: Array, window_s: float) -> float | None:
    """Index of dispersion: variance over mean of the arrivals per window; None with too few windows.

    Formula:     I = var(N) / mean(N)
    Returns:     I; 1 for Poisson arrivals, larger for bursts at this time scale
    References:  elementary
    """
    windows = int((time_s[-1] - time_s[0]) / window_s)
    if windows < FEWEST_WINDOWS:
        return None
    place = ((time_s - time_s[0]) / window_s).astype(np.int64)
    # only windows that hold something are kept: a trace of a few requests may span years
    occupied = np.unique(place[place < windows], return_counts=True)[1].astype(np.float64)
    mean = float(occupied.sum()) / windows
    return max(float(np.square(occupied).sum()) / windows / mean - mean, 0.0) if mean > 0 else None


def hourly_profile(time_s: Array, *, clock_start_s: float | None = None) -> tuple[float, ...] | None:
    """24 factors with mean one, when the trace covers a day; hours from midnight, or from the start if unknown."""
    span = float(time_s[-1] - time_s[0])
    if span < SECONDS_PER_DAY * 0.99 or time_s.size < FEWEST_FOR_PROFILE:
        return None
    start = clock_start_s or 0.0
    hour = ((start + time_s) // SECONDS_PER_HOUR).astype(np.int64)
    counts = np.bincount(hour % HOURS_PER_DAY, minlength=HOURS_PER_DAY).astype(np.float64)
    edges = np.arange(int(start // SECONDS_PER_HOUR), int((start + span) // SECONDS_PER_HOUR) + 1)
    covered = np.minimum((edges + 1) * SECONDS_PER_HOUR, start + span) - np.maximum(edges * SECONDS_PER_HOUR, start)
    exposure = np.bincount(edges % HOURS_PER_DAY, weights=covered, minlength=HOURS_PER_DAY)
    rates = np.divide(counts, exposure, out=np.zeros(HOURS_PER_DAY), where=exposure > SECONDS_PER_MINUTE)
    return tuple(float(rate / rates.mean()) for rate in rates)
