"""Replay of a trace through prefix caches against plain LRU caches, block by block: routing, time to live, capacity."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.traces.blocks import BlockStore
from pddplan.traces.caching import CachePolicy, Router, Routing, replay
from pddplan.traces.scratch import RowStore
from pddplan.traces.trace import COLUMNS, Trace

BLOCK = 4
Request = tuple[int, int, list[int]]
"""Seconds since the one before, session, block ids."""


@st.composite
def traffic(draw: st.DrawFn) -> list[Request]:
    """Conversations that grow, begin alike, and now and then start over."""
    requests: list[Request] = []
    last: dict[int, list[int]] = {}
    for _ in range(draw(st.integers(1, 30))):
        session = draw(st.integers(0, 4))
        kept = last.get(session, [0, 1])
        kept = kept[: draw(st.integers(0, len(kept)))] if draw(st.integers(0, 3)) == 0 else kept
        ids = kept + draw(st.lists(st.integers(2, 25), max_size=4, unique=True))
        last[session] = ids
        requests.append((draw(st.integers(0, 5)), session, ids))
    return requests


def trace_of(requests: list[Request]) -> Trace:
    rows, store = RowStore(COLUMNS), BlockStore()
    lengths = np.array([len(ids) for _, _, ids in requests])
    rows.append(
        time=np.cumsum([gap for gap, _, _ in requests]).astype(float),
        session=np.array([session for _, session, _ in requests]),
        # the last block is not full
        input=np.maximum(BLOCK * lengths - 1, 1),
        output=np.ones(lengths.size),
        start=np.cumsum(lengths) - lengths,
        blocks=lengths,
    )
    store.append(np.array([block for _, _, ids in requests for block in ids], dtype=np.int32))
    store.close()
    return Trace(
        "t", "", "x", "", rows=rows, has_time=True, has_session=True, has_hits=False, blocks=store, block_tokens=BLOCK
    )


def plain_hits(requests: list[Request], policy: CachePolicy, instances: list[int]) -> list[int]:
    """Hit tokens of LRU caches that drop blocks nobody touched for too long."""
    caches: list[OrderedDict[int, float]] = [OrderedDict() for _ in range(policy.instances)]
    now, hits = 0.0, []
    for (gap, _, ids), instance in zip(requests, instances, strict=True):
        now += gap
        cache = caches[instance]
        if policy.ttl_s is not None:
            for block in [block for block, touched in cache.items() if now - touched > policy.ttl_s]:
                del cache[block]
        found = next((place for place, block in enumerate(ids) if block not in cache), len(ids))
        hits.append(min(found * BLOCK, max(BLOCK * len(ids) - 1, 1)))
        for block in reversed(ids):
            cache.pop(block, None)
            cache[block] = now
        while policy.capacity_blocks is not None and len(cache) > policy.capacity_blocks:
            cache.popitem(last=False)
    return hits


policies = st.builds(
    CachePolicy,
    capacity_blocks=st.none() | st.integers(1, 30),
    instances=st.integers(1, 4),
    routing=st.sampled_from(Routing),
    ttl_s=st.none() | st.integers(0, 12).map(float),
)


@settings(max_examples=50)
@given(traffic(), policies, st.sampled_from([1, 6, 10**6]))
def test_same_hits_as_plain_caches(requests: list[Request], policy: CachePolicy, chunk_blocks: int) -> None:
    trace = trace_of(requests)
    where = [0] * len(requests)
    if policy.instances > 1:
        router = Router(trace, policy)
        where = [int(number) for part in trace.requests() for number in router.instances(*part)]
    result = replay(trace, policy, chunk_blocks=chunk_blocks)
    assert result.hit_tokens.tolist() == plain_hits(requests, policy, where)
    if policy.routing is Routing.STICKY and policy.instances > 1:
        assert where == [session % policy.instances for _, session, _ in requests]
    if policy.routing is Routing.ROUND_ROBIN and policy.instances > 1:
        assert where == [place % policy.instances for place in range(len(requests))]


@settings(max_examples=20)
@given(traffic(), policies)
def test_the_curve_is_what_replay_at_each_capacity_gives(requests: list[Request], policy: CachePolicy) -> None:
    trace = trace_of(requests)
    curve = replay(trace, policy)
    rates = []
    for capacity in (1, 2, 3, 5, 8, 13, 40):
        at = replay(trace, replace(policy, capacity_blocks=capacity))
        rates.append(float(curve.token_hit_fraction(capacity)))
        assert rates[-1] == pytest.approx(float(at.hit_tokens.sum() / trace.input_tokens.sum()), abs=1e-12)
    assert rates == sorted(rates)
    assert [rate for _, rate in curve.curve()] == sorted(rate for _, rate in curve.curve())
