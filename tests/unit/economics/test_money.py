"""Annuities, present values and exchange rates."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.domain.sites import Finance
from pddplan.economics.money import capital_monthly_cost, convert, monthly_rate, present_value
from pddplan.errors import DomainError, InputError


def test_annuity_by_hand() -> None:
    # 100,000 over 24 months at 1 % a month: textbook payment 4,707.35
    annual = 1.01**12 - 1
    assert monthly_rate(annual) == pytest.approx(0.01)
    assert capital_monthly_cost(100_000, 24, annual_rate_fraction=annual) == pytest.approx(4_707.35, abs=0.01)


def test_annuity_with_residual_value_repays_exactly() -> None:
    charge = capital_monthly_cost(30_000, 48, residual=3_000, annual_rate_fraction=0.08)
    paid = math.fsum(present_value(charge, month, annual_rate_fraction=0.08) for month in range(1, 49))
    assert paid + present_value(3_000, 48, annual_rate_fraction=0.08) == pytest.approx(30_000)


@settings(max_examples=40, deadline=None)
@given(price=st.floats(1, 1e6), months=st.integers(1, 120), rate=st.floats(0, 0.5))
def test_annuity_is_at_least_straight_amortisation(price: float, months: int, rate: float) -> None:
    assert capital_monthly_cost(price, months, annual_rate_fraction=rate) >= price / months * (1 - 1e-9)


@pytest.mark.parametrize(
    ("price", "months", "residual", "rate"),
    [(-1, 12, 0, 0.1), (1, 0, 0, 0.1), (1, 12, 2, 0.1), (1, 12, 0, -1), (math.nan, 12, 0, 0.1), (1, math.inf, 0, 0)],
)
def test_annuity_refuses_what_makes_no_sense(price: float, months: float, residual: float, rate: float) -> None:
    with pytest.raises(DomainError):
        capital_monthly_cost(price, months, residual=residual, annual_rate_fraction=rate)


def test_conversion_goes_through_dollars() -> None:
    finance = Finance(currency="EUR", usd_per_currency=1.25, usd_per={"CNY": 0.15})
    assert convert(100, "EUR", finance=finance) == 100
    assert convert(100, "USD", finance=finance) == pytest.approx(80)
    assert convert(100, "CNY", finance=finance) == pytest.approx(12)
    with pytest.raises(DomainError):
        convert(1, "CNY", finance=Finance(usd_per={"CNY": 0.0}))


def test_dollars_are_never_taken_for_another_currency() -> None:
    """A file in CNY may state all prices in CNY; a published price in USD needs a rate."""
    finance = Finance(currency="CNY")
    assert convert(5, "CNY", finance=finance) == 5
    with pytest.raises(InputError) as caught:
        convert(5, "USD", finance=finance)
    assert "no exchange rate for 'CNY'" in caught.value.problems[0].what
    assert "usd_per_currency" in (caught.value.problems[0].fix or "")
    assert convert(7, "USD", finance=Finance(currency="CNY", usd_per={"CNY": 0.14})) == pytest.approx(50)
