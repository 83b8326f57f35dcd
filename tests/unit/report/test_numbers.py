"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.report.numbers import amount, bar, money, percent, plain_text, quantity, seconds, short


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.104, "0.104"),
        (11.52, "11.5"),
        (9.996, "10.0"),
        (999.6, "1,000"),
        (121_432, "121,000"),
        (-0.0, "0"),
        (-3.14159, "-3.14"),
        (1e-9, "1.00e-09"),
        (3e18, "3.00e+18"),
        (math.inf, "never"),
        (math.nan, "-"),
        (None, "-"),
    ],
)
def test_short(value: float | None, text: str) -> None:
    assert short(value) == text


def test_units() -> None:
    assert seconds(0.42) == "420 ms"
    assert seconds(4.2) == "4.20 s"
    assert seconds(0.99999) == "1.00 s"
    assert seconds(math.inf) == "never"
    assert percent(0.0623) == "6.2 %"
    assert percent(0.338, signed=True) == "+34 %"
    assert percent(-0.02, signed=True) == "-2 %"
    assert percent(-0.0001) == "-0.01 %"
    assert percent(math.nan) == "-"
    assert [percent(x) for x in (0.996, 0.9997, 1.0, 1.004, 1.04, 1 - 1e-9)] == [
        "99.6 %",
        "99.97 %",
        "100 %",
        "100.4 %",
        "104 %",
        "100 %",
    ]
    assert percent(-0.9999, signed=True) == "-99.99 %"
    assert percent(1.9e-9, signed=True) == "0 %"
    assert seconds(8e-69) == "0 s"
    assert seconds(2e-6) == "0.00200 ms"
    assert money(121_432, "USD") == "121,000 USD"
    assert money(34_512_345, "CNY") == "34.5 million CNY"
    assert quantity(1024.0) == "1,024"
    assert quantity(3.5) == "3.50"


def test_amounts_in_a_list_add_up() -> None:
    assert [amount(value) for value in (65_875.2, 27_448.0, 2_450.0, 95_773.2)] == [
        "65,875",
        "27,448",
        "2,450",
        "95,773",
    ]
    assert amount(1.88) == "1.88"
    assert amount(math.inf) == "never"


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_short_keeps_three_digits_of_anything(value: float) -> None:
    text = short(value)
    assert text
    if 0 < abs(value) < 1e300:
        assert float(text.replace(",", "")) == pytest.approx(value, rel=6e-3)


@given(st.floats(allow_nan=True, allow_infinity=True), st.integers(0, 50))
def test_bars_have_their_width(fraction: float, width: int) -> None:
    assert len(bar(fraction, width)) == width


def test_names_cannot_steer_the_terminal() -> None:
    assert plain_text("a\x1b[31mb\nc\u202ed") == "a?[31mb?c?d"
