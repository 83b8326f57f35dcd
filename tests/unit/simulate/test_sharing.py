"""Transfers on a shared line: by hand, and properties of every sample path."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.errors import DomainError
from pddplan.simulate.sharing import processor_sharing

transfers = st.lists(st.tuples(st.floats(0, 5), st.floats(0, 9)), min_size=1, max_size=30)


def test_two_transfers_by_hand() -> None:
    """10 bytes alone for 5 s at 1 B/s, then half the rate: the 2-byte one needs 4 s, the rest 3 s alone."""
    finish = processor_sharing(np.array([0.0, 5.0]), np.array([10.0, 2.0]), rate_bytes_per_s=1.0)
    np.testing.assert_allclose(finish, [12.0, 9.0])


def test_one_transfer_alone_goes_no_faster_than_its_own_limit() -> None:
    """10 bytes at 0.4 B/s; the second brings both to 0.4 each, which a line of 1 B/s still carries."""
    finish = processor_sharing(
        np.array([0.0, 5.0]), np.array([10.0, 2.0]), rate_bytes_per_s=1.0, transfer_limit_bytes_per_s=0.4
    )
    np.testing.assert_allclose(finish, [25.0, 10.0])


def test_the_line_binds_once_enough_transfers_share_it() -> None:
    finish = processor_sharing(np.zeros(4), np.ones(4), rate_bytes_per_s=1.0, transfer_limit_bytes_per_s=0.4)
    np.testing.assert_allclose(finish, 4.0)


@settings(max_examples=60, deadline=None)
@given(transfers)
def test_busy_period_work_is_conserved_and_smaller_goes_first(drawn: list[tuple[float, float]]) -> None:
    arrival, size = np.cumsum([gap for gap, _ in drawn]), np.array([need for _, need in drawn])
    finish = processor_sharing(arrival, size, rate_bytes_per_s=2.0)
    assert (finish >= arrival + size / 2.0 - 1e-9).all()
    clock = 0.0
    for arrived, needed in zip(arrival, size, strict=True):
        clock = max(clock, arrived) + needed / 2.0
    assert finish.max() == pytest.approx(clock)
    later_and_larger = (arrival[:, None] <= arrival[None, :]) & (size[:, None] <= size[None, :])
    assert (finish[:, None] <= finish[None, :] + 1e-7)[later_and_larger].all()


@settings(max_examples=30, deadline=None)
@given(transfers)
def test_a_faster_line_never_delays(drawn: list[tuple[float, float]]) -> None:
    arrival, size = np.cumsum([gap for gap, _ in drawn]), np.array([need for _, need in drawn])
    slow = processor_sharing(arrival, size, rate_bytes_per_s=1.0)
    assert (processor_sharing(arrival, size, rate_bytes_per_s=1.3) <= slow + 1e-9).all()


@pytest.mark.parametrize("rate", [0.0, -1.0, np.nan, np.inf])
def test_a_line_without_rate_is_refused(rate: float) -> None:
    with pytest.raises(DomainError, match="rate_bytes_per_s"):
        processor_sharing(np.array([0.0]), np.array([1.0]), rate_bytes_per_s=rate)
