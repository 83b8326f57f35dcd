"""The same traffic at another hit rate: how many tokens each class would miss."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

import numpy as np

from pddplan.domain.workload import Array, RequestClasses
from pddplan.errors import DomainError

_BISECTIONS = 80


class Spread(StrEnum):
    """How a change of the mean hit rate is spread over the classes."""

    AS_NOW = "as-now"
    """Misses of all classes grow or shrink by one factor (up to the whole input): skew stays."""
    EVEN = "even"
    """Every request hits the same fraction of its input."""


def token_hit_rate(classes: RequestClasses) -> float:
    """Share of input tokens found in the prefill-side cache.

    Formula:     1 - E[m] / E[L]
    Parameters:  classes
    Returns:     [fraction], by tokens
    Raises:      nothing; 0 for empty inputs.
    Holds when:  always.
    References:  definition
    """
    total = classes.mean(classes.input_tokens)
    return 1.0 - classes.mean(classes.miss_prefill_tokens) / total if total > 0 else 0.0


def miss_tokens_at(classes: RequestClasses, hit_rates: Array, *, spread: Spread = Spread.AS_NOW) -> Array:
    """Tokens each class misses when the token-weighted hit rate takes other values.

    Formula:     even: m' = (1 - h) L;  as-now: m' = min(L, a m) with a such that E[m'] = (1 - h) E[L]
    Parameters:  classes; hit_rates, shape (points,) in [0, 1]; spread
    Returns:     shape (points, classes) [tokens]
    Raises:      DomainError for hit rates outside [0, 1].
    Holds when:  lengths and weights do not change with the hit rate. Classes that miss nothing now are given one
                 missing token first, so that every hit rate down to 0 can be reached.
    References:  pdd-report, A4
    """
    rates = np.asarray(hit_rates, dtype=float)
    if not np.all((rates >= 0) & (rates <= 1)):
        raise DomainError("hit rate", "must lie between 0 and 1", float(rates.min()) if rates.size else None)
    length = classes.input_tokens
    if spread is Spread.EVEN:
        return (1.0 - rates)[:, None] * length[None, :]
    seed = np.where(length > 0, np.maximum(classes.miss_prefill_tokens, 1.0), 0.0)
    wanted = (1.0 - rates) * classes.mean(length)
    # E[min(L, a m)] rises in a; bisect on log a, from nothing missed to everything missed in every class.
    low = np.full(rates.shape, -60.0)
    high = np.full(rates.shape, 60.0)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        got = np.minimum(length[None, :], np.exp(middle)[:, None] * seed[None, :]) @ classes.weight
        low, high = np.where(got < wanted, middle, low), np.where(got < wanted, high, middle)
    missed = np.minimum(length[None, :], np.exp((low + high) / 2)[:, None] * seed[None, :])
    missed = np.where((rates == 1.0)[:, None], 0.0, missed)
    return np.asarray(np.where((rates == 0.0)[:, None], length[None, :], missed))


def at_hit_rate(classes: RequestClasses, hit_rate: float, *, spread: Spread = Spread.AS_NOW) -> RequestClasses:
    """The same classes at another hit rate; decode-side misses keep their ratio to prefill-side misses.

    Formula:     m' as miss_tokens_at; s' = min(L, s m' / m)
    Parameters:  classes; hit_rate in [0, 1]; spread
    Returns:     classes
    Raises:      DomainError as miss_tokens_at.
    Holds when:  the decode-side cache gains and loses as the prefill-side one does.
    References:  pdd-report, A4
    """
    missed = miss_tokens_at(classes, np.array([hit_rate]), spread=spread)[0]
    crossing = decode_miss_at(classes, missed)
    return replace(classes, miss_prefill_tokens=missed, miss_decode_tokens=crossing)


def decode_miss_at(classes: RequestClasses, miss_tokens: Array) -> Array:
    """Decode-side misses that go with other prefill-side misses.

    Formula:     s' = min(L, s m' / m), s' = m' where m = 0
    Parameters:  classes; miss_tokens m', shape (..., classes) [tokens]
    Returns:     shape (..., classes) [tokens]
    Raises:      nothing.
    Holds when:  as at_hit_rate.
    References:  pdd-report, A4
    """
    now = classes.miss_prefill_tokens
    ratio = np.divide(classes.miss_decode_tokens, now, out=np.ones_like(now, dtype=float), where=now > 0)
    return np.asarray(np.minimum(classes.input_tokens, np.maximum(ratio, 0.0) * miss_tokens))
