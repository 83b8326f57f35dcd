"""Guards at the door of every stage: bad arrays are refused once, so the loops behind need no checks."""

from __future__ import annotations

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import DomainError


def require_stage_input(arrival_s: Array, amount: Array, *, name: str) -> None:
    """Refuse arrivals out of order and amounts that are negative or not finite."""
    if arrival_s.shape != amount.shape or arrival_s.ndim != 1:
        raise DomainError(name, "must have one value per arrival", f"{amount.shape} for {arrival_s.shape}")
    if not np.isfinite(arrival_s).all():
        raise DomainError("arrival_s", "must be finite", "nan or inf")
    if arrival_s.size > 1 and bool((np.diff(arrival_s) < 0).any()):
        raise DomainError("arrival_s", "must not decrease", "a request before its predecessor")
    if amount.size and not (np.isfinite(amount).all() and float(amount.min()) >= 0):
        raise DomainError(name, "must be finite and not negative", float(amount.min()))


def require_count(count: int, *, name: str) -> None:
    """Refuse a pool without servers or slots."""
    if count < 1:
        raise DomainError(name, "must be at least 1", count)


def require_positive(value: float, *, name: str) -> None:
    """Refuse a rate, a time or a variability that is not a positive finite number."""
    if not (np.isfinite(value) and value > 0):
        raise DomainError(name, "must be greater than 0", value)
