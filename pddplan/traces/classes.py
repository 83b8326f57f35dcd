"""A few request classes that stand for all requests of a trace.

1. Requests are put into fine cells, cut along prefill tokens, transfer tokens, output and input, and at every value
   that must come out right: just around the percentiles, and at the edges of the hit-rate bins. A cell is the mean of
   its requests.
2. Cells are thinned out to as many as there are classes. What is left is weighted so that a list of averages stays
   what it was: means, shares up to each percentile, second moments, products, shares and tokens of each hit-rate bin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array, OddTraffic, RequestClasses
from pddplan.traces.cells import (
    HIT_BIN_EDGES,
    PINNED_QUANTILES,
    SHAPE_QUANTILES,
    Cells,
    Columns,
    band_of,
    bin_of,
    edges_of,
)
from pddplan.traces.marginals import Marginal
from pddplan.traces.recombine import recombine

MAX_CLASSES = 64
CLEAR_OF_RANK = 5e-6
"""Shares that end this close to a percentile are moved away from it, so that rounding of weights cannot."""
COLUMNS_FIRST_TO_LAST = (1, 2, 3, 0)
"""Prefill tokens, transfer tokens, output, input: in order of importance."""
FEW_REQUESTS = 4096
"""So many requests are cells of their own."""
MOST_MOVED = 0.05
"""Of so few requests, those around a percentile are moved to where it is interpolated if that moves at most this share
of all tokens (the others make up for it); across a gap between two kinds of requests it is left alone."""
LEAST_WEIGHT = 1e-12
"""Less than this is what rounding left of nothing."""
FEWEST_BALANCED = 16
"""With fewer classes than this only means are kept."""
ROWS_AT_ONCE = 2**18


@dataclass(frozen=True, slots=True)
class Fit:
    """How well classes stand for the requests they were made from."""

    worst_relative_error: float
    """Largest error of mean, P50, P90, P99 of prefill tokens, transfer tokens, output and input."""
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
    columns = (input_tokens, miss_prefill_tokens, miss_decode_tokens, output_tokens)

    def chunks() -> Iterator[Columns]:
        for start in range(0, columns[0].size, ROWS_AT_ONCE):
            length, miss, transfer, output = (column[start : start + ROWS_AT_ONCE] for column in columns)
            yield length, miss, transfer, output

    return classes_of(chunks, marginals_of(*columns), max_classes=max_classes)


def marginals_of(*columns: NDArray[Any]) -> tuple[Marginal, ...]:
    """Each column counted by itself."""
    marginals = tuple(Marginal() for _ in columns)
    for marginal, values in zip(marginals, columns, strict=True):
        marginal.take(values)
    return marginals


def classes_of(
    chunks: Callable[[], Iterator[Columns]],
    marginals: Sequence[Marginal],
    *,
    max_classes: int = MAX_CLASSES,
    odd: OddTraffic | None = None,
) -> RequestClasses:
    """The same for requests that come in chunks.

    Parameters:  chunks, gives the requests from the start each time it is called; marginals, of the four columns;
                 odd, what counts as odd traffic, of which the share is kept
    """
    odd = odd or OddTraffic()
    count = marginals[0].count
    few = count <= max(FEW_REQUESTS, max_classes)
    cells = Cells(None if few else edges_of(marginals, odd))
    for chunk in chunks():
        if few and count > max_classes:
            chunk, marginals = _settled(chunk)
        cells.take(chunk)
    weight, means = cells.weight, cells.means()
    if count <= max_classes:  # equal requests are one class
        means, place = np.unique(means, axis=1, return_inverse=True)
        weight = np.asarray(np.bincount(place.ravel(), weights=weight), dtype=np.float64)
    weight = weight / count
    if weight.size > max_classes:
        if max_classes < FEWEST_BALANCED:
            weight, means = _joined(weight, means, max_classes)
        else:
            weight = _clear_of_ranks(weight, means, marginals)
            weight = recombine(_averages(means, marginals, odd)[:max_classes], weight)
            kept = weight > LEAST_WEIGHT
            weight, means = weight[kept] / weight[kept].sum(), means[:, kept]
    length, miss, transfer, output = means
    order = np.lexsort((output, miss))
    return RequestClasses(
        weight=weight[order],
        input_tokens=length[order],
        miss_prefill_tokens=miss[order],
        miss_decode_tokens=transfer[order],
        output_tokens=output[order],
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


def fit_of(classes: RequestClasses, marginals: Sequence[Marginal]) -> Fit:
    """Compare classes with the requests they stand for.

    Parameters:  marginals, of input, prefill tokens, transfer tokens and output of the requests
    """
    worst, where = 0.0, "none"
    pairs = (
        ("prefill tokens", classes.miss_prefill_tokens, marginals[1]),
        ("transfer tokens", classes.miss_decode_tokens, marginals[2]),
        ("output tokens", classes.output_tokens, marginals[3]),
        ("input tokens", classes.input_tokens, marginals[0]),
    )
    for name, values, original in pairs:
        checks = [("mean", classes.mean(values), original.mean, original.mean)]
        for q in PINNED_QUANTILES:
            got = weighted_quantile(values, classes.weight, q)
            # between two requests any value is a percentile: by rank, or interpolated
            low, high = sorted((original.quantile(q), original.interpolated(q)))
            checks.append((f"P{100 * q:.0f}", got, low, high))
        for label, got, low, high in checks:
            error = max(low - got, got - high, 0.0) / max(abs(low), 1.0)
            if error > worst:
                worst, where = error, f"{label} of {name}"
    return Fit(worst, where)


def _averages(means: Array, marginals: Sequence[Marginal], odd: OddTraffic) -> Array:
    """What must not change, the most important first; shape (averages, cells)."""
    length, miss, transfer, output = means
    rows = [np.ones_like(length), *means]
    for number in COLUMNS_FIRST_TO_LAST:
        bands = [edge for q in PINNED_QUANTILES for edge in band_of(marginals[number], q)]
        rows += [(means[number] <= edge).astype(np.float64) for edge in bands]
    hit = (length - miss) / length
    rows += [odd.covers(transfer, output).astype(np.float64), hit]
    hit_bin = bin_of(hit)
    in_bin = [(hit_bin == k).astype(np.float64) for k in range(len(HIT_BIN_EDGES) - 2)]
    rows += [miss**2, output**2, length**2, transfer**2, length * output, miss * output, miss * transfer, length * miss]
    rows += in_bin
    rows += [miss * inside for inside in in_bin]
    rows += [(means[n] <= marginals[n].quantile(q)) * 1.0 for n, quantiles in SHAPE_QUANTILES for q in quantiles]
    rows += [length * inside for inside in in_bin]
    return np.stack([row for row in rows if np.ptp(row) > 0 or row is rows[0]])


def _settled(columns: Columns) -> tuple[Columns, tuple[Marginal, ...]]:
    """A few requests whose percentiles are the same by rank and interpolated, and their marginals."""
    length, miss, transfer, output = (_pinned(np.asarray(column, dtype=np.float64)) for column in columns)
    settled = (np.maximum(length, np.maximum(miss, transfer)), miss, transfer, output)
    return settled, marginals_of(*settled)


def _pinned(values: Array) -> Array:
    """Values of single requests: the two around each percentile take its interpolated value, the mean stays."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    result, fixed = ordered.copy(), np.zeros(ordered.size, dtype=bool)
    floor, ceiling = np.full(ordered.size, ordered[0]), np.full(ordered.size, ordered[-1])
    for quantile in PINNED_QUANTILES:
        value = float(np.quantile(ordered, quantile))
        low = int(quantile * (ordered.size - 1))
        pair = slice(low, low + 2)
        if np.abs(ordered[pair] - value).sum() > MOST_MOVED * ordered.sum():
            continue
        result[pair], fixed[pair] = value, True
        ceiling[:low] = np.minimum(ceiling[:low], value)
        floor[low:] = np.maximum(floor[low:], value)
    missing = float(ordered.sum() - result.sum())
    room = np.where(fixed, 0.0, (ceiling if missing > 0 else floor) - result)
    possible = float(room.sum())
    if possible != 0:
        result += room * min(max(missing / possible, 0.0), 1.0)
    settled = np.empty_like(result)
    settled[order] = result
    return settled


