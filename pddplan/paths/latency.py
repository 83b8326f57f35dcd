"""Sums of a constant and independent waits: the law of a latency in closed form.

A latency is ``shift + W_1 + ... + W_n``; each W_i is zero with probability 1 - p_i and exponential with
mean tau_i otherwise. Everything broadcasts: operating points in front, request classes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.queueing.wait import Wait

_SEPARATION = 1e-3
"""Relative distance to which equal means are pulled apart, so that partial fractions exist."""
_TINY_S = 1e-12
_LATEST_S = 1e15
"""Stands for infinity where it is multiplied with a rate of zero."""
_NEGLIGIBLE = 1e-9
"""A wait that fewer requests than this ever meet is left out."""


@dataclass(frozen=True, slots=True, eq=False)
class LatencySum:
    """shift + sum of (atom, exponential) terms, per class."""

    shift_s: Array
    terms: tuple[Wait, ...] = ()

    def plus(self, shift_s: Array | float, *terms: Wait) -> LatencySum:
        """The same latency with something more in the row."""
        return replace(self, shift_s=self.shift_s + shift_s, terms=self.terms + terms)

    @property
    def mean_s(self) -> Array:
        total = np.asarray(self.shift_s, dtype=float)
        for term in self.terms:
            total = total + term.mean_s
        return total

    def prepared(self) -> PreparedLatency:
        """Partial fractions done once, for many evaluations of the distribution function."""
        return prepare(self.shift_s, self.terms)

    def cdf(self, t_s: Array | float) -> Array:
        """P(latency <= t) for a time [s] that broadcasts against the classes."""
        return self.prepared().cdf(t_s)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedLatency:
    """1 - F(t) = sum of coefficient * exp(-(t - shift) / tau) beyond the shift; arrays (..., classes, terms)."""

    shift_s: Array
    coefficient: Array
    rate_per_s: Array

    def cdf(self, t_s: Array | float) -> Array:
        beyond = np.minimum(np.asarray(t_s, dtype=float), _LATEST_S) - self.shift_s
        decay = np.exp(-np.maximum(beyond, 0.0)[..., None] * self.rate_per_s)
        covered = 1.0 - (self.coefficient * decay).sum(axis=-1)
        return np.where(beyond >= 0.0, np.clip(covered, 0.0, 1.0), 0.0)

    def rows(self, chosen: NDArray[np.bool_], *, groups: int = 1) -> PreparedLatency:
        """Chosen rows as equally large groups, shape (groups, rows)."""
        terms = self.rate_per_s.shape[-1]
        return PreparedLatency(
            self.shift_s[chosen].reshape(groups, -1),
            self.coefficient[chosen].reshape(groups, -1, terms),
            self.rate_per_s[chosen].reshape(groups, -1, terms),
        )

    def later(self, more_s: Array) -> PreparedLatency:
        """The same latency with more of certain length."""
        return PreparedLatency(self.shift_s + more_s, self.coefficient, self.rate_per_s)

    def transposed(self, *, groups: int = 1) -> PreparedLatency:
        """Shape (groups x paths, classes) turned into (groups x classes, paths)."""

        def turned(values: Array) -> Array:
            parts = values.reshape(groups, -1, *values.shape[1:])
            return np.swapaxes(parts, 1, 2).reshape(-1, parts.shape[1], *values.shape[2:])

        return PreparedLatency(turned(self.shift_s), turned(self.coefficient), turned(self.rate_per_s))


def stacked(latencies: Sequence[LatencySum]) -> tuple[PreparedLatency, Array]:
    """Latencies of several paths as rows of one array, with their means; shapes (paths, classes)."""
    ready = [latency.prepared() for latency in latencies]
    shape = (len(ready), *ready[0].shift_s.shape, max(one.rate_per_s.shape[-1] for one in ready))
    coefficient, rate = np.zeros(shape), np.zeros(shape)
    for row, one in enumerate(ready):
        coefficient[row, ..., : one.rate_per_s.shape[-1]] = one.coefficient
        rate[row, ..., : one.rate_per_s.shape[-1]] = one.rate_per_s
    return (
        PreparedLatency(np.stack([one.shift_s for one in ready]), coefficient, rate),
        np.stack([latency.mean_s for latency in latencies]),
    )


def prepare(shift_s: Array, terms: Sequence[Wait]) -> PreparedLatency:
    """Partial fractions of a sum of waits, each with an atom at zero and one or two exponential phases.

    Formula:     1 - F(t) = sum_i a_i exp(-(t - shift) / tau_i) over all phases i;
                 a_i = p_i prod over other terms B of (1 - P_B + sum_{l in B} p_l tau_i / (tau_i - tau_l))
    Parameters:  shift_s, shape (..., classes) [s]; terms with p in [0, 1] and tau >= 0 [s], broadcastable
    Returns:     coefficients and decay rates, shape (..., classes, phases)
    Raises:      nothing; a phase with tau = inf puts its probability beyond every time
    Holds when:  the terms are independent; equal tau are pulled apart by 0.1 %.
    References:  ross2014, chapter 5
    """
    shift = np.asarray(shift_s, dtype=float)
    phases, owner = _phases(terms)
    if not phases:
        empty = np.zeros((*shift.shape, 1))
        return PreparedLatency(shift, empty, empty)
    flat = np.broadcast_arrays(shift, *(part for phase in phases for part in phase))
    shift = flat[0]
    probability = np.stack(flat[1::2], axis=-1).astype(float)
    tau = np.stack(flat[2::2], axis=-1).astype(float)
    of_term = np.array(owner)
    count = of_term.size
    endless = np.isinf(tau) & (probability > 0)
    kept = np.prod(np.where(endless, 1.0 - probability, 1.0), axis=-1)
    off = endless | (tau <= _TINY_S) | (probability <= 0)
    probability = np.where(off, 0.0, probability)
    # phases that are off get means far below all others, each its own: their factor becomes one
    tau = _pulled_apart(np.where(off, _TINY_S * (1.0 + np.arange(count)), tau))
    difference = tau[..., :, None] - tau[..., None, :]
    same_term = of_term[:, None] == of_term[None, :]
    weight = probability[..., None, :] * (tau[..., :, None] / np.where(same_term, 1.0, difference) - 1.0)
    coefficient = probability
    for term in range(int(of_term.max()) + 1):
        mine = of_term == term
        factor = 1.0 + weight[..., mine].sum(axis=-1)
        coefficient = coefficient * np.where(mine, 1.0, factor)
    full = np.concatenate([coefficient * kept[..., None], (1.0 - kept)[..., None]], axis=-1)
    rates = np.concatenate([1.0 / tau, np.zeros_like(kept)[..., None]], axis=-1)
    return PreparedLatency(shift, full, rates)


def _phases(terms: Sequence[Wait]) -> tuple[list[tuple[Array, Array]], list[int]]:
    """(probability, mean) of every exponential phase that matters, and which term it belongs to."""
    phases: list[tuple[Array, Array]] = []
    owner: list[int] = []
    for number, term in enumerate(terms):
        probability, share = np.asarray(term.delay_probability, dtype=float), np.asarray(term.fast_share, dtype=float)
        if probability.size and probability.max() < _NEGLIGIBLE:
            continue
        phases.append((probability * (1.0 - share), np.asarray(term.tail_mean_s, dtype=float)))
        owner.append(number)
        if share.max() > 0.0:
            phases.append((probability * share, np.asarray(term.fast_mean_s, dtype=float)))
            owner.append(number)
    return phases, owner


def _pulled_apart(tau: Array) -> Array:
    """Sort-free spreading: the k-th of nearly equal means is moved up by k thousandths."""
    order = np.argsort(tau, axis=-1, kind="stable")
    ranked = np.take_along_axis(tau, order, axis=-1)
    for k in range(1, ranked.shape[-1]):
        ranked[..., k] = np.maximum(ranked[..., k], ranked[..., k - 1] * (1.0 + _SEPARATION))
    spread = np.empty_like(ranked)
    np.put_along_axis(spread, order, ranked, axis=-1)
    return spread
