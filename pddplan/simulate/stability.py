"""Does every stage keep up? Two independent signs: more work arrives than it can do, or its queue keeps growing."""

from __future__ import annotations

import numpy as np

from pddplan.domain.workload import Array

OVERLOAD = 1.0
NEARLY_FULL = 0.9
"""A growing queue counts as instability only from this offered load on: below, it is chance."""
_PARTS = 20
_SIGNIFICANT_T = 6.0
"""Slope over its standard error; far above 2, because neighbouring parts of a queue are alike."""
_LEAST_GROWTH = 5.0


def grows(values: Array) -> bool:
    """Whether a queue length keeps growing over a series.

    Formula:     slope of the means of 20 parts > 6 standard errors, and the last third is at least twice the first
    Parameters:  values, shape (points,), evenly spaced in time, without warm-up [requests]
    Returns:     bool
    Raises:      nothing
    Holds when:  the series spans many busy periods; a rule of thumb, not a test of a stated size.
    References:  elementary
    """
    if values.size < _PARTS:
        return False
    part = np.array([chunk.mean() for chunk in np.array_split(values, _PARTS)])
    x = np.arange(_PARTS) - (_PARTS - 1) / 2
    slope = float(np.dot(x, part) / np.dot(x, x))
    residual = part - part.mean() - slope * x
    error = float(np.sqrt(np.dot(residual, residual) / (_PARTS - 2) / np.dot(x, x)))
    third = _PARTS // 3
    first, last = float(part[:third].mean()), float(part[-third:].mean())
    return slope > _SIGNIFICANT_T * error and last >= 2 * first and last - first >= _LEAST_GROWTH


def verdict(stage: str, offered: float, *, queue: Array | None) -> str | None:
    """A sentence about a stage that does not keep up, or None."""
    if not offered < OVERLOAD:
        return f"{stage}: work arrives at {offered:.2f} times what it can do; its queue grows without end"
    if offered >= NEARLY_FULL and queue is not None and grows(queue):
        return f"{stage}: its queue kept growing to the end of the run (offered load {offered:.2f})"
    return None
