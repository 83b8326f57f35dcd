"""A demand that grows: when to buy or rent which units, when to move to a thicker line, and what it costs today.

Units are instances of a pool. A unit is bought only if it is needed in every month from then on, so nothing bought
ever stands idle; what is needed for a while only is rented. Lines move up their ladder by the cheapest path, so a
thicker line may come early when that saves a second set-up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pddplan.domain.sites import Line, Sites
from pddplan.economics.money import convert, present_value
from pddplan.economics.unit_costs import line_unit_costs
from pddplan.errors import DomainError, InputError, Problem
from pddplan.units import MONTHS_PER_YEAR


@dataclass(frozen=True, slots=True)
class UnitTerms:
    """One instance of a pool under both contracts. ``purchase_price`` None = it can only be rented."""

    rent_monthly_cost: float
    """All items of a rented unit."""
    purchase_price: float | None = None
    running_monthly_cost: float = 0.0
    """Power, hosting, network and support of a bought unit."""
    residual_fraction: float = 0.0
    life_months: float = 48.0


@dataclass(frozen=True, slots=True)
class MonthRow:
    """One kind of unit, or one line, in one month."""

    month: int
    """From 1."""
    kind: str
    needed: float
    owned: float
    rented: float
    bought: float
    """Units bought, or lines newly set up, at the start of this month."""
    cash: float
    """Paid this month, value of what is left over subtracted in the last [currency]."""
    present_value: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class GrowthPlan:
    currency: str
    rows: tuple[MonthRow, ...]

    @property
    def net_present_cost(self) -> float:
        return math.fsum(row.present_value for row in self.rows)

    @property
    def idle_owned_unit_months(self) -> float:
        """Bought but not needed: 0 by construction."""
        return math.fsum(max(0.0, row.owned - row.needed) for row in self.rows)


def phase_units(
    kind: str, needed: Sequence[int], *, terms: UnitTerms, annual_rate_fraction: float
) -> tuple[MonthRow, ...]:
    """Buy or rent each unit of a kind, level by level, at the lower present cost, without ever owning an idle one.

    Formula:     k-th unit: needed in months t with n_t >= k; buy at first need t0 if n_t >= k for all t >= t0 and
                 P v^t0 + running < rent over the same months + value left at the end, else rent in those months
    Parameters:  kind, label; needed n_t, shape (months,) [units]; terms; annual_rate_fraction
    Returns:     one row per month; cash adds up to what is paid, less the value left in the last month
    Raises:      DomainError for negative needs or a life that is not positive; InputError for a passing need
                 without rent price (rent_monthly_cost inf).
    Holds when:  rent can start and stop by the month; a unit older than its life is bought again.
    References:  brealey2020
    """
    if any(n < 0 for n in needed):
        raise DomainError(f"need of {kind}", "must be at least 0 in every month", list(needed))
    if not terms.life_months > 0:
        raise DomainError(f"life of {kind}", "must be greater than 0 months", terms.life_months)
    months = len(needed)
    owned = [0] * months
    bought = [0] * months
    cash = [0.0] * months
    for level in range(1, max(needed, default=0) + 1):
        use = [t for t in range(months) if needed[t] >= level]
        first = use[0]
        lasting = use == list(range(first, months))
        buy = _purchase_cash(terms, first, months)
        rent = dict.fromkeys(use, terms.rent_monthly_cost)
        if lasting and buy is not None and _present(buy, annual_rate_fraction) < _present(rent, annual_rate_fraction):
            bought[first] += 1
            for t in range(first, months):
                owned[t] += 1
            flow = buy
        elif math.isinf(terms.rent_monthly_cost):
            raise InputError(
                Problem(
                    what=f"{kind}: {level} units are needed for a while only, and there is no rent price",
                    fix="give the chip a rent price, or a demand that does not fall",
                    where=f"month {first + 1}",
                )
            )
        else:
            flow = rent
        for t, amount in flow.items():
            cash[t] += amount
    return tuple(
        MonthRow(
            month=t + 1,
            kind=kind,
            needed=needed[t],
            owned=owned[t],
            rented=needed[t] - owned[t],
            bought=bought[t],
            cash=cash[t],
            present_value=present_value(cash[t], t, annual_rate_fraction=annual_rate_fraction),
        )
        for t in range(months)
    )


def _purchase_cash(terms: UnitTerms, first: int, months: int) -> dict[int, float] | None:
    if terms.purchase_price is None:
        return None
    flow = dict.fromkeys(range(first, months), terms.running_monthly_cost)
    bought = first
    while True:
        flow[bought] += terms.purchase_price
        age = months - bought
        if age <= terms.life_months:
            break
        end = bought + math.ceil(terms.life_months)
        flow[end] = flow.get(end, 0.0) - terms.purchase_price * terms.residual_fraction
        bought = end
    left = terms.purchase_price * (1 - (1 - terms.residual_fraction) * min(1.0, age / terms.life_months))
    flow[months - 1] -= left
    return flow


def _present(flow: Mapping[int, float], annual_rate_fraction: float) -> float:
    return math.fsum(present_value(amount, t, annual_rate_fraction=annual_rate_fraction) for t, amount in flow.items())


def line_path(
    line: Line, needed_gbps: Sequence[float], *, sites: Sites, annual_rate_fraction: float
) -> tuple[MonthRow, ...]:
    """Cheapest way up the tariff ladder: at least the needed rate in each month, each move paying its set-up once.

    Formula:     dynamic programme over months and rungs: min sum v^t (rent + set-up if the rung changed)
    Parameters:  line; needed_gbps, shape (months,), 0 = no line needed; sites; annual_rate_fraction
    Returns:     one row per month, ``owned`` = rate leased [Gbit/s]
    Raises:      InputError if no rung is thick enough.
    Holds when:  one line is leased (several parallel ones are given as rungs of their own) and can be given up by the
                 month; a set-up is paid whenever the rung changes.
    References:  definition
    """
    finance = sites.finance
    rungs = sorted(line.tiers, key=lambda tier: tier.gbps)
    top = max(needed_gbps, default=0.0)
    if not rungs or top > rungs[-1].gbps:
        raise InputError(
            Problem(
                what=f"line {line.id!r} would have to carry {top:,.4g} Gbit/s; its thickest tier has "
                f"{rungs[-1].gbps if rungs else 0:,.4g}",
                fix="add a thicker tier to the sites file, or lower the demand",
                where=f"lines.{line.id}.tiers",
            )
        )
    rent = []
    setup = []
    for tier in rungs:
        units = line_unit_costs(line, tier.gbps, sites=sites)
        # Here the set-up is paid when it falls due, not spread over the term as in a monthly cost.
        spread = math.fsum(unit.monthly_cost for unit in units if unit.item == "line set-up")
        rent.append(math.fsum(unit.monthly_cost for unit in units) - spread * (1 + finance.support_fraction))
        setup.append(convert(tier.setup_cost, tier.currency, finance=finance) * (1 + finance.support_fraction))
    choice = _cheapest_rungs([t.gbps for t in rungs], needed_gbps, rent, setup, annual_rate_fraction)
    rows = []
    for t, rung in enumerate(choice):
        new = rung is not None and (t == 0 or choice[t - 1] != rung)
        cash = 0.0 if rung is None else rent[rung] + (setup[rung] if new else 0.0)
        rate = 0.0 if rung is None else rungs[rung].gbps
        rows.append(
            MonthRow(
                month=t + 1,
                kind=f"line {line.id} [Gbit/s]",
                needed=needed_gbps[t],
                owned=0.0,
                rented=rate,
                bought=1.0 if new else 0.0,
                cash=cash,
                present_value=present_value(cash, t, annual_rate_fraction=annual_rate_fraction),
                note=f"new line of {rate:g} Gbit/s" if new else "",
            )
        )
    return tuple(rows)


def _cheapest_rungs(
    rates: list[float], needed: Sequence[float], rent: list[float], setup: list[float], annual_rate: float
) -> list[int | None]:
    states: list[int | None] = [None, *range(len(rates))]
    cost: dict[int | None, float] = {None: 0.0}
    steps: list[dict[int | None, int | None]] = []
    for t, need in enumerate(needed):
        discount = present_value(1.0, t, annual_rate_fraction=annual_rate)
        best: dict[int | None, float] = {}
        came: dict[int | None, int | None] = {}
        for state in states:
            if (0.0 if state is None else rates[state]) < need:
                continue
            for before, spent in cost.items():
                paid = spent
                if state is not None:
                    paid += discount * (rent[state] + (setup[state] if before != state else 0.0))
                if state not in best or paid < best[state]:
                    best[state], came[state] = paid, before
        cost = best
        steps.append(came)
    state = min(cost, key=lambda s: cost[s])
    path = [state]
    for came in reversed(steps[1:]):
        state = came[state]
        path.append(state)
    return path[::-1] if needed else []


def monthly_demand(quarterly_rps: Sequence[float], *, months_per_quarter: int = MONTHS_PER_YEAR // 4) -> list[float]:
    """Demand of each month from a demand per quarter.

    Formula:     each quarter's rate holds for its months
    Parameters:  quarterly_rps [req/s]; months_per_quarter
    Returns:     shape (quarters * months_per_quarter,) [req/s]
    Raises:      DomainError unless all rates are finite and at least 0.
    Holds when:  capacity must be there from the first day of a quarter.
    References:  definition
    """
    if not quarterly_rps or not all(math.isfinite(r) and r >= 0 for r in quarterly_rps):
        raise DomainError("demand", "must be finite and at least 0 in every quarter", list(quarterly_rps))
    return [rate for rate in quarterly_rps for _ in range(months_per_quarter)]
