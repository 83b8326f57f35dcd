"""Hits of every request of a trace under a cache policy, and the hit rate at every capacity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.errors import InputError, Problem
from pddplan.traces.blocks import CHUNK_BLOCKS
from pddplan.traces.replay import NEVER, Ints, RequestChunk, StackReplay
from pddplan.traces.source import Progress
from pddplan.traces.trace import Trace

CURVE_POINTS = 48
CURVE_START = 0.02
RANDOM_SEED = 0


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

    hit_tokens: Ints
    """Cached leading tokens of each request; shape (requests,)."""
    needed_tokens: Ints
    """needed_tokens[c]: input tokens that hit at a capacity of c blocks (per instance) but not at c - 1."""
    input_tokens: int
    distinct_blocks: int
    """Capacity at which nothing is evicted (of the largest instance)."""
    block_tokens: int

    def token_hit_fraction(self, capacity_blocks: NDArray[np.int64] | int) -> Array:
        """Token-weighted hit rate at given capacities, as replay at each of them would give."""
        running = np.cumsum(self.needed_tokens)
        place = np.clip(np.asarray(capacity_blocks, dtype=np.int64), 0, running.size - 1)
        return np.asarray(running[place] / self.input_tokens)

    def curve(self, points: int = CURVE_POINTS) -> tuple[tuple[float, float], ...]:
        """(capacity in tokens, token-weighted hit rate), evenly spread on a log scale where the rate rises.

        The first point is where CURVE_START of the best rate is reached, the last where no more can be.
        """
        running = np.cumsum(self.needed_tokens)
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
    if policy.ttl_s is not None and trace.time_s is None:
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
            expected_requests=trace.count // policy.instances,
        )
        for _ in range(policy.instances)
    ]
    assigned = assign_instances(trace, policy) if policy.instances > 1 else None
    capacity = NEVER - 1 if policy.capacity_blocks is None else policy.capacity_blocks
    hits = np.zeros(trace.count, dtype=np.int64)
    needed_tokens = np.zeros(1, dtype=np.int64)
    done = 0
    for members, chunk in _chunks(trace, chunk_blocks):
        done += chunk.blocks.size
        if progress is not None:
            progress(done, trace.blocks.count)
        for number, cache in enumerate(caches):
            mine, part = (members, chunk) if assigned is None else _part(chunk, members, assigned[members] == number)
            if not mine.size:
                continue
            needed = cache.feed(part).needed_blocks
            counted = np.concatenate(([0], np.cumsum(needed <= capacity)))
            blocks = counted[part.offsets[1:]] - counted[part.offsets[:-1]]
            hits[mine] = np.minimum(blocks * size, part.input_tokens)
            needed_tokens = _add(needed_tokens, needed, _tokens_of_blocks(part, size))
    return CacheResult(
        hit_tokens=hits,
        needed_tokens=needed_tokens,
        input_tokens=int(trace.input_tokens.sum()),
        distinct_blocks=max(cache.live_blocks for cache in caches),
        block_tokens=size,
    )


def conversations(trace: Trace, *, chunk_blocks: int = CHUNK_BLOCKS) -> Ints:
    """Number of the conversation of each request: its session, or the chain of inputs that continue each other."""
    if trace.session is not None:
        return trace.session
    if trace.blocks is None or trace.block_tokens is None:
        return np.arange(trace.count, dtype=np.int64)
    cache = StackReplay(block_tokens=trace.block_tokens)
    parents = np.concatenate([cache.feed(chunk).parent for _, chunk in _chunks(trace, chunk_blocks)])
    root = np.where(parents >= 0, parents, np.arange(parents.size))
    while True:
        further = root[root]
        if np.array_equal(further, root):
            return np.unique(root, return_inverse=True)[1].astype(np.int64)
        root = further


def assign_instances(trace: Trace, policy: CachePolicy) -> Ints:
    """Instance of each request."""
    match policy.routing:
        case Routing.STICKY:
            return conversations(trace) % policy.instances
        case Routing.ROUND_ROBIN:
            return np.arange(trace.count, dtype=np.int64) % policy.instances
        case Routing.RANDOM:
            return np.random.default_rng(RANDOM_SEED).integers(policy.instances, size=trace.count)


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


def _chunks(trace: Trace, chunk_blocks: int) -> Iterator[tuple[Ints, RequestChunk]]:
    """Requests in order of time, with their positions."""
    assert trace.blocks is not None
    start = 0
    for order in trace.blocks.chunks(trace.order, chunk_blocks=chunk_blocks):
        members = np.arange(start, start + order.size)
        start += order.size
        offsets, blocks = trace.blocks.gather(order)
        yield (
            members,
            RequestChunk(
                offsets=offsets,
                blocks=blocks,
                input_tokens=trace.input_tokens[members],
                output_tokens=trace.output_tokens[members],
                time_s=None if trace.time_s is None else trace.time_s[members],
            ),
        )


def _part(chunk: RequestChunk, members: Ints, keep: NDArray[np.bool_]) -> tuple[Ints, RequestChunk]:
    lengths = np.diff(chunk.offsets)
    return members[keep], RequestChunk(
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
    added = np.bincount(needed[held], weights=tokens[held]).astype(np.int64)
    if added.size > total.size:
        added[: total.size] += total
        return added
    total[: added.size] += added
    return total
