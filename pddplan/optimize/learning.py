"""What waiting costs at least, asked of the evaluator: in a pool by its load, on a line by its tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pddplan.domain.plan import Path, PathKind
from pddplan.domain.workload import Array
from pddplan.optimize.cells import root_cell
from pddplan.optimize.data import LineOption, Quantile, Route
from pddplan.optimize.levels import Levels, LineLevel, PoolLevel
from pddplan.optimize.mix import pools_of
from pddplan.optimize.points import Points

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
"""Instances at which the waits of a pool are looked at."""
BEYOND_SLACK = 1.3
"""Waits count from where they would cost this multiple of what a promise leaves to spare."""
LEAST_SLACK = 1e-4
HALVINGS = 6
USED = 1e-6


Way = tuple[PathKind, str | None, str | None]
"""Kind of a path, where it decodes, its line."""
ANY_WAY: Way = (PathKind.AGGREGATED, None, None)
"""Key of what is late at least, whichever way it goes."""


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """Of a pool and a promise, at each number of instances: a load, and what is late of each class beyond it."""

    loads: Array
    """shape (counts,) [instances]; the ceiling where waits cost less than they may."""
    late: tuple[Mapping[Way, Array] | None, ...]
    """By the way taken; None where the load is the ceiling: then nothing is late beyond it."""


@dataclass(slots=True, eq=False)
class Learning:
    """Operating points of every shape beside the quickest partners, and what was asked of them before."""

    points: Points
    best: Sequence[Route] = ()
    """Routes with idle pools and idle lines of the thickest tier."""
    thickest: Mapping[str, LineLevel] = field(default_factory=dict)
    _waits: dict[tuple[str, str, tuple[int, ...]], Waits] = field(default_factory=dict)

    def __post_init__(self) -> None:
        best = root_cell(self.points.data).best()
        self.best, self.thickest = self.points.routes(best), dict(best.lines)

    def waits(self, pool_id: str, promise: Quantile, *, counts: tuple[int, ...], ceiling: float) -> Waits:
        """What waiting in a pool costs a promise at least, whatever else a request passes."""
        key = (pool_id, promise.name, counts)
        if key not in self._waits:
            self._waits[key] = self._new_waits(pool_id, promise, counts=counts, ceiling=ceiling)
        return self._waits[key]

    def _new_waits(self, pool_id: str, promise: Quantile, *, counts: tuple[int, ...], ceiling: float) -> Waits:
        rows = {self._way(path): r for r, path in enumerate(self.points.paths) if pool_id in pools_of(path)}
        if not rows:
            return Waits(ceiling * np.array(counts, dtype=float), (None,) * len(counts))
        best = np.max([self.best[r].coverage[promise.name] for r in rows.values()], axis=0)
        slack = float(self.points.data.weight @ best) - promise.quantile * promise.share
        allowed = BEYOND_SLACK * max(slack, LEAST_SLACK)
        found = [self._most_load(pool_id, rows, n, promise=promise, allowed=allowed, ceiling=ceiling) for n in counts]
        return Waits(np.array([load for load, _ in found]), tuple(late for _, late in found))

    def _way(self, path: Path) -> Way:
        """Partners stand idle, so one path of each way tells what waits in a pool cost."""
        return path.kind, None if path.decode is None else self.points.pool(path.decode).site, path.line

    def _most_load(
        self,
        pool_id: str,
        rows: Mapping[Way, int],
        instances: int,
        *,
        promise: Quantile,
        allowed: float,
        ceiling: float,
    ) -> tuple[float, Mapping[Way, Array] | None]:
        """Load up to which no more than the share allowed is late for waits; and what is late of each class there."""
        able = {way: self.best[r].coverage[promise.name] > USED for way, r in rows.items()}

        def late(load: float) -> dict[Way, Array]:
            levels = Levels({pool_id: PoolLevel(instances, load)}, self.thickest)
            found = {way: self._lost(r, levels, promise) for way, r in rows.items()}
            # what no way carries in time is not late for waiting; the others may not wait on any way that could
            least = np.min([np.where(able[way], lost, np.inf) for way, lost in found.items()], axis=0)
            return {**found, ANY_WAY: np.where(np.isfinite(least), least, 0.0)}

        weight = self.points.data.weight
        low, high = 0.0, ceiling * instances
        at_most = late(high)
        if float(weight @ at_most[ANY_WAY]) <= allowed:
            return high, None
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            here = late(middle)
            if float(weight @ here[ANY_WAY]) <= allowed:
                low = middle
            else:
                high, at_most = middle, here
        return high, at_most

    def thin(self, pool_id: str, target: str, option: LineOption, promise: Quantile) -> Array | None:
        """What is late of each class on an idle line of one tier, against the thickest one; None without such a path.

        (A relay answers before a transfer ends.)
        """
        row = row_of(self.points, PathKind.P_MD, pool_id, target, option.line)
        if row is None:
            return None
        return self._lost(row, Levels({}, {**self.thickest, option.line: LineLevel(option, 0.0)}), promise)

    def eager(self, slow: Mapping[str, LineLevel]) -> dict[tuple[str, str], tuple[Array, Array]]:
        """Least and most of a request's tokens that its relay makes, per line and site, as shares of its tokens.

        Most beside an idle relay on the ``slow`` lines; least on idle ones of the thickest tier, and beside a full one.
        """
        output = np.maximum(self.points.problem.workload.classes.output_tokens, 1.0)
        found: dict[tuple[str, str], tuple[Array, Array]] = {}
        for row, path in enumerate(self.points.paths):
            quick = self.best[row].relay_tokens
            if path.line is None or path.line not in slow or path.relay is None or quick is None:
                continue
            tokens = self.points.route(row, Levels({}, slow)).relay_tokens
            if tokens is None:
                continue
            site = self.points.pool(path.prefill).site
            least = np.minimum(quick, tokens) * self._slowed(path.relay) / output
            most = np.minimum(np.maximum(quick, tokens) / output, 1.0)
            before = found.get((path.line, site), (least, most))
            found[path.line, site] = np.minimum(before[0], least), np.maximum(before[1], most)
        return found

    def _slowed(self, relay: str) -> float:
        """Time per token alone over that of a full batch."""
        curve = self.points.problem.curve(self.points.pool(relay), self.points.mix.decode[relay])
        return min(curve.token(1.0) / curve.token(max(self.points.batch(relay), 1)), 1.0)

    def _lost(self, row: int, levels: Levels, promise: Quantile) -> Array:
        covered = self.points.route(row, levels).coverage[promise.name]
        return np.maximum(self.best[row].coverage[promise.name] - covered, 0.0)


def counts_up_to(most: int) -> tuple[int, ...]:
    """Numbers of instances that waits are looked at, the largest one included."""
    return (*(n for n in COUNTS if n < most), most)


def line_above(counts: Array, loads: Array, *, ceiling: float) -> tuple[float, float]:
    """Slope and start of a line that lies above what waits allow at every number of instances, those between included.

    Between two counts an instance more allows one instance more of load at most, and never more than the ceiling.
    """
    if counts.size == 1:
        return float(loads[0] / counts[0]), 0.0
    slope = float((loads[-1] - loads[0]) / (counts[-1] - counts[0]))
    start = float((loads - slope * counts).max())
    for low, high, allowed, later in zip(counts[:-1], counts[1:], loads[:-1], loads[1:], strict=True):
        kinks = [low, high, later - allowed + low, later / ceiling]
        if ceiling < 1:
            kinks.append((low - allowed) / (1.0 - ceiling))
        at = np.clip(kinks, low, high)
        most = np.minimum(np.minimum(ceiling * at, allowed + at - low), later)
        start = max(start, float((most - slope * at).max()))
    return slope, start


def row_of(points: Points, kind: PathKind, pool_id: str, target: str, line: str | None) -> int | None:
    """A path of this kind from a prefill pool to a site over a line."""
    for row, path in enumerate(points.paths):
        at = points.pool(path.decode).site if path.decode is not None else None
        if path.kind is kind and path.prefill == pool_id and path.line == line and at == target:
            return row
    return None
