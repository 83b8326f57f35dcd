"""Tornado and Monte Carlo against what is known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.economics.uncertainty import (
    Factor,
    Score,
    Values,
    monte_carlo,
    quasi_random_values,
    rank_correlation,
    tornado,
    triangular_quantile,
)
from pddplan.errors import DomainError

PRICE = Factor("price", 1.0, 2.0, 4.0)
SPEED = Factor("speed", 0.9, 1.0, 1.1)
SURE = Factor("sure", 5.0, 5.0, 5.0)


def score(values: Values) -> Score:
    return Score(bcr=values["speed"] / values["price"], holds=values["speed"] >= 1.0)


def test_tornado_by_hand_widest_first() -> None:
    bars = tornado([SPEED, PRICE, SURE], score)
    assert [bar.factor.name for bar in bars] == ["price", "speed"]
    assert (bars[0].at_low.bcr, bars[0].at_high.bcr) == (1.0, 0.25)
    assert bars[0].swing == 0.75
    assert not bars[1].at_low.holds


def test_monte_carlo_meets_the_known_distribution() -> None:
    got = monte_carlo([SPEED, PRICE, SURE], score, samples=1_000, seed=3)
    assert got.samples == 1_024
    # Speed is symmetric about 1, so half the samples hold; quasi-random points are within a percent.
    assert got.holds_fraction == pytest.approx(0.5, abs=0.01)
    # Median of the triangular price: high - sqrt(0.5 * 3 * 2)
    assert got.bcr_p50 == pytest.approx(1 / (4 - math.sqrt(3)), rel=0.02)
    assert got.influence["price"] < -0.9 < 0.9 > got.influence["speed"] > 0
    assert got.beats_fraction is None


def test_monte_carlo_is_seeded() -> None:
    once, again = (monte_carlo([SPEED, PRICE], score, samples=64, seed=7) for _ in range(2))
    assert (once.bcr_p5, once.holds_fraction, once.influence) == (again.bcr_p5, again.holds_fraction, again.influence)


def test_baseline_shares_the_same_luck() -> None:
    got = monte_carlo([SPEED, PRICE], score, samples=32, baseline=score)
    assert got.beats_fraction == 1.0


def test_nothing_uncertain_is_one_sample() -> None:
    got = monte_carlo([SURE], lambda values: Score(values["sure"], True), samples=1)
    assert (got.samples, got.bcr_p5, got.bcr_p95, got.holds_fraction) == (1, 5.0, 5.0, 1.0)


@settings(max_examples=40, deadline=None)
@given(low=st.floats(-1e3, 1e3), left=st.floats(0, 1e3), right=st.floats(0, 1e3))
def test_triangular_quantiles_stay_in_range_and_rise(low: float, left: float, right: float) -> None:
    factor = Factor("x", low, low + left, low + left + right)
    got = triangular_quantile(np.linspace(0, 1, 21), factor)
    tolerance = 1e-9 * (1 + abs(low) + left + right)
    assert got[0] == pytest.approx(factor.low, abs=tolerance)
    assert got[-1] == pytest.approx(factor.high, abs=tolerance)
    assert np.all(np.diff(got) >= -tolerance)


def test_quasi_random_means_are_triangular_means() -> None:
    values = quasi_random_values([PRICE, SPEED], 512, seed=1)
    assert values.mean(axis=0) == pytest.approx([7 / 3, 1.0], rel=1e-3)


@pytest.mark.parametrize("numbers", [(2, 1, 3), (1, 2, math.nan), (1, math.inf, math.inf), (0, 3, 2)])
def test_ranges_must_be_in_order(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(DomainError):
        Factor("x", *numbers)


def test_rank_correlation() -> None:
    x = np.arange(10.0)
    assert rank_correlation(x, x**3) == pytest.approx(1)
    assert rank_correlation(x, -x) == pytest.approx(-1)
    assert rank_correlation(x, np.ones(10)) == 0.0


def test_few_draws_that_all_hold_are_no_certainty() -> None:
    factor = Factor("x", 0.5, 1.0, 2.0)
    few = monte_carlo([factor], lambda values: Score(bcr=values["x"], holds=True), samples=16)
    many = monte_carlo([factor], lambda values: Score(bcr=values["x"], holds=True), samples=1024)
    assert few.holds_fraction == many.holds_fraction == 1.0
    assert few.holds_error > 0.1
    assert 0.0 < many.holds_error < 0.01
