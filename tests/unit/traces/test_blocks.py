"""Block numbers: equal ids, equal numbers, whatever they look like."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.traces.blocks import BlockNumbers, BlockStore, ConsecutiveBlocks


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 50), max_size=20), max_size=8))
def test_numbers_tell_apart_exactly_what_ids_tell_apart(batches: list[list[int]]) -> None:
    numbers = BlockNumbers()
    given_ids: list[int] = []
    got: list[int] = []
    for batch in batches:
        given_ids += batch
        got += numbers.number(np.array(batch, dtype=np.int64)).tolist()
    assert len(set(zip(given_ids, got, strict=True))) == len(set(given_ids)) == len(set(got))
    assert all(number >= 0 for number in got)


def test_small_ids_stay_as_they_are() -> None:
    assert BlockNumbers().number(np.array([5, 3, 5])).tolist() == [5, 3, 5]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0], [1]])
@pytest.mark.parametrize("memory_bytes", [0, 10**6])
def test_gather_gives_blocks_in_any_order(order: list[int], memory_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pddplan.traces.blocks.MEMORY_BYTES", memory_bytes)
    store, parts, starts = BlockStore(), [[1, 2], [], [3, 4, 5]], []
    for part in parts:
        starts.append(store.count)
        store.append(np.array(part, dtype=np.int32))
    store.close()
    lengths = np.array([len(part) for part in parts])
    offsets, blocks = store.gather(np.array(starts)[order], lengths[order])
    assert [blocks[a:b].tolist() for a, b in itertools.pairwise(offsets)] == [parts[k] for k in order]


def test_consecutive_blocks_need_no_store() -> None:
    offsets, blocks = ConsecutiveBlocks(largest=9, count=5).gather(np.array([7, 2]), np.array([2, 3]))
    assert offsets.tolist() == [0, 2, 5]
    assert blocks.tolist() == [7, 8, 2, 3, 4]
