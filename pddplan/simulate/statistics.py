"""Estimates with an honest margin: batch means within a run, replications across seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import DomainError

CONFIDENCE = 0.95
BATCHES_PER_RUN = 20
"""Enough for a t quantile near 2.1, few enough for batches to be nearly independent (Schmeiser: 10 to 30)."""

MEAN = -1.0
"""In place of a quantile: the mean."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A simulated number and half the width of its 95 % confidence interval; NaN where nothing was seen."""

    value: float
    half_width: float

    @property
    def low(self) -> float:
        return self.value - self.half_width

    @property
    def high(self) -> float:
        return self.value + self.half_width

    def covers(self, value: float) -> bool:
        return bool(self.low <= value <= self.high)


def t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t, without the second that importing scipy's takes.

    Formula:     exact for one and two degrees; else z + sum_k g_k(z) / degrees^k, z the normal quantile
                 (Cornish-Fisher expansion to the fourth term)
    Parameters:  probability in (0, 1); degrees >= 1
    Returns:     quantile; within 0.2 % of the exact one at 97.5 %
    Raises:      DomainError below one degree of freedom
    Holds when:  the probability is not extreme (0.9 to 0.99 and their mirror images).
    References:  abramowitz1964, 26.7.5
    """
    if degrees < 1:
        raise DomainError("degrees", "must be at least 1", degrees)
    if degrees == 1:
        return math.tan(math.pi * (probability - 0.5))
    if degrees == 2:
        return (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(z + sum(term / degrees**k for k, term in enumerate(terms, start=1)))


def statistic(values: Array, quantile: float) -> float:
    """Mean or quantile of a sample; NaN of an empty one."""
    if not values.size:
        return float("nan")
    return float(values.mean()) if quantile == MEAN else float(np.quantile(values, quantile))


def estimate(samples: Sequence[Array], quantile: float, *, batches_per_run: int = BATCHES_PER_RUN) -> Estimate:
    """Mean (``quantile=MEAN``) or quantile over one or several runs, with a confidence interval.

    Formula:     value = statistic of everything seen; half width = t(0.975, k-1) * std(batch statistics) / sqrt(k),
                 the k batches being contiguous stretches of each run
    Parameters:  samples: one array per run, in order of arrival; quantile in [0, 1], or MEAN
    Returns:     Estimate; the half width is inf with fewer than two batches
    Raises:      DomainError if the quantile is outside its range.
    Holds when:  a batch is longer than the memory of the queue; near saturation the margin is too small.
    References:  law2015, section 9.5 (batch means), schmeiser1982
    """
    if quantile != MEAN and not 0 <= quantile <= 1:
        raise DomainError("quantile", "must lie in [0, 1]", quantile)
    seen = [values[np.isfinite(values)] for values in samples]
    everything = np.concatenate(seen) if seen else np.empty(0)
    value = statistic(everything, quantile)
    batches = [batch for values in seen for batch in np.array_split(values, batches_per_run) if batch.size]
    if len(batches) < 2:
        return Estimate(value, float("inf"))
    per_batch = np.array([statistic(batch, quantile) for batch in batches])
    return Estimate(value, interval(per_batch).half_width)


def interval(batches: Array) -> Estimate:
    """Mean of independent batch results, with its confidence interval.

    Formula:     mean +- t(0.975, k-1) * std / sqrt(k)
    Parameters:  batches, shape (k,)
    Returns:     Estimate; the half width is inf with fewer than two batches, both NaN without any
    Raises:      nothing
    Holds when:  batches are long enough to be nearly independent.
    References:  law2015, section 9.5
    """
    seen = batches[np.isfinite(batches)]
    if not seen.size:
        return Estimate(float("nan"), float("nan"))
    if seen.size < 2:
        return Estimate(float(seen[0]), float("inf"))
    spread = float(seen.std(ddof=1)) / float(np.sqrt(seen.size))
    return Estimate(float(seen.mean()), t_quantile(0.5 + CONFIDENCE / 2, seen.size - 1) * spread)
