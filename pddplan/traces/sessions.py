"""Block ids for traces that only name sessions: what turns of one conversation share, written as blocks.

Within a session, a turn whose input is at least as long as that of the turn before is taken to begin with it; a
shorter one starts afresh (the context was compacted, or the thread changed). Nothing is shared across sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pddplan.traces.blocks import ConsecutiveBlocks
from pddplan.traces.rows import Ints
from pddplan.traces.scratch import Records, RowStore
from pddplan.traces.trace import COLUMNS, Trace

SESSION_BLOCK_TOKENS = 16
"""Tokens per block of the ids made here; also the grain of the hits."""
MOST_BLOCKS = 2**25
"""Blocks are twice as long, and again, while all requests together have more."""
LONGEST_BLOCK_TOKENS = 512


class LastTurns:
    """A number per session, of its last turn."""

    def __init__(self, start: int) -> None:
        """All sessions begin with ``start``."""
        self._start = start
        self._last = np.zeros(0, dtype=np.int64)

    def of(self, session: Ints) -> Ints:
        """The number of each of these sessions."""
        needed = int(session.max(initial=-1)) + 1
        if needed > self._last.size:
            larger = np.full(max(needed, 2 * self._last.size), self._start, dtype=np.int64)
            larger[: self._last.size] = self._last
            self._last = larger
        return self._last[session]

    def set(self, session: Ints, values: Ints) -> None:
        """Numbers of sessions that ``of`` was asked for."""
        self._last[session] = values

    def before(self, turns: Turns, values: Ints) -> Ints:
        """For each turn the value of the turn before in its session; these become the last."""
        ordered = values[turns.order]
        earlier = np.empty_like(ordered)
        earlier[1:] = ordered[:-1]
        earlier[turns.first] = self.of(turns.session[turns.first])
        self.set(turns.session[turns.last], ordered[turns.last])
        return turns.in_time(earlier)


class Turns:
    """Some requests in order of session, then of time."""

    def __init__(self, rows: Records) -> None:
        self.order = np.argsort(rows["session"], kind="stable")
        self.session = rows["session"][self.order].astype(np.int64)
        change = self.session[1:] != self.session[:-1]
        self.first, self.last = np.append(True, change), np.append(change, True)
        """Which turns are the first and last of their session among these."""

    def in_time(self, values: Ints) -> Ints:
        """Values in this order, put back in order of time."""
        result = np.empty_like(values)
        result[self.order] = values
        return result


def with_session_blocks(trace: Trace) -> Trace:
    """The trace with block ids that encode its sessions. Requests must be in order of time."""
    size = _block_tokens(trace)
    threads = RowStore([("thread", "i4")])
    longest = np.zeros(0, dtype=np.int64)
    shrunk, opened = 0, 0
    inputs, thread_of = LastTurns(-1), LastTurns(-1)
    for rows in trace.rows.chunks():
        turns, length = Turns(rows), rows["input"].astype(np.int64)
        before = inputs.before(turns, length)
        fresh = (before < 0) | (length < before)
        shrunk += int((fresh & (before >= 0)).sum())
        thread = _threads(turns, fresh, opened, thread_of)
        opened += int(fresh.sum())
        threads.append(thread=thread)
        longest = np.append(longest, np.zeros(opened - longest.size, dtype=np.int64))
        np.maximum.at(longest, thread, length // size)
    base = np.concatenate(([0], np.cumsum(longest)))
    result, count = RowStore(COLUMNS), 0
    for rows, thread_rows in zip(trace.rows.chunks(), threads.chunks(), strict=True):
        rows = rows.copy()
        rows["start"], rows["blocks"] = base[thread_rows["thread"]], rows["input"] // size
        count += int(rows["blocks"].sum(dtype=np.int64))
        result.append_rows(rows)
    threads.discard()
    oddities = dict(trace.oddities)
    if shrunk:
        oddities["turns shorter than the one before (taken as fresh)"] = shrunk
    blocks = ConsecutiveBlocks(largest=int(base[-1]) - 1, count=count)
    return replace(trace, rows=result, blocks=blocks, block_tokens=size, oddities=oddities)


def carried_tokens(trace: Trace) -> Iterator[Ints]:
    """Input and answer of the turn before in the same session, where this input has room for both; per chunk."""
    totals = LastTurns(0)
    for rows in trace.rows.chunks():
        length = rows["input"].astype(np.int64)
        before = totals.before(Turns(rows), length + rows["output"])
        before[before > length] = 0
        yield before


def _threads(turns: Turns, fresh: NDArray[np.bool_], opened: int, last: LastTurns) -> Ints:
    """Number of the thread of each turn: a new one where it starts afresh, else that of the turn before."""
    number = np.where(fresh, opened - 1 + np.cumsum(fresh), -1)[turns.order]
    goes_on = turns.first & (number < 0)
    number[goes_on] = last.of(turns.session)[goes_on]
    # threads are numbered in order of time: that of a turn is the largest number of its session so far
    step = (np.cumsum(turns.first) - 1) * (opened + number.size + 1)
    number = np.maximum.accumulate(number + step) - step
    last.set(turns.session[turns.last], number[turns.last])
    return turns.in_time(number)


def _block_tokens(trace: Trace) -> int:
    tokens = sum(int(rows["input"].sum(dtype=np.int64)) for rows in trace.rows.chunks())
    size = SESSION_BLOCK_TOKENS
    while tokens // size > MOST_BLOCKS and size < LONGEST_BLOCK_TOKENS:
        size *= 2
    return size
