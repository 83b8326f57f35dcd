"""TPOT over requests: (E2E - TTFT) / (O - 1), spread by batches that come and go and by prefills that interrupt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pddplan.domain.outcome import Percentiles
from pddplan.domain.workload import Array
from pddplan.evaluate.path_result import PathResult
from pddplan.evaluate.rounding import ROUNDING
from pddplan.paths.mixture import QUANTILES

_DOUBLINGS = 60
_PARTS = np.arange(1, 16) / 16.0
_LOOKS = 14
"""Each divides what is left by 16: in all by 2^56, beyond what a float can tell."""


def tpot_coverage(result: PathResult, output_tokens: Array, *, limit_s: Array | float) -> Array:
    """Chance that a request of each class on a path is answered at this pace or a faster one.

    Formula:     P(TPOT <= x) = 1 - exp(-(1 + (x - t)/s)+) for x below the TPOT of full batches, 1 from there on;
                 t mean, s = spread / (O - 1); without spread a step at t
    Parameters:  result of the path; output_tokens O, shape (classes,); limit_s x, broadcasts against them [s]
    Returns:     probability, shape (..., classes); 0 where decoding never ends
    Raises:      nothing
    Holds when:  the part of TPOT beyond its least is exponential, cut off where batches are full.
    References:  pdd-report; calibrated against simulation (decisions, queueing)
    """
    return _covered(np.asarray(limit_s, dtype=float), *_pace(result, output_tokens))


def _pace(result: PathResult, output_tokens: Array) -> tuple[Array, Array, Array]:
    """TPOT of each class on a path: mean, spread, and that of full batches [s]."""
    mean = np.broadcast_to(result.tpot_s, output_tokens.shape)
    spread = np.asarray(result.decode_spread_s, dtype=float) / np.maximum(output_tokens - 1.0, 1.0)
    return mean, np.broadcast_to(spread, mean.shape), np.maximum(result.tpot_most_s, mean)


def _covered(limit_s: Array, mean_s: Array, spread_s: Array, most_s: Array) -> Array:
    """P(TPOT <= limit) of tpot_coverage."""
    limit = limit_s * (1.0 + ROUNDING)
    spreads = (spread_s > 0) & np.isfinite(spread_s) & np.isfinite(mean_s)
    with np.errstate(invalid="ignore", over="ignore"):
        beyond = 1.0 + np.where(spreads, limit - mean_s, 0.0) / np.where(spreads, spread_s, 1.0)
        covered = np.where(spreads, -np.expm1(-np.maximum(beyond, 0.0)), (limit >= mean_s).astype(float))
        return np.asarray(np.where(limit >= most_s, 1.0, covered) * np.isfinite(mean_s))


def tpot_percentiles(results: Sequence[PathResult], flow: Array, *, output_tokens: Array) -> Percentiles:
    """P50, P90, P99 and mean of TPOT over all requests.

    Formula:     least x with sum of flow P(TPOT <= x) >= q sum of flow; mean of the classes' means
    Parameters:  results per path; flow, shape (paths, classes) [req/s]; output_tokens O, shape (classes,)
    Returns:     Percentiles [s]; inf where so many requests are never answered; zeros without requests
    Raises:      nothing
    Holds when:  see tpot_coverage.
    References:  ross2014, chapter 2
    """
    total = float(flow.sum())
    if total <= 0:
        return Percentiles(0.0, 0.0, 0.0, 0.0)
    used = flow > 0
    mean, spread, most = (
        np.stack(part)[used] for part in zip(*(_pace(r, output_tokens) for r in results), strict=True)
    )
    weight = flow[used] / total
    answered = np.isfinite(mean)
    average = float(weight @ mean)
    if not answered.any():
        return Percentiles(np.inf, np.inf, np.inf, np.inf)

    def covered(limit_s: Array) -> Array:
        return np.asarray(_covered(limit_s[..., None], mean, spread, most) @ weight)

    asked = np.array(QUANTILES) * (1.0 - ROUNDING)
    high = np.full(asked.shape, float(mean[answered].max()))
    for _ in range(_DOUBLINGS):  # the exponential reaches any quantile in a few doublings
        short = (covered(high) < asked) & (float(weight[answered].sum()) >= asked)
        if not short.any():
            break
        high = np.where(short, 2.0 * high, high)
    reached = covered(high) >= asked  # asked here once: sums of other shapes differ in their last digits
    low = np.zeros_like(high)
    for _ in range(_LOOKS):
        tried = low[:, None] + (high - low)[:, None] * _PARTS
        enough = covered(tried) >= asked[:, None]
        low = np.where(enough, low[:, None], tried).max(axis=1)
        high = np.where(enough, tried, high[:, None]).min(axis=1)
    found = np.where(reached, high, np.inf)
    return Percentiles(float(found[0]), float(found[1]), float(found[2]), average)
