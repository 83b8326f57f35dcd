"""TPOT over requests: (E2E - TTFT) / (O - 1), spread by batches that come and go and by prefills that interrupt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pddplan.domain.outcome import Percentiles
from pddplan.domain.workload import Array
from pddplan.evaluate.path_result import PathResult
from pddplan.paths.mixture import QUANTILES

SAME = 1e-9
"""Relative difference below which a TPOT equals a promise."""
_HALVINGS = 60


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
    limit = np.asarray(limit_s, dtype=float) * (1.0 + SAME)
    mean = np.asarray(result.tpot_s, dtype=float)
    spread = np.asarray(result.decode_spread_s, dtype=float) / np.maximum(output_tokens - 1.0, 1.0)
    most = np.maximum(result.tpot_most_s, mean)
    spreads = np.isfinite(spread) & np.isfinite(mean) & (spread > SAME * np.where(np.isfinite(mean), mean, 1.0))
    with np.errstate(invalid="ignore"):
        beyond = 1.0 + np.where(spreads, limit - mean, 0.0) / np.where(spreads, spread, 1.0)
        covered = np.where(spreads, -np.expm1(-np.maximum(beyond, 0.0)), (limit >= mean).astype(float))
        return np.asarray(np.where(limit >= most, 1.0, covered) * np.isfinite(mean))


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
    mean = np.stack([np.broadcast_to(r.tpot_s, output_tokens.shape) for r in results])
    used = flow > 0
    answered = used & np.isfinite(mean)
    average = float((flow * np.where(used, mean, 0.0)).sum() / total)
    if not answered.any():
        return Percentiles(np.inf, np.inf, np.inf, np.inf)

    def covered(limit_s: Array) -> Array:
        rows = [tpot_coverage(r, output_tokens, limit_s=limit_s[:, None]) for r in results]
        return sum((row @ rate for row, rate in zip(rows, flow, strict=True)), np.zeros_like(limit_s)) / total

    asked = np.array(QUANTILES) * (1.0 - SAME)
    high = np.full(asked.shape, float(mean[answered].max()))
    for _ in range(_HALVINGS):  # the exponential reaches any quantile in a few doublings
        short = (covered(high) < asked) & (float(flow[answered].sum()) / total >= asked)
        if not short.any():
            break
        high = np.where(short, 2.0 * high, high)
    low = np.zeros_like(high)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        enough = covered(middle) >= asked
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    found = np.where(covered(high) >= asked, high, np.inf)
    return Percentiles(float(found[0]), float(found[1]), float(found[2]), average)
