"""Revenue at list prices, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pddplan.domain.sites import Finance
from pddplan.domain.token_price import TokenPrice
from pddplan.domain.workload import RequestClasses
from pddplan.economics.revenue import (
    monthly_revenue,
    monthly_tokens,
    request_revenue,
    tokens_per_request,
    with_cached_ratio,
)
from pddplan.errors import DomainError, InputError

PRICE = TokenPrice("test", miss_per_mtok=2.0, cached_per_mtok=0.2, output_per_mtok=8.0)


def classes() -> RequestClasses:
    return RequestClasses(
        weight=np.array([0.75, 0.25]),
        input_tokens=np.array([64_000.0, 40_000.0]),
        miss_prefill_tokens=np.array([1_000.0, 20_000.0]),
        miss_decode_tokens=np.array([1_000.0, 20_000.0]),
        output_tokens=np.array([1_000.0, 500.0]),
    )


def test_tokens_and_revenue_by_hand() -> None:
    volume = tokens_per_request(classes())
    assert (volume.miss_tokens, volume.cached_tokens, volume.output_tokens) == (5_750, 52_250, 875)
    # per request: 5,750 x 2 + 52,250 x 0.2 + 875 x 8 = 28,950 micro-dollars
    finance = Finance(hours_per_month=100)
    revenue = monthly_revenue(classes(), 2.0, price=PRICE, finance=finance)
    assert revenue == pytest.approx(0.02895 * 2 * 360_000)
    assert monthly_tokens(classes(), 2.0, finance=finance).miss_tokens == pytest.approx(5_750 * 720_000)


def test_cached_ratio_replaces_the_list() -> None:
    half = with_cached_ratio(PRICE, 0.5)
    one = np.array(1e6)
    zero = np.array(0.0)
    assert request_revenue(half, miss_tokens=zero, cached_tokens=one, output_tokens=zero, finance=Finance()) == 1.0
    with pytest.raises(DomainError):
        with_cached_ratio(PRICE, -0.1)


def test_a_list_without_cached_price_is_not_guessed() -> None:
    with pytest.raises(InputError, match="no price for cached tokens"):
        with_cached_ratio(TokenPrice("x", 1.0, None, 2.0), None)


def test_revenue_in_another_currency() -> None:
    euro = Finance(currency="EUR", usd_per_currency=1.25)
    assert monthly_revenue(classes(), 1.0, price=PRICE, finance=euro) == pytest.approx(
        monthly_revenue(classes(), 1.0, price=PRICE, finance=Finance()) / 1.25
    )
