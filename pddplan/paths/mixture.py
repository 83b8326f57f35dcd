"""Percentiles of a mixture of latencies: classes and paths weighted by how many requests they carry."""

from __future__ import annotations

import numpy as np

from pddplan.domain.outcome import Percentiles
from pddplan.domain.workload import Array
from pddplan.paths.latency import PreparedLatency

QUANTILES = (0.5, 0.9, 0.99)
_SCAN = (np.arange(1, 20) / 20.0) ** 2
"""Where a first look divides the bracket; latencies gather near their lower end."""
_STEPS = 40
_RELATIVE_TOLERANCE = 1e-5
_LEAST = 1e-12
_CLOSE = 1e-6
"""Share of requests by which a quantile may be missed."""


def mixture_quantiles(latency: PreparedLatency, weight: Array, *, quantiles: Array) -> Array:
    """Times that given shares of a weighted mixture do not exceed.

    Formula:     sum_k w_k F_k(t) = q, solved for t by bracketing (log-linear interpolation and halving)
    Parameters:  latency and weight >= 0, both of shape (groups, rows), weight in any scale;
                 quantiles in (0, 1), shape (q,)
    Returns:     shape (groups, q) [s]; inf where the share is never reached; nan for a group without weight
    Raises:      nothing
    Holds when:  rows are alternatives, not parts of a sum.
    References:  ross2014, chapter 2
    """
    total = weight.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = weight / total[:, None]
    used = weight > 0
    shift = latency.shift_s
    lo = np.where(used, shift, np.inf).min(axis=1)
    slowest = np.where(latency.rate_per_s > 0, latency.rate_per_s, np.inf).min(axis=-1)
    with np.errstate(divide="ignore"):
        reach = np.where(used & np.isfinite(slowest), 1.0 / slowest, 0.0).max(axis=1)
    last = np.where(used & np.isfinite(shift), shift, 0.0).max(axis=1)
    lo = np.where(np.isfinite(lo), lo, 0.0)[:, None] + 0.0 * quantiles
    terms = latency.rate_per_s.shape[-1]
    hi = np.maximum(last[:, None] + reach[:, None] * np.log(10.0 * terms / (1.0 - quantiles)), lo) + 1e-12

    ready = PreparedLatency(shift[:, None, :], latency.coefficient[:, None], latency.rate_per_s[:, None])

    def covered(t: Array) -> Array:
        """Share of each group within times of shape (groups, n)."""
        return np.asarray((ready.cdf(t[..., None]) * share[:, None, :]).sum(axis=-1))

    with np.errstate(invalid="ignore"):
        width = (hi - lo).max(axis=1, keepdims=True)
        start = lo.min(axis=1, keepdims=True)
        looked = np.concatenate([start, start + width * _SCAN, start + width], axis=1)
        seen = covered(looked)
        unreached = seen[:, -1:] < quantiles - 1e-9
        at_lo = seen[:, :1] >= quantiles
        after = np.clip((seen[:, None, :] < quantiles[:, None]).sum(axis=-1), 1, looked.shape[1] - 1)
        lo, hi = np.take_along_axis(looked, after - 1, axis=1), np.take_along_axis(looked, after, axis=1)
        g_lo = np.take_along_axis(seen, after - 1, axis=1) - quantiles
        g_hi = np.take_along_axis(seen, after, axis=1) - quantiles
        for step in range(_STEPS):
            width = hi - lo
            if np.all((width <= _RELATIVE_TOLERANCE * hi) | (g_hi <= _CLOSE) | unreached | at_lo):
                break
            middle = 0.5 * (lo + hi)
            if step % 3 != 2:
                # what is not covered falls nearly exponentially: interpolate its logarithm. Every third step halves,
                # so that the bracket shrinks across jumps of the distribution too
                left = 1.0 - quantiles
                fall = np.log(np.maximum(left - g_lo, _LEAST) / np.maximum(left - g_hi, _LEAST))
                part = np.log(np.maximum(left - g_lo, _LEAST) / left) / np.where(fall > 0, fall, 1.0)
                middle = np.where(fall > 0, lo + width * np.clip(part, 1e-3, 1.0 - 1e-3), middle)
            g_middle = covered(middle) - quantiles
            above = g_middle >= 0.0
            hi, g_hi = np.where(above, middle, hi), np.where(above, g_middle, g_hi)
            lo, g_lo = np.where(above, lo, middle), np.where(above, g_lo, g_middle)
    answer = np.where(at_lo, lo, hi)
    answer = np.where(unreached, np.inf, answer)
    return np.asarray(np.where(total[:, None] > 0, answer, np.nan))


def mixture_percentiles(latency: PreparedLatency, weight: Array, *, mean_s: Array) -> tuple[Percentiles, ...]:
    """P50, P90, P99 and mean of each group of a mixture (see mixture_quantiles).

    Formula:     mean = sum w_k mean_k / sum w_k
    Parameters:  latency, weight and mean_s [s], all of shape (groups, rows)
    Returns:     one Percentiles per group
    Raises:      nothing
    Holds when:  see mixture_quantiles.
    References:  ross2014, chapter 2
    """
    times = mixture_quantiles(latency, weight, quantiles=np.array(QUANTILES))
    total = weight.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(weight > 0, weight * mean_s, 0.0).sum(axis=1) / total
    return tuple(
        Percentiles(p50=float(row[0]), p90=float(row[1]), p99=float(row[2]), mean=float(m))
        for row, m in zip(times, mean, strict=True)
    )


def weighted_percentiles(values: Array, weight: Array) -> Percentiles:
    """Percentiles of fixed values that carry weights.

    Formula:     smallest value at which the sorted, summed weight reaches q
    Parameters:  values and weight >= 0, shape (rows,)
    Returns:     Percentiles; zeros when nothing has weight
    Raises:      nothing
    Holds when:  always
    References:  ross2014, chapter 2
    """
    used = weight > 0
    if not used.any():
        return Percentiles(0.0, 0.0, 0.0, 0.0)
    order = np.argsort(values[used], kind="stable")
    ranked, share = values[used][order], weight[used][order] / weight[used].sum()
    reached = np.cumsum(share)
    at = [float(ranked[min(int(np.searchsorted(reached, q - 1e-12)), ranked.size - 1)]) for q in QUANTILES]
    return Percentiles(at[0], at[1], at[2], float(np.dot(ranked, share)))
