"""Break-even prices and crossings, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.economics.breakeven import LinearCost, break_even_factor, crossings, linear_cost


def test_price_premium_of_chip_b_by_hand() -> None:
    # Plan: 11.5 req/s, 43 A at 1 and 32 B at 1.25 x; baseline: 9 req/s on 88 A. Equal where (43+40x)/11.5 = 88/9.
    plan = linear_cost(lambda x: 43 + 32 * 1.25 * x)
    factor = break_even_factor(11.5, plan, baseline_goodput_rps=9.0, baseline_cost=LinearCost(88, 0))
    assert factor is not None
    assert factor == pytest.approx((88 / 9 * 11.5 - 43) / 40)
    assert 1.25 * factor - 1 == pytest.approx(1.17, abs=0.01)  # B may cost 117 % more than A


def test_a_price_that_both_pay_alike_has_no_break_even() -> None:
    assert break_even_factor(2, LinearCost(0, 20), baseline_goodput_rps=1, baseline_cost=LinearCost(0, 10)) is None
    assert break_even_factor(2, LinearCost(5, 0), baseline_goodput_rps=1, baseline_cost=LinearCost(9, 0)) is None


def test_a_plan_that_always_wins_has_no_positive_break_even() -> None:
    assert break_even_factor(2, LinearCost(10, -1), baseline_goodput_rps=1, baseline_cost=LinearCost(4, 0)) is not None
    assert break_even_factor(1, LinearCost(10, 1), baseline_goodput_rps=2, baseline_cost=LinearCost(4, 0)) is None


@settings(max_examples=40, deadline=None)
@given(g=st.floats(0.1, 100), b=st.floats(0.1, 100), a0=st.floats(1, 1e3), a1=st.floats(0.1, 1e3), b0=st.floats(1, 1e3))
def test_bcr_is_equal_at_the_break_even(g: float, b: float, a0: float, a1: float, b0: float) -> None:
    factor = break_even_factor(g, LinearCost(a0, a1), baseline_goodput_rps=b, baseline_cost=LinearCost(b0, 0))
    if factor is not None:
        assert g / (a0 + a1 * factor) == pytest.approx(b / b0)


def test_crossings() -> None:
    x = np.linspace(0, 1, 11)
    assert crossings(x, x, np.full(11, 0.55)) == pytest.approx((0.55,))
    assert crossings(x, x, np.full(11, 0.5)) == pytest.approx((0.5,))
    assert crossings(x, x, x + 1) == ()
