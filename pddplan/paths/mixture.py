"""Percentiles of a mixture of latencies: classes and paths weighted by how many requests they carry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.outcome import Percentiles
from pddplan.domain.workload import Array
from pddplan.paths.latency import PreparedLatency

QUANTILES = (0.5, 0.9, 0.99)
_WAYS = 9
"""Parts into which the search among the rows' earliest times divides what is left."""
_STEPS = 80
_CLOSE = 1e-12
"""Relative difference in the share of requests left, or in time, that does not matter."""
_SMALLEST = 1e-300
_NEVER = 1e-9
"""Relative excess over the share asked for below which requests without end still count as served."""


@dataclass(frozen=True, slots=True, eq=False)
class _Survival:
    """1 - F of each group of a mixture, weighted by share: what is left of rows that have begun falls exponentially."""

    shift_s: Array
    """When a row begins to fall, shape (groups, 1, rows) [s]."""
    whole: Array
    """Share of a row that ends at all, shape (groups, rows, 1)."""
    at_once: Array
    """Part of it that ends at the shift, shape (groups, rows, 1)."""
    rate_per_s: Array
    """Shape (groups, 1, rows, terms), positive."""
    falls: Array
    """Coefficient of each term, and the same times its rate; shape (groups, rows x terms, 2)."""
    endless: Array
    """Share that never ends, shape (groups, 1)."""

    def left(self, t_s: Array) -> tuple[Array, Array]:
        """Share of each group that takes longer than times of shape (groups, n), and how fast it falls [1/s]."""
        at = t_s[:, :, None]
        begun = at >= self.shift_s
        beyond = np.where(begun, at - self.shift_s, np.inf)
        decay = np.exp(-beyond[..., None] * self.rate_per_s)
        late = decay.reshape(*t_s.shape, -1) @ self.falls
        waiting = (~begun).astype(float) @ self.whole
        return late[..., 0] + waiting[..., 0] + self.endless, late[..., 1]

    def left_before(self, t_s: Array) -> Array:
        """Share that takes at least as long: what is left just before those times."""
        ends_here = (t_s[:, :, None] == self.shift_s).astype(float)
        return np.asarray(self.left(t_s)[0] + (ends_here @ self.at_once)[..., 0])


def _survival(latency: PreparedLatency, share: Array) -> _Survival:
    ends = (latency.rate_per_s > 0) & np.isfinite(latency.shift_s)[..., None]
    weighted = latency.coefficient * share[..., None]
    coefficient = np.where(ends, weighted, 0.0)
    never = np.where(np.isfinite(latency.shift_s), (weighted - coefficient).sum(axis=-1), share)
    needed = coefficient.any(axis=(0, 1))
    coefficient, rate = coefficient[..., needed], np.where(ends, latency.rate_per_s, 1.0)[..., needed]
    whole = share - never
    flat = (len(share), -1)
    return _Survival(
        shift_s=latency.shift_s[:, None, :],
        whole=whole[..., None],
        at_once=(whole - coefficient.sum(axis=-1))[..., None],
        rate_per_s=rate[:, None],
        falls=np.stack([coefficient.reshape(flat), (coefficient * rate).reshape(flat)], axis=-1),
        endless=never.sum(axis=1)[:, None],
    )


def mixture_quantiles(latency: PreparedLatency, weight: Array, *, quantiles: Array) -> Array:
    """Times that given shares of a weighted mixture do not exceed.

    Formula:     sum_k w_k F_k(t) = q: first between which two of the rows' least times (where F may jump) t lies,
                 then Newton's steps on log(1 - F), kept between the two
    Parameters:  latency and weight >= 0, both of shape (groups, rows), weight in any scale;
                 quantiles in (0, 1), shape (q,)
    Returns:     shape (groups, q) [s]; inf where the share is never reached; nan for a group without weight
    Raises:      nothing
    Holds when:  rows are alternatives, not parts of a sum.
    References:  ross2014, chapter 2
    """
    total = weight.sum(axis=1)
    share = weight / np.where(total > 0, total, 1.0)[:, None]
    mixture = _survival(latency, share)
    asked = np.broadcast_to(1.0 - quantiles, (weight.shape[0], quantiles.size))
    unreached = mixture.endless > asked * (1.0 + _NEVER)
    jumps = np.sort(np.where(share > 0, latency.shift_s, np.inf), axis=1)
    before = _jumps_before(mixture, jumps, asked)
    bounded = np.concatenate([jumps, np.full((jumps.shape[0], 1), np.inf)], axis=1)
    start = np.take_along_axis(bounded, np.maximum(before - 1, 0), axis=1)
    end = np.take_along_axis(bounded, before, axis=1)
    open_ = (before > 0) & ~unreached
    jumped = open_ & np.isfinite(end)
    jumped[jumped] = mixture.left_before(np.where(jumped, end, 0.0))[jumped] > asked[jumped] * (1.0 - _CLOSE)
    answer = np.where(before == 0, start, end)
    open_ &= ~jumped
    if open_.any():
        answer = np.where(
            open_, _fallen_to(mixture, asked, start=np.where(open_, start, 0.0), end=end, open_=open_), answer
        )
    answer = np.where(unreached, np.inf, answer)
    return np.asarray(np.where(total[:, None] > 0, answer, np.nan))


