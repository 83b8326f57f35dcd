"""Few weighted points with the same averages as many: Carathéodory's theorem put to work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array

NEGLIGIBLE = 1e-11
"""Entries below this share of the largest count as zero."""


def recombine(functions: Array, weight: Array) -> Array:
    """Weights of which few are positive, under which every function has the same weighted sum as before.

    Formula:     F w' = F w, w' >= 0, at most rank(F) of w' positive. Points are put into groups, and the groups thinned
                 out until no more are left than there are functions; groups that are left are thinned out in turn
    Parameters:  functions, shape (functions, points); weight > 0, shape (points,). Neighbouring points should be
                 alike: they share a group
    Returns:     shape (points,)
    References:  litterer2012, tchernychova2016
    """
    result = np.zeros_like(weight)
    count = functions.shape[0]
    active, active_weight = np.arange(weight.size), weight.astype(np.float64)
    while active.size > count:
        groups = min(2 * count, active.size)
        group = np.arange(active.size) * groups // active.size
        starts = np.searchsorted(group, np.arange(groups))
        total = np.add.reduceat(active_weight, starts)
        middle = np.add.reduceat(functions[:, active] * active_weight, starts, axis=1) / total
        left = _thinned(middle, total)
        scale = np.divide(left, total)[group]
        kept = scale > 0
        if kept.all():
            break
        active, active_weight = active[kept], (active_weight * scale)[kept]
    result[active] = active_weight
    return result


def _thinned(functions: Array, weight: Array) -> Array:
    """Weights with the same sums of functions, at most rank of them positive: walk along the null space to its edge."""
    weight = weight.copy()
    null = _null_space(functions)
    for place in range(null.shape[1]):
        direction = null[:, place]
        top = np.abs(direction).max()
        if top <= 0:
            continue
        if direction.max() < NEGLIGIBLE * top:
            direction = -direction
        rising = direction > NEGLIGIBLE * top
        reach = np.full(weight.size, np.inf)
        reach[rising] = weight[rising] / direction[rising]
        gone = int(np.argmin(reach))
        weight = np.maximum(weight - reach[gone] * direction, 0.0)
        weight[gone] = 0.0
        # no later direction may touch the point that is gone
        later = null[:, place + 1 :]
        later -= np.outer(direction, later[gone] / direction[gone])
        later[gone] = 0.0
    return weight


def _null_space(functions: Array) -> NDArray[np.float64]:
    """Directions along which no sum of functions changes, as columns.

    Gauss-Jordan elimination with full pivoting rather than a library's decomposition, whose last digits (and with
    them the points that are left) differ between processors.
    """
    norm = np.abs(functions).max(axis=1, keepdims=True)
    rows = (functions / np.where(norm > 0, norm, 1.0)).astype(np.float64)
    free = np.ones(rows.shape[0], dtype=bool)
    pivot_row, pivot_column = [], []
    for _ in range(min(rows.shape)):
        size = np.abs(rows)
        size[~free] = 0.0
        row, column = divmod(int(np.argmax(size)), rows.shape[1])
        if size[row, column] <= NEGLIGIBLE:
            break
        rows[row] /= rows[row, column]
        others = rows[:, column].copy()
        others[row] = 0.0
        rows -= others[:, None] * rows[row]
        free[row] = False
        pivot_row.append(row)
        pivot_column.append(column)
    loose = np.setdiff1d(np.arange(rows.shape[1]), pivot_column)
    null = np.zeros((rows.shape[1], loose.size))
    null[pivot_column] = -rows[np.ix_(pivot_row, loose)]
    null[loose, np.arange(loose.size)] = 1.0
    return null
