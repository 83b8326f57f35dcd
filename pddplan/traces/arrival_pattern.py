"""What the arrival times of a trace say, read in chunks so that they need not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pddplan.domain.workload import Array
from pddplan.traces.arrivals import MOST_SCALED, SPREAD_SEED, ArrivalPattern, Scaling, clock_grid_s, scaled_arrivals
from pddplan.traces.rows import Ints
from pddplan.traces.scratch import merged
from pddplan.units import HOURS_PER_DAY, SECONDS_PER_DAY, SECONDS_PER_HOUR, SECONDS_PER_MINUTE

DISPERSION_WINDOWS_S = (1.0, 10.0, 60.0)
FEWEST_WINDOWS = 10
"""Below this many windows a variance means nothing."""
FEWEST_PER_WINDOW = 5
"""Below this many requests per window on average a peak is chance."""
PEAK_WINDOWS_S = (60.0, 10.0, 1.0, 600.0, 3600.0)
FEWEST_FOR_PROFILE = 480
"""Requests below which a daily profile is chance: 20 an hour."""
SHORTEST_GAP_S = 1e-12
"""A mean gap below this is no gap."""
SPREAD_DRAWS = 5
PICTURE_WINDOWS = 48
MOST_FOR_GRID = 2**20
"""Arrivals at the start of a trace that tell whether its clock is coarse."""
SHORTEST_PICTURE_S = 1e-9

Times = Callable[[], Iterator[Array]]
"""Ascending times in chunks, from the start each time it is called."""


def arrival_pattern(
    times: Array | Times,
    *,
    clock_start_s: float | None = None,
    rate_rps: float | None = None,
    how: Scaling = Scaling.USERS,
) -> ArrivalPattern | None:
    """Look at arrival times (ascending, from 0); None when there are too few to say anything.

    Parameters:  times, an array, or a function that gives chunks of one; clock_start_s, seconds since midnight of the
                 first arrival; rate_rps, look at the same traffic scaled to this rate; how, see ``scaled_arrivals``
    """
    written = _in_chunks(times)
    facts = _facts(written)
    if facts.count < 3 or facts.span_s <= 0:
        return None
    grid = clock_grid_s(_beginning(written, MOST_FOR_GRID))
    draws = [_spread(written, grid, seed=SPREAD_SEED + k) for k in range(SPREAD_DRAWS)] if grid else []
    factor = 1.0 if rate_rps is None else rate_rps * facts.span_s / (facts.count - 1)
    if factor != 1.0:
        draws = [_scaled(draws[0] if draws else written, facts, factor=factor, how=how)]
    counted, about = written, facts
    if draws:
        counted = draws[0]
        drawn = [_facts(draw) for draw in draws]
        about = replace(drawn[0], scv=float(np.mean([one.scv for one in drawn])))
        if about.count < 3 or about.span_s <= 0:
            return None
    peak_window_s = _peak_window_s(about)
    *waves, peak = _windows(counted, about, (*DISPERSION_WINDOWS_S, peak_window_s))
    dispersion = {wave.window_s: wave.dispersion for wave in waves if grid is None or wave.window_s >= grid}
    raw_dispersion = dispersion
    if counted is not written:
        raw_dispersion = {w.window_s: w.dispersion for w in _windows(written, facts, DISPERSION_WINDOWS_S)}
    picture_s = max(about.span_s / PICTURE_WINDOWS, SHORTEST_PICTURE_S)
    return ArrivalPattern(
        requests=facts.count,
        span_s=facts.span_s,
        trace_rate_rps=(facts.count - 1) / facts.span_s,
        raw_scv=facts.scv,
        scv=about.scv,
        factor=factor,
        grid_s=grid,
        dispersion={window: value for window, value in dispersion.items() if value is not None},
        raw_dispersion={window: value for window, value in raw_dispersion.items() if value is not None},
        peak_to_mean=max(peak.largest / peak.mean, 1.0),
        peak_window_s=peak_window_s,
        hourly_profile=hourly_profile(written, clock_start_s=clock_start_s),
        counts=_picture(counted, about.first_s, picture_s),
        counts_window_s=picture_s,
    )


def gap_scv(times: Array | Times) -> float:
    """Squared coefficient of variation of the gaps between arrivals.

    Formula:     c2 = var(gap) / mean(gap)^2
    Parameters:  times, ascending [s]
    Returns:     c2; 1 for Poisson arrivals
    References:  elementary
    """
    return _facts(_in_chunks(times)).scv


def dispersion_of_counts(times: Array | Times, window_s: float) -> float | None:
    """Index of dispersion: variance over mean of the arrivals per window; None with too few windows.

    Formula:     I = var(N) / mean(N)
    Parameters:  times, ascending [s]
    Returns:     I; 1 for Poisson arrivals, larger for bursts at this time scale
    References:  elementary
    """
    stream = _in_chunks(times)
    return _windows(stream, _facts(stream), (window_s,))[0].dispersion


def spread_over_grid(time_s: Array, grid_s: float, *, seed: int) -> Array:
    """Arrivals drawn evenly over the step of the clock that follows each written time, ascending.

    Formula:     t' = t + U(0, step)
    References:  elementary
    """
    return np.concatenate(list(_spread(_in_chunks(time_s), grid_s, seed=seed)()))


def hourly_profile(times: Array | Times, *, clock_start_s: float | None = None) -> tuple[float, ...] | None:
    """24 factors with mean one, when the trace covers a day; hours from midnight, or from the start if unknown."""
    stream = _in_chunks(times)
    facts = _facts(stream)
    if facts.span_s < SECONDS_PER_DAY * 0.99 or facts.count < FEWEST_FOR_PROFILE:
        return None
    start = clock_start_s or 0.0
    counts = np.zeros(HOURS_PER_DAY)
    for chunk in stream():
        hour = ((start + chunk) // SECONDS_PER_HOUR).astype(np.int64)
        counts += np.bincount(hour % HOURS_PER_DAY, minlength=HOURS_PER_DAY)
    end = start + facts.span_s
    edges = np.arange(int(start // SECONDS_PER_HOUR), int(end // SECONDS_PER_HOUR) + 1)
    covered = np.minimum((edges + 1) * SECONDS_PER_HOUR, end) - np.maximum(edges * SECONDS_PER_HOUR, start)
    exposure = np.bincount(edges % HOURS_PER_DAY, weights=covered, minlength=HOURS_PER_DAY)
    rates = np.divide(counts, exposure, out=np.zeros(HOURS_PER_DAY), where=exposure > SECONDS_PER_MINUTE)
    return tuple(float(rate / rates.mean()) for rate in rates)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What one pass over ascending times tells."""

    count: int
    first_s: float
    last_s: float
    scv: float
    """Of the gaps, see ``gap_scv``."""

    @property
    def span_s(self) -> float:
        return self.last_s - self.first_s


