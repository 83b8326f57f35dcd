"""A few request classes that stand for all requests of a trace.

1. Split requests into cells, always the cell with the largest spread, along the axis where it is largest.
2. Along each quantity, put the cells in order; a cell then covers an interval of ranks, and takes the mean of the
   sorted requests over that interval. The mean over all requests is exact, and the spread of the original returns,
   which cell means alone would lose.
3. Cells that cover a promised percentile (P50, P90, P99) take exactly that percentile; the others make up for it,
   so that the mean stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array, RequestClasses

MAX_CLASSES = 64
PINNED_QUANTILES = (0.50, 0.90, 0.99)
PIN_MARGIN = 0.002
"""Ranks this close to a pinned percentile take its value, so that rounding of weights cannot move it."""
SAMPLE = 200_000
"""Requests on which the cells are found (every k-th request); all requests count in what follows."""
FEWEST_PER_CELL = 1


@dataclass(frozen=True, slots=True)
class Fit:
    """How well classes stand for the requests they were made from."""

    worst_relative_error: float
    """Largest error of mean, P50, P90, P99 of prefill tokens, transfer tokens and output."""
    where: str


def build_classes(
    *,
    input_tokens: Array,
    miss_prefill_tokens: Array,
    miss_decode_tokens: Array,
    output_tokens: Array,
    max_classes: int = MAX_CLASSES,
) -> RequestClasses:
    """Classes with the means and percentiles of the requests.

    Parameters:  four columns of shape (requests,), misses at most the input
    Returns:     at most ``max_classes`` classes
    References:  elementary
    """
    miss, transfer, output = (np.asarray(c, dtype=np.float64) for c in (miss_prefill_tokens, miss_decode_tokens, output_tokens))
    cached = np.asarray(input_tokens, dtype=np.float64) - miss
    columns = np.stack([miss, transfer, output, cached])
    cell = _cells(columns, max_classes)
    size = np.bincount(cell).astype(np.float64)
    weight = size / size.sum()
    matched = [
        _matched(values, np.bincount(cell, weights=values) / size, weight, pinned=k < 3)
        for k, values in enumerate(columns)
    ]
    miss_c, transfer_c, output_c, cached_c = matched
    length = np.maximum(miss_c + cached_c, transfer_c)
    order = np.lexsort((output_c, miss_c))
    return RequestClasses(
        weight=weight[order],
        input_tokens=length[order],
        miss_prefill_tokens=miss_c[order],
        miss_decode_tokens=transfer_c[order],
        output_tokens=output_c[order],
    )


def weighted_quantile(values: Array, weight: Array, quantile: float) -> float:
    """Smallest value up to which the weights reach a share.

    Formula:     min x with sum of weights of values <= x >= q
    References:  elementary
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    place = int(np.searchsorted(reached, quantile * reached[-1] * (1 - 1e-12)))
    return float(values[order][min(place, values.size - 1)])


def fit_of(
    classes: RequestClasses, *, miss_prefill_tokens: Array, miss_decode_tokens: Array, output_tokens: Array
) -> Fit:
    """Compare classes with the requests they stand for."""
    worst, where = 0.0, "none"
    pairs = (
        ("prefill tokens", classes.miss_prefill_tokens, miss_prefill_tokens),
        ("transfer tokens", classes.miss_decode_tokens, miss_decode_tokens),
        ("output tokens", classes.output_tokens, output_tokens),
    )
    for name, values, original in pairs:
        checks = [("mean", classes.mean(values), float(np.mean(original)))]
        checks += [
            (f"P{100 * q:.0f}", weighted_quantile(values, classes.weight, q), float(np.quantile(original, q)))
            for q in PINNED_QUANTILES
        ]
        for label, got, wanted in checks:
            error = abs(got - wanted) / max(abs(wanted), 1.0)
            if error > worst:
                worst, where = error, f"{label} of {name}"
    return Fit(worst, where)


