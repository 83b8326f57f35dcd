"""Operating points of pools and lines, and the boxes of such points that the search divides.

A *level* is one point: a pool with so many instances under so much load, a line of one option under so many
bytes per second. A *cell* is a box of levels. Waits fall with spare capacity (instances less load), so each
cell has a best corner, and coverage at that corner bounds the coverage of every plan inside the cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pddplan.optimize.data import LineOption


@dataclass(frozen=True, slots=True)
class PoolLevel:
    """A pool of ``instances`` that keeps ``load`` of them busy."""

    instances: int
    load: float
    busiest: float | None = None
    """Corner of a cell only: the highest utilisation in it, at which departures may be smoothest."""


@dataclass(frozen=True, slots=True)
class LineLevel:
    """A line of one option that carries ``load_bytes_per_s``."""

    option: LineOption
    load_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Levels:
    """One operating point of everything, by pool id and line id."""

    pools: Mapping[str, PoolLevel]
    lines: Mapping[str, LineLevel]

    def with_pool(self, pool: str, level: PoolLevel) -> Levels:
        """These levels with one pool at another point."""
        return Levels({**self.pools, pool: level}, self.lines)

    def with_line(self, line: str, level: LineLevel) -> Levels:
        """These levels with one line at another point."""
        return Levels(self.pools, {**self.lines, line: level})


@dataclass(frozen=True, slots=True)
class PoolCell:
    """Instances between ``low`` and ``high`` (0 = closed), idle instances between ``spare_low`` and ``spare_high``."""

    low: int
    high: int
    spare_low: float = 0.0
    spare_high: float = math.inf

    def best(self) -> PoolLevel:
        """The corner with the shortest wait: most spare capacity; of equal spare, fewest instances."""
        count = max(self.low, 1)
        busiest = max(1.0 - self.spare_low / max(self.high, 1), 0.0)
        return PoolLevel(count, max(count - self.spare_high, 0.0), busiest)


@dataclass(frozen=True, slots=True)
class LineCell:
    """Options by rising rate, of which one may be taken, and the load they carry [bytes/s]."""

    options: tuple[LineOption, ...]
    load_low: float = 0.0
    load_high: float = math.inf

    def best(self) -> LineLevel | None:
        """The corner with the fastest transfers: the thickest option at the least load."""
        return LineLevel(self.options[-1], self.load_low) if self.options else None


@dataclass(frozen=True, slots=True)
class Cell:
    """A box of operating points of all pools and lines."""

    pools: Mapping[str, PoolCell]
    lines: Mapping[str, LineCell] = field(default_factory=dict)
    rate_low_rps: float = 0.0
    rate_high_rps: float = math.inf

    def best(self) -> Levels:
        """The corner at which every promise is easiest to keep."""
        lines = {name: cell.best() for name, cell in self.lines.items()}
        return Levels(
            {name: cell.best() for name, cell in self.pools.items()},
            {name: level for name, level in lines.items() if level is not None},
        )

    def with_pool(self, pool: str, cell: PoolCell) -> Cell:
        """This cell with another range for one pool."""
        return replace(self, pools={**self.pools, pool: cell})

    def with_line(self, line: str, cell: LineCell) -> Cell:
        """This cell with another range for one line."""
        return replace(self, lines={**self.lines, line: cell})