class _Windows:
    """Arrivals in consecutive windows; only running sums are kept."""

    def __init__(self, window_s: float, about: _Facts) -> None:
        self.window_s, self._first_s = window_s, about.first_s
        self.whole = int(about.span_s / window_s)
        """Windows that the span covers whole."""
        self.largest = 0.0
        self._total, self._squares = 0.0, 0.0
        self._open, self._inside = 0, 0  # number of the window that goes on, arrivals in it so far

    def take(self, times: Array) -> None:
        place = ((times - self._first_s) / self.window_s).astype(np.int64)
        window, count = np.unique(place, return_counts=True)
        if window[0] == self._open:
            count[0] += self._inside
        else:
            self._close(np.array([self._open]), np.array([self._inside]))
        self._close(window[:-1], count[:-1])
        self._open, self._inside = int(window[-1]), int(count[-1])

    def finish(self) -> None:
        self._close(np.array([self._open]), np.array([self._inside]))

    def _close(self, window: Ints, count: Ints) -> None:
        inside = count[window < max(self.whole, 1)].astype(np.float64)
        self._total += float(inside.sum())
        self._squares += float(np.square(inside).sum())
        self.largest = max(self.largest, float(inside.max(initial=0.0)))

    @property
    def mean(self) -> float:
        return self._total / max(self.whole, 1)

    @property
    def dispersion(self) -> float | None:
        """See ``dispersion_of_counts``."""
        if self.whole < FEWEST_WINDOWS or self.mean <= 0:
            return None
        return max(self._squares / self.whole / self.mean - self.mean, 0.0)


