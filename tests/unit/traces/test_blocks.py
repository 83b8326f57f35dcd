"""Block numbers: equal ids, equal numbers, whatever they look like."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.traces.blocks import BlockNumbers, BlockStore


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
def test_gather_gives_blocks_in_any_order(order: list[int]) -> None:
    store, parts = BlockStore(), [[1, 2], [], [3, 4, 5]]
    for part in parts:
        store.append(np.array([len(part)]), np.array(part, dtype=np.int32))
    store.close()
    offsets, blocks = store.gather(np.array(order))
    assert [blocks[a:b].tolist() for a, b in itertools.pairwise(offsets)] == [parts[k] for k in order]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 40))
def test_chunks_cover_every_request_once(lengths: list[int], size: int) -> None:
    store = BlockStore()
    store.append(np.array(lengths), np.zeros(sum(lengths), dtype=np.int32))
    store.close()
    order = np.arange(len(lengths))
    chunks = list(store.chunks(order, chunk_blocks=size))
    assert np.concatenate(chunks).tolist() == order.tolist()
    assert all(chunk.size for chunk in chunks)
