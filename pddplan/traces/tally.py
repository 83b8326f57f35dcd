"""Counts over all requests of a trace, or over the classes of a workload: what a page shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array, OddTraffic, RequestClasses
from pddplan.traces.cells import HIT_BIN_EDGES, Columns, bin_of
from pddplan.traces.marginals import DROPPED_BITS, Marginal
from pddplan.traces.misses import Misses
from pddplan.traces.trace import Trace

HIGH_HIT = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Shares are of all requests."""

    marginals: Sequence[Marginal]
    """Input, prefill misses, transfer misses and output."""
    bin_share: Array
    """Requests per bin of HIT_BIN_EDGES, by hits at the prefill side."""
    bin_miss_share: Array
    """Tokens to prefill per bin, as a share of all of them."""
    mean_hit_fraction: float
    token_hit_fraction: float
    high_share: float
    """Requests that hit more than HIGH_HIT."""
    odd_share: float


class _Sums:
    """Running sums of a tally."""

    def __init__(self, odd: OddTraffic, *, dropped_bits: int = DROPPED_BITS) -> None:
        self.odd = odd
        self.marginals = tuple(Marginal(dropped_bits=dropped_bits) for _ in range(4))
        bins = len(HIT_BIN_EDGES) - 1
        self.bins, self.missing = np.zeros(bins), np.zeros(bins)
        self.count, self.hit, self.hit_tokens, self.high, self.odd_count = 0.0, 0.0, 0.0, 0.0, 0.0

    def take(self, columns: Columns, hit_tokens: Array, weight: Array | None = None) -> None:
        """Further requests, or classes with weights."""
        length, miss, transfer, output = columns
        share = np.ones(length.size) if weight is None else weight
        for marginal, values in zip(self.marginals, columns, strict=True):
            marginal.take(values, weight)
        hit = hit_tokens / length
        place = bin_of(hit)
        self.bins += np.bincount(place, weights=share, minlength=self.bins.size)
        self.missing += np.bincount(place, weights=share * miss, minlength=self.bins.size)
        self.count += float(share.sum())
        self.hit += float((share * hit).sum())
        self.hit_tokens += float((share * hit_tokens).sum())
        self.high += float(share[hit > HIGH_HIT].sum())
        self.odd_count += odd_share(transfer, output, self.odd, weight=share) * float(share.sum())

    def tally(self) -> Tally:
        return Tally(
            marginals=self.marginals,
            bin_share=self.bins / self.count,
            bin_miss_share=self.missing / max(float(self.missing.sum()), 1e-300),
            mean_hit_fraction=self.hit / self.count,
            token_hit_fraction=self.hit_tokens / self.marginals[0].total,
            high_share=self.high / self.count,
            odd_share=self.odd_count / self.count,
        )


def odd_share(transfer_tokens: Array, output_tokens: Array, odd: OddTraffic, *, weight: Array | None = None) -> float:
    """Share of requests with a long transfer and a short answer.

    Formula:     share of requests with s >= s_min and O < O_max
    Parameters:  transfer_tokens s, output_tokens O, shape (requests,); weight of each, 1 if left out
    References:  pdd-report, odd-traffic filter
    """
    return float(np.average(odd.covers(transfer_tokens, output_tokens), weights=weight))


def tally_requests(trace: Trace, misses: Misses, odd: OddTraffic) -> Tally:
    """Count all requests of a trace."""
    sums = _Sums(odd)
    for columns, rows in zip(request_columns(trace, misses), misses.rows.chunks(), strict=True):
        sums.take(columns, rows["hit"].astype(np.float64))
    return sums.tally()


def tally_classes(classes: RequestClasses, odd: OddTraffic) -> Tally:
    """The same of request classes, by their weights."""
    sums = _Sums(odd, dropped_bits=0)
    length, miss = classes.input_tokens, classes.miss_prefill_tokens
    columns = (length, miss, classes.miss_decode_tokens, classes.output_tokens)
    sums.take(columns, length - miss, classes.weight)
    return sums.tally()


def request_columns(trace: Trace, misses: Misses) -> Iterator[Columns]:
    """Input, prefill tokens, transfer tokens and output of all requests, chunk by chunk."""
    for rows, missing in zip(trace.rows.chunks(), misses.rows.chunks(), strict=True):
        yield rows["input"], missing["prefill"], missing["decode"], rows["output"]
