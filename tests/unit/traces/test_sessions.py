"""What turns of a session share, however the trace is cut."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.traces import scratch, sessions
from pddplan.traces.scratch import RowStore
from pddplan.traces.sessions import carried_tokens, with_session_blocks
from pddplan.traces.trace import COLUMNS, Trace

turns = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 20), st.integers(1, 5)), min_size=1, max_size=40)


def trace_of(rows: list[tuple[int, int, int]]) -> Trace:
    store = RowStore(COLUMNS)
    session, length, output = np.array(rows).T
    store.append(time=np.arange(len(rows), dtype=float), session=session, input=16 * length, output=16 * output)
    return Trace("t", "", "x", "", rows=store, has_time=True, has_session=True, has_hits=False)


@given(turns, st.integers(1, 40))
def test_turns_share_what_they_continue(rows: list[tuple[int, int, int]], rows_at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch.RowStore.chunks, "__defaults__", (rows_at_once,))
        offsets, blocks = with_session_blocks(trace_of(rows)).block_lists()
    got = [blocks[a:b].tolist() for a, b in itertools.pairwise(offsets)]
    last: dict[int, list[int]] = {}
    for (session, length, _), ids in zip(rows, got, strict=True):
        before = last.get(session, [])
        assert len(ids) == length
        fresh = length < len(before) or not before
        assert ids[: len(before)] == before if not fresh else not set(ids) & set(before)
        last[session] = ids


@given(turns, st.integers(1, 40))
def test_answers_are_carried_where_there_is_room(rows: list[tuple[int, int, int]], rows_at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch.RowStore.chunks, "__defaults__", (rows_at_once,))
        got = np.concatenate(list(carried_tokens(trace_of(rows)))).tolist()
    before: dict[int, int] = {}
    for (session, length, output), carried in zip(rows, got, strict=True):
        total = before.get(session, 0)
        assert carried == (16 * total if total <= length else 0)
        before[session] = length + output


def test_blocks_grow_with_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_BLOCKS", 10)
    assert with_session_blocks(trace_of([(0, 20, 1), (0, 20, 1)])).block_tokens == 64
