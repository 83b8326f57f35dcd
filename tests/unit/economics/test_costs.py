"""Costs of plans: hand-computed examples, and the properties every price list must have."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.domain.chip import Chip, Fabric, Price
from pddplan.domain.plan import LinePlan, Plan, Pool, Role, Shape
from pddplan.domain.sites import Finance, Line, Site, SiteChip, Sites, Tier
from pddplan.economics.costs import (
    bcr,
    line_monthly_cost,
    owned_chip_credit,
    plan_cost,
    pool_monthly_cost_per_instance,
)
from pddplan.economics.unit_costs import chip_price_per_hour, chip_unit_costs
from pddplan.errors import InputError

TP8 = Shape(tp=8)


def chip(chip_id: str = "h100", *, low: float = 1.3, high: float = 6.9, tdp_w: float | None = 700.0) -> Chip:
    return Chip(
        id=chip_id,
        name=chip_id,
        vendor="test",
        year=None,
        peak_flop_per_s={"bf16": 1e15},
        memory_bytes=80e9,
        memory_bandwidth_bytes_per_s=3e12,
        scaleup_bytes_per_s=450e9,
        scaleup_domain_chips=8,
        fabric=Fabric.SWITCH,
        tdp_w=tdp_w,
        price=Price(low, high, source="list", date="2026-04"),
    )


def sites(finance: Finance | None = None, *, site_chip: SiteChip | None = None, tiers: tuple[Tier, ...] = ()) -> Sites:
    own = site_chip or SiteChip("h100")
    ladder = tiers or (Tier(10, 1_500), Tier(40, 5_000, setup_cost=3_600))
    return Sites(
        name="test",
        sites={"A": Site("A", {"h100": own}), "B": Site("B", {"h200": SiteChip("h200")})},
        lines={"AB": Line("AB", "A", "B", ladder, rtt_s=0.01)},
        finance=finance or Finance(),
    )


CHIPS = {"h100": chip(), "h200": chip("h200", low=1.6, high=4.29)}


def plan(*pools: Pool, lines: tuple[LinePlan, ...] = ()) -> Plan:
    return Plan("pdd", 1.0, pools, lines, (), np.ones((0, 0)))


def pool(pool_id: str, site: str = "A", kind: str = "h100", *, instances: int = 1, role: Role = Role.PREFILL) -> Pool:
    return Pool(pool_id, site, role, kind, TP8, instances)


def test_rent_by_hand() -> None:
    # 5 instances of 8 at the low end: 40 x 1.30 x 730 h = 37,960
    cost = plan_cost(plan(pool("P", instances=5)), sites(), CHIPS)
    assert cost.monthly_total == pytest.approx(37_960)
    (item,) = cost.items
    assert (item.site, item.role, item.quantity, item.unit, item.hours) == ("A", "P", 40, "chip", 730)
    assert "low end" in item.source
    assert "2026-04" in item.source


def test_price_position_moves_between_low_and_high() -> None:
    for position, price in ((0.0, 1.3), (0.5, 4.1), (1.0, 6.9)):
        got, _ = chip_price_per_hour(chip(), None, finance=Finance(price_position=position))
        assert got == pytest.approx(price)


def test_site_price_overrides_profile() -> None:
    override = sites(site_chip=SiteChip("h100", price_per_chip_hour=2.0))
    assert pool_monthly_cost_per_instance(override, "A", chip=chip(), shape=TP8) == pytest.approx(8 * 2 * 730)


def test_power_hosting_network_support_and_spares_by_hand() -> None:
    finance = Finance(
        power_price_per_kwh=0.10,
        pue=1.5,
        power_load_fraction=0.8,
        host_power_w_per_chip=140.0,
        hosting_per_kw_month=100.0,
        network_per_chip_month=50.0,
        support_fraction=0.05,
        spare_fraction=0.10,
    )
    costs = {unit.item: unit.monthly_cost for unit in chip_unit_costs(sites(finance), "A", chip=chip())}
    assert costs["rent"] == pytest.approx(949.0)
    assert costs["spare chips (rent)"] == pytest.approx(94.9)
    assert costs["power"] == pytest.approx(0.7 * 1.5 * 0.10 * 730)  # (700 x 0.8 + 140) W = 0.7 kW
    assert costs["hosting"] == pytest.approx(70.0)
    assert costs["NIC and switch share"] == pytest.approx(50.0)
    assert costs["support"] == pytest.approx(0.05 * (949 + 94.9 + 76.65 + 70 + 50))


def test_purchase_is_an_annuity() -> None:
    # 12 months at 0 %: (24,000 - 2,400) / 12 = 1,800 a month
    finance = Finance(acquisition="purchase", amortisation_years=1, residual_fraction=0.1, cost_of_capital_fraction=0)
    bought = sites(finance, site_chip=SiteChip("h100", purchase_price_per_chip=24_000))
    units = {unit.item: unit for unit in chip_unit_costs(bought, "A", chip=chip())}
    assert units["purchase"].monthly_cost == pytest.approx(1_800)
    assert units["power: not priced"].monthly_cost == 0  # a part that is missing says so in its own line


def test_rent_may_contain_the_running_costs() -> None:
    finance = Finance(power_price_per_kwh=0.1, hosting_per_kw_month=100, rent_includes_running_costs=True)
    rented = chip_unit_costs(sites(finance), "A", chip=chip())
    assert [unit.item for unit in rented] == ["rent"]
    own = SiteChip("h100", acquisition="purchase", purchase_price_per_chip=24_000)
    bought = chip_unit_costs(sites(finance, site_chip=own), "A", chip=chip())
    assert [unit.item for unit in bought] == ["purchase", "power", "hosting"]


def test_line_has_setup_ports_and_both_ends() -> None:
    finance = Finance(cross_connect_per_end_month=300, line_term_months=36, cost_of_capital_fraction=0)
    tier = Tier(40, 5_000, setup_cost=3_600, port_monthly_cost_per_end=200)
    got = line_monthly_cost(sites().lines["AB"], 40, sites=sites(finance, tiers=(tier,)))
    assert got == pytest.approx(5_000 + 100 + 2 * 300)  # this ladder has no port
    with_port = sites(finance, tiers=(tier,))
    assert line_monthly_cost(with_port.lines["AB"], 40, sites=with_port) == pytest.approx(5_000 + 100 + 400 + 600)


def test_currencies_meet_in_the_finance_currency() -> None:
    finance = Finance(currency="CNY", usd_per_currency=1 / 7)
    in_cny = plan_cost(plan(pool("P"), lines=(LinePlan("AB", 10),)), sites(finance), CHIPS)
    in_usd = plan_cost(plan(pool("P"), lines=(LinePlan("AB", 10),)), sites(), CHIPS)
    assert in_cny.currency == "CNY"
    assert in_cny.monthly_total == pytest.approx(7 * in_usd.monthly_total)


def test_unknown_currency_is_named() -> None:
    foreign = sites(tiers=(Tier(10, 1_000, currency="EUR"),))
    with pytest.raises(InputError, match="no exchange rate for 'EUR'"):
        line_monthly_cost(foreign.lines["AB"], 10, sites=foreign)


def test_owned_chips_are_free_up_to_their_number() -> None:
    owned = sites(site_chip=SiteChip("h100", owned_chips=20))
    assert owned_chip_credit(owned, "A", chip=chip()) == pytest.approx(949)
    cost = plan_cost(plan(pool("P", instances=2), pool("R", instances=1, role=Role.RELAY)), owned, CHIPS)
    assert cost.monthly_total == pytest.approx((24 - 20) * 949)
    all_owned = plan_cost(plan(pool("P", instances=2)), owned, CHIPS)
    assert all_owned.monthly_total == pytest.approx(0, abs=1e-6)


@given(
    parts=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    price=st.floats(0.01, 50),
    hours=st.floats(600, 750),
)
def test_a_fleet_that_is_owned_costs_nothing_at_all(parts: list[int], price: float, hours: float) -> None:
    """Pools are billed one by one and the credit in one sum: what rounding leaves between them is not money."""
    have = SiteChip("h100", owned_chips=8 * sum(parts), price_per_chip_hour=price)
    owned = sites(Finance(hours_per_month=hours), site_chip=have)
    pools = [pool(f"P{i}", instances=count) for i, count in enumerate(parts)]
    cost = plan_cost(plan(*pools), owned, CHIPS)
    assert cost.monthly_total == 0
    assert bcr(1.0, cost) == math.inf


def test_owned_chips_need_no_price() -> None:
    nameless = {"h100": replace(chip(), price=None)}
    owned = sites(site_chip=SiteChip("h100", owned_chips=16))
    assert plan_cost(plan(pool("P", instances=2)), owned, nameless).monthly_total == 0
    with pytest.raises(InputError, match="chip 'h100' has no price"):
        plan_cost(plan(pool("P", instances=3)), owned, nameless)


def test_missing_prices_are_all_named_with_what_to_do() -> None:
    nameless = {"h100": replace(chip(), price=None), "h200": replace(chip("h200"), price=None)}
    with pytest.raises(InputError) as caught:
        plan_cost(plan(pool("P"), pool("D", "B", "h200", role=Role.DECODE)), sites(), nameless)
    assert [("h100" in p.what, "h200" in p.what) for p in caught.value.problems] == [(True, False), (False, True)]
    assert all("price_per_chip_hour" in p.fix for p in caught.value.problems)


def test_unknown_tier_site_chip_and_line() -> None:
    for broken, words in (
        (plan(lines=(LinePlan("AB", 25),)), "no tier of 25"),
        (plan(lines=(LinePlan("BA", 10),)), "'BA', which is unknown"),
        (plan(pool("P", "C")), "site 'C' is unknown"),
        (plan(pool("P", "A", "h10")), "did you mean 'h100'"),
    ):
        with pytest.raises(InputError, match=words):
            plan_cost(broken, sites(), CHIPS)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_prices_must_be_numbers_of_money(bad: float) -> None:
    with pytest.raises(InputError, match="price of h100 must be finite and at least 0"):
        plan_cost(plan(pool("P")), sites(site_chip=SiteChip("h100", price_per_chip_hour=bad)), CHIPS)


def test_bcr_is_per_thousand_and_zero_without_goodput() -> None:
    cost = plan_cost(plan(pool("P", instances=5)), sites(), CHIPS)
    assert bcr(11.5, cost) == pytest.approx(11.5 / 37.96)
    assert bcr(0.0, cost) == 0.0
    assert bcr(1.0, replace(cost, monthly_total=0.0)) == math.inf


counts = st.integers(0, 50)
rich_finance = st.builds(
    Finance,
    support_fraction=st.floats(0, 0.5),
    spare_fraction=st.floats(0, 0.5),
    power_price_per_kwh=st.floats(0, 1),
    hosting_per_kw_month=st.floats(0, 500),
    price_position=st.floats(0, 1),
)


def mixed_plan(p: int, r: int, d: int, lines: int) -> Plan:
    return plan(
        pool("P", instances=p),
        pool("R", instances=r, role=Role.RELAY),
        pool("D", "B", "h200", instances=d, role=Role.DECODE),
        lines=(LinePlan("AB", 40, lines),),
    )


@settings(max_examples=30, deadline=None)
@given(p=counts, r=counts, d=counts, lines=st.integers(0, 3), finance=rich_finance, owned=st.integers(0, 400))
def test_cost_is_the_sum_of_its_items_and_linear_in_counts(
    p: int, r: int, d: int, lines: int, finance: Finance, owned: int
) -> None:
    place = sites(finance, site_chip=SiteChip("h100", owned_chips=owned))
    cost = plan_cost(mixed_plan(p, r, d, lines), place, CHIPS)
    assert cost.monthly_total == pytest.approx(math.fsum(item.monthly_cost for item in cost.items))
    for item in cost.items:
        assert item.monthly_cost == pytest.approx(item.quantity * item.unit_price * item.hours)
    h100 = pool_monthly_cost_per_instance(place, "A", chip=CHIPS["h100"], shape=TP8)
    h200 = pool_monthly_cost_per_instance(place, "B", chip=CHIPS["h200"], shape=TP8)
    used = min(owned, (p + r) * 8 * (1 + finance.spare_fraction))
    by_hand = (p + r) * h100 + d * h200 + lines * line_monthly_cost(place.lines["AB"], 40, sites=place)
    by_hand -= used * owned_chip_credit(place, "A", chip=CHIPS["h100"])
    assert cost.monthly_total == pytest.approx(by_hand, abs=1e-6)
    reordered = mixed_plan(p, r, d, lines)
    reordered = replace(reordered, pools=reordered.pools[::-1])
    assert plan_cost(reordered, place, CHIPS).monthly_total == pytest.approx(cost.monthly_total)
    assert plan_cost(mixed_plan(p + 1, r, d, lines), place, CHIPS).monthly_total >= cost.monthly_total - 1e-6


@settings(max_examples=20, deadline=None)
@given(factor=st.floats(0.1, 10), p=st.integers(1, 9), d=counts, finance=rich_finance)
def test_scaling_all_prices_scales_the_cost(factor: float, p: int, d: int, finance: Finance) -> None:
    scaled_chips = {
        key: replace(c, price=Price(c.price.low_per_chip_hour * factor, c.price.high_per_chip_hour * factor))
        for key, c in CHIPS.items()
        if c.price
    }
    scaled_finance = replace(
        finance,
        power_price_per_kwh=finance.power_price_per_kwh * factor,
        hosting_per_kw_month=finance.hosting_per_kw_month * factor,
    )
    tiers = tuple(Tier(t.gbps, t.monthly_cost * factor, t.setup_cost * factor) for t in sites().lines["AB"].tiers)
    base = plan_cost(mixed_plan(p, 1, d, 1), sites(finance), CHIPS)
    scaled = plan_cost(mixed_plan(p, 1, d, 1), sites(scaled_finance, tiers=tiers), scaled_chips)
    assert scaled.monthly_total == pytest.approx(factor * base.monthly_total)
