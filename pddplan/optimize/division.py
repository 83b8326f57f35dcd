"""Where to cut a cell in two: at the pool or line whose true point costs most coverage."""

from __future__ import annotations

import math
from dataclasses import replace

from pddplan.optimize.judge import Candidate, Judge
from pddplan.optimize.levels import Cell, Levels, LineLevel, PoolLevel

WIDE_RATE = 1.1
WIDEST_STEP = 4.0


def divide(judge: Judge, cell: Cell, candidate: Candidate, true: Levels) -> list[Cell]:
    """Split the cell at the pool or line whose true point costs most coverage or capacity.

    Wide ranges of the rate are split first: what a plan must carry bounds its pools and lines from below.
    """
    if cell.rate_high_rps > WIDE_RATE * cell.rate_low_rps:
        middle = math.sqrt(cell.rate_high_rps * max(cell.rate_low_rps, cell.rate_high_rps / WIDEST_STEP))
        return [replace(cell, rate_low_rps=middle), replace(cell, rate_high_rps=middle)]
    best = cell.best()
    routes = judge.model.routes(true, used=candidate.used)
    missing = judge.missed(candidate, routes)
    gains: list[tuple[float, str, str]] = []
    for pool, level in true.pools.items():
        if level != best.pools.get(pool):
            eased = judge.model.routes(true.with_pool(pool, best.pools[pool]), used=candidate.used)
            gains.append((missing - judge.missed(candidate, eased), "pool", pool))
    for line, line_level in true.lines.items():
        if line_level != best.lines.get(line):
            eased = judge.model.routes(true.with_line(line, best.lines[line]), used=candidate.used)
            gains.append((missing - judge.missed(candidate, eased), "line", line))
    for _, kind, name in sorted(gains, key=lambda g: (-g[0], g[1], g[2])):
        children = (
            _split_pool(judge, cell, name, true.pools[name], candidate, true)
            if kind == "pool"
            else _split_line(cell, name, true.lines[name])
        )
        if children:
            return children
    return []


def _split_pool(
    judge: Judge, cell: Cell, pool: str, level: PoolLevel, candidate: Candidate, true: Levels
) -> list[Cell]:
    box = cell.pools[pool]
    spare = max(level.instances - level.load, 0.0)
    top = min(box.spare_high, float(box.high))
    if level.instances > max(box.low, 1):
        # which is to blame: the spare capacity the cell allows, or its fewer instances?
        counted = true.with_pool(pool, PoolLevel(level.instances, max(level.instances - top, 0.0)))
        eased_by_spare = judge.shortfall(candidate, judge.model.routes(counted, used=candidate.used))
        eased_by_count = judge.shortfall(
            candidate,
            judge.model.routes(true.with_pool(pool, PoolLevel(max(box.low, 1), max(max(box.low, 1) - spare, 0.0)))),
        )
        if eased_by_count < eased_by_spare or top - spare <= 1e-6 * max(top, 1.0):
            cut = level.instances - 1
            return [
                cell.with_pool(pool, replace(box, high=cut)),
                cell.with_pool(pool, replace(box, low=cut + 1)),
            ]
    if top - spare <= 1e-6 * max(top, 1.0):
        return []
    cut_at = 0.5 * (spare + _spare_needed(judge, pool, level, candidate, true, top=top))
    return [
        cell.with_pool(pool, replace(box, spare_low=max(box.spare_low, cut_at))),
        cell.with_pool(pool, replace(box, spare_high=cut_at)),
    ]


def _spare_needed(
    judge: Judge, pool: str, level: PoolLevel, candidate: Candidate, true: Levels, *, top: float
) -> float:
    """Least spare capacity of the pool with which the candidate would keep its promises, others unchanged."""
    low, high = max(level.instances - level.load, 0.0), top

    def short(spare: float) -> bool:
        count = max(level.instances, math.ceil(spare))
        eased = true.with_pool(pool, PoolLevel(count, max(count - spare, 0.0)))
        return judge.shortfall(candidate, judge.model.routes(eased, used=candidate.used)) > 0

    if short(high):
        return min(high, 2.0 * low + 0.5)
    for _ in range(6):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if short(middle) else (low, middle)
    return high


def _split_line(cell: Cell, line: str, level: LineLevel) -> list[Cell]:
    box = cell.lines[line]
    at = next(i for i, option in enumerate(box.options) if option.id == level.option.id)
    if len(box.options) > 1:
        cut = at if at < len(box.options) - 1 else at - 1
        return [
            cell.with_line(line, replace(box, options=box.options[: cut + 1])),
            cell.with_line(line, replace(box, options=box.options[cut + 1 :])),
        ]
    load = level.load_bytes_per_s
    cut_at = 0.5 * (box.load_low + load)
    if load - box.load_low <= 1e-4 * max(level.option.capacity_bytes_per_s, 1.0):
        return []
    return [
        cell.with_line(line, replace(box, load_high=cut_at)),
        cell.with_line(line, replace(box, load_low=cut_at)),
    ]