def _clear_of_ranks(weight: Array, means: Array, marginals: Sequence[Marginal]) -> Array:
    """Shares that end within CLEAR_OF_RANK of a percentile are moved to that distance."""
    for number in COLUMNS_FIRST_TO_LAST:
        for q in PINNED_QUANTILES:
            for edge, sign in zip(band_of(marginals[number], q), (-1.0, 1.0), strict=True):
                below = means[number] <= edge
                share, aim = float(weight[below].sum()), q + sign * CLEAR_OF_RANK
                if sign * (share - aim) < 0 and 0 < share < 1 and abs(share - q) <= CLEAR_OF_RANK:
                    weight = np.where(below, weight * (aim / share), weight * ((1 - aim) / (1 - share)))
    return weight


def _joined(weight: Array, means: Array, count: int) -> tuple[Array, Array]:
    """Cells put together into so many groups of equal weight along prefill tokens."""
    order = np.argsort(means[1], kind="stable")
    reached = np.cumsum(weight[order]) - weight[order] / 2
    group = np.minimum((reached / weight.sum() * count).astype(np.int64), count - 1)
    total = np.bincount(group, weights=weight[order], minlength=count).astype(np.float64)
    sums = np.stack([np.bincount(group, weights=(weight * row)[order], minlength=count) for row in means])
    kept = total > 0
    return total[kept], sums[:, kept] / total[kept]
