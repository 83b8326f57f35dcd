"""Aggregated pools: by hand, conservation of work, and agreement with simpler stages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.errors import DomainError
from pddplan.simulate.fifo import multi_server_fifo
from pddplan.simulate.mixed import mixed_batch

requests = st.lists(st.tuples(st.floats(0, 4), st.floats(0.1, 5), st.floats(1, 20)), min_size=1, max_size=25)


def test_prefill_first_by_hand() -> None:
    """The second prefill (2 s) interrupts the first answer, which has 4 of 10 tokens."""
    begun, ended, run = mixed_batch(
        np.array([0.0, 3.0]),
        np.array([1.0, 2.0]),
        tokens=np.array([10.0, 2.0]),
        instances=1,
        second_per_token=[0.0, 0.5, 0.5, 0.5],
        chunk_s=np.inf,
    )
    np.testing.assert_allclose(begun, [0.0, 3.0])
    np.testing.assert_allclose(ended, [1.0, 5.0])
    np.testing.assert_allclose(run.finish_s, [8.0, 6.0])
    np.testing.assert_allclose(run.first_token_s, [1.5, 5.5])


def test_chunks_by_hand() -> None:
    """Cycles of 1 s chunk + 0.5 s step: 2 s of prefill take 3 s, in which the other answer gets 2 tokens."""
    begun, ended, run = mixed_batch(
        np.array([0.0, 3.0]),
        np.array([1.0, 2.0]),
        tokens=np.array([10.0, 2.0]),
        instances=1,
        second_per_token=[0.0, 0.5, 0.5, 0.5],
        chunk_s=1.0,
    )
    np.testing.assert_allclose(ended, [1.0, 6.0])
    np.testing.assert_allclose(run.finish_s, [8.0, 7.0])
    assert begun[1] == 3.0


def test_prefills_side_by_side_by_hand() -> None:
    """Two ranks: both prefills run at once; the answer stands still until the second is done."""
    _, ended, run = mixed_batch(
        np.array([0.0, 0.5]),
        np.array([1.0, 2.0]),
        tokens=np.array([4.0, 4.0]),
        instances=1,
        second_per_token=[0.0, 0.5, 0.5, 0.5],
        chunk_s=np.inf,
        side_by_side=2,
    )
    np.testing.assert_allclose(ended, [1.0, 2.5])
    np.testing.assert_allclose(run.finish_s, [4.5, 4.5])


@settings(max_examples=40, deadline=None)
@given(requests, st.integers(1, 3), st.sampled_from([0.2, 1.0, np.inf]))
def test_no_stage_runs_backwards_and_nothing_is_faster_than_alone(
    drawn: list[tuple[float, float, float]], instances: int, chunk_s: float
) -> None:
    arrival = np.cumsum([gap for gap, _, _ in drawn])
    work, tokens = np.array([w for _, w, _ in drawn]), np.array([o for _, _, o in drawn])
    steps = [0.0, 0.1, 0.12, 0.14, 0.16]
    begun, ended, run = mixed_batch(
        arrival, work, tokens=tokens, instances=instances, second_per_token=steps, chunk_s=chunk_s
    )
    assert (begun >= arrival - 1e-9).all()
    assert (ended - begun >= work - 1e-6).all()
    assert (run.finish_s - ended >= 0.1 * tokens - 1e-6).all()


@settings(max_examples=30, deadline=None)
@given(requests, st.integers(1, 3))
def test_with_endless_slots_and_prefill_first_waiting_is_that_of_a_prefill_pool(
    drawn: list[tuple[float, float, float]], instances: int
) -> None:
    arrival = np.cumsum([gap for gap, _, _ in drawn])
    work, tokens = np.array([w for _, w, _ in drawn]), np.array([o for _, _, o in drawn])
    begun, _, _ = mixed_batch(
        arrival, work, tokens=tokens, instances=instances, second_per_token=[0.1] * 100, chunk_s=np.inf
    )
    np.testing.assert_allclose(begun, multi_server_fifo(arrival, work, servers=instances), atol=1e-6)


def test_bad_pools_are_refused() -> None:
    one = np.ones(1)
    cases = (([1.0], 1.0, "slots"), ([1.0, 0.0], 1.0, "second_per_token"), ([1.0, 1.0], 0.0, "chunk_s"))
    for steps, chunk, name in cases:
        with pytest.raises(DomainError) as caught:
            mixed_batch(one, one, tokens=one, instances=1, second_per_token=steps, chunk_s=chunk)
        assert caught.value.name == name


def test_who_decodes_waits_for_the_longest_mixed_pass_not_for_the_whole_prefill() -> None:
    _, _, run = mixed_batch(
        np.array([0.0, 3.0, 40.0]),
        np.array([1.0, 9.0, 1.0]),
        tokens=np.array([10.0, 2.0, 2.0]),
        instances=1,
        second_per_token=[0.0, 0.5, 0.5, 0.5],
        chunk_s=np.inf,
        longest_pass_s=(np.array([1.0, 1.5, 1.0]), np.array([0.8, 1.2, 0.8])),
    )
    assert run.gap_s is not None
    # the first meets the second's chunks, 0.5 + 1.2 s each; nobody prefills while the others decode
    np.testing.assert_allclose(run.gap_s, [1.7, 0.0, 0.0])


def test_a_prefill_under_way_on_another_rank_is_waited_for_too() -> None:
    """The long prefill began first: its passes of 2 s go on when the short one's answer begins."""
    _, _, run = mixed_batch(
        np.array([0.0, 0.5]),
        np.array([8.0, 1.0]),
        tokens=np.array([2.0, 2.0]),
        instances=1,
        second_per_token=[0.0, 0.5, 0.5, 0.5],
        chunk_s=np.inf,
        side_by_side=2,
        stop_share=np.array([0.5, 0.5]),
        longest_pass_s=(np.array([2.0, 0.4]), np.array([0.1, 0.1])),
    )
    np.testing.assert_allclose(run.gap_s, [0.0, 2.0])
