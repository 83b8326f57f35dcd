"""Rent or buy, and the reserved base, by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.economics.purchase import rent_or_buy, reserve_base
from pddplan.errors import DomainError


def test_break_even_without_interest() -> None:
    got = rent_or_buy(1_000, 24_000, amortisation_years=4, residual_fraction=0, annual_rate_fraction=0)
    assert got.break_even_months == pytest.approx(24)
    assert got.purchase_monthly_cost == pytest.approx(500)
    assert got.cheaper == "purchase"


def test_running_cost_and_interest_move_break_even_out() -> None:
    annual = 1.01**12 - 1
    got = rent_or_buy(
        1_000,
        24_000,
        amortisation_years=4,
        residual_fraction=0,
        annual_rate_fraction=annual,
        running_monthly_cost=200,
    )
    # 24,000 x 1 % = 240 of 800 saved: n = -ln(1 - 0.3) / ln(1.01)
    assert got.break_even_months == pytest.approx(-math.log(0.7) / math.log(1.01))


def test_rent_that_never_pays_the_interest() -> None:
    got = rent_or_buy(100, 24_000, amortisation_years=4, residual_fraction=0, annual_rate_fraction=0.1)
    assert got.break_even_months is None
    assert got.cheaper == "rent"


def test_reserved_base_by_hand() -> None:
    # 12 hours at 8 chips, 12 at 16; on-demand costs 3x: second half is used half the day, 0.5 > 1/3, so reserve all
    demand = [8.0] * 12 + [16.0] * 12
    dear = reserve_base(demand, 1.0, on_demand_price_per_chip_hour=3.0, hours_per_month=720)
    assert (dear.reserved_chips, dear.monthly_cost) == (16, pytest.approx(16 * 720))
    cheap = reserve_base(demand, 1.0, on_demand_price_per_chip_hour=1.5, hours_per_month=720)
    assert cheap.reserved_chips == 8
    assert cheap.monthly_cost == pytest.approx(8 * 720 + 8 * 12 * 1.5 * 30)
    assert cheap.on_demand_chip_hours_per_day == 96


@settings(max_examples=40, deadline=None)
@given(demand=st.lists(st.floats(0, 100), min_size=24, max_size=24), dear=st.floats(0.2, 5), step=st.integers(1, 8))
def test_the_mix_is_never_dearer_than_one_kind_alone(demand: list[float], dear: float, step: int) -> None:
    got = reserve_base(demand, 1.0, on_demand_price_per_chip_hour=dear, hours_per_month=730, step_chips=step)
    tolerance = 1 + 1e-9
    assert got.monthly_cost <= got.all_reserved_monthly_cost * tolerance
    assert got.monthly_cost <= got.all_on_demand_monthly_cost * tolerance
    assert math.isclose(got.reserved_chips % step, 0)


@pytest.mark.parametrize("demand", [[1.0] * 23, [math.nan] * 24, [-1.0] * 24])
def test_bad_profiles_are_refused(demand: list[float]) -> None:
    with pytest.raises(DomainError):
        reserve_base(demand, 1.0, on_demand_price_per_chip_hour=2.0, hours_per_month=730)
