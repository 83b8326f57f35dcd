"""Variability of flows between stations: departures, splitting, merging (two-moment network calculus)."""

from __future__ import annotations

import numpy as np

from pddplan.domain.workload import Array, Arrival
from pddplan.queueing.waves import measured_waves, wave_growth


def departure_scv(*, servers: int, utilization: float, arrival_scv: float, service_scv: float) -> float:
    """SCV of the times between departures from a pool.

    Formula:     cd^2 = 1 + (1 - rho^2) (ca^2 - 1) + rho^2 / sqrt(c) (max(cs^2, 0.2) - 1)
    Parameters:  servers c >= 1; utilization rho, read as 1 when above 1; arrival_scv ca^2; service_scv cs^2
    Returns:     cd^2 >= 0
    Raises:      nothing
    Holds when:  the pool is one shared queue in steady state.
    References:  whitt1983 (departures)
    """
    rho2 = min(utilization, 1.0) ** 2
    served = rho2 / np.sqrt(servers) * (max(service_scv, 0.2) - 1.0)
    return float(max(1.0 + (1.0 - rho2) * (arrival_scv - 1.0) + served, 0.0))


def split_scv(share: Array | float, *, scv: Array | float) -> Array:
    """SCV of a flow of which each member is kept with a fixed chance.

    Formula:     c_kept^2 = share c^2 + 1 - share
    Parameters:  share in [0, 1], any shape; scv c^2 of the whole flow
    Returns:     SCV, shape of share
    Raises:      nothing
    Holds when:  members are kept independently of each other.
    References:  whitt1983 (splitting)
    """
    part = np.clip(np.asarray(share, dtype=float), 0.0, 1.0)  # sums of shares miss 1 by rounding
    return np.asarray(part * scv + 1.0 - part)


def superposed_scv(rates: Array, *, scvs: Array, utilization: float) -> float:
    """SCV of several flows merged in front of a station.

    Formula:     c^2 = w sum(r_i c_i^2) / sum(r_i) + 1 - w;
                 w = 1 / (1 + 4 (1 - rho)^2 (v - 1)),  v = (sum r_i)^2 / sum r_i^2
    Parameters:  rates r_i >= 0, shape (flows,) [1/s]; scvs c_i^2, shape (flows,); utilization rho of the station
    Returns:     SCV of the merged flow; 1 when nothing flows
    Raises:      nothing
    Holds when:  the flows are independent of each other.
    References:  whitt1983 (superposition)
    """
    total = float(rates.sum())
    if total <= 0.0:
        return 1.0
    parts = rates / total  # squares of small rates would underflow
    effective_flows = max(1.0 / float(np.dot(parts, parts)), 1.0)
    weight = 1.0 / (1.0 + 4.0 * (1.0 - min(utilization, 1.0)) ** 2 * (effective_flows - 1.0))
    return max(float(weight * np.dot(parts, scvs) + 1.0 - weight), 0.0)


def burstiness(arrival: Arrival, window_s: Array | float) -> Array:
    """SCV of arrivals as a queue sees it that remembers for so long.

    Formula:     index of dispersion of counts (variance over mean) at the window, interpolated in log(window) between
                 the inter-arrival SCV at the mean gap and the measured windows; beyond the last
                 it grows by sum_k a_k (g(t/w_k) - g(w_last/w_k)): waves (measured_waves) that fade in the windows w_k
    Parameters:  arrival with scv and dispersion per window; window_s, any shape [s]
    Returns:     SCV >= 0, shape of the window; arrival.scv when no window was measured
    Raises:      nothing
    Holds when:  counts grow like a renewal process's: for those the two are the same over long windows. What lies
                 beyond the last window is taken as simulate.arrivals draws it.
    References:  whitt2018; whitt1982
    """
    asked = np.asarray(window_s, dtype=float)
    windows = sorted(w for w in arrival.dispersion if w > 0)
    if not windows or not arrival.rate_rps > 0:
        return np.full_like(asked, arrival.scv)
    gap = min(1.0 / arrival.rate_rps, windows[0] * (1.0 - 1e-9))
    known = np.log([gap, *windows])
    values = [arrival.scv, *(arrival.dispersion[w] for w in windows)]
    within = np.interp(np.log(np.maximum(asked, gap)), known, values)
    if not (asked > windows[-1]).any():
        return np.asarray(within)
    last = windows[-1]
    late = np.maximum(asked, last)
    more = sum(size * (wave_growth(late / w) - wave_growth(last / w)) for w, size in measured_waves(arrival))
    return np.asarray(within + more)