def _facts(times: Times) -> _Facts:
    count, first, last, squares = 0, 0.0, 0.0, 0.0
    for chunk in times():
        if not chunk.size:
            continue
        first = first if count else float(chunk[0])
        gaps = np.diff(chunk, prepend=last if count else chunk[0])
        squares += float(np.square(gaps).sum())
        count += chunk.size
        last = float(chunk[-1])
    mean = (last - first) / max(count - 1, 1)
    scv = max(squares / (count - 1) / mean**2 - 1.0, 0.0) if mean > SHORTEST_GAP_S else 0.0
    return _Facts(count=count, first_s=first, last_s=last, scv=scv)


def _windows(times: Times, about: _Facts, sizes_s: Sequence[float]) -> list[_Windows]:
    found = [_Windows(size, about) for size in sizes_s]
    for chunk in times():
        for windows in found if chunk.size else ():
            windows.take(chunk)
    for windows in found:
        windows.finish()
    return found


def _peak_window_s(about: _Facts) -> float:
    """The minute, or what is nearest to it and has windows enough, and requests enough in each; else the whole span."""
    for window in PEAK_WINDOWS_S:
        if about.span_s / window >= FEWEST_WINDOWS and about.count * window / about.span_s >= FEWEST_PER_WINDOW:
            return window
    return about.span_s


def _picture(times: Times, first_s: float, window_s: float) -> tuple[int, ...]:
    counts = np.zeros(PICTURE_WINDOWS, dtype=np.int64)
    for chunk in times():
        place = np.minimum(((chunk - first_s) / window_s).astype(np.int64), PICTURE_WINDOWS - 1)
        counts += np.bincount(place, minlength=PICTURE_WINDOWS)
    return tuple(int(n) for n in counts)


# -- streams -----------------------------------------------------------------------------------------------------


def _in_chunks(times: Array | Times) -> Times:
    if callable(times):
        return times
    whole = times
    return lambda: iter((whole,))


def _beginning(times: Times, count: int) -> Array:
    parts, size = [np.empty(0)], 0
    for chunk in times():
        parts.append(chunk)
        size += chunk.size
        if size >= count:
            break
    return np.concatenate(parts)[:count]


def _spread(times: Times, grid_s: float, *, seed: int) -> Times:
    """See ``spread_over_grid``."""

    def stream() -> Iterator[Array]:
        draw, waiting = np.random.default_rng(seed), np.empty(0)
        for chunk in times():
            if not chunk.size:
                continue
            waiting = np.sort(np.concatenate((waiting, chunk + draw.uniform(0.0, grid_s, size=chunk.size))))
            cut = int(np.searchsorted(waiting, chunk[-1]))  # none of those that follow is drawn earlier
            yield waiting[:cut]
            waiting = waiting[cut:]
        yield waiting

    return _from_zero(stream)


def _scaled(times: Times, facts: _Facts, *, factor: float, how: Scaling) -> Times:
    """See ``scaled_arrivals``; of a large trace there is at most one copy, and a thinned one."""
    if facts.count <= MOST_SCALED:
        scaled = scaled_arrivals(_beginning(times, facts.count), factor=factor, how=how)
        return lambda: iter((scaled,))
    if how is Scaling.CLOCK:
        return lambda: (chunk / factor for chunk in times())

    def stream() -> Iterator[Array]:
        draw = np.random.default_rng(SPREAD_SEED)
        parts = [times()] if factor >= 1 else []
        if factor < 2 and factor > int(factor):
            turn_s = draw.uniform(0.0, facts.span_s if facts.span_s < SECONDS_PER_DAY else SECONDS_PER_HOUR)
            turned = _turned(times, facts, turn_s)
            parts.append(chunk[draw.random(chunk.size) < factor - int(factor)] for chunk in turned)
        return merged(parts, lambda chunk: chunk)

    return _from_zero(stream)


def _turned(times: Times, facts: _Facts, turn_s: float) -> Iterator[Array]:
    """Times moved on by a turn; those beyond the end come first."""
    cut_s = facts.last_s - turn_s
    for chunk in times():
        yield chunk[chunk >= cut_s] - cut_s
    for chunk in times():
        yield chunk[chunk < cut_s] + turn_s


def _from_zero(times: Times) -> Times:
    """The same times, the first at 0."""

    def stream() -> Iterator[Array]:
        first = None
        for chunk in times():
            if not chunk.size:
                continue
            first = float(chunk[0]) if first is None else first
            yield chunk - first

    return stream
