"""Decoding pools by hand."""

import numpy as np
import pytest

from pddplan.errors import DomainError
from pddplan.simulate.decoding import decode_batch

STEP = [9.0, 1.0, 1.5]


def test_decode_by_hand() -> None:
    """Two slots: the third waits; while two are inside a token takes 1.5 s."""
    run = decode_batch(np.array([0.0, 2.0, 3.0]), np.array([4.0, 4.0, 1.0]), second_per_token=STEP)
    # first: 2 tokens alone (2 s), 2 more at 1.5 s -> 5; third starts then, 1 token at 1.5 s -> 6.5;
    # second: 2 tokens by 5, 1 by 6.5, the last alone -> 7.5
    np.testing.assert_allclose(run.start_s, [0.0, 2.0, 5.0])
    np.testing.assert_allclose(run.first_token_s, [1.0, 3.5, 6.5])
    np.testing.assert_allclose(run.finish_s, [5.0, 7.5, 6.5])


def test_joining_a_running_batch_waits_for_the_step_boundary() -> None:
    run = decode_batch(np.array([0.0, 2.0]), np.array([4.0, 1.0]), second_per_token=STEP, boundary=np.array([0.5, 0.5]))
    # the first comes alone: no step to wait for; the second waits half of a 1.5 s step
    np.testing.assert_allclose(run.first_token_s, [1.0, 2.0 + 1.5 * 1.5])
    np.testing.assert_allclose(run.finish_s, [4.75, 4.25])


def test_bad_pools_are_refused() -> None:
    one = np.array([0.0])
    with pytest.raises(DomainError, match="slots"):
        decode_batch(one, one + 1, second_per_token=[1.0])
    with pytest.raises(DomainError, match="second_per_token"):
        decode_batch(one, one + 1, second_per_token=[0.0, 0.0])