def _jumps_before(mixture: _Survival, jumps_s: Array, asked: Array) -> NDArray[np.int_]:
    """How many of a group's sorted jumps have more than the asked share left after them; shape (groups, q)."""
    low = np.zeros(asked.shape, dtype=int)
    high = np.broadcast_to(np.isfinite(jumps_s).sum(axis=1)[:, None], asked.shape)
    while (width := int((high - low).max())) > 0:
        part = np.arange(1, min(_WAYS, width) + 1)
        tried = low[..., None] + -(-(high - low)[..., None] * part // part.size)
        at = np.take_along_axis(jumps_s, np.maximum(tried - 1, 0).reshape(len(jumps_s), -1), axis=1)
        left, _ = mixture.left(np.where(np.isfinite(at), at, 0.0))
        more = (left.reshape(tried.shape) > asked[..., None] * (1.0 + _CLOSE)) & (tried > low[..., None])
        none = ~more & (tried > low[..., None])
        high = np.where(none, tried - 1, high[..., None]).min(axis=-1)
        low = np.where(more, tried, low[..., None]).max(axis=-1)
    return low


def _fallen_to(mixture: _Survival, asked: Array, *, start: Array, end: Array, open_: NDArray[np.bool_]) -> Array:
    """When the share left has fallen to what is asked, between two jumps; shape (groups, q)."""
    low, high, t = start, end, start
    todo = open_
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_STEPS):
            left, fall = mixture.left(t)
            low, high = np.where(left > asked, t, low), np.where(left > asked, high, t)
            step = left / fall * np.log(np.maximum(left, _SMALLEST) / asked)
            todo = todo & (np.abs(left - asked) > _CLOSE * asked) & (np.isinf(high) | (high - low > _CLOSE * high))
            if not todo.any():
                break
            after = t + step
            inside = (after > low) & (after < high)
            halved = np.where(np.isfinite(high), 0.5 * (low + high), 2.0 * low + 1.0)
            t = np.where(todo, np.where(inside, after, halved), t)
    return t


def mixture_percentiles(latency: PreparedLatency, weight: Array, *, mean_s: Array) -> tuple[Percentiles, ...]:
    """P50, P90, P99 and mean of each group of a mixture (see mixture_quantiles).

    Formula:     mean = sum w_k mean_k / sum w_k
    Parameters:  latency, weight and mean_s [s], all of shape (groups, rows)
    Returns:     one Percentiles per group
    Raises:      nothing
    Holds when:  see mixture_quantiles.
    References:  ross2014, chapter 2
    """
    times = mixture_quantiles(latency, weight, quantiles=np.array(QUANTILES))
    total = weight.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(weight > 0, weight * mean_s, 0.0).sum(axis=1) / total
    return tuple(
        Percentiles(p50=float(row[0]), p90=float(row[1]), p99=float(row[2]), mean=float(m))
        for row, m in zip(times, mean, strict=True)
    )


def weighted_percentiles(values: Array, weight: Array) -> Percentiles:
    """Percentiles of fixed values that carry weights.

    Formula:     smallest value at which the sorted, summed weight reaches q
    Parameters:  values and weight >= 0, shape (rows,)
    Returns:     Percentiles; zeros when nothing has weight
    Raises:      nothing
    Holds when:  always
    References:  ross2014, chapter 2
    """
    used = weight > 0
    if not used.any():
        return Percentiles(0.0, 0.0, 0.0, 0.0)
    order = np.argsort(values[used], kind="stable")
    ranked, share = values[used][order], weight[used][order] / weight[used].sum()
    reached = np.cumsum(share)
    at = [float(ranked[min(int(np.searchsorted(reached, q - 1e-12)), ranked.size - 1)]) for q in QUANTILES]
    return Percentiles(at[0], at[1], at[2], float(np.dot(ranked, share)))
