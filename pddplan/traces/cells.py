"""Fine cells of requests: cut wherever a number must come out right, each kept as the sums over its requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array, OddTraffic
from pddplan.traces.marginals import Marginal

PINNED_QUANTILES = (0.50, 0.90, 0.99)
HIT_BIN_EDGES = (0.0, 0.90, 0.95, 0.96, 0.97, 0.98, 0.99, 1.0)
"""The seven bins of the PDD report, from 0-90 % to 99-100 %."""
BAND = 0.005
"""Cells are cut this far (relative) below and above each percentile, so that one of the classes lies between."""
CUTS = (28, 22, 22, 14)
EVEN_CUTS = (12, 10, 10, 8)
"""Intervals of prefill tokens, transfer tokens, output and input, of equal ratio and of equal width (which keep second
moments), beside those at percentiles."""
SHAPE_QUANTILES = (
    (1, (0.25, 0.75, 0.125, 0.375, 0.625, 0.95)),
    (2, (0.25, 0.75, 0.95)),
    (3, (0.25, 0.75)),
)
"""Shares up to these keep the shape of each column in between (as far as there are classes enough)."""
EDGE_TOLERANCE = 1e-12

Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Input, prefill tokens, transfer tokens and output of some requests."""


class Cells:
    """Sums over the requests of each cell."""

    def __init__(self, edges: Sequence[Array] | None) -> None:
        self.edges = edges
        """Where each column is cut; None: every request is a cell."""
        self._code = np.empty(0, dtype=np.int64)
        self._sums = np.empty((5, 0))

    @property
    def weight(self) -> Array:
        """Requests per cell."""
        return np.asarray(self._sums[0])

    def means(self) -> Array:
        """Mean input, prefill tokens, transfer tokens and output of each cell; shape (4, cells)."""
        return np.asarray(self._sums[1:] / self._sums[0])

    def take(self, chunk: Columns) -> None:
        code = self._codes(chunk)
        cell, place = np.unique(code, return_inverse=True)
        sums = np.stack([np.bincount(place), *(np.bincount(place, weights=column) for column in chunk)])
        code = np.concatenate((self._code, cell))
        self._code, place = np.unique(code, return_inverse=True)
        both = np.concatenate((self._sums, sums), axis=1)
        self._sums = np.stack([np.bincount(place, weights=row) for row in both])  # whole numbers: exact in any order

    def _codes(self, chunk: Columns) -> NDArray[np.int64]:
        if self.edges is None:
            start = self._code.size
            return np.arange(start, start + chunk[0].size, dtype=np.int64)
        length, miss = (np.asarray(column, dtype=np.float64) for column in chunk[:2])
        code = bin_of((length - miss) / length)
        for values, edges in zip((*chunk[1:], length), self.edges, strict=True):
            code = code * (edges.size + 1) + np.searchsorted(edges, values, side="left")
        return code


def edges_of(marginals: Sequence[Marginal], odd: OddTraffic) -> tuple[Array, ...]:
    """Where prefill tokens, transfer tokens, output and input are cut: x <= edge lies below."""
    found = []
    for number, cuts, even in zip((1, 2, 3, 0), CUTS, EVEN_CUTS, strict=True):
        marginal = marginals[number]
        low, high = max(marginal.smallest, 1.0), max(marginal.largest, 2.0)
        edges = [*np.geomspace(low, high, cuts + 1)[:-1], *np.linspace(0.0, high, even + 1)[:-1]]
        edges += [edge for q in PINNED_QUANTILES for edge in band_of(marginal, q)]
        edges += [marginal.quantile(q) for column, quantiles in SHAPE_QUANTILES if column == number for q in quantiles]
        limit = {2: odd.min_transfer_tokens, 3: odd.max_output_tokens}.get(number)
        edges += [] if limit is None else [float(np.nextafter(limit, -1.0))]
        found.append(np.unique(edges))
    return tuple(found)


def band_of(marginal: Marginal, quantile: float) -> tuple[float, float]:
    """Just below and just above a percentile."""
    value = marginal.quantile(quantile)
    return float(np.nextafter(value * (1 - BAND), -1.0)), value * (1 + BAND)


def bin_of(hit_fraction: Array, edges: Sequence[float] = HIT_BIN_EDGES) -> NDArray[np.int64]:
    """Bin of each hit rate; the last bin includes its upper edge."""
    place = np.searchsorted(np.asarray(edges), np.asarray(hit_fraction) + EDGE_TOLERANCE, side="right") - 1
    return np.asarray(np.clip(place, 0, len(edges) - 2), dtype=np.int64)


def bin_shares(hit_fraction: Array, edges: Sequence[float] = HIT_BIN_EDGES) -> Array:
    """Share of requests in each bin of hit rates; the last bin includes its upper edge."""
    counts = np.bincount(bin_of(hit_fraction, edges), minlength=len(edges) - 1)
    return np.asarray(counts / max(hit_fraction.size, 1))
