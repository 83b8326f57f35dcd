"""Operating points: asks the evaluator's own functions for the constants of the integer program.

What a point's numbers depend on besides its level (the mix of classes in a pool, how bursty its arrivals are,
the context its sequences have) is held in a *mix* (``mix``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.plan import LinePlan, Path, PathKind, Plan, Pool, Role
from pddplan.domain.workload import Array
from pddplan.evaluate.path_result import PathResult, States, path_result
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.stages import (
    LineState,
    PrefillState,
    decode_cap,
    decode_state,
    feed_of,
    line_state,
    passed_scv,
    pool_arrival_scv,
    prefill_servers,
    prefill_state,
)
from pddplan.network.feed import Feed, FeedEffect
from pddplan.optimize.data import CoverageWhenAsked, ProgramData, Route
from pddplan.optimize.levels import Levels, LineLevel, PoolLevel
from pddplan.optimize.mix import LineMix, Mix, allowed_classes, pools_of
from pddplan.optimize.promise_rows import PromiseRow, row_coverage, rows_of
from pddplan.paths.decoding import DecodePoint
from pddplan.queueing.waves import slow_wave


@dataclass(slots=True, eq=False)
class Points:
    """Numbers of the program at any operating point of a set of pools and paths (an ``OperatingModel``)."""

    problem: Problem
    pools: tuple[Pool, ...]
    paths: tuple[Path, ...]
    data: ProgramData
    mix: Mix
    bound: float = math.inf
    """Score that no plan of all candidates exceeds (those left out before included); inf = nothing was left out."""
    considered: tuple[Pool, ...] = ()
    """Every pool that no other one beats in everything, of which ``pools`` are those looked at."""
    rows: tuple[PromiseRow, ...] = ()
    """What coverage is asked for; those of the problem if none are given."""
    full_load: Mapping[str, float] = field(default_factory=dict)
    """Load of prefilling pools under all traffic, where a lighter load is to mean a smaller part of it."""
    cut: bool = False
    """Time ran out before a bound: only the cheapest pools are looked at."""
    _by_id: dict[str, Pool] = field(default_factory=dict)
    _pool_states: dict[tuple[str, PoolLevel], tuple[PrefillState | None, DecodePoint | None]] = field(
        default_factory=dict
    )
    _line_states: dict[tuple[object, ...], LineState] = field(default_factory=dict)
    _routes: dict[tuple[object, ...], Route] = field(default_factory=dict)
    _mean_work: dict[str, float] = field(default_factory=dict)
    _small_plans: list[Plan] = field(default_factory=list)
    _allowed: list[Array] = field(default_factory=list)
    _caps: dict[str, tuple[int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = self.rows or rows_of(self.problem)
        self._by_id = {pool.id: pool for pool in self.pools}
        nothing = np.zeros((0, self.problem.workload.classes.count))
        for path in self.paths:
            mine = tuple(self._by_id[p] for p in pools_of(path))
            lines = (LinePlan(path.line, 0.0),) if path.line else ()
            self._small_plans.append(Plan("", 1.0, mine, lines, (path,), nothing))
            self._allowed.append(allowed_classes(self.problem, path))

    def routes(self, levels: Levels, *, used: NDArray[Any] | None = None) -> tuple[Route, ...]:
        """Work, payload and coverage of every path at these levels; pools without a level stand idle.

        Only paths that are ``used`` are worked out where that is given; the others come back empty.
        """
        return tuple(
            self.route(index, levels) if used is None or used[index] else Route(path.id, {}, self._allowed[index])
            for index, path in enumerate(self.paths)
        )

    @property
    def path_count(self) -> int:
        """Number of paths."""
        return len(self.paths)

    def members(self, index: int) -> tuple[tuple[str, ...], str | None]:
        """Pools and line that a path uses."""
        path = self.paths[index]
        return pools_of(path), path.line if path.kind is not PathKind.P_RLD else None

    def pool(self, pool_id: str) -> Pool:
        """The pool with this id."""
        return self._by_id[pool_id]

    def route(self, index: int, levels: Levels) -> Route:
        """One path at these levels."""
        path = self.paths[index]
        pools = [(p, levels.pools.get(p, PoolLevel(1, 0.0))) for p in pools_of(path)]
        line = levels.lines.get(path.line) if path.line else None
        key = (index, *pools, line.option.id if line else None, line.load_bytes_per_s if line else 0.0)
        if key not in self._routes:
            self._routes[key] = self._new_route(index, path, pools, line)
        return self._routes[key]

    def _new_route(
        self, index: int, path: Path, pools: Sequence[tuple[str, PoolLevel]], line: LineLevel | None
    ) -> Route:
        count = self.problem.workload.classes.count
        if path.line is not None and line is None:  # no tier is left that could carry it
            return Route(path.id, {}, np.zeros(count), line=path.line, payload_bytes=np.zeros(count), coverage={})
        decoding = [pool_id for pool_id, _ in pools if self._by_id[pool_id].role is not Role.PREFILL]
        if any(self._cap(pool_id)[0] < 1 for pool_id in decoding):  # under this mix not even one sequence fits
            nothing = {promise.name: np.zeros(count) for promise in self.data.promises}
            return Route(path.id, {p: np.zeros(count) for p, _ in pools}, np.zeros(count), coverage=nothing)
        crosses = path.line is not None and path.kind is not PathKind.P_RLD
        # what is asked of pools and lines is known before anything waits; only a relay's share of a request is not
        relayed = self._result(index, pools, line) if path.kind is PathKind.P_RLD_MD else None
        return Route(
            path.id,
            self._work(path, relayed),
            self._allowed[index],
            line=path.line if crosses else None,
            payload_bytes=self._payload_bytes(path, relayed) if crosses else None,
            coverage=CoverageWhenAsked(lambda: self._coverage(relayed or self._result(index, pools, line))),
            relay_tokens=relayed.relay_tokens if relayed is not None else None,
        )

    def _result(self, index: int, pools: Sequence[tuple[str, PoolLevel]], line: LineLevel | None) -> PathResult:
        """What the evaluator says of a path at these levels."""
        path = self.paths[index]
        prefill: dict[str, PrefillState] = {}
        decode: dict[str, DecodePoint] = {}
        for pool_id, level in pools:
            first, last = self._pool_state(pool_id, level)
            if first is not None:
                prefill[pool_id] = first
            if last is not None:
                decode[pool_id] = last
        lines = (
            {path.line: self._line_state(path.line, line, path.prefill, pools[0][1])}
            if path.line is not None and line is not None
            else {}
        )
        return path_result(self.problem, self._small_plans[index], path, States(prefill, lines, decode))

    def _coverage(self, result: PathResult) -> dict[str, Array]:
        return row_coverage(self.rows, result, self.problem.workload.classes.output_tokens)

    def _payload_bytes(self, path: Path, relayed: PathResult | None) -> Array:
        if relayed is not None:
            return relayed.payload_bytes
        return self.problem.payload_bytes(self._by_id[path.prefill], decode_cache=path.decode_cache)

    def _work(self, path: Path, relayed: PathResult | None) -> dict[str, Array]:
        """Instance-seconds that one request of each class asks of each pool (utilization = sum / instances)."""
        output = self.problem.workload.classes.output_tokens
        work: dict[str, Array] = {}
        if path.kind is PathKind.AGGREGATED:
            batch, token_s = self._cap(path.prefill)
            work[path.prefill] = output * token_s / batch + self.problem.prefill_stop_s(self._by_id[path.prefill])
            return work
        work[path.prefill] = self._prefill_work(path.prefill)
        if path.relay is not None:
            batch, token_s = self._cap(path.relay)
            work[path.relay] = (relayed.relay_hold_s if relayed is not None else output * token_s) / batch
        if path.decode is not None:
            batch, token_s = self._cap(path.decode)
            tokens, extend_s = (relayed.main_tokens, relayed.main_extend_s) if relayed is not None else (output, 0.0)
            work[path.decode] = tokens * token_s / batch + extend_s
        return work

    def _prefill_work(self, pool_id: str) -> Array:
        pool = self._by_id[pool_id]
        return self.problem.prefill_s(pool) / prefill_servers(self.problem, pool, instances=1)

    def _cap(self, pool_id: str) -> tuple[int, float]:
        """Full batch of an instance of a decoding pool and its time per token without interference."""
        if pool_id not in self._caps:
            pool, work = self._by_id[pool_id], self.mix.decode[pool_id]
            cap = decode_cap(self.problem, pool, work)
            self._caps[pool_id] = (cap.batch, self.problem.curve(pool, work).token(max(cap.batch, 1)))
        return self._caps[pool_id]

    def batch(self, pool_id: str) -> int:
        """Sequences per instance that a decoding pool is operated at."""
        return self._cap(pool_id)[0]

    def _pool_state(self, pool_id: str, level: PoolLevel) -> tuple[PrefillState | None, DecodePoint | None]:
        key = (pool_id, level)
        if key not in self._pool_states:
            pool = self._by_id[pool_id]
            classes = self.mix.pool_classes[pool_id]
            total = float(classes.sum())
            rate = level.load / self._mean_work_of(pool_id) if level.load > 0 else 0.0
            first = (
                prefill_state(
                    self.problem,
                    pool,
                    class_rate_rps=classes * (rate / total),
                    instances=level.instances,
                    arrival_scv=pool_arrival_scv(
                        self.problem,
                        replace(pool, instances=level.instances),
                        classes * (rate / total),
                        part=self._part(pool_id, level.load),
                    ),
                )
                if pool.role in (Role.PREFILL, Role.AGGREGATED)
                else None
            )
            last = (
                decode_state(
                    self.problem, pool, self.mix.decode[pool_id], request_rate_rps=rate, instances=level.instances
                )
                if pool.role is not Role.PREFILL
                else None
            )
            self._pool_states[key] = (first, last)
        return self._pool_states[key]

    def _part(self, pool_id: str, load: float) -> float:
        """Share of all requests that a pool under a load serves."""
        full = self.full_load.get(pool_id)
        return self.mix.part.get(pool_id, 1.0) if full is None else min(load / full, 1.0)

    def _mean_work_of(self, pool_id: str) -> float:
        """Instance-seconds of the mean request of the pool's mix."""
        if pool_id not in self._mean_work:
            pool = self._by_id[pool_id]
            classes = self.mix.pool_classes[pool_id]
            if pool.role is Role.PREFILL:
                mean = float(classes @ self._prefill_work(pool_id)) / float(classes.sum())
            else:
                mean = decode_state(
                    self.problem, pool, self.mix.decode[pool_id], request_rate_rps=1.0, instances=1
                ).utilization
            self._mean_work[pool_id] = max(mean, 1e-12)
        return self._mean_work[pool_id]

    def _line_state(self, line_id: str, level: LineLevel, feeder: str, feeder_level: PoolLevel) -> LineState:
        key = (line_id, level.option.id, level.load_bytes_per_s, feeder, feeder_level)
        if key not in self._line_states:
            mix = self.mix.lines[line_id]
            scale = max(level.load_bytes_per_s / mix.bytes_per_s, 1e-12) if mix.bytes_per_s > 0 else 0.0
            # the corner of a cell takes the best of what its range of utilisations may do to the flow
            calm = replace(feeder_level, busiest=None)
            corners = [calm]
            if feeder_level.busiest is not None:
                corners.append(PoolLevel(calm.instances, feeder_level.busiest * calm.instances))
            states = [
                line_state(
                    self.problem.sites.lines[line_id],
                    level.option.gbps,
                    count=level.option.working,
                    transfer_rate_rps=mix.rates * scale,
                    payload_bytes=mix.payload_bytes,
                    arrival_scv=self._line_scv(mix, feeder, corner),
                    feeds=self._feeds(mix, scale, feeder, corner),
                    wave=slow_wave(self.problem.workload.arrival),
                )
                for corner in corners
            ]
            stages = [state.stage for state in states]
            effect = FeedEffect(
                max(stage.effect.smoothing for stage in stages),
                min(stage.effect.clumping for stage in stages),
                min(stage.effect.margin for stage in stages),
            )
            ratio = np.minimum.reduce([np.asarray(stage.tail_ratio) for stage in stages])
            swells = [stage.swell for stage in stages]
            swell = min((s for s in swells if s is not None), key=lambda s: float(s.mean_s), default=None)
            stage = replace(stages[0], effect=effect, tail_ratio=ratio, swell=None if None in swells else swell)
            self._line_states[key] = replace(states[0], stage=stage)
        return self._line_states[key]

    def _line_scv(self, mix: LineMix, feeder: str, level: PoolLevel) -> float:
        """How bursty a line's arrivals are with one feeding pool at a level and the others as last seen."""
        state, _ = self._pool_state(feeder, level)
        sent: dict[str, float] = {}
        for sender, rates in zip(mix.senders, mix.rates, strict=True):
            sent[sender] = sent.get(sender, 0.0) + float(rates.sum())
        scvs = dict(mix.scvs)
        if state is not None:
            scvs[feeder] = passed_scv(state, part=mix.part.get(feeder, 1.0))
        weights = {pool_id: sent.get(pool_id, 0.0) for pool_id in scvs}
        total = sum(weights.values())
        if total <= 0:
            return scvs.get(feeder, 1.0)
        return sum(weights[pool_id] * scv for pool_id, scv in scvs.items()) / total

    def _feeds(self, mix: LineMix, scale: float, feeder: str, level: PoolLevel) -> list[Feed]:
        """Feeds of a line with one pool at a level and the others as last seen, weighted by what they send."""
        feeds = [
            replace(feed, payload_square=feed.payload_square * scale)
            for pool_id, feed in mix.feeds.items()
            if pool_id != feeder
        ]
        state, _ = self._pool_state(feeder, level)
        mine = np.array([sender == feeder for sender in mix.senders])
        if state is None or not mine.any() or level.load <= 0:
            return feeds
        classes = self.mix.pool_classes[feeder]
        rate = level.load / self._mean_work_of(feeder) / float(classes.sum())
        pool = self._by_id[feeder]
        own = feed_of(
            state,
            servers=prefill_servers(self.problem, pool, instances=level.instances),
            class_rate_rps=classes * rate,
            sent_rate_rps=mix.rates[mine] * rate,
            payload_bytes=mix.payload_bytes[mine],
        )
        square = float((mix.rates[mine] * mix.payload_bytes[mine] ** 2).sum()) * scale
        return [*feeds, replace(own, payload_square=square)]