def _cells(columns: Array, max_classes: int) -> NDArray[np.int64]:
    """Cell of each request. Spread is measured on square roots: neither the tail nor the bulk rules alone."""
    scale = np.maximum(columns.mean(axis=1, keepdims=True), 1.0)
    step = max(columns.shape[1] // SAMPLE, 1)
    features = np.sqrt(columns / scale)
    sample = features[:, ::step]
    splits = _split(sample, max_classes)
    cell = np.zeros(features.shape[1], dtype=np.int64)
    for parent, child, axis, at in splits:
        cell[(cell == parent) & (features[axis] > at)] = child
    used = np.unique(cell, return_inverse=True)[1]
    return np.asarray(used, dtype=np.int64).ravel()


def _split(features: Array, max_cells: int) -> list[tuple[int, int, int, float]]:
    """Splits (cell, new cell, axis, threshold), always of the cell and axis with the largest spread."""
    members = {0: np.arange(features.shape[1])}
    spreads = {0: _spread(features[:, members[0]])}
    splits: list[tuple[int, int, int, float]] = []
    while len(members) < max_cells:
        cell = max(spreads, key=lambda c: spreads[c].max())
        axis = int(np.argmax(spreads[cell]))
        if spreads[cell][axis] <= 1e-12:
            break
        values = features[axis, members[cell]]
        at = _two_means(values)
        upper = values > at
        child = len(members)
        members[child], members[cell] = members[cell][upper], members[cell][~upper]
        spreads[cell], spreads[child] = _spread(features[:, members[cell]]), _spread(features[:, members[child]])
        splits.append((cell, child, axis, at))
    return splits


def _spread(features: Array) -> Array:
    """Sum of squared deviations along each axis."""
    return np.asarray(((features - features.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))


def _two_means(values: Array) -> float:
    """Threshold of the best split in two: the smallest sum of squared deviations from two means."""
    ordered = np.sort(values)
    count = np.arange(1, ordered.size)
    below = np.cumsum(ordered)[:-1]
    above = below[-1] + ordered[-1] - below
    gain = below**2 / count + above**2 / (ordered.size - count)
    gain[ordered[:-1] == ordered[1:]] = -np.inf
    place = int(np.argmax(gain))
    return float((ordered[place] + ordered[place + 1]) / 2)


def _matched(values: Array, means: Array, weight: Array, *, pinned: bool) -> Array:
    """Value of each cell along one quantity: mean of the sorted requests over the ranks it covers."""
    ordered = np.sort(values)
    order = np.argsort(means, kind="stable")
    upper = np.cumsum(weight[order])
    upper[-1] = 1.0
    lower = np.concatenate(([0.0], upper[:-1]))
    running = np.concatenate(([0.0], np.cumsum(ordered)))
    ranks = np.arange(ordered.size + 1) / ordered.size
    integral = np.interp(upper, ranks, running) - np.interp(lower, ranks, running)
    result = integral / np.maximum(upper - lower, 1e-300) / ordered.size
    if pinned:
        result = _pin(ordered, result, lower, upper)
    back = np.empty_like(result)
    back[order] = result
    return back


def _pin(ordered: Array, result: Array, lower: Array, upper: Array) -> Array:
    """Give percentiles their exact value and let the other cells keep the mean."""
    weight = upper - lower
    fixed = np.zeros(result.size, dtype=bool)
    floor, ceiling = np.full(result.size, ordered[0]), np.full(result.size, ordered[-1])
    for quantile in PINNED_QUANTILES:
        value = float(np.quantile(ordered, quantile))
        covers = (lower < quantile + PIN_MARGIN) & (upper > quantile - PIN_MARGIN) & ~fixed
        result = np.where(covers, value, result)
        fixed |= covers
        below, above = ~fixed & (upper <= quantile), ~fixed & (lower >= quantile)
        ceiling[below] = np.minimum(ceiling[below], value)
        floor[above] = np.maximum(floor[above], value)
    result = np.where(fixed, result, np.clip(result, floor, ceiling))
    missing = float(ordered.mean() - weight @ result)
    limit = ceiling if missing > 0 else floor
    room = np.where(fixed, 0.0, limit - result)
    possible = float(weight @ room)
    if possible != 0:
        result = result + room * min(max(missing / possible, 0.0), 1.0)
    return result


def bin_shares(hit_fraction: Array, edges: Sequence[float]) -> Array:
    """Share of requests in each bin of hit rates; the last bin includes its upper edge."""
    place = np.clip(np.searchsorted(np.asarray(edges), hit_fraction, side="right") - 1, 0, len(edges) - 2)
    return np.bincount(place, minlength=len(edges) - 1) / max(hit_fraction.size, 1)
