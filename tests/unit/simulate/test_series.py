"""Counting who is where, and for how long."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.simulate.series import overlap_s, present

intervals = st.lists(st.tuples(st.floats(0, 10), st.floats(0, 5)), max_size=30)


def test_present_by_hand() -> None:
    start, end = np.array([0.0, 1.0, np.nan]), np.array([2.0, 4.0, 3.0])
    np.testing.assert_array_equal(present(start, end, time_s=np.array([0.0, 1.5, 3.0, 5.0])), [1, 2, 1, 0])


@settings(max_examples=40, deadline=None)
@given(intervals)
def test_overlap_adds_up_over_windows(drawn: list[tuple[float, float]]) -> None:
    start = np.array([a for a, _ in drawn])
    end = start + np.array([b for _, b in drawn])
    whole = overlap_s(start, end, window_s=(2.0, 8.0))
    parts = sum(overlap_s(start, end, window_s=(x, x + 1.0)) for x in range(2, 8))
    assert parts == pytest.approx(whole, abs=1e-9)
    assert overlap_s(start, end, window_s=(-1.0, 20.0)) == pytest.approx(float((end - start).sum()), abs=1e-9)
