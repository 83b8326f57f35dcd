"""Few points with the averages of many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.traces.recombine import recombine


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 300), st.integers(1, 12))
def test_averages_stay_and_few_points_are_left(seed: int, points: int, functions: int) -> None:
    draw = np.random.default_rng(seed)
    values = np.vstack([np.ones(points), draw.normal(size=(functions - 1, points)) ** 3])
    weight = draw.pareto(1.2, points) + 1e-6
    left = recombine(values, weight)
    assert (left >= 0).all()
    assert int((left > 0).sum()) <= functions
    assert values @ left == pytest.approx(values @ weight, rel=1e-8, abs=1e-8 * weight.sum())


def test_functions_that_say_the_same_count_once() -> None:
    line = np.arange(100.0)
    left = recombine(np.stack([np.ones(100), line, 2 * line, 3 * line + 1]), np.ones(100))
    assert int((left > 0).sum()) <= 2
    assert left @ line == pytest.approx(line.sum())


def test_as_few_points_as_functions_stay_as_they_are() -> None:
    assert recombine(np.ones((3, 3)), np.array([1.0, 2.0, 3.0])).tolist() == [1.0, 2.0, 3.0]
