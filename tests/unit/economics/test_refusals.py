"""What the formulas of money refuse, and what they say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pddplan.domain.outcome import Cost
from pddplan.domain.sites import Finance, Site, SiteChip
from pddplan.domain.workload import RequestClasses
from pddplan.economics.attribution import token_cost
from pddplan.economics.bathtub import BathtubCurve
from pddplan.economics.bathtub_reading import chunk_boundaries, predicted_notches, read_curve
from pddplan.economics.breakeven import LinearCost, crossings
from pddplan.economics.costs import plan_cost
from pddplan.economics.growth import UnitTerms, phase_units
from pddplan.economics.purchase import reserve_base
from pddplan.economics.revenue import TokenVolume, seconds_per_month
from pddplan.economics.uncertainty import Factor, quasi_random_values
from pddplan.economics.unit_costs import chip_power_w, chip_price_per_hour, chip_unit_costs
from pddplan.errors import InputError
from tests.unit.economics.test_costs import chip, plan, pool, sites

CLASSES = RequestClasses(np.ones(1), np.array([8.0]), np.array([4.0]), np.array([4.0]), np.zeros(1))


def power(**numbers: float) -> Any:
    return sites(Finance(power_price_per_kwh=0.1, **numbers))


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: token_cost(Cost("USD", 0, ()), TokenVolume(1, 1, 1), context_share=1.5), "between 0 and 1"),
        (lambda: chunk_boundaries(0.0, 1.0), "greater than 0"),
        (lambda: predicted_notches(CLASSES, np.array([0.0, 1.0]), chunk_tokens=0.0), "greater than 0"),
        (lambda: phase_units("P", [-1], terms=UnitTerms(1.0), annual_rate_fraction=0.0), "at least 0"),
        (lambda: phase_units("P", [1], terms=UnitTerms(1.0, life_months=0), annual_rate_fraction=0.0), "life of P"),
        (lambda: phase_units("P", [1, 0], terms=UnitTerms(math.inf, 9.0), annual_rate_fraction=0.0), "no rent price"),
        (lambda: reserve_base([1.0] * 24, -1.0, on_demand_price_per_chip_hour=1, hours_per_month=1), "reserved price"),
        (
            lambda: reserve_base([1.0] * 24, 1.0, on_demand_price_per_chip_hour=1, hours_per_month=1, step_chips=0.0),
            "chips per instance",
        ),
        (lambda: seconds_per_month(Finance(hours_per_month=0.0)), "hours_per_month"),
        (lambda: quasi_random_values([Factor("x", 0, 1, 2)], 0, seed=1), "at least 1"),
        (lambda: chip_price_per_hour(chip(), None, finance=Finance(price_position=1.5)), "price_position"),
        (lambda: chip_unit_costs(power(), "A", chip=chip(tdp_w=None)), "chip 'h100' has no TDP"),
        (
            lambda: chip_power_w(chip(tdp_w=None), Site("A", {}, power_limit_kw=9.0), finance=Finance()),
            "take power_limit_kw",
        ),
        (
            lambda: chip_unit_costs(sites(site_chip=SiteChip("h100", acquisition="purchase")), "A", chip=chip()),
            "no purchase price",
        ),
        (lambda: chip_unit_costs(sites(Finance(acquisition="lease")), "A", chip=chip()), "rent or purchase"),
        (lambda: chip_unit_costs(sites(Finance(hours_per_month=math.nan)), "A", chip=chip()), "hours_per_month"),
        (lambda: chip_unit_costs(sites(Finance(spare_fraction=2.0)), "A", chip=chip()), "spare_fraction"),
        (
            lambda: plan_cost(plan(pool("P", instances=10)), sites(), {"h100": chip(low=1e307, high=1e307)}),
            "finite sum",
        ),
    ],
)
def test_refused_in_words(ask: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError) as caught:
        ask()
    assert words in str(caught.value)


def test_sources_of_the_sites_file_reach_the_bill() -> None:
    place = replace(power(), provenance={"finance.power_price_per_kwh": "utility bill (2026-09)"})
    unit = next(unit for unit in chip_unit_costs(place, "A", chip=chip()) if unit.item == "power")
    assert "utility bill (2026-09)" in unit.source


def test_curves_that_end_in_infinity_are_still_read() -> None:
    curve = BathtubCurve(
        np.array([0.0, 0.4, 0.5, 0.6, 1.0]),
        revenue=np.array([1.0, 0.6, 0.8, 0.9, 0.5]),
        cost=np.array([1.0, 1.0, 1.0, 1.0, 0.0]),
        prefill_s=np.ones(5),
    )
    got = read_curve(curve, now_hit_rate=0.5, now_benefit=0.8, min_depth_fraction=0.1)
    assert got.break_even_hit_rate == 1.0
    assert [(notch.hit_rate, notch.explanation) for notch in got.notches] == [(0.4, "no chunk boundary near")]


def test_linear_cost_and_crossings_at_the_edges() -> None:
    assert LinearCost(2.0, 3.0).at(4.0) == 14.0
    x = np.array([0.0, 0.5, 1.0])
    assert crossings(x, np.array([np.inf, 1.0, -1.0]), np.zeros(3)) == pytest.approx((0.75,))
