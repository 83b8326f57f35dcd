"""The decode-side cache, which keeps answers, against a plain simulation of it block by block."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pddplan.traces.replay import RequestChunk, StackReplay

BLOCK = 4


@dataclass(frozen=True)
class Turn:
    ids: list[int]
    input_tokens: int
    output_tokens: int


def simulated_hits(turns: list[Turn], capacity: int) -> list[int]:
    """LRU of ``capacity`` blocks; generated blocks lie below the input blocks of their request."""
    cache: OrderedDict[Hashable, None] = OrderedDict()
    last_toucher: dict[int, int] = {}
    consumed: set[int] = set()
    hits = []
    for number, turn in enumerate(turns):
        known = next((k for k, block in enumerate(turn.ids) if block not in last_toucher), len(turn.ids))
        parent = last_toucher[turn.ids[known - 1]] if known else None
        names: list[Hashable] = list(turn.ids)
        if parent is not None and parent not in consumed:
            earlier = turns[parent]
            whole = earlier.input_tokens // BLOCK
            total = earlier.input_tokens + earlier.output_tokens
            if whole == known and turn.input_tokens >= total:
                window = [k for k in range(whole, min(total // BLOCK, len(names))) if turn.ids[k] not in last_toucher]
                for k in window:
                    names[k] = ("answer", parent, k - whole)
                if window:
                    consumed.add(parent)
        found = 0
        while found < len(names) and names[found] in cache:
            found += 1
        hits.append(found)
        answers = (turn.input_tokens + turn.output_tokens) // BLOCK - turn.input_tokens // BLOCK
        for k in reversed(range(answers)):
            cache["answer", number, k] = None
        for name, block in reversed(list(zip(names, turn.ids, strict=True))):
            cache.pop(name, None)
            cache[block] = None
            last_toucher[block] = number
        while len(cache) > capacity:
            cache.popitem(last=False)
    return hits


@st.composite
def conversations(draw: st.DrawFn) -> list[Turn]:
    """Turns that go on with an earlier one, wholly or in part, or begin anew; ids do not repeat within a turn."""
    turns: list[Turn] = []
    fresh = 100
    for _ in range(draw(st.integers(1, 14))):
        ids: list[int] = []
        if turns and draw(st.integers(0, 3)):
            earlier = draw(st.sampled_from(turns))
            ids = earlier.ids[: draw(st.sampled_from([len(earlier.ids), earlier.input_tokens // BLOCK, 1]))]
        grown = draw(st.integers(0, 5))
        ids = ids + list(range(fresh, fresh + grown))
        fresh += grown
        if not ids:
            continue
        tokens = BLOCK * len(ids) - draw(st.integers(0, BLOCK - 1))
        turns.append(Turn(ids, tokens, draw(st.integers(1, 14))))
    return turns


@given(conversations(), st.integers(1, 25), st.integers(1, 15))
def test_same_hits_as_the_plain_simulation(turns: list[Turn], capacity: int, size: int) -> None:
    cache, got = StackReplay(block_tokens=BLOCK, keep_generated=True), []
    for start in range(0, len(turns), size):
        part = turns[start : start + size]
        offsets = np.concatenate(([0], np.cumsum([len(turn.ids) for turn in part]))).astype(np.int64)
        needed = cache.feed(
            RequestChunk(
                offsets=offsets,
                blocks=np.array([block for turn in part for block in turn.ids], dtype=np.int64),
                input_tokens=np.array([turn.input_tokens for turn in part]),
                output_tokens=np.array([turn.output_tokens for turn in part]),
                time_s=None,
            )
        ).needed_blocks
        got += [int((needed[a:b] <= capacity).sum()) for a, b in itertools.pairwise(offsets)]
    assert got == simulated_hits(turns, capacity)
