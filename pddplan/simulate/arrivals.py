"""Arrival times with a given mean rate and variability."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import DomainError
from pddplan.simulate.checks import require_count, require_positive

_CELLS_PER_WINDOW = 4
_MOST_CELLS = 20_000_000
LEAST_SCV = 1e-12
"""Below, gaps are equal to the last digit drawn: a metronome. (1 over a vanishing number is infinite.)"""


def renewal_arrivals_s(count: int, rate_rps: float, *, scv: float, rng: np.random.Generator) -> Array:
    """Arrival times of a renewal process with gamma distributed gaps.

    Formula:     gap ~ Gamma(shape 1/ca2, scale ca2/rate): mean 1/rate, squared coefficient of variation ca2;
                 ca2 = 1 is Poisson, ca2 = 0 a metronome
    Parameters:  count >= 1; rate_rps > 0 [1/s]; scv ca2 >= 0
    Returns:     shape (count,), not decreasing [s]
    Raises:      DomainError if the rate is not positive or ca2 negative.
    Holds when:  gaps are independent of each other; for bunches use batch_arrivals_s.
    References:  whitt1982 (renewal processes matched on two moments)
    """
    require_count(count, name="requests")
    require_positive(rate_rps, name="rate_rps")
    if 0 <= scv < LEAST_SCV:
        return np.arange(1, count + 1) / rate_rps
    require_positive(scv, name="scv")
    return np.cumsum(rng.gamma(1.0 / scv, scv / rate_rps, size=count))


def batch_arrivals_s(count: int, rate_rps: float, *, mean_batch: float, rng: np.random.Generator) -> Array:
    """Arrival times of bunches of requests: Poisson instants, geometric bunch sizes.

    Formula:     bunches arrive at rate/k; P(size = j) = (1 - 1/k)^(j-1) / k, mean size k;
                 asymptotic index of dispersion of counts 2k - 1
    Parameters:  count >= 1; rate_rps > 0 [1/s]; mean_batch k >= 1
    Returns:     shape (count,), not decreasing [s]
    Raises:      DomainError if the rate is not positive or k below 1.
    Holds when:  members of a bunch come at the same instant.
    References:  whitt1982
    """
    require_count(count, name="requests")
    require_positive(rate_rps, name="rate_rps")
    require_positive(mean_batch - 1.0 + np.finfo(float).eps, name="mean_batch - 1")
    instants = np.cumsum(rng.exponential(mean_batch / rate_rps, size=count))
    sizes = rng.geometric(1.0 / mean_batch, size=count)
    needed = int(np.searchsorted(np.cumsum(np.minimum(sizes, count)), count)) + 1
    return np.repeat(instants[:needed], np.minimum(sizes[:needed], count))[:count]


def modulated_arrivals_s(
    count: int, rate_rps: float, *, scv: float, dispersion: Mapping[float, float], rng: np.random.Generator
) -> Array:
    """Arrival times whose counts spread as measured: calm from one request to the next, in waves over minutes.

    Formula:     a renewal process (gamma gaps, SCV ca2) runs on a clock of speed M(t) = exp(G(t) - var/2), G a sum of
                 stationary Gaussian processes with covariance v_k exp(-t/w_k), one per window w_k. The v_k >= 0
                 solve IDC(w) = ca2 + sum_k rate (e^v_k - 1) 2 w_k (1 - (w_k/w) (1 - exp(-w/w_k))) by least squares
    Parameters:  count >= 1; rate_rps > 0 [1/s]; scv ca2 >= 0; dispersion: index of dispersion of counts (variance
                 over mean) per window length [s]
    Returns:     shape (count,), not decreasing [s]
    Raises:      DomainError if the rate is not positive, ca2 negative, or a window not positive.
    Holds when:  the dispersion does not fall with the window; where it does, waves are left out.
    References:  whitt1982; cox1955 (doubly stochastic Poisson process)
    """
    for window, index in dispersion.items():
        require_positive(window, name="dispersion window")
        if not index >= 0:
            raise DomainError("dispersion", "must not be negative", index)
    calm = renewal_arrivals_s(count, 1.0, scv=scv, rng=rng)
    windows = np.array(sorted(dispersion))
    excess = np.array([dispersion[window] for window in windows]) - scv
    if not windows.size or excess.max() <= 0:
        return calm / rate_rps
    from scipy.optimize import nnls

    ratio = windows[:, None] / windows[None, :]  # window over relaxation time
    response = rate_rps * 2.0 * windows[None, :] * (1.0 + np.expm1(-ratio) / ratio)
    variance = np.log1p(nnls(response, np.maximum(excess, 0.0))[0])
    length = 1.2 * count / rate_rps
    step = max(float(windows[0]) / _CELLS_PER_WINDOW, length / _MOST_CELLS)
    cells = int(np.ceil(length / step)) + 1
    wave = np.zeros(cells)
    for relaxation, size in zip(windows, variance, strict=True):
        if size > 0:
            wave += _gaussian_wave(cells, keep=float(np.exp(-step / relaxation)), variance=float(size), rng=rng)
    speed = np.exp(wave - 0.5 * variance.sum())
    passed = np.concatenate(([0.0], np.cumsum(speed) * step * rate_rps))
    clock = np.arange(cells + 1) * step
    # beyond the end of the waves time runs evenly: needed when they were weak by chance
    beyond = np.maximum(calm - passed[-1], 0.0) / rate_rps
    return np.asarray(np.interp(calm, passed, clock) + beyond)


def _gaussian_wave(cells: int, *, keep: float, variance: float, rng: np.random.Generator) -> Array:
    """Stationary Gaussian sequence with correlation ``keep`` from one cell to the next."""
    from scipy.signal import lfilter

    noise = rng.normal(0.0, np.sqrt(variance * (1.0 - keep**2)), cells)
    start = rng.normal(0.0, np.sqrt(variance))
    filtered, _ = lfilter([1.0], [1.0, -keep], noise, zi=[keep * start])
    return np.asarray(filtered)
