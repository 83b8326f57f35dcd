"""A column counted in pieces against the column as a whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.traces.marginals import Marginal


def counted(values: np.ndarray, pieces: int) -> Marginal:
    marginal = Marginal()
    for part in np.array_split(values, pieces):
        marginal.take(part)
    return marginal


@given(st.lists(st.integers(0, 10**8), min_size=1, max_size=200), st.integers(1, 7), st.floats(0.01, 0.999))
def test_percentiles_mean_and_extremes(values: list[int], pieces: int, quantile: float) -> None:
    column = np.array(values)
    marginal = counted(column, pieces)
    assert marginal.mean == pytest.approx(column.mean())
    assert (marginal.smallest, marginal.largest) == (column.min(), column.max())
    exact = pytest.approx(float(np.quantile(column, quantile, method="inverted_cdf")), rel=2e-6)
    assert marginal.quantile(quantile) == exact
    assert marginal.interpolated(quantile) == pytest.approx(float(np.quantile(column, quantile)), rel=2e-6, abs=1e-6)


def test_whole_numbers_below_a_million_stay_exact() -> None:
    column = np.array([1, 2, 999_999, 1_048_575])
    assert counted(column, 2).values.tolist() == column.tolist()


def test_weights_count_like_repeated_requests() -> None:
    weighted = Marginal(dropped_bits=0)
    weighted.take(np.array([1.5, 7.25]), np.array([3.0, 1.0]))
    assert weighted.values.tolist() == [1.5, 7.25]
    assert weighted.weight.tolist() == [0.75, 0.25]
    assert weighted.quantile(0.75) == 1.5
    assert weighted.quantile(0.76) == 7.25
