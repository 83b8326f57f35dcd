"""Where two ways of serving cost the same: by the price of a chip, the price of a line, or the hit rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array


@dataclass(frozen=True, slots=True)
class LinearCost:
    """Monthly cost as a function of a price factor x: ``fixed + slope * x``."""

    fixed: float
    slope: float

    def at(self, factor: float) -> float:
        return self.fixed + self.slope * factor


def linear_cost(cost_at: Callable[[float], float]) -> LinearCost:
    """Cost as a linear function of one price factor, from two evaluations.

    Formula:     slope = c(2) - c(1); fixed = 2 c(1) - c(2)
    Parameters:  cost_at, monthly cost when the price is multiplied by x [currency]
    Returns:     LinearCost
    Raises:      whatever cost_at raises.
    Holds when:  cost is linear in the price, as plan_cost is.
    References:  definition
    """
    once, twice = cost_at(1.0), cost_at(2.0)
    return LinearCost(fixed=2 * once - twice, slope=twice - once)


def break_even_factor(
    goodput_rps: float, cost: LinearCost, *, baseline_goodput_rps: float, baseline_cost: LinearCost
) -> float | None:
    """Price factor at which a plan's BCR equals the baseline's; both plans stay as they are.

    Formula:     g (b0 + b1 x) = g_b (a0 + a1 x)  =>  x = (g_b a0 - g b0) / (g b1 - g_b a1)
    Parameters:  goodput_rps g; cost a0 + a1 x; baseline_goodput_rps g_b; baseline_cost b0 + b1 x
    Returns:     factor on the price, or None when no positive one makes them equal
    Raises:      nothing.
    Holds when:  neither plan is sized anew for the changed price: a plan sized anew can only gain.
    References:  definition
    """
    above = baseline_goodput_rps * cost.fixed - goodput_rps * baseline_cost.fixed
    below = goodput_rps * baseline_cost.slope - baseline_goodput_rps * cost.slope
    scale = goodput_rps * abs(baseline_cost.slope) + baseline_goodput_rps * abs(cost.slope)
    if abs(below) <= 1e-12 * scale or scale == 0:
        return None
    factor = above / below
    return factor if factor > 0 else None


def crossings(x: Array, first: Array, second: Array) -> tuple[float, ...]:
    """Places where two curves on one grid cross, interpolated linearly.

    Formula:     x_i + d_i / (d_i - d_{i+1}) * (x_{i+1} - x_i), d = first - second changing sign
    Parameters:  x rising, shape (points,); first and second of the same shape
    Returns:     rising places; touching without crossing counts once
    Raises:      nothing.
    Holds when:  curves are straight between grid points.
    References:  definition
    """
    gap = np.asarray(first - second, dtype=float)
    found: list[float] = []
    for left in range(gap.size - 1):
        here, there = gap[left], gap[left + 1]
        if not (np.isfinite(here) and np.isfinite(there)):
            continue
        if here == 0 and (left == 0 or np.sign(gap[left - 1]) != np.sign(there)):
            found.append(float(x[left]))
        elif here * there < 0:
            found.append(float(x[left] + here / (here - there) * (x[left + 1] - x[left])))
    return tuple(found)
