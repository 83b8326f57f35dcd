"""PDD technical report: cost and BCR of 43 H100 + 32 H200 + a line against 88 H100, and the bathtub form.

The report gives the chip counts, the throughputs (9.0 and 11.5 req/s) and the price premium of H200 over H100
(20 to 30 %); cost and BCR follow. The line costs 0.3 to 0.4 of one H100 (inferred; 0.35 taken).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pddplan.domain.chip import Chip, Fabric, Price
from pddplan.domain.plan import LinePlan, Plan, Pool, Role, Shape
from pddplan.domain.sites import Line, Site, SiteChip, Sites, Tier
from pddplan.domain.token_price import TokenPrice
from pddplan.domain.workload import RequestClasses
from pddplan.economics.bathtub import ServingCost, bathtub_curve
from pddplan.economics.breakeven import break_even_factor, linear_cost
from pddplan.economics.costs import bcr, plan_cost

H100_PER_HOUR = 2.0
ONE = Shape()


def chip(chip_id: str, price: float) -> Chip:
    return Chip(
        id=chip_id,
        name=chip_id,
        vendor="NVIDIA",
        year=2023,
        peak_flop_per_s={"bf16": 1e15},
        memory_bytes=80e9,
        memory_bandwidth_bytes_per_s=3e12,
        scaleup_bytes_per_s=450e9,
        scaleup_domain_chips=8,
        fabric=Fabric.SWITCH,
        price=Price(price, price),
    )


def sites() -> Sites:
    line = Line("l", "a", "b", (Tier(40, 0.35 * H100_PER_HOUR * 730),), rtt_s=0.01)
    chips = {"h100": SiteChip("h100")}
    return Sites("pdd", {"a": Site("a", chips), "b": Site("b", {"h200": SiteChip("h200")})}, {"l": line})


def plan(*pools: Pool, lines: tuple[LinePlan, ...] = ()) -> Plan:
    return Plan("pdd", 1.0, pools, lines, (), np.ones((0, 0)))


PDD = plan(
    Pool("P", "a", Role.PREFILL, "h100", ONE, 40),
    Pool("RLD", "a", Role.RELAY, "h100", ONE, 3),
    Pool("MD", "b", Role.DECODE, "h200", ONE, 32),
    lines=(LinePlan("l", 40),),
)
BASELINE = plan(Pool("P", "a", Role.PREFILL, "h100", ONE, 44), Pool("MD", "a", Role.DECODE, "h100", ONE, 44))


@pytest.mark.parametrize(("premium", "cost_change", "bcr_gain"), [(0.20, -0.071, 0.375), (0.30, -0.035, 0.324)])
def test_cost_and_bcr_against_the_baseline(premium: float, cost_change: float, bcr_gain: float) -> None:
    chips = {"h100": chip("h100", H100_PER_HOUR), "h200": chip("h200", H100_PER_HOUR * (1 + premium))}
    new, old = (plan_cost(p, sites(), chips) for p in (PDD, BASELINE))
    assert new.monthly_total / old.monthly_total - 1 == pytest.approx(cost_change, abs=0.001)
    assert bcr(11.5, new) / bcr(9.0, old) - 1 == pytest.approx(bcr_gain, abs=0.002)


def test_h200_could_cost_more_than_twice_an_h100() -> None:
    """Break-even premium: (43 + 0.35 + 32 x) / 11.5 = 88 / 9, so x = 2.16."""
    chips = {"h100": chip("h100", H100_PER_HOUR), "h200": chip("h200", H100_PER_HOUR)}

    def cost(of: Plan):  # type: ignore[no-untyped-def]
        return linear_cost(
            lambda x: (
                plan_cost(
                    of, sites(), {**chips, "h200": replace(chips["h200"], price=Price(2 * x, 2 * x))}
                ).monthly_total
            )
        )

    factor = break_even_factor(11.5, cost(PDD), baseline_goodput_rps=9.0, baseline_cost=cost(BASELINE))
    assert factor == pytest.approx((88 / 9 * 11.5 - 43.35) / 32)


def test_bathtub_when_only_attention_counts() -> None:
    """(1 - 0.9 h) / (1 - h^2): 1.00, 0.73, 0.725, 1.00, 1.49 at h = 0, 0.5, 0.7, 0.9, 0.95."""
    length = np.array([65_536.0])
    classes = RequestClasses(np.ones(1), length, length / 10, length / 10, np.zeros(1))
    serving = ServingCost(lambda m, c: m * (c + m / 2), prefill_cost_per_s=1.0, decode_cost_per_request=0.0)
    rates = np.array([0.0, 0.5, 0.7, 0.9, 0.95])
    price = TokenPrice("k = 0.10", miss_per_mtok=1.0, cached_per_mtok=0.1, output_per_mtok=0.0)
    curve = bathtub_curve(classes, rates, serving=serving, price=price, finance=sites().finance)
    assert curve.relative == pytest.approx([1.00, 0.73, 0.725, 1.00, 1.49], abs=0.006)
    assert curve.relative == pytest.approx((1 - 0.9 * rates) / (1 - rates**2))
