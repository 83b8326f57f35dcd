"""Missing tokens at both sides, by every way a trace can tell them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pddplan.domain.provenance import Basis
from pddplan.errors import InputError
from pddplan.traces.caching import CachePolicy, Router, Routing, knee, replay
from pddplan.traces.misses import HitAssumption, find_misses
from pddplan.traces.reading import ReadOptions, read_source
from pddplan.traces.source import from_bytes
from pddplan.traces.trace import Trace

NEAR, FAR = CachePolicy(), CachePolicy(keep_generated=True)


def trace_of(rows: list[dict[str, Any]], **options: Any) -> Trace:
    text = "\n".join(json.dumps(row) for row in rows)
    return read_source(from_bytes(text.encode(), name="t"), ReadOptions(**options))


def turn(time: int, length: int, output: int, ids: list[int]) -> dict[str, Any]:
    return {"timestamp": time, "input_length": length, "output_length": output, "hash_ids": ids}


CONVERSATION = [
    turn(0, 100, 60, [1, 2, 3, 4, 5, 6, 70]),  # 16-token blocks: six whole, one partial
    turn(10, 200, 40, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
]


def test_a_second_turn_by_hand() -> None:
    misses = find_misses(trace_of(CONVERSATION, block_tokens=16), prefill=NEAR, decode=FAR)
    # P holds the six whole blocks of the first input: 200 - 96; MD holds input and answer, 160 tokens = ten blocks
    assert misses.prefill_tokens.tolist() == [100, 104]
    assert misses.decode_tokens.tolist() == [100, 40]
    assert misses.basis is Basis.DERIVED


def test_without_a_decode_cache_everything_crosses() -> None:
    misses = find_misses(trace_of(CONVERSATION, block_tokens=16), prefill=NEAR, decode=None)
    assert misses.decode_tokens.tolist() == [100, 200]


def test_at_least_one_token_is_computed() -> None:
    rows = [turn(0, 64, 1, [1, 2, 3, 4]), turn(5, 64, 1, [1, 2, 3, 4])]
    misses = find_misses(trace_of(rows, block_tokens=16), prefill=NEAR, decode=FAR)
    assert misses.prefill_tokens.tolist() == [64, 1]
    assert misses.decode_tokens.tolist() == [64, 0]


def log(*turns: tuple[int, str, int, int]) -> Trace:
    text = "timestamp,session_id,prompt_tokens,completion_tokens\n"
    text += "".join(f"{time}.5,{session},{length},{output}\n" for time, session, length, output in turns)
    return read_source(from_bytes(text.encode(), name="log.csv"), ReadOptions())


def test_sessions_stand_in_for_ids() -> None:
    trace = log((1, "a", 160, 32), (2, "b", 320, 1), (3, "a", 320, 10))
    misses = find_misses(trace, prefill=NEAR, decode=FAR)
    assert misses.prefill_tokens.tolist() == [160, 320, 160]
    assert misses.decode_tokens.tolist() == [160, 320, 128]  # the answer of 32 tokens is there already


def test_a_shrunk_context_starts_afresh() -> None:
    trace = log((1, "a", 160, 32), (2, "a", 64, 10), (3, "a", 80, 1))
    assert find_misses(trace, prefill=NEAR, decode=FAR).prefill_tokens.tolist() == [160, 64, 16]


def test_sessions_respect_capacity() -> None:
    trace = log((1, "a", 160, 1), (2, "b", 160, 1), (3, "a", 160, 1))
    assert find_misses(trace, prefill=CachePolicy(capacity_blocks=10), decode=FAR).prefill_tokens[2] == 160
    assert find_misses(trace, prefill=CachePolicy(capacity_blocks=20), decode=FAR).prefill_tokens[2] == 1


def test_without_any_hint_the_user_must_say() -> None:
    text = "num_prefill_tokens,num_decode_tokens\n100,5\n50,1\n"
    trace = read_source(from_bytes(text.encode(), name="t"), ReadOptions())
    with pytest.raises(InputError) as caught:
        find_misses(trace, prefill=NEAR, decode=FAR)
    assert "--assume-hit-rate" in caught.value.problems[0].fix
    misses = find_misses(trace, prefill=NEAR, decode=FAR, assumed=HitAssumption(0.5, 0.8))
    assert misses.prefill_tokens.tolist() == [50, 25]
    assert misses.decode_tokens.tolist() == [20, 10]
    assert misses.basis is Basis.ASSUMED


def shared_prompt_trace() -> Trace:
    """Two conversations, interleaved; both begin with the same block."""
    rows = [
        turn(0, 32, 1, [0, 1]),
        turn(1, 32, 1, [0, 2]),
        turn(2, 48, 1, [0, 1, 3]),
        turn(3, 48, 1, [0, 2, 4]),
    ]
    return trace_of(rows, block_tokens=16)


def instances(trace: Trace, policy: CachePolicy, *, chunk_blocks: int = 1000) -> list[int]:
    router = Router(trace, policy)
    parts = [router.instances(*part) for part in trace.requests(chunk_blocks=chunk_blocks)]
    return [int(number) for part in parts for number in part]


class TestInstances:
    def test_sticky_keeps_conversations_together(self) -> None:
        trace = shared_prompt_trace()
        assert instances(trace, CachePolicy(instances=9)) == [0, 1, 0, 1]
        result = replay(trace, CachePolicy(instances=2))
        assert result.hit_tokens.tolist() == [0, 0, 32, 32]

    def test_round_robin_loses_hits_that_one_cache_has(self) -> None:
        trace = trace_of([turn(t, 16 * (t + 1), 1, list(range(t + 1))) for t in range(6)], block_tokens=16)
        one = replay(trace, CachePolicy()).hit_tokens.sum()
        two = replay(trace, CachePolicy(instances=2, routing=Routing.ROUND_ROBIN)).hit_tokens.sum()
        assert two < one

    def test_every_instance_is_a_cache_of_its_own(self) -> None:
        trace = shared_prompt_trace()
        policy = CachePolicy(instances=2, routing=Routing.ROUND_ROBIN, capacity_blocks=3)
        assert instances(trace, policy) == [0, 1, 0, 1]
        assert replay(trace, policy).hit_tokens.tolist() == [0, 0, 32, 32]

    def test_random_is_the_same_each_time(self) -> None:
        trace, policy = shared_prompt_trace(), CachePolicy(instances=3, routing=Routing.RANDOM)
        assert instances(trace, policy) == instances(trace, policy)


def test_time_to_live_needs_times() -> None:
    text = 'a,input_length,output_length,hash_ids\n1,16,1,"[1]"\n'
    trace = read_source(from_bytes(text.encode(), name="t"), ReadOptions(block_tokens=16))
    with pytest.raises(InputError, match="time to live"):
        replay(trace, CachePolicy(ttl_s=5.0))


def test_longer_life_never_hits_less() -> None:
    trace = trace_of([turn(1000 * t * t, 32, 1, [t % 3, 9]) for t in range(12)], block_tokens=16)
    hits = [replay(trace, CachePolicy(ttl_s=ttl)).hit_tokens.sum() for ttl in (1.0, 10.0, 30.0, 1e9)]
    assert hits == sorted(hits)
    assert hits[0] < hits[-1]


def test_knee_of_a_curve_that_flattens() -> None:
    curve = tuple((10.0**k, min(0.1 * k, 0.4)) for k in range(1, 9))
    assert knee(curve) == (10.0**4, 0.4)
    assert knee(((1.0, 0.5), (2.0, 0.5), (3.0, 0.5))) is None


@pytest.mark.parametrize(
    "policy",
    [
        CachePolicy(capacity_blocks=3),
        CachePolicy(ttl_s=4.0, keep_generated=True),
        CachePolicy(instances=3, capacity_blocks=2),
        CachePolicy(instances=3, routing=Routing.RANDOM),
        CachePolicy(instances=2, routing=Routing.ROUND_ROBIN, keep_generated=True),
    ],
)
def test_how_many_blocks_are_replayed_at_a_time_changes_nothing(policy: CachePolicy) -> None:
    rows = [
        turn(1000 * t, 16 * (t % 5 + 1), 20, [t % 3, *range(10 * (t % 4), 10 * (t % 4) + t % 5)]) for t in range(40)
    ]
    trace = trace_of(rows, block_tokens=16)
    at_once, one_by_one = replay(trace, policy), replay(trace, policy, chunk_blocks=1)
    assert one_by_one.hit_tokens.tolist() == at_once.hit_tokens.tolist()
    assert one_by_one.curve() == at_once.curve()
    assert instances(trace, policy, chunk_blocks=1) == instances(trace, policy)
