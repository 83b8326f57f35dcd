"""Sums of a constant and independent waits: the law of a latency in closed form.

A latency is ``shift + W_1 + ... + W_n``; each W_i is zero with probability 1 - p_i and exponential with
mean tau_i otherwise. Everything broadcasts: operating points in front, request classes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pddplan.domain.workload import Array
from pddplan.queueing.wait import Wait

_SEPARATION = 1e-3
"""Relative distance to which equal means are pulled apart, so that partial fractions exist."""
_TINY_S = 1e-12


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

    @property
    def variance_s2(self) -> Array:
        total = np.zeros(np.shape(self.shift_s))
        for term in self.terms:
            p, tau = np.asarray(term.delay_probability), np.asarray(term.conditional_mean_s)
            with np.errstate(invalid="ignore"):
                total = total + np.where(p > 0, p * (2.0 - p) * tau**2, 0.0)
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
        beyond = np.asarray(t_s, dtype=float) - self.shift_s
        decay = np.exp(-np.maximum(beyond, 0.0)[..., None] * self.rate_per_s)
        covered = 1.0 - (self.coefficient * decay).sum(axis=-1)
        return np.where(beyond >= 0.0, np.clip(covered, 0.0, 1.0), 0.0)

    def flat(self) -> PreparedLatency:
        """All rows as one group, shape (1, rows)."""
        terms = self.rate_per_s.shape[-1]
        return PreparedLatency(
            self.shift_s.reshape(1, -1), self.coefficient.reshape(1, -1, terms), self.rate_per_s.reshape(1, -1, terms)
        )

    def transposed(self) -> PreparedLatency:
        """Shape (paths, classes) turned into (classes, paths)."""
        return PreparedLatency(
            self.shift_s.T, self.coefficient.transpose(1, 0, 2), self.rate_per_s.transpose(1, 0, 2)
        )


def stacked(latencies: Sequence[LatencySum]) -> tuple[PreparedLatency, Array]:
    """Latencies of several paths as rows of one array, with their means; shapes (paths, classes)."""
    ready = [latency.prepared() for latency in latencies]
    most = max(one.rate_per_s.shape[-1] for one in ready)

    def padded(values: Array) -> Array:
        return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, most - values.shape[-1])])

    return (
        PreparedLatency(
            np.stack([one.shift_s for one in ready]),
            np.stack([padded(one.coefficient) for one in ready]),
            np.stack([padded(one.rate_per_s) for one in ready]),
        ),
        np.stack([latency.mean_s for latency in latencies]),
    )


def prepare(shift_s: Array, terms: Sequence[Wait]) -> PreparedLatency:
    """Partial fractions of a sum of (atom, exponential) terms.

    Formula:     1 - F(t) = sum_i a_i exp(-(t - shift) / tau_i),
                 a_i = p_i prod_{j != i} (1 - p_j + p_j tau_i / (tau_i - tau_j))
    Parameters:  shift_s, shape (..., classes) [s]; terms with p in [0, 1] and tau >= 0 [s], broadcastable
    Returns:     coefficients and decay rates, shape (..., classes, terms)
    Raises:      nothing; a term with tau = inf puts its probability beyond every time
    Holds when:  the terms are independent; equal tau are pulled apart by 0.1 %.
    References:  ross2014, section 5.2.4
    """
    shift = np.asarray(shift_s, dtype=float)
    if not terms:
        empty = np.zeros((*shift.shape, 1))
        return PreparedLatency(shift, empty, empty)
    parts = [np.broadcast_arrays(shift, t.delay_probability, t.conditional_mean_s) for t in terms]
    probability = np.stack([p for _, p, _ in parts], axis=-1).astype(float)
    tau = np.stack([m for _, _, m in parts], axis=-1).astype(float)
    endless = np.isinf(tau) & (probability > 0)
    lost = 1.0 - np.prod(np.where(endless, 1.0 - probability, 1.0), axis=-1)
    off = endless | (tau <= _TINY_S) | (probability <= 0)
    probability = np.where(off, 0.0, probability)
    count = tau.shape[-1]
    # switched-off terms get means far below all others, each its own: their factor becomes one
    tau = np.where(off, _TINY_S * (1.0 + np.arange(count)), tau)
    tau = _pulled_apart(tau)
    difference = tau[..., :, None] - tau[..., None, :]
    diagonal = np.eye(count, dtype=bool)
    ratio = tau[..., :, None] / np.where(diagonal, 1.0, difference)
    factor = 1.0 - probability[..., None, :] + probability[..., None, :] * ratio
    coefficient = probability * np.where(diagonal, 1.0, factor).prod(axis=-1)
    kept = (1.0 - lost)[..., None]
    full = np.concatenate([coefficient * kept, lost[..., None]], axis=-1)
    rates = np.concatenate([1.0 / tau, np.zeros_like(lost)[..., None]], axis=-1)
    return PreparedLatency(np.broadcast_to(shift, lost.shape), full, rates)


def _pulled_apart(tau: Array) -> Array:
    """Sort-free spreading: the k-th of nearly equal means is moved up by k thousandths."""
    order = np.argsort(tau, axis=-1, kind="stable")
    ranked = np.take_along_axis(tau, order, axis=-1)
    for k in range(1, ranked.shape[-1]):
        ranked[..., k] = np.maximum(ranked[..., k], ranked[..., k - 1] * (1.0 + _SEPARATION))
    spread = np.empty_like(ranked)
    np.put_along_axis(spread, order, ranked, axis=-1)
    return spread
