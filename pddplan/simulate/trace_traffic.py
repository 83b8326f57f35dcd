"""From a trace file to the requests of a simulation: arrival times, cache hits at both sides, block lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.errors import InputError, Problem
from pddplan.simulate.cache_state import BlockLists
from pddplan.simulate.trace_mode import TraceTraffic

if TYPE_CHECKING:
    from pddplan.traces.trace import Trace

_LEAST_INPUT_TOKENS = 1
_MOST_BLOCKS = 2**31 - 2
"""Capacities above hold any trace."""


def traffic_of(
    trace: Trace,
    *,
    prefill_cache_tokens: int | None = None,
    decode_cache_tokens: int | None = None,
    requests: int | None = None,
    seed: int = 0,
) -> TraceTraffic:
    """Requests of a trace, with what they miss in caches of the given capacities.

    The prefill side holds what was prefilled; the decode side also what it generated itself, so that the next turn
    of a conversation need not send the previous answer.

    Parameters:  trace; capacities in tokens, None = nothing is evicted; requests: only the first so many;
                 seed: of spreading times that stand on a coarse clock
    Returns:     TraceTraffic
    Raises:      InputError when the trace has no arrival times
    """
    from pddplan.traces.arrivals import clock_grid_s, spread_over_grid
    from pddplan.traces.caching import CachePolicy, replay

    if trace.time_s is None:
        raise InputError(
            Problem(
                what="the trace has no arrival times to replay",
                fix="draw requests with --requests instead, or name the column of times",
                where=trace.file,
            )
        )
    count = trace.count if requests is None else min(requests, trace.count)
    notes = []
    arrival: Array = trace.time_s
    grid = clock_grid_s(arrival)
    if grid is not None:
        arrival = spread_over_grid(arrival, grid, seed=seed)
        notes.append(f"arrival times stand on a clock of {grid:g} s; requests were spread within it")
    total = np.maximum(trace.input_tokens, _LEAST_INPUT_TOKENS)
    blocks, generated_from = None, None
    if trace.blocks is not None and trace.block_tokens is not None:
        size = trace.block_tokens
        near = replay(trace, CachePolicy(capacity_blocks=_blocks(prefill_cache_tokens, size))).hit_tokens
        far = replay(
            trace, CachePolicy(capacity_blocks=_blocks(decode_cache_tokens, size), keep_generated=True)
        ).hit_tokens
        offsets, numbers = trace.blocks.gather(trace.order)
        blocks = BlockLists(offsets, numbers, size)
        generated_from = _parents(trace)
    elif trace.hit_tokens is not None:
        near = far = trace.hit_tokens
        notes.append("the trace has no block ids: cache hits are those the provider reported, at both sides")
    else:
        near = far = np.zeros_like(total)
        notes.append("the trace has no block ids: nothing is taken to be cached")
    # the last token always runs through prefill: it makes the first output token
    miss_near = np.maximum(total - near, 1)
    miss_far = np.maximum(total - far, 1)
    return TraceTraffic(
        name=trace.file,
        arrival_s=arrival[:count],
        input_tokens=total[:count],
        output_tokens=np.maximum(trace.output_tokens, 1)[:count],
        miss_prefill_tokens=miss_near[:count],
        miss_decode_tokens=miss_far[:count],
        blocks=blocks,
        generated_from=None if generated_from is None else generated_from[:count],
        notes=tuple(notes),
    )


def _blocks(tokens: int | None, size: int) -> int | None:
    return None if tokens is None else min(max(tokens // size, 1), _MOST_BLOCKS)


def _parents(trace: Trace) -> NDArray[np.int64]:
    """Earlier request that each request continues, -1 = none."""
    from pddplan.traces.replay import RequestChunk, StackReplay

    assert trace.blocks is not None
    assert trace.block_tokens is not None
    cache = StackReplay(block_tokens=trace.block_tokens, keep_generated=True)
    found = []
    start = 0
    for order in trace.blocks.chunks(trace.order):
        members = slice(start, start + order.size)
        start += order.size
        offsets, numbers = trace.blocks.gather(order)
        chunk = RequestChunk(
            offsets=offsets,
            blocks=numbers,
            input_tokens=trace.input_tokens[members],
            output_tokens=trace.output_tokens[members],
            time_s=None if trace.time_s is None else trace.time_s[members],
        )
        found.append(cache.feed(chunk).parent)
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)
