"""Stack distances against the plain LRU cache they stand for."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.traces.inversions import earlier_greater_weight
from pddplan.traces.replay import NEVER, Depths, RequestChunk, StackReplay
from pddplan.traces.slot_bits import SlotBits

BLOCK = 4


def lru_hits(requests: list[list[int]], capacity: int) -> list[int]:
    """Leading blocks found by an ordinary LRU cache: look up, touch from last to first, evict."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = []
    for ids in requests:
        found = 0
        while found < len(ids) and ids[found] in cache:
            found += 1
        hits.append(found)
        for block in reversed(ids):
            cache.pop(block, None)
            cache[block] = None
        while len(cache) > capacity:
            cache.popitem(last=False)
    return hits


def chunk_of(
    requests: list[list[int]],
    *,
    input_tokens: list[int] | None = None,
    output_tokens: list[int] | None = None,
    time_s: list[float] | None = None,
) -> RequestChunk:
    lengths = [len(ids) for ids in requests]
    return RequestChunk(
        offsets=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        blocks=np.array([block for ids in requests for block in ids], dtype=np.int64),
        input_tokens=np.array(input_tokens or [BLOCK * n for n in lengths], dtype=np.int64),
        output_tokens=np.array(output_tokens or [1] * len(lengths), dtype=np.int64),
        time_s=None if time_s is None else np.array(time_s, dtype=np.float64),
    )


def needed_per_request(depths: Depths, chunk: RequestChunk) -> list[list[int]]:
    bounds = zip(chunk.offsets[:-1], chunk.offsets[1:], strict=True)
    return [depths.needed_blocks[a:b].tolist() for a, b in bounds]


def replay_in_chunks(requests: list[list[int]], size: int) -> list[list[int]]:
    cache, needed = StackReplay(block_tokens=BLOCK), []
    for start in range(0, len(requests), size):
        chunk = chunk_of(requests[start : start + size])
        needed += needed_per_request(cache.feed(chunk), chunk)
    return needed


@st.composite
def traces(draw: st.DrawFn) -> list[list[int]]:
    """Requests that often begin like an earlier one, and are sometimes plain noise (repeated ids included)."""
    requests: list[list[int]] = []
    for _ in range(draw(st.integers(1, 25))):
        start: list[int] = []
        if requests and draw(st.booleans()):
            earlier = draw(st.sampled_from(requests))
            start = earlier[: draw(st.integers(0, len(earlier)))]
        requests.append(start + draw(st.lists(st.integers(0, 30), max_size=6)))
    return requests


@given(traces(), st.integers(1, 40), st.integers(1, 30))
def test_same_hits_as_a_plain_lru_cache_at_any_capacity(
    requests: list[list[int]], capacity: int, chunk_size: int
) -> None:
    needed = replay_in_chunks(requests, chunk_size)
    assert [sum(n <= capacity for n in row) for row in needed] == lru_hits(requests, capacity)


@given(traces())
def test_chunk_size_does_not_matter(requests: list[list[int]]) -> None:
    assert replay_in_chunks(requests, 1) == replay_in_chunks(requests, 4) == replay_in_chunks(requests, 1000)


@given(traces())
def test_needed_capacity_never_falls_along_a_prefix(requests: list[list[int]]) -> None:
    for row in replay_in_chunks(requests, 7):
        assert row == sorted(row)


