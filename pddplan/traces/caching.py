"""Hits of every request of a trace under a cache policy, and the hit rate at every capacity."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.errors import InputError, Problem
from pddplan.traces.blocks import CHUNK_BLOCKS
from pddplan.traces.replay import NEVER, Ints, RequestChunk, StackReplay
from pddplan.traces.scratch import Records, RowStore
from pddplan.traces.source import Progress
from pddplan.traces.trace import Trace

CURVE_POINTS = 48
CURVE_START = 0.02
RANDOM_SEED = 0
GROWTH = 4
"""Tables grow by at least their size over this, so that copying them stays cheap."""


class Routing(StrEnum):
    """How requests find their instance when each has its own cache."""

    STICKY = "sticky"  # a conversation stays where it began
    ROUND_ROBIN = "round-robin"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """One side's prefix cache."""

    capacity_blocks: int | None = None
    """Blocks per instance; None = nothing is ever evicted."""
    instances: int = 1
    routing: Routing = Routing.STICKY
    ttl_s: float | None = None
    """Blocks not touched for longer are gone."""
    keep_generated: bool = False
    """The cache also holds generated tokens, which the next turn of the conversation finds there."""


@dataclass(frozen=True, slots=True, eq=False)
class CacheResult:
    """What replaying a trace through one cache gave."""

    hits: RowStore
    """Cached leading tokens of each request, column ``hit``."""
    reached_tokens: Ints
    """reached_tokens[c]: input tokens that hit at a capacity of c blocks (per instance)."""
    input_tokens: int
    distinct_blocks: int
    """Capacity at which nothing is evicted (of the largest instance)."""
    block_tokens: int

    @property
    def hit_tokens(self) -> Ints:
        """Cached leading tokens of each request as a whole, in memory; shape (requests,)."""
        return self.hits.column("hit").astype(np.int64)

    def token_hit_fraction(self, capacity_blocks: NDArray[np.int64] | int) -> Array:
        """Token-weighted hit rate at given capacities, as replay at each of them would give."""
        place = np.clip(np.asarray(capacity_blocks, dtype=np.int64), 0, self.reached_tokens.size - 1)
        return np.asarray(self.reached_tokens[place] / self.input_tokens)

    def curve(self, points: int = CURVE_POINTS) -> tuple[tuple[float, float], ...]:
        """(capacity in tokens, token-weighted hit rate), evenly spread on a log scale where the rate rises.

        The first point is where CURVE_START of the best rate is reached, the last where no more can be.
        """
        running = self.reached_tokens
        first = max(int(np.searchsorted(running, CURVE_START * running[-1])), 1)
        last = max(int(np.searchsorted(running, running[-1])), first)
        blocks = np.unique(np.round(np.geomspace(first, last, points)).astype(np.int64))
        rates = self.token_hit_fraction(blocks)
        return tuple((float(c * self.block_tokens), float(rate)) for c, rate in zip(blocks, rates, strict=True))


def replay(
    trace: Trace, policy: CachePolicy, *, chunk_blocks: int = CHUNK_BLOCKS, progress: Progress | None = None
) -> CacheResult:
    """Replay all requests in order of time.

    Parameters:  chunk_blocks, blocks replayed at a time (a speed setting: results do not depend on it);
                 progress, called with the blocks replayed so far and in all

    Raises:  InputError when the trace has no block ids, or no times for a time to live.
    """
    if trace.blocks is None or trace.block_tokens is None:
        raise InputError(
            Problem(what="has no block ids to replay", fix="give --assume-hit-rate instead", where=trace.file)
        )
    if policy.ttl_s is not None and not trace.has_time:
        raise InputError(
            Problem(
                what="has no times, so a time to live means nothing", fix="leave the time to live out", where=trace.file
            )
        )
    size = trace.block_tokens
    caches = [
        StackReplay(
            block_tokens=size,
            keep_generated=policy.keep_generated,
            ttl_s=policy.ttl_s,
            expected_blocks=trace.blocks.largest + 1,
        )
        for _ in range(policy.instances)
    ]
    router = Router(trace, policy) if policy.instances > 1 else None
    capacity = NEVER - 1 if policy.capacity_blocks is None else policy.capacity_blocks
    hits = RowStore([("hit", "i4")])
    needed_tokens = np.zeros(1, dtype=np.int64)
    done, input_tokens = 0, 0
    for rows, chunk in trace.requests(chunk_blocks=chunk_blocks):
        done += chunk.blocks.size
        input_tokens += int(chunk.input_tokens.sum())
        if progress is not None:
            progress(done, trace.blocks.count)
        instance = router.instances(rows, chunk) if router is not None else None
        hit = np.zeros(rows.size, dtype=np.int64)
        for number, cache in enumerate(caches):
            mine = slice(None) if instance is None else instance == number
            part = chunk if instance is None else _part(chunk, instance == number)
            if not part.input_tokens.size:
                continue
            needed = cache.feed(part).needed_blocks
            counted = np.concatenate(([0], np.cumsum(needed <= capacity)))
            blocks = counted[part.offsets[1:]] - counted[part.offsets[:-1]]
            hit[mine] = np.minimum(blocks * size, part.input_tokens)
            needed_tokens = _add(needed_tokens, needed, _tokens_of_blocks(part, size))
        hits.append(hit=hit)
    return CacheResult(
        hits=hits,
        reached_tokens=np.cumsum(needed_tokens, out=needed_tokens),
        input_tokens=input_tokens,
        distinct_blocks=max(cache.live_blocks for cache in caches),
        block_tokens=size,
    )


