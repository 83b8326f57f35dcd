"""First two moments of a mix of request classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and squared coefficient of variation (variance over squared mean) of a positive quantity."""

    mean: float
    scv: float

    @property
    def second(self) -> float:
        """Mean of the square."""
        return self.mean**2 * (1.0 + self.scv)


def mix_moments(weight: Array, values: Array) -> Moments:
    """Mean and SCV of a quantity over a mix of classes.

    Formula:     mean = sum w x / sum w;  scv = (sum w x^2 / sum w) / mean^2 - 1
    Parameters:  weight >= 0, shape (classes,), any scale; values >= 0, shape (classes,)
    Returns:     Moments; mean 0 and scv 0 when nothing has weight
    Raises:      nothing
    Holds when:  a class takes its value always; variation inside a class is not in it.
    References:  kleinrock1975, chapter 2
    """
    total = float(weight.sum())
    if total <= 0.0:
        return Moments(0.0, 0.0)
    mean = float(np.dot(weight, values)) / total
    if mean <= 0.0:
        return Moments(0.0, 0.0)
    second = float(np.dot(weight, (values / mean) ** 2)) / total  # squares of small values would underflow
    return Moments(mean, max(second - 1.0, 0.0))
