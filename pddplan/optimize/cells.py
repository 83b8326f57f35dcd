"""Cells as programs: the whole space, what every plan of a cell must have, and the cell's rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pddplan.domain.workload import Array
from pddplan.optimize.data import ProgramData, Route
from pddplan.optimize.levels import Cell, LineCell, PoolCell

_STEADY_ROLES = ("P", "AGG")
"""Roles whose work per request does not depend on other operating points."""


def root_cell(data: ProgramData) -> Cell:
    """Every number of instances and every option: the whole space."""
    pools = {p.id: PoolCell(0, p.max_instances) for p in data.pools}
    lines: dict[str, LineCell] = {}
    for line in dict.fromkeys(o.line for o in data.lines):
        options = sorted((o for o in data.lines if o.line == line), key=lambda o: (o.capacity_bytes_per_s, o.id))
        lines[line] = LineCell(tuple(options))
    return Cell(pools, lines, data.min_rate_rps, data.max_rate_rps)


def tightened(data: ProgramData, cell: Cell, routes: Sequence[Route]) -> Cell | None:
    """Use the least load every plan must put on a pool or line; None when nothing is left of the cell."""
    least_rate, most_rate = cell.rate_low_rps, cell.rate_high_rps
    pools = dict(cell.pools)
    for pool in data.pools:
        box = pools[pool.id]
        low = least_rate * _least(data, [r.work.get(pool.id) for r in routes], routes)
        high = most_rate * _most(data, [r.work.get(pool.id) for r in routes], routes)
        count_low, count_high = box.low, min(box.high, pool.max_instances)
        if low > 0:
            count_low = max(count_low, math.ceil(low / pool.max_utilization - 1e-9), 1)
            count_low = max(count_low, math.ceil(low + box.spare_low - 1e-9))
            spare_high = min(box.spare_high, count_high - low)
        else:
            spare_high = box.spare_high
        if math.isfinite(box.spare_high) and pool.role in _STEADY_ROLES:
            count_high = min(count_high, math.floor(high + box.spare_high + 1e-9))
        if count_low > count_high or spare_high < box.spare_low - 1e-9:
            return None
        spare_low = box.spare_low
        if pool.role in _STEADY_ROLES:  # whatever is served leaves so much idle (a hair less: rows are held to 1e-6)
            spare_low = max(spare_low, min(count_low - high, spare_high) * (1 - 1e-6))
        pools[pool.id] = PoolCell(count_low, count_high, spare_low, spare_high)
    lines = dict(cell.lines)
    for line, box_l in lines.items():
        low = least_rate * _least(data, [r.payload_bytes if r.line == line else None for r in routes], routes)
        options = tuple(o for o in box_l.options if o.capacity_bytes_per_s >= low * (1 - 1e-9))
        if (box_l.options and not options and low > 0) or low > box_l.load_high * (1 + 1e-9):
            return None
        lines[line] = LineCell(options, max(box_l.load_low, low), box_l.load_high)
    return replace(cell, pools=pools, lines=lines)


def program_of(data: ProgramData, cell: Cell, routes: Sequence[Route]) -> ProgramData:
    pools = tuple(
        replace(
            p,
            min_instances=cell.pools[p.id].low,
            max_instances=cell.pools[p.id].high,
            spare_instances=cell.pools[p.id].spare_low,
        )
        for p in data.pools
        if cell.pools[p.id].high > 0
    )
    kept = {p.id for p in pools}
    lines = tuple(
        replace(o, capacity_bytes_per_s=min(o.capacity_bytes_per_s, cell.lines[o.line].load_high))
        for o in data.lines
        if o in cell.lines[o.line].options
    )
    open_lines = {o.line for o in lines}
    routes = [
        r if r.work.keys() <= kept and (r.line is None or r.line in open_lines) else replace(r, allowed=0 * r.allowed)
        for r in routes
    ]
    return replace(
        data,
        pools=pools,
        lines=lines,
        routes=tuple(routes),
        min_rate_rps=cell.rate_low_rps,
        max_rate_rps=cell.rate_high_rps,
    )


def _allowed(data: ProgramData, routes: Sequence[Route]) -> Array:
    return np.stack([route.allowed > 0 for route in routes])


def _least(data: ProgramData, per_route: Sequence[Array | None], routes: Sequence[Route]) -> float:
    """Mean over requests of the least that any allowed path asks."""
    rows = np.stack([np.zeros(data.weight.size) if row is None else row for row in per_route])
    least = np.where(_allowed(data, routes), rows, np.inf).min(axis=0)
    return float(data.weight @ np.where(np.isfinite(least), least, 0.0))


def _most(data: ProgramData, per_route: Sequence[Array | None], routes: Sequence[Route]) -> float:
    """Mean over requests of the most that any allowed path asks."""
    rows = np.stack([np.zeros(data.weight.size) if row is None else row for row in per_route])
    return float(data.weight @ np.where(_allowed(data, routes), rows, 0.0).max(axis=0))
