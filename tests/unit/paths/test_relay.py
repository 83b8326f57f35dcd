"""Relay: eager tokens, occupancy, hand-over, and the feedback through the decode-side cache."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.workload import Array, RequestClasses
from pddplan.paths.handover import extend_decode, id_handover, kv_handover, token_id_payload_bytes
from pddplan.paths.latency import LatencySum
from pddplan.paths.relay import mean_between, relay
from pddplan.paths.stability import cache_lag
from pddplan.queueing import Wait


def test_part_of_a_constant_between_two_times() -> None:
    fixed = LatencySum(np.array([2.0, 5.0]))
    assert mean_between(fixed, 1.0, 4.0) == pytest.approx([1.0, 3.0])


def test_part_of_an_exponential_by_hand() -> None:
    tail = LatencySum(np.array([1.0]), (Wait(1.0, 2.0),))
    # from the shift to 3: 2 (1 - e^-1)
    assert mean_between(tail, 1.0, 3.0) == pytest.approx([2 * (1 - np.exp(-1))])


def test_a_transfer_without_end_fills_the_interval() -> None:
    never = LatencySum(np.array([np.inf]), (Wait(1.0, np.inf),))
    assert mean_between(never, 1.0, 4.0).tolist() == [3.0]


def test_relay_emits_until_the_kv_has_landed() -> None:
    got = relay(LatencySum(np.array([2.6])), lead_s=0.1, token_s=0.05, output_tokens=np.array([1000.0]))
    assert got.busy_s == pytest.approx([2.5])
    assert got.eager_tokens == pytest.approx([50.0])


def test_a_short_answer_ends_on_the_relay() -> None:
    got = relay(LatencySum(np.array([100.0])), lead_s=0.0, token_s=0.05, output_tokens=np.array([40.0]))
    assert got.eager_tokens == pytest.approx([40.0])


@given(shift=st.floats(0.0, 50.0), tau=st.floats(0.01, 50.0), output=st.floats(1.0, 5000.0), lead=st.floats(0.0, 3.0))
def test_eager_tokens_never_exceed_the_answer(shift: float, tau: float, output: float, lead: float) -> None:
    latency = LatencySum(np.array([shift]), (Wait(1.0, tau),))
    got = relay(latency, lead_s=lead, token_s=0.04, output_tokens=np.array([output]))
    assert 0 <= got.eager_tokens[0] <= output * (1 + 1e-9)


def ten_ms_per_token(tokens: Array) -> Array:
    return 0.05 + 0.0005 * tokens


def hand_over(eager: float, mode: str, *, token_s: float = 0.04):  # type: ignore[no-untyped-def]
    return extend_decode(
        np.array([eager]),
        mode=mode,
        threshold_tokens=64,
        extend_s=ten_ms_per_token,
        one_way_s=0.005,
        relay_token_s=token_s,
        overhead_s=0.2,
    )


def test_one_shot_stops_the_relay_for_one_round() -> None:
    got = hand_over(200, "one-shot")
    assert got.gap_s == pytest.approx([0.005 + 0.15 + 0.2])
    assert got.occupancy_s == pytest.approx(got.gap_s)
    assert got.extra_tokens.tolist() == [0.0]


def test_catch_up_shrinks_by_rounds_and_leaves_a_small_gap() -> None:
    got = hand_over(200, "catch-up")
    first = 0.005 + 0.15 + 0.2
    second = 0.005 + 0.05 + 0.0005 * first / 0.04 + 0.2
    assert got.rounds.tolist() == [3.0]
    assert got.gap_s == pytest.approx([0.005 + 0.05 + 0.0005 * second / 0.04])
    assert got.occupancy_s == pytest.approx([first + second + float(got.gap_s[0])])
    assert got.extra_tokens == pytest.approx([(first + second) / 0.04])


def test_catch_up_holds_the_relay_longer_but_hides_the_stall() -> None:
    once, slowly = hand_over(500, "one-shot"), hand_over(500, "catch-up")
    assert slowly.gap_s < once.gap_s
    assert slowly.occupancy_s > once.occupancy_s


def test_catch_up_that_cannot_catch_up_ends() -> None:
    assert hand_over(500, "catch-up", token_s=1e-4).rounds[0] < 64


def test_nothing_emitted_nothing_handed_over() -> None:
    for mode in ("one-shot", "catch-up"):
        got = hand_over(0.0, mode)
        assert (got.gap_s[0], got.occupancy_s[0], got.rounds[0]) == (0.0, 0.0, 0.0)


def test_ids_are_nearly_nothing_beside_their_kv() -> None:
    assert token_id_payload_bytes(100, token_id_bytes=15) == 1500
    by_kv = kv_handover(4.649e6, rate_bytes_per_s=1e9, one_way_s=0.005, noise_mean_s=0.085, copy_s=0.0245, of=100)
    by_id = id_handover(100, token_id_bytes=15, extend_s=0.04, one_way_s=0.005, overhead_s=0.26, jitter_s=0.0048)
    assert by_kv.mean_s < by_id.mean_s
    assert by_kv.worst_s > by_id.worst_s
    assert by_kv.payload_bytes / by_id.payload_bytes > 3000


CLASSES = RequestClasses(
    weight=np.array([0.15, 0.85]),
    input_tokens=np.array([64_000.0, 64_000.0]),
    miss_prefill_tokens=np.array([30_000.0, 1_500.0]),
    miss_decode_tokens=np.array([30_000.0, 1_500.0]),
    output_tokens=np.array([1000.0, 1000.0]),
)


def feedback(finished: float, *, slots: float = 120.0):  # type: ignore[no-untyped-def]
    return cache_lag(
        CLASSES,
        rate_rps=10.0,
        finished_fraction=finished,
        heavy_tokens=8_000.0,
        turns_per_session=30.0,
        think_s=20.0,
        kv_bytes_per_token=5_000.0,
        kv_fixed_bytes=4.5e6,
        line_bytes_per_s=1.2e9,
        transfer_bytes_per_s=2e7,
        relay_token_s=0.04,
        relay_slots=slots,
        handover_s=0.3,
    )


def test_finishing_every_heavy_request_on_the_relay_collapses() -> None:
    got = feedback(1.0)
    assert got.collapses
    assert got.last.relay_fraction > 0.8
    fractions = [turn.relay_fraction for turn in got.turns]
    assert fractions == sorted(fractions)


def test_handing_over_settles_near_the_share_of_heavy_requests() -> None:
    got = feedback(0.0)
    assert not got.collapses
    assert got.settles
    assert got.last.relay_fraction < 0.3


def test_the_odd_few_do_not_upset_it() -> None:
    assert not feedback(0.03).collapses


def test_enough_slots_stand_even_the_drift() -> None:
    assert not feedback(1.0, slots=1e6).collapses


@given(finished=st.floats(0.0, 0.95))
def test_more_finished_on_the_relay_never_needs_fewer_slots(finished: float) -> None:
    assert feedback(finished + 0.05).last.relay_slots >= feedback(finished).last.relay_slots * 0.999


def test_first_turn_is_the_workload_itself() -> None:
    first = feedback(1.0).turns[0]
    assert first.lag_tokens == 0.0
    assert first.relay_fraction == pytest.approx(0.15)
    assert first.missing_tokens == pytest.approx(CLASSES.mean(CLASSES.miss_decode_tokens))
    assert replace(first, turn=1) == first
