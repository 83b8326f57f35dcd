"""A few request classes that stand for all requests of a trace.

1. Split requests into cells, always the cell with the largest spread, along the axis where it is largest; a cell
   starts out as the mean of its requests.
2. Along prefill tokens, transfer tokens and output, put the cells in order: the one that covers a percentile (P50,
   P90, P99) takes exactly its value, those below stay below and those above stay above.
3. The other cells make up for that, so that the mean over all requests stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array, RequestClasses

MAX_CLASSES = 64
PINNED_QUANTILES = (0.50, 0.90, 0.99)
PIN_MARGIN = 0.002
"""Ranks this close to a pinned percentile take its value, so that rounding of weights cannot move it."""
SAMPLE = 200_000
"""Requests on which the cells are found (every k-th request); all requests count in what follows."""
AXES = ((0.75, 1.0), (0.75, 0.7), (0.5, 0.6), (0.5, 0.6))
"""Power and weight of prefill tokens, transfer tokens, output and cached tokens (each over its mean) when cells are
made. Powers below one keep the long tail from taking all cells; 0.75 is high enough to keep second moments, on which
queues depend, within a few per mille on chat and agent traces."""
ASSIGNED_AT_ONCE = 2**20
MISS_RATE_WEIGHT = 0.4
"""Weight of log10(m / L), which keeps the shares per hit-rate bin."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How well classes stand for the requests they were made from."""

    worst_relative_error: float
    """Largest error of mean, P50, P90, P99 of prefill tokens, transfer tokens and output."""
    where: str


def build_classes(
    *,
    input_tokens: NDArray[Any],
    miss_prefill_tokens: NDArray[Any],
    miss_decode_tokens: NDArray[Any],
    output_tokens: NDArray[Any],
    max_classes: int = MAX_CLASSES,
) -> RequestClasses:
    """Classes with the means and percentiles of the requests.

    Parameters:  four columns of shape (requests,), misses at most the input
    Returns:     at most ``max_classes`` classes
    References:  elementary
    """
    inputs, miss = np.asarray(input_tokens), np.asarray(miss_prefill_tokens)
    columns = (miss, np.asarray(miss_decode_tokens), np.asarray(output_tokens), inputs - miss)
    few = miss.size <= max_classes
    cell = np.arange(miss.size) if few else _cells(columns, max_classes)
    size = np.bincount(cell).astype(np.float64)
    weight = size / size.sum()
    means = [np.bincount(cell, weights=values) / size for values in columns[:3]]
    miss_c, transfer_c, output_c = (
        mean if few else _pinned(np.sort(values), mean, weight) for values, mean in zip(columns[:3], means, strict=True)
    )
    length = np.maximum(np.bincount(cell, weights=inputs) / size, np.maximum(miss_c, transfer_c))
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
    classes: RequestClasses,
    *,
    miss_prefill_tokens: NDArray[Any],
    miss_decode_tokens: NDArray[Any],
    output_tokens: NDArray[Any],
) -> Fit:
    """Compare classes with the requests they stand for."""
    worst, where = 0.0, "none"
    pairs = (
        ("prefill tokens", classes.miss_prefill_tokens, miss_prefill_tokens),
        ("transfer tokens", classes.miss_decode_tokens, miss_decode_tokens),
        ("output tokens", classes.output_tokens, output_tokens),
    )
    for name, values, original in pairs:
        mean = float(np.mean(original))
        checks = [("mean", classes.mean(values), mean, mean)]
        for q in PINNED_QUANTILES:
            got = weighted_quantile(values, classes.weight, q)
            # between two requests any value is a percentile: by rank, or interpolated
            both = sorted(float(np.quantile(original, q, method=way)) for way in ("inverted_cdf", "linear"))
            checks.append((f"P{100 * q:.0f}", got, both[0], both[1]))
        for label, got, low, high in checks:
            error = max(low - got, got - high, 0.0) / max(abs(low), 1.0)
            if error > worst:
                worst, where = error, f"{label} of {name}"
    return Fit(worst, where)


def _cells(columns: Sequence[NDArray[Any]], max_classes: int) -> NDArray[np.int64]:
    """Cell of each request (see AXES for how far apart two requests are)."""
    count = columns[0].size
    scale = [max(float(column.mean()), 1.0) for column in columns]
    step = max(count // SAMPLE, 1)
    splits = _split(_points([column[::step] for column in columns], scale), max_classes)
    cell = np.zeros(count, dtype=np.int64)
    for start in range(0, count, ASSIGNED_AT_ONCE):
        part = slice(start, start + ASSIGNED_AT_ONCE)
        points, mine = _points([column[part] for column in columns], scale), cell[part]
        for parent, child, axis, at in splits:
            mine[(mine == parent) & (points[axis] > at)] = child
    return np.asarray(np.unique(cell, return_inverse=True)[1], dtype=np.int64).ravel()


def _points(columns: Sequence[NDArray[Any]], scale: Sequence[float]) -> Array:
    """Coordinates in which cells are made, shape (axes, requests)."""
    axes = [
        (column / unit) ** power * weight for column, unit, (power, weight) in zip(columns, scale, AXES, strict=True)
    ]
    miss, cached = columns[0], columns[3]
    axes.append(MISS_RATE_WEIGHT * np.log10(np.maximum(miss, 1.0) / np.maximum(miss + cached, 1.0)))
    return np.stack(axes)


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


def _pinned(ordered: NDArray[Any], means: Array, weight: Array) -> Array:
    """Values of the cells along one quantity: their means, moved just so far that percentiles come out right."""
    order = np.argsort(means, kind="stable")
    upper = np.cumsum(weight[order])
    upper[-1] = 1.0
    lower = np.concatenate(([0.0], upper[:-1]))
    values = np.empty_like(means)
    values[order] = _pin(ordered, means[order], lower, upper)
    return values


def _pin(ordered: NDArray[Any], result: Array, lower: Array, upper: Array) -> Array:
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