class Router:
    """Which instance each request of a trace goes to; asked in order of time."""

    def __init__(self, trace: Trace, policy: CachePolicy) -> None:
        self.policy = policy
        self._has_session = trace.has_session
        self._chains = StackReplay(block_tokens=trace.block_tokens or 1)
        self._draw = np.random.default_rng(RANDOM_SEED)
        self._before = 0

    def instances(self, rows: Records, chunk: RequestChunk) -> Ints:
        """Instance of each of the next requests."""
        count = self.policy.instances
        self._before += rows.size
        match self.policy.routing:
            case Routing.STICKY:
                return self.conversations(rows, chunk) % count
            case Routing.ROUND_ROBIN:
                return np.arange(self._before - rows.size, self._before, dtype=np.int64) % count
            case Routing.RANDOM:
                return self._draw.integers(count, size=rows.size)

    def conversations(self, rows: Records, chunk: RequestChunk) -> Ints:
        """Number of each one's conversation: its session, or the chain of inputs that continue each other."""
        if self._has_session:
            return rows["session"].astype(np.int64)
        return self._chains.feed(chunk).conversation


def knee(curve: tuple[tuple[float, float], ...]) -> tuple[float, float] | None:
    """Point of a hit-rate curve from which more capacity buys little: farthest above the chord.

    Formula:     argmax over points of y - x, both scaled to [0, 1], x on a logarithmic scale
    Parameters:  curve, (capacity, hit rate) of increasing capacity
    Returns:     that point, or None when the curve does not rise
    Holds when:  the curve rises once and then flattens.
    References:  satopaa2011
    """
    if len(curve) < 3 or curve[-1][1] <= curve[0][1]:
        return None
    x = np.log([point[0] for point in curve])
    y = np.array([point[1] for point in curve])
    x, y = (x - x[0]) / (x[-1] - x[0]), (y - y[0]) / (y[-1] - y[0])
    best = int(np.argmax(y - x))
    return curve[best] if y[best] > x[best] else curve[-1]


def _part(chunk: RequestChunk, keep: NDArray[np.bool_]) -> RequestChunk:
    lengths = np.diff(chunk.offsets)
    return RequestChunk(
        offsets=np.concatenate(([0], np.cumsum(lengths[keep]))),
        blocks=chunk.blocks[np.repeat(keep, lengths)],
        input_tokens=chunk.input_tokens[keep],
        output_tokens=chunk.output_tokens[keep],
        time_s=None if chunk.time_s is None else chunk.time_s[keep],
    )


def _tokens_of_blocks(chunk: RequestChunk, size: int) -> Ints:
    """Tokens in each block: all of it, but for the last, partial one."""
    lengths = np.diff(chunk.offsets)
    position = np.arange(chunk.blocks.size, dtype=np.int64) - np.repeat(chunk.offsets[:-1], lengths)
    return np.asarray(np.clip(np.repeat(chunk.input_tokens, lengths) - position * size, 0, size))


def _add(total: Ints, needed: Ints, tokens: Ints) -> Ints:
    held = needed < NEVER
    places = needed[held]
    largest = int(places.max(initial=0))
    if largest >= total.size:
        further = max(largest + 1 - total.size, total.size // GROWTH)
        total = np.concatenate((total, np.zeros(further, dtype=np.int64)))
    np.add.at(total, places, tokens[held])
    return total
