"""Phased purchases and line upgrades: by hand, and never a stranded unit."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.domain.sites import Finance, Line, Site, Sites, Tier
from pddplan.economics.growth import GrowthPlan, UnitTerms, line_path, monthly_demand, phase_units
from pddplan.errors import DomainError, InputError

TERMS = UnitTerms(rent_monthly_cost=100, purchase_price=1_000, running_monthly_cost=20, life_months=48)


def sites(*tiers: Tier) -> Sites:
    line = Line("AB", "A", "B", tiers, rtt_s=0.01)
    return Sites("test", {"A": Site("A", {}), "B": Site("B", {})}, {"AB": line}, Finance())


def test_demand_of_quarters_becomes_demand_of_months() -> None:
    assert monthly_demand([1.0, 2.5]) == [1.0, 1.0, 1.0, 2.5, 2.5, 2.5]
    with pytest.raises(DomainError):
        monthly_demand([1.0, math.nan])


def test_a_lasting_need_is_bought_and_a_passing_one_rented() -> None:
    # 24 months: the first unit is needed throughout (buy: 1,000 + 480 - 500 left = 980 < 2,400 rent);
    # the second only in months 3-4 (rent 200).
    needed = [1, 1, 2, 2] + [1] * 20
    rows = phase_units("P", needed, terms=TERMS, annual_rate_fraction=0.0)
    assert [row.bought for row in rows] == [1] + [0] * 23
    assert [row.rented for row in rows] == [0, 0, 1, 1] + [0] * 20
    assert GrowthPlan("USD", rows).net_present_cost == pytest.approx(980 + 200)


def test_a_short_horizon_rents() -> None:
    rows = phase_units("P", [1, 1], terms=UnitTerms(100, 10_000), annual_rate_fraction=0.5)
    assert [row.rented for row in rows] == [1, 1]


def test_a_unit_older_than_its_life_is_bought_again() -> None:
    terms = UnitTerms(rent_monthly_cost=1_000, purchase_price=600, residual_fraction=0.1, life_months=6)
    rows = phase_units("P", [1] * 9, terms=terms, annual_rate_fraction=0.0)
    # 600, again 600 less 60 for the old one after 6 months; left at the end after 3 of 6 months: 600 x (1 - 0.45)
    assert [row.cash for row in rows] == pytest.approx([600, 0, 0, 0, 0, 0, 540, 0, -330])


def test_line_moves_up_when_needed_and_early_when_that_saves_a_set_up() -> None:
    place = sites(Tier(10, 100, setup_cost=500), Tier(40, 150, setup_cost=500))
    short = line_path(place.lines["AB"], [5] * 3 + [30] * 9, sites=place, annual_rate_fraction=0.0)
    # Thin first: 3 x 100 + 500 + 9 x 150 + 500 = 2,650; thick at once: 12 x 150 + 500 = 2,300
    assert [row.rented for row in short] == [40] * 12
    assert math.fsum(row.cash for row in short) == pytest.approx(2_300)
    long = line_path(place.lines["AB"], [5] * 30 + [30] * 9, sites=place, annual_rate_fraction=0.0)
    assert [row.rented for row in long] == [10] * 30 + [40] * 9


def test_no_line_where_none_is_needed_and_an_error_where_none_is_thick_enough() -> None:
    place = sites(Tier(10, 100))
    assert [r.cash for r in line_path(place.lines["AB"], [0, 5], sites=place, annual_rate_fraction=0)] == [0, 100]
    with pytest.raises(InputError, match="thickest tier"):
        line_path(place.lines["AB"], [50], sites=place, annual_rate_fraction=0.0)


@settings(max_examples=40, deadline=None)
@given(needed=st.lists(st.integers(0, 6), min_size=1, max_size=18), rate=st.floats(0, 0.3))
def test_nothing_bought_is_ever_idle_and_every_need_is_met(needed: list[int], rate: float) -> None:
    rows = phase_units("P", needed, terms=TERMS, annual_rate_fraction=rate)
    plan = GrowthPlan("USD", rows)
    assert plan.idle_owned_unit_months == 0
    assert [row.owned + row.rented for row in rows] == needed
    owned = [row.owned for row in rows]
    assert owned == sorted(owned)
    only_rent = phase_units("P", needed, terms=UnitTerms(100), annual_rate_fraction=rate)
    assert plan.net_present_cost <= GrowthPlan("USD", only_rent).net_present_cost + 1e-6


@settings(max_examples=25, deadline=None)
@given(needed=st.lists(st.sampled_from([0.0, 5.0, 30.0, 90.0]), min_size=1, max_size=5), setup=st.floats(0, 1_000))
def test_line_path_equals_brute_force(needed: list[float], setup: float) -> None:
    tiers = (Tier(10, 100, setup_cost=setup), Tier(40, 150, setup_cost=setup), Tier(100, 300, setup_cost=setup))
    place = sites(*tiers)
    rows = line_path(place.lines["AB"], needed, sites=place, annual_rate_fraction=0.0)
    assert all(row.rented >= row.needed for row in rows)

    def price(path: tuple[int, ...]) -> float:
        total, before = 0.0, -1
        for rung, need in zip(path, needed, strict=True):
            if (tiers[rung].gbps if rung >= 0 else 0.0) < need:
                return math.inf
            if rung >= 0:
                total += tiers[rung].monthly_cost + (setup if rung != before else 0.0)
            before = rung
        return total

    best = min(price(path) for path in itertools.product(range(-1, 3), repeat=len(needed)))
    assert math.fsum(row.cash for row in rows) == pytest.approx(best)
