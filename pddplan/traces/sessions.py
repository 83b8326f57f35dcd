"""Block ids for traces that only name sessions: what turns of one conversation share, written as blocks.

Within a session, a turn whose input is at least as long as that of the turn before is taken to begin with it; a
shorter one starts afresh (the context was compacted, or the thread changed). Nothing is shared across sessions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pddplan.traces.blocks import BlockStore
from pddplan.traces.trace import Trace

SESSION_BLOCK_TOKENS = 16
"""Tokens per block of the ids made here; also the grain of the hits."""


def with_session_blocks(trace: Trace, *, block_tokens: int = SESSION_BLOCK_TOKENS) -> Trace:
    """The trace with block ids that encode its sessions. Requests must be in order of time."""
    assert trace.session is not None
    order = np.lexsort((np.arange(trace.count), trace.session))
    session, length = trace.session[order], trace.input_tokens[order]
    fresh = np.ones(trace.count, dtype=bool)
    same = np.diff(session) == 0
    fresh[1:] = ~same | (np.diff(length) < 0)
    shrunk = int((fresh[1:] & same).sum())
    thread = np.cumsum(fresh) - 1
    blocks = length // block_tokens
    longest = np.zeros(int(thread[-1]) + 1, dtype=np.int64)
    np.maximum.at(longest, thread, blocks)
    base = np.concatenate(([0], np.cumsum(longest)))[thread]
    # back to order of time
    base_in_time, blocks_in_time = np.empty_like(base), np.empty_like(blocks)
    base_in_time[order], blocks_in_time[order] = base, blocks
    offsets = np.concatenate(([0], np.cumsum(blocks_in_time)))
    place = np.arange(int(offsets[-1]), dtype=np.int64) - np.repeat(offsets[:-1], blocks_in_time)
    store = BlockStore()
    store.append(blocks_in_time, (np.repeat(base_in_time, blocks_in_time) + place).astype(np.int32))
    store.close()
    oddities = dict(trace.oddities)
    if shrunk:
        oddities["turns shorter than the one before (taken as fresh)"] = shrunk
    return replace(
        trace,
        blocks=store,
        block_tokens=block_tokens,
        order=np.arange(trace.count, dtype=np.int64),
        oddities=oddities,
    )
