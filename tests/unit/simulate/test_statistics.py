"""Margins: hand-computed, and their coverage over many samples."""

import math

import numpy as np
import pytest

from pddplan.errors import DomainError
from pddplan.simulate.statistics import MEAN, Estimate, estimate, interval, t_quantile


def test_interval_by_hand() -> None:
    """Mean 2, standard deviation 1, three values: t(0.975, 2) = 4.3027."""
    got = interval(np.array([1.0, 2.0, 3.0]))
    assert got.value == 2.0
    assert got.half_width == pytest.approx(4.302653 / math.sqrt(3), rel=1e-5)
    assert got.covers(4.4)
    assert not got.covers(4.6)


@pytest.mark.parametrize(
    ("degrees", "exact"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (9, 2.26216), (19, 2.09302), (10**6, 1.959966)],
)
def test_t_quantile_agrees_with_tables(degrees: int, exact: float) -> None:
    assert t_quantile(0.975, degrees) == pytest.approx(exact, rel=2e-3)
    assert t_quantile(0.025, degrees) == pytest.approx(-exact, rel=2e-3)


def test_t_needs_a_degree_of_freedom() -> None:
    with pytest.raises(DomainError, match="degrees"):
        t_quantile(0.975, 0)


def test_value_is_that_of_the_whole_sample_not_of_the_batches() -> None:
    values = np.arange(1000.0)
    assert estimate([values], 0.99).value == pytest.approx(np.quantile(values, 0.99))
    assert estimate([values[:500], values[500:]], MEAN).value == pytest.approx(499.5)


def test_margins_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    trials = 400
    covered = sum(estimate([rng.exponential(1.0, 4000)], 0.9).covers(math.log(10)) for _ in range(trials))
    # 95 % of 400 is 380 with a standard deviation of 4.4
    assert 380 - 4 * 4.4 <= covered <= 380 + 4 * 4.4


def test_nothing_seen_is_nan_and_one_value_has_no_margin() -> None:
    assert math.isnan(estimate([np.empty(0)], 0.5).value)
    assert math.isnan(interval(np.empty(0)).value)
    assert estimate([np.array([1.0])], 0.5) == Estimate(1.0, math.inf)
    assert interval(np.array([1.0])) == Estimate(1.0, math.inf)


def test_missing_values_are_left_out() -> None:
    assert estimate([np.array([np.nan, 1.0, 3.0])], MEAN).value == 2.0


@pytest.mark.parametrize("quantile", [-0.5, 1.5, math.nan])
def test_a_quantile_lies_between_zero_and_one(quantile: float) -> None:
    with pytest.raises(DomainError, match="quantile"):
        estimate([np.ones(3)], quantile)
