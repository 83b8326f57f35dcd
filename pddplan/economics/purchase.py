"""Rent or buy, and how many to reserve: choices about the same chips under different contracts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pddplan.economics.money import capital_monthly_cost, monthly_rate
from pddplan.errors import DomainError
from pddplan.units import HOURS_PER_DAY, MONTHS_PER_YEAR


@dataclass(frozen=True, slots=True)
class RentOrBuy:
    """One chip both ways, per month, with the point where they meet."""

    rent_monthly_cost: float
    purchase_monthly_cost: float
    break_even_months: float | None
    """Months after which the money spent on rent would have paid the purchase; None = never."""

    @property
    def cheaper(self) -> str:
        return "rent" if self.rent_monthly_cost <= self.purchase_monthly_cost else "purchase"


def rent_or_buy(
    rent_monthly_cost: float,
    purchase_price: float,
    *,
    amortisation_years: float,
    residual_fraction: float,
    annual_rate_fraction: float,
    running_monthly_cost: float = 0.0,
) -> RentOrBuy:
    """Compare renting a chip with buying it, with the running cost that only the owner pays.

    Formula:     purchase = annuity(P, n, residual) + running;
                 break-even n: P = (rent - running) * (1 - (1+i)^-n) / i, without residual value
    Parameters:  rent_monthly_cost [currency/month]; purchase_price P [currency]; amortisation_years; residual_fraction
                 of P; annual_rate_fraction; running_monthly_cost (power, hosting, support) [currency/month]
    Returns:     RentOrBuy
    Raises:      DomainError as capital_monthly_cost.
    Holds when:  rent stays the same over the years (it has been falling: then break-even comes later).
    References:  brealey2020
    """
    annuity = capital_monthly_cost(
        purchase_price,
        amortisation_years * MONTHS_PER_YEAR,
        residual=purchase_price * residual_fraction,
        annual_rate_fraction=annual_rate_fraction,
    )
    saved = rent_monthly_cost - running_monthly_cost
    rate = monthly_rate(annual_rate_fraction)
    months: float | None = None
    if saved > 0 and purchase_price * rate < saved:
        months = purchase_price / saved if rate == 0 else -math.log1p(-purchase_price * rate / saved) / math.log1p(rate)
    return RentOrBuy(rent_monthly_cost, annuity + running_monthly_cost, months)


@dataclass(frozen=True, slots=True)
class Commitment:
    """A daily demand met by a reserved base and on-demand hours above it."""

    reserved_chips: float
    peak_chips: float
    on_demand_chip_hours_per_day: float
    monthly_cost: float
    all_reserved_monthly_cost: float
    all_on_demand_monthly_cost: float


def reserve_base(
    chips_per_hour_of_day: Sequence[float],
    reserved_price_per_chip_hour: float,
    *,
    on_demand_price_per_chip_hour: float,
    hours_per_month: float,
    step_chips: float = 1.0,
) -> Commitment:
    """Cheapest mix of reserved chips (paid all day) and on-demand chips (paid by the hour) for a daily profile.

    Formula:     reserve the k-th chip while hours with demand >= k exceed 24 * reserved / on-demand price;
                 cost = R * reserved * hours + sum max(0, demand - R) * on-demand price
    Parameters:  chips_per_hour_of_day, shape (24,) [chips]; prices [currency/chip-hour]; hours_per_month;
                 step_chips, chips of one instance: the base is a multiple of it
    Returns:     Commitment
    Raises:      DomainError unless there are 24 finite values >= 0 and both prices are >= 0.
    Holds when:  on-demand chips can be had when asked for, and start within the hour.
    References:  definition
    """
    demand = [float(value) for value in chips_per_hour_of_day]
    if len(demand) != HOURS_PER_DAY or not all(math.isfinite(d) and d >= 0 for d in demand):
        raise DomainError("chips per hour of day", "must be 24 finite numbers of at least 0", demand)
    for name, price in (("reserved", reserved_price_per_chip_hour), ("on-demand", on_demand_price_per_chip_hour)):
        if not (math.isfinite(price) and price >= 0):
            raise DomainError(f"{name} price", "must be finite and at least 0", price)
    if not (math.isfinite(step_chips) and step_chips > 0):
        raise DomainError("chips per instance", "must be finite and greater than 0", step_chips)
    needed = [math.ceil(value / step_chips - 1e-9) * step_chips for value in demand]

    def monthly(reserved: float) -> float:
        above = math.fsum(max(0.0, value - reserved) for value in needed)
        per_day = reserved * reserved_price_per_chip_hour * HOURS_PER_DAY + above * on_demand_price_per_chip_hour
        return per_day * hours_per_month / HOURS_PER_DAY

    # Cost is convex and bends only at the demands themselves; of equal costs the smaller commitment is taken.
    best = min(sorted({0.0, *needed}), key=monthly)
    peak = max(needed)
    return Commitment(
        reserved_chips=best,
        peak_chips=peak,
        on_demand_chip_hours_per_day=math.fsum(max(0.0, value - best) for value in needed),
        monthly_cost=monthly(best),
        all_reserved_monthly_cost=monthly(peak),
        all_on_demand_monthly_cost=monthly(0.0),
    )
