"""What a plan costs per month, item by item.

Every total in the program is a sum of the unit costs of ``unit_costs.py``: the optimiser prices one instance with
``pool_monthly_cost_per_instance`` and one tier with ``line_monthly_cost``, and ``plan_cost`` multiplies the same
records by the counts of a plan. So cost is linear in the counts, apart from chips already owned, which take
``owned_chip_credit`` each off the total, up to the number owned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from pddplan.domain.chip import Chip
from pddplan.domain.outcome import Cost, CostItem
from pddplan.domain.plan import LinePlan, Plan
from pddplan.domain.sites import Sites
from pddplan.economics.unit_costs import (
    UnitCost,
    chip_capital,
    chip_unit_costs,
    line_monthly_cost,
    line_unit_costs,
    owned_chip_credit,
    pool_monthly_cost_per_instance,
    with_spares,
)
from pddplan.errors import DomainError, InputError, Problem, ProblemList, did_you_mean
from pddplan.units import KILO

__all__ = [
    "ROLE_IDLE",
    "ROLE_LINE",
    "ROLE_SITE",
    "bcr",
    "cost_item",
    "line_monthly_cost",
    "owned_chip_credit",
    "plan_cost",
    "pool_monthly_cost_per_instance",
]

ROLE_LINE = "line"
ROLE_SITE = "site"
ROLE_IDLE = "idle"
"""Chips of a given fleet that a plan leaves unused."""
ROUNDING = 1e-12
"""Of the sum of all items: what is left below it, where credit takes off all that is paid, is not money."""


def plan_cost(plan: Plan, sites: Sites, chips: Mapping[str, Chip]) -> Cost:
    """Price a whole plan: every pool, every line, the credit for owned chips; items add up to the total.

    Formula:     sum pools chips * unit + sum lines count * unit - sum owned min(owned, needed) * capital
    Parameters:  plan; sites with finance settings; chips by id
    Returns:     Cost with one item per pool or line and kind of cost
    Raises:      InputError naming every chip, site or line that is unknown or has no price.
    Holds when:  as chip_unit_costs and line_unit_costs.
    References:  definition
    """
    currency = sites.finance.currency
    faults = ProblemList()
    items: list[CostItem] = []
    needed: dict[tuple[str, str], float] = {}
    for pool in plan.pools:
        needed[pool.site, pool.chip] = needed.get((pool.site, pool.chip), 0.0) + with_spares(pool.chips, sites.finance)
    for pool in plan.pools:
        if not pool.chips:
            continue
        site = sites.sites.get(pool.site)
        owned = site.chips[pool.chip].owned_chips if site and pool.chip in site.chips else 0
        try:
            units = chip_unit_costs(
                sites, pool.site, chip=_chip(chips, pool.chip), need_price=needed[pool.site, pool.chip] > owned
            )
        except InputError as error:
            faults.problems.extend(problem for problem in error.problems if problem not in faults.problems)
            continue
        role = str(pool.role)
        items += [
            cost_item(unit, pool.chips, site=pool.site, role=role, name=pool.chip, currency=currency) for unit in units
        ]
    for (site_id, chip_id), quantity in needed.items():
        if chip_id in chips and site_id in sites.sites:
            items += _credit(sites, site_id, chip=chips[chip_id], needed=quantity)
    for line_plan in plan.lines:
        if line_plan.count:
            try:
                items += _line_items(line_plan, sites)
            except InputError as error:
                faults.problems.extend(error.problems)
    faults.raise_if_any()
    total = math.fsum(item.monthly_cost for item in items)
    if not math.isfinite(total):
        raise DomainError("monthly cost", "must be a finite sum; check the prices", total)
    if abs(total) <= ROUNDING * math.fsum(abs(item.monthly_cost) for item in items):
        total = 0.0
    return Cost(currency=currency, monthly_total=total, items=tuple(items))


def bcr(goodput_rps: float, cost: Cost) -> float:
    """Benefit-cost ratio: goodput per 1,000 currency units of monthly cost.

    Formula:     BCR = goodput / (monthly cost / 1000)
    Parameters:  goodput_rps [req/s within all promises]; cost
    Returns:     [req/s per 1,000 currency/month]; inf for a free plan that serves something, 0 for one that does not
    Raises:      nothing.
    Holds when:  always; comparable between plans of one currency and one set of promises only.
    References:  pdd-report, A1
    """
    if goodput_rps <= 0:
        return 0.0
    return math.inf if cost.monthly_total <= 0 else goodput_rps / (cost.monthly_total / KILO)


def _credit(sites: Sites, site_id: str, *, chip: Chip, needed: float) -> list[CostItem]:
    site_chip = sites.sites[site_id].chips.get(chip.id)
    if site_chip is None or site_chip.owned_chips <= 0 or needed <= 0:
        return []
    capital = chip_capital(sites, site_id, chip=chip, need_price=False)
    credit = replace(capital, item="chips already owned", quantity=-1.0, source="owned: not paid again")
    used = min(float(site_chip.owned_chips), needed)
    return [cost_item(credit, used, site=site_id, role=ROLE_SITE, name=chip.id, currency=sites.finance.currency)]


def _line_items(line_plan: LinePlan, sites: Sites) -> list[CostItem]:
    line = sites.lines.get(line_plan.line)
    if line is None:
        raise InputError(
            Problem(
                what=f"the plan takes line {line_plan.line!r}, which is unknown"
                + did_you_mean(line_plan.line, sites.lines),
                fix="name a line of the sites file",
                where=f"plan.lines: {line_plan.line}",
            )
        )
    place = f"{line.from_site}-{line.to_site}"
    units = line_unit_costs(line, line_plan.gbps, sites=sites)
    currency = sites.finance.currency
    return [cost_item(u, line_plan.count, site=place, role=ROLE_LINE, name=line.id, currency=currency) for u in units]


def cost_item(unit: UnitCost, count: float, *, site: str, role: str, name: str, currency: str) -> CostItem:
    """A unit cost times a count, as a line of the bill."""
    quantity = unit.quantity * count
    return CostItem(
        site=site,
        role=role,
        item=f"{name}: {unit.item}",
        quantity=quantity,
        unit=unit.unit,
        unit_price=unit.unit_price,
        hours=unit.hours,
        monthly_cost=quantity * unit.unit_price * unit.hours,
        currency=currency,
        source=unit.source,
    )


def _chip(chips: Mapping[str, Chip], chip_id: str) -> Chip:
    if chip_id in chips:
        return chips[chip_id]
    raise InputError(
        Problem(
            what=f"chip {chip_id!r} has no profile{did_you_mean(chip_id, chips)}",
            fix="see `pddplan hardware list`, or add a profile with --profiles DIR",
            where=f"plan.pools: {chip_id}",
        )
    )
