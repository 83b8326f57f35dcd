"""Relay pools: by hand, and against a replay in small time steps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.errors import DomainError
from pddplan.simulate.decoding import decode_batch
from pddplan.simulate.relay import relay_batch

STEP = [9.0, 1.0, 1.5]
answers = st.lists(st.tuples(st.floats(0, 4), st.floats(0.5, 8), st.floats(0, 12)), min_size=1, max_size=12)


def test_relay_by_hand() -> None:
    """Released after 3 s with 3 tokens made; the second finishes; the third is released while it waits."""
    run = relay_batch(
        np.array([0.0, 0.0, 1.0]),
        np.array([9.0, 2.0, 5.0]),
        landed_s=np.array([6.0, np.inf, 2.0]),
        second_per_token=STEP,
    )
    # both advance at 1.5 s: second done at 3 s; first then alone until 6 s: 2 + 3 tokens
    np.testing.assert_allclose(run.leave_s, [6.0, 3.0, 2.0])
    np.testing.assert_allclose(run.made_tokens, [5.0, 2.0, 0.0])
    assert run.complete.tolist() == [False, True, False]
    assert np.isnan(run.start_s).tolist() == [False, False, True]
    np.testing.assert_allclose(run.first_token_s[:2], [1.0, 1.5])


def stepped_relay(arrival, tokens, release, step, dt=0.002):  # type: ignore[no-untyped-def]
    """The same pool in small time steps: slow and obvious."""
    slots, count = len(step) - 1, len(arrival)
    made, leave = np.zeros(count), np.full(count, np.nan)
    inside: list[int] = []
    waiting: list[int] = []
    pending = list(range(count))
    now = 0.0
    while np.isnan(leave).any():
        while pending and arrival[pending[0]] <= now:
            waiting.append(pending.pop(0))
        for j in [*inside, *waiting]:
            if made[j] >= tokens[j] or release[j] <= now:
                leave[j] = now
        inside = [j for j in inside if np.isnan(leave[j])]
        waiting = [j for j in waiting if np.isnan(leave[j])]
        while waiting and len(inside) < slots:
            inside.append(waiting.pop(0))
        for j in inside:
            made[j] += dt / step[len(inside)]
        now += dt
    return leave, made


@settings(max_examples=20, deadline=None)
@given(answers)
def test_relay_equals_a_replay_in_small_steps(drawn: list[tuple[float, float, float]]) -> None:
    arrival = np.cumsum([gap for gap, _, _ in drawn])
    tokens = np.array([need for _, need, _ in drawn])
    release = arrival + np.array([hold for _, _, hold in drawn])
    run = relay_batch(arrival, tokens, landed_s=release, second_per_token=STEP)
    leave, _ = stepped_relay(arrival, tokens, release, STEP)
    np.testing.assert_allclose(run.leave_s, leave, atol=0.03 * len(drawn))


@settings(max_examples=40, deadline=None)
@given(answers)
def test_relay_without_release_is_a_decode_pool(drawn: list[tuple[float, float, float]]) -> None:
    arrival, tokens = np.cumsum([gap for gap, _, _ in drawn]), np.array([need for _, need, _ in drawn])
    relay = relay_batch(arrival, tokens, landed_s=np.full(len(drawn), np.inf), second_per_token=STEP)
    decode = decode_batch(arrival, tokens, second_per_token=STEP)
    np.testing.assert_allclose(relay.leave_s, decode.finish_s)
    np.testing.assert_allclose(relay.made_tokens, tokens)
    assert relay.complete.all()


def test_handover_rounds_by_hand() -> None:
    """KV lands at 4 s with 4 tokens made; emits 2 s more, then holds the slot silently for 1 s."""
    run = relay_batch(
        np.array([0.0, 0.0, 6.5]),
        np.array([9.0, 2.0, 1.0]),
        landed_s=np.array([4.0, np.inf, np.inf]),
        second_per_token=[9.0, 1.0, 1.0],
        handover=lambda request, made, token_s: (made / 2 * token_s, 1.0),
    )
    np.testing.assert_allclose(run.silent_s, [6.0, 2.0, 7.5])
    np.testing.assert_allclose(run.leave_s, [7.0, 2.0, 7.5])
    np.testing.assert_allclose(run.made_tokens, [6.0, 2.0, 1.0])


def test_a_silent_slot_is_still_taken() -> None:
    run = relay_batch(
        np.array([0.0, 0.5]),
        np.array([9.0, 2.0]),
        landed_s=np.array([4.0, np.inf]),
        second_per_token=[9.0, 1.0],
        handover=lambda request, made, token_s: (0.0, 3.0),
    )
    np.testing.assert_allclose(run.start_s, [0.0, 7.0])


def test_a_landing_before_the_arrival_is_refused() -> None:
    one = np.array([1.0])
    with pytest.raises(DomainError, match="landed_s"):
        relay_batch(one, one, landed_s=one - 1, second_per_token=STEP)
