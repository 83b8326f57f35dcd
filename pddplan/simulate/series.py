"""Queue, line and relay load against time, counted exactly from the journeys."""

from __future__ import annotations

import numpy as np

from pddplan.domain.workload import Array
from pddplan.simulate.replay import Journeys
from pddplan.simulate.result import Series
from pddplan.simulate.scenario import Scenario

POINTS = 240


def present(start_s: Array, end_s: Array, *, time_s: Array) -> Array:
    """How many intervals contain each moment.

    Formula:     N(t) = #{start <= t} - #{end <= t}
    Parameters:  start_s, end_s, shape (intervals,), pairs with a NaN are left out [s]; time_s, shape (points,) [s]
    Returns:     shape (points,)
    Raises:      nothing
    Holds when:  no interval ends before it starts.
    References:  elementary
    """
    seen = np.isfinite(start_s) & np.isfinite(end_s)
    begun = np.searchsorted(np.sort(start_s[seen]), time_s, side="right")
    ended = np.searchsorted(np.sort(end_s[seen]), time_s, side="right")
    return (begun - ended).astype(float)


def overlap_s(start_s: Array, end_s: Array, *, window_s: tuple[float, float]) -> float:
    """Total length of the parts of intervals that lie in a window.

    Formula:     sum of max(min(end, b) - max(start, a), 0)
    Parameters:  start_s, end_s, pairs with a NaN are left out [s]; window_s = (a, b) [s]
    Returns:     [s]
    Raises:      nothing
    Holds when:  always.
    References:  elementary
    """
    low, high = window_s
    inside = np.minimum(end_s, high) - np.maximum(start_s, low)
    return float(np.nansum(np.maximum(inside, 0.0)))


def time_series(scenario: Scenario, journeys: Journeys, *, points: int = POINTS) -> tuple[Series, ...]:
    """Waiting and working requests of every stage over the span of arrivals."""
    arrival = journeys.requests.arrival_s
    if not arrival.size:
        return ()
    time = np.linspace(float(arrival[0]), float(arrival[-1]), points)
    way = journeys.requests.way
    found: list[Series] = []

    def add(name: str, unit: str, start: Array, end: Array) -> None:
        found.append(Series(name, unit, time, present(start, end, time_s=time)))

    for pool in [stage.pool for stage in scenario.prefill] + [stage.pool for stage in scenario.mixed]:
        mine = np.isin(way, [i for i, w in enumerate(scenario.ways) if w.prefill == pool])
        add(f"{pool} queue", "requests", arrival[mine], journeys.prefill_start_s[mine])
    for line in scenario.lines:
        mine = np.isin(way, [i for i, w in enumerate(scenario.ways) if w.line == line.line])
        add(f"{line.line} transfers", "transfers", journeys.line_start_s[mine], journeys.line_end_s[mine])
    for stage in scenario.relay:
        mine = np.isin(way, [i for i, w in enumerate(scenario.ways) if w.relay == stage.pool])
        add(f"{stage.pool} load", "sequences", journeys.relay_start_s[mine], journeys.relay_end_s[mine])
        add(f"{stage.pool} queue", "requests", journeys.relay_ready_s[mine], journeys.relay_start_s[mine])
    for stage in scenario.decode:
        mine = np.isin(way, [i for i, w in enumerate(scenario.ways) if w.decode == stage.pool])
        add(f"{stage.pool} load", "sequences", journeys.decode_start_s[mine], journeys.finish_s[mine])
        add(f"{stage.pool} queue", "requests", journeys.decode_ready_s[mine], journeys.decode_start_s[mine])
    for mixed in scenario.mixed:
        mine = np.isin(way, [i for i, w in enumerate(scenario.ways) if w.prefill == mixed.pool])
        add(f"{mixed.pool} load", "sequences", journeys.decode_start_s[mine], journeys.finish_s[mine])
    return tuple(found)