@given(traces(), st.integers(1, 30))
def test_forgetting_what_is_dead_changes_nothing(requests: list[list[int]], chunk_size: int) -> None:
    outputs, times = [3 * (i % 5) + 1 for i in range(len(requests))], [float(i) for i in range(len(requests))]
    found = []
    for slack in (10**9, -(10**9)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pddplan.traces.replay.SLACK", slack)
            cache = StackReplay(block_tokens=BLOCK, keep_generated=True, ttl_s=6.0)
            for start in range(0, len(requests), chunk_size):
                part = slice(start, start + chunk_size)
                chunk = chunk_of(requests[part], output_tokens=outputs[part], time_s=times[part])
                depths = cache.feed(chunk)
                found.append([depths.needed_blocks.tolist(), depths.parent.tolist(), depths.conversation.tolist()])
            found.append([cache.live_blocks])
    assert found[: len(found) // 2] == found[len(found) // 2 :]


def test_hand_computed_depths() -> None:
    # stack, most recent first, after request 1: a b c; after request 2: a d b c
    cache = StackReplay(block_tokens=BLOCK)
    chunk = chunk_of([[0, 1, 2], [0, 3], [0, 1, 2]])
    needed = needed_per_request(cache.feed(chunk), chunk)
    assert needed[0] == [NEVER, NEVER, NEVER]
    assert needed[1] == [1, NEVER]
    assert needed[2] == [1, 3, 4]
    assert cache.live_blocks == 4


def test_a_prefix_counts_only_up_to_its_first_miss() -> None:
    cache = StackReplay(block_tokens=BLOCK)
    chunk = chunk_of([[0, 1], [7, 0, 1]])
    assert needed_per_request(cache.feed(chunk), chunk)[1] == [NEVER, NEVER, NEVER]


def test_an_id_twice_in_one_request_is_one_block() -> None:
    cache = StackReplay(block_tokens=BLOCK)
    cache.feed(chunk_of([[5, 6, 5]]))
    assert cache.live_blocks == 2


class TestGeneratedTokens:
    """The decode side keeps the answer, and the next turn finds it."""

    FIRST = [0, 1]  # 8 tokens of input, 8 of answer: two more blocks
    NEXT = [0, 1, 2, 3, 4]  # goes on with the answer (2, 3) and something new (4)

    def hits(self, *, keep: bool, output: int = 8, chunks: bool = False) -> int:
        cache = StackReplay(block_tokens=BLOCK, keep_generated=keep)
        if chunks:
            cache.feed(chunk_of([self.FIRST], output_tokens=[output]))
            depths = cache.feed(chunk_of([self.NEXT]))
            return int((depths.needed_blocks < NEVER).sum())
        chunk = chunk_of([self.FIRST, self.NEXT], output_tokens=[output, 1])
        return sum(n < NEVER for n in needed_per_request(cache.feed(chunk), chunk)[1])

    def test_the_prefill_side_misses_the_answer(self) -> None:
        assert self.hits(keep=False) == 2

    @pytest.mark.parametrize("chunks", [False, True])
    def test_the_decode_side_finds_it(self, chunks: bool) -> None:
        assert self.hits(keep=True, chunks=chunks) == 4

    def test_only_whole_blocks_count(self) -> None:
        assert self.hits(keep=True, output=7) == 3

    def test_an_answer_that_cannot_be_in_the_next_input_is_not_credited(self) -> None:
        assert self.hits(keep=True, output=100) == 2

    def test_it_takes_room_in_the_cache(self) -> None:
        cache = StackReplay(block_tokens=BLOCK, keep_generated=True)
        cache.feed(chunk_of([self.FIRST], output_tokens=[8]))
        assert cache.live_blocks == 4
        cache.feed(chunk_of([self.NEXT]))
        assert cache.live_blocks == 5  # the answer is not held twice

    def test_order_on_the_stack_is_input_then_answer(self) -> None:
        cache = StackReplay(block_tokens=BLOCK, keep_generated=True)
        cache.feed(chunk_of([self.FIRST], output_tokens=[8]))
        assert cache.feed(chunk_of([self.NEXT])).needed_blocks.tolist() == [1, 2, 3, 4, NEVER]

    def test_the_next_turn_is_recognised(self) -> None:
        cache = StackReplay(block_tokens=BLOCK)
        chunk = chunk_of([self.FIRST, [9, 8, 7], self.NEXT], output_tokens=[8, 1, 1])
        assert cache.feed(chunk).parent.tolist() == [-1, -1, 0]

    @given(traces(), st.integers(1, 12))
    def test_never_fewer_hits_than_without_when_nothing_is_evicted(
        self, requests: list[list[int]], chunk_size: int
    ) -> None:
        outputs = [3 * (i % 5) + 1 for i in range(len(requests))]
        totals = []
        for keep in (False, True):
            cache, total = StackReplay(block_tokens=BLOCK, keep_generated=keep), []
            for start in range(0, len(requests), chunk_size):
                part = slice(start, start + chunk_size)
                chunk = chunk_of(requests[part], output_tokens=outputs[part])
                total += [sum(n < NEVER for n in row) for row in needed_per_request(cache.feed(chunk), chunk)]
            totals.append(total)
        assert all(with_answers >= without for without, with_answers in zip(*totals, strict=True))


def test_blocks_expire_when_nobody_asks_for_them() -> None:
    chunk = chunk_of([[0], [0], [0]], time_s=[0.0, 5.0, 20.0])
    cache = StackReplay(block_tokens=BLOCK, ttl_s=10.0)
    assert needed_per_request(cache.feed(chunk), chunk) == [[NEVER], [1], [NEVER]]


@given(st.lists(st.integers(0, 9), max_size=150), st.randoms(use_true_random=False))
def test_weighted_inversions_by_comparing_all_pairs(weights: list[int], random: object) -> None:
    values = list(range(len(weights)))
    random.shuffle(values)  # type: ignore[attr-defined]
    got = earlier_greater_weight(np.array(values, dtype=np.int64), np.array(weights, dtype=np.int64))
    for q in range(len(values)):
        assert got[q] == sum(weights[u] for u in range(q) if values[u] > values[q])


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(0, 2**32)), max_size=8))
def test_live_slots_are_counted_like_a_list_of_flags(steps: list[tuple[int, int]]) -> None:
    bits, flags = SlotBits(), np.zeros(0, dtype=bool)
    for count, seed in steps:
        bits.add(count)
        flags = np.append(flags, np.ones(count, dtype=bool))
        alive = np.flatnonzero(flags)
        killed = np.random.default_rng(seed).permutation(alive)[: alive.size // 3]
        bits.kill(killed)
        flags[killed] = False
        alive = np.flatnonzero(flags)
        assert bits.live == alive.size
        assert bits.live_above(alive).tolist() == list(range(alive.size - 1, -1, -1))
