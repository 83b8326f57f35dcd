"""From a trace file to the requests of a simulation: arrival times, cache hits at both sides, block lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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
    from pddplan.traces.arrival_pattern import spread_over_grid
    from pddplan.traces.arrivals import clock_grid_s
    from pddplan.traces.caching import CachePolicy, replay

    arrival = trace.time_s
    if arrival is None:
        raise InputError(
            Problem(
                what="the trace has no arrival times to replay",
                fix="draw requests with --requests instead, or name the column of times",
                where=trace.file,
            )
        )
    count = trace.count if requests is None else min(requests, trace.count)
    notes = []
    grid = clock_grid_s(arrival)
    if grid is not None:
        arrival = spread_over_grid(arrival, grid, seed=seed)
        notes.append(f"arrival times stand on a clock of {grid:g} s; requests were spread within it")
    reported = trace.hit_tokens
    total = np.maximum(trace.input_tokens, _LEAST_INPUT_TOKENS)
    blocks, generated_from = None, None
    if trace.blocks is not None and trace.block_tokens is not None:
        size = trace.block_tokens
        near = replay(trace, CachePolicy(capacity_blocks=_blocks(prefill_cache_tokens, size))).hit_tokens
        far = replay(
            trace, CachePolicy(capacity_blocks=_blocks(decode_cache_tokens, size), keep_generated=True)
        ).hit_tokens
        offsets, numbers = trace.block_lists()
        blocks = BlockLists(offsets, numbers, size)
        generated_from = _parents(trace)
    elif reported is not None:
        near = far = reported
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
    from pddplan.traces.replay import StackReplay

    assert trace.block_tokens is not None
    cache = StackReplay(block_tokens=trace.block_tokens, keep_generated=True)
    found = [cache.feed(chunk).parent for _, chunk in trace.requests()]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)
