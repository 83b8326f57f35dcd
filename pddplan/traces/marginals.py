"""One column of many requests, counted in bounded memory: mean, percentiles, extremes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array

DROPPED_BITS = 33
"""Of the 53 significant bits of a number; whole numbers up to 2**20 stay exact, others within one per million."""


class Marginal:
    """How often each value occurs; feed chunks in any order."""

    def __init__(self, *, dropped_bits: int = DROPPED_BITS) -> None:
        self.dropped_bits = dropped_bits
        self.count = 0.0
        """Requests, or the sum of their weights."""
        self.total = 0.0
        """Sum of all values (exact for whole numbers)."""
        self.smallest, self.largest = np.inf, 0.0
        self._keys = np.empty(0, dtype=np.int64)
        self._counts = np.empty(0)

    def take(self, values: NDArray[Any], weight: Array | None = None) -> None:
        """Count further values, none of them negative; each once, or by weight."""
        if not values.size:
            return
        keys, place = np.unique(values.astype(np.float64).view(np.int64) >> self.dropped_bits, return_inverse=True)
        counts = np.bincount(place, weights=weight).astype(np.float64)
        self.count += float(counts.sum())
        self.total += float(values.sum(dtype=np.float64) if weight is None else values @ weight)
        self.smallest = min(self.smallest, float(values.min()))
        self.largest = max(self.largest, float(values.max()))
        self._keys, place = np.unique(np.concatenate((self._keys, keys)), return_inverse=True)
        self._counts = np.bincount(place, weights=np.concatenate((self._counts, counts))).astype(np.float64)

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def values(self) -> Array:
        """Values that occur, ascending."""
        return (self._keys << self.dropped_bits).view(np.float64)

    @property
    def weight(self) -> Array:
        """Share of each of ``values``."""
        return np.asarray(self._counts / self.count)

    def quantile(self, quantile: float) -> float:
        """Smallest value up to which there is this share of the requests."""
        reached = np.cumsum(self._counts)
        place = int(np.searchsorted(reached, quantile * reached[-1] * (1 - 1e-12)))
        return float(self.values[min(place, reached.size - 1)])

    def interpolated(self, quantile: float) -> float:
        """The same, interpolated between the two requests nearest in rank (requests without weights)."""
        place = quantile * (self.count - 1)
        reached = np.cumsum(self._counts)
        ranks = np.searchsorted(reached, [int(place), int(place) + 1], side="right")
        below, above = self.values[np.minimum(ranks, reached.size - 1)]
        return float(below + (place - int(place)) * (above - below))
