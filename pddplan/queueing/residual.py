"""What a request that finds all servers busy waits for when nobody else waits: the first of them to become free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array

_NODES = 200
_NEAREST = 1e-4
"""First node of the integration grid, relative to the mean time until one of the servers becomes free."""


@dataclass(frozen=True, slots=True)
class FirstFree:
    """Time until the first of c busy servers becomes free: first two moments."""

    mean_s: float
    second_s2: float
    pooled_second_s2: float
    """Second moment of a residual service time that all c servers work off together: what rare long services leave
    behind in heavy traffic."""


def first_free(servers: int, service_s: Array, *, weight: Array) -> FirstFree:
    """Moments of the least of c residual service times of a mix of classes.

    Formula:     R(x) = sum w (s - x)+ / sum w s;  mean = integral of R^c dx,  second = 2 integral of x R^c dx;
                 pooled second = E[S^3] / (3 E[S]) / c^2
    Parameters:  servers c >= 1; service_s, shape (classes,) [s]; weight >= 0, shape (classes,), any scale
    Returns:     FirstFree; zeros when nothing is served
    Raises:      nothing
    Holds when:  the servers are busy independently of each other, as in light traffic; a class has one service time.
    References:  burman1983
    """
    work = float(np.dot(weight, service_s))
    if work <= 0.0:
        return FirstFree(0.0, 0.0, 0.0)
    mean = work / float(weight.sum())
    longest = float(service_s[weight > 0].max())
    inner = np.geomspace(_NEAREST * mean / servers, longest, _NODES)
    x = np.unique(np.concatenate([[0.0], inner[inner < longest], service_s[(weight > 0)]]))
    left = (np.maximum(service_s - x[:, None], 0.0) @ weight) / work
    none_free = left**servers
    pooled = float(np.dot(weight, service_s**3)) / (3.0 * work * servers**2)
    return FirstFree(_integral(none_free, x), 2.0 * _integral(x * none_free, x), pooled)


def _integral(y: Array, x: Array) -> float:
    """Trapezoids."""
    return float(np.sum(0.5 * (y[1:] + y[:-1]) * np.diff(x)))
