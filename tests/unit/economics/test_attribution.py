"""Cost per million tokens: the parts add up to the total."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.domain.outcome import Cost, CostItem
from pddplan.economics.attribution import token_cost
from pddplan.economics.revenue import TokenVolume
from pddplan.errors import DomainError


def item(role: str, amount: float) -> CostItem:
    return CostItem("A", role, "x", 1, "chip", amount, 1, amount, "USD", "test")


def cost(*items: CostItem) -> Cost:
    return Cost("USD", math.fsum(i.monthly_cost for i in items), items)


VOLUME = TokenVolume(miss_tokens=10e6, cached_tokens=90e6, output_tokens=5e6)


def test_by_hand() -> None:
    got = token_cost(
        cost(item("P", 400), item("line", 100), item("RLD", 50), item("MD", 450)), VOLUME, context_share=0.2
    )
    assert got.miss_per_mtok == pytest.approx(500 * 0.8 / 10)
    assert got.cached_per_mtok == pytest.approx(500 * 0.2 / 90)
    assert got.output_per_mtok == pytest.approx(500 / 5)
    assert got.input_per_mtok == pytest.approx(5.0)
    assert got.all_per_mtok == pytest.approx(1_000 / 105)


def test_owned_credit_lowers_both_sides_alike() -> None:
    got = token_cost(cost(item("P", 400), item("MD", 600), item("site", -500)), VOLUME, context_share=0.0)
    assert (got.miss_monthly_cost, got.output_monthly_cost) == (pytest.approx(200), pytest.approx(300))


def test_aggregated_pools_need_their_prefill_share() -> None:
    got = token_cost(cost(item("AGG", 1_000)), VOLUME, context_share=0.0, aggregated_prefill_share=0.3)
    assert got.miss_monthly_cost == pytest.approx(300)
    with pytest.raises(DomainError):
        token_cost(cost(item("AGG", 1_000)), VOLUME, context_share=0.0)


def test_nothing_cached_means_no_cached_cost() -> None:
    got = token_cost(cost(item("P", 100)), TokenVolume(1e6, 0.0, 0.0), context_share=0.5)
    assert got.cached_per_mtok is None
    assert got.miss_per_mtok == pytest.approx(100)


@settings(max_examples=40, deadline=None)
@given(
    amounts=st.lists(st.tuples(st.sampled_from(["P", "RLD", "MD", "AGG", "line"]), st.floats(0, 1e6)), max_size=6),
    share=st.floats(0, 1),
    aggregated=st.floats(0, 1),
)
def test_parts_add_up(amounts: list[tuple[str, float]], share: float, aggregated: float) -> None:
    whole = cost(*(item(role, amount) for role, amount in amounts))
    got = token_cost(whole, VOLUME, context_share=share, aggregated_prefill_share=aggregated)
    assert got.monthly_total == pytest.approx(whole.monthly_total)
    assert min(got.miss_monthly_cost, got.cached_monthly_cost, got.output_monthly_cost) >= -1e-6
