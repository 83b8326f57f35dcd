"""The far cache: least recently used, prefixes, and sizes of transfers by what has landed."""

import numpy as np
import pytest

from pddplan.simulate.cache_state import BlockLists, Cache, DecodeCache, EndlessCache, LruCache, bytes_saved
from tests.fakes import LinearKv

SIZE = 10


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


@pytest.mark.parametrize("cache", [EndlessCache(10), LruCache(100)])
def test_leading_blocks_stop_at_the_first_gap(cache: Cache) -> None:
    cache.insert(ids(1, 2, 4))
    assert cache.leading(ids(1, 2, 3, 4)) == 2
    assert cache.leading(ids(1, 2)) == 2
    assert cache.leading(ids(9)) == 0
    assert cache.leading(ids()) == 0


def test_a_full_cache_drops_ends_of_prefixes_first() -> None:
    cache = LruCache(capacity_blocks=3)
    cache.insert(ids(1, 2, 3))
    cache.insert(ids(1, 7))
    assert len(cache) == 3
    assert cache.leading(ids(1, 2, 3)) == 2


def test_copies_share_no_block() -> None:
    lists = BlockLists(ids(0, 2, 3), ids(1, 2, 5), SIZE, original=ids(1, 0, 0), copy=ids(0, 0, 1), stride=6)
    assert lists.of(0).tolist() == [5]
    assert lists.of(1).tolist() == [1, 2]
    assert lists.of(2).tolist() == [7, 8]
    assert lists.block_numbers == 12


def test_saved_bytes_are_the_growing_part_of_the_prefix() -> None:
    kv = LinearKv(growing_bytes_per_token=3.0, fixed_bytes=100.0)
    np.testing.assert_allclose(bytes_saved(kv, longest_tokens=35, block_tokens=SIZE), [0.0, 30.0, 60.0, 90.0])


def line_state(*, uses_cache: bool = True, landing_first: bool = False) -> DecodeCache:
    """Three turns: the second continues the first with its 10-token answer, the third repeats the second's input."""
    kv = LinearKv(growing_bytes_per_token=1.0, fixed_bytes=0.0)
    tokens = np.array([20, 40, 40])
    return DecodeCache(
        blocks=BlockLists(np.array([0, 2, 6, 10]), np.array([1, 2, 1, 2, 3, 4, 1, 2, 3, 4]), SIZE),
        cache=EndlessCache(10),
        input_tokens=tokens,
        whole_bytes=kv.increment_bytes(total_tokens=tokens, missing_tokens=tokens),
        skipped_bytes=bytes_saved(kv, longest_tokens=40, block_tokens=SIZE),
        uses_cache=np.full(3, uses_cache),
        generated_from=np.array([-1, 0, -1]),
        output_tokens=np.array([10, 5, 5]),
        answered_after_landing=np.full(3, landing_first),
        assumed_held_tokens=np.zeros(3, dtype=np.int64),
    )


def test_what_has_landed_need_not_be_sent_again() -> None:
    state = line_state()
    state.expect(np.arange(3))
    assert state.begin(0) == 20.0
    state.end(0)
    assert state.begin(1) == 10.0  # 20 landed, 10 made by the decode side itself
    state.end(1)
    assert state.begin(2) == pytest.approx(10.0)  # all but the last token are there; sizes go by whole blocks
    assert state.missing_tokens.tolist() == [20.0, 10.0, 1.0]
    np.testing.assert_allclose(state.sent_bytes, [20.0, 10.0, 10.0])


def test_what_is_under_way_is_sent_again() -> None:
    state = line_state()
    state.expect(np.arange(3))
    assert state.begin(0) == 20.0
    assert state.begin(1) == 40.0


def test_a_turn_that_follows_an_answer_finds_what_the_answer_needed() -> None:
    """On P-MD the first turn's KV landed before its answer, even where the trace's clock says otherwise."""
    state = line_state(landing_first=True)
    state.expect(np.arange(3))
    assert state.begin(0) == 20.0
    assert state.begin(1) == 10.0


def test_without_a_far_cache_everything_crosses() -> None:
    state = line_state(uses_cache=False)
    state.expect(np.arange(3))
    for turn in range(3):
        assert state.begin(turn) == float(state.input_tokens[turn])
        state.end(turn)
    assert state.cache.leading(state.blocks.of(0)) == 0
