"""Arrival times with a given mean rate and variability."""

from __future__ import annotations

import numpy as np

from pddplan.domain.workload import Array
from pddplan.simulate.checks import require_count, require_positive


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
    if scv == 0:
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
    return np.repeat(instants, sizes)[:count]
