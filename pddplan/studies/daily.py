"""A day's profile turned into a reserved base and on-demand hours above it, pool by pool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pddplan import api
from pddplan.domain.chip import Chip
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Pool
from pddplan.economics.money import convert
from pddplan.economics.purchase import Commitment, reserve_base
from pddplan.economics.unit_costs import chip_price_per_hour
from pddplan.errors import InputError, Problem
from pddplan.optimize import Limits, Objective
from pddplan.optimize import size as optimum
from pddplan.sizing import Inputs
from pddplan.studies.growth_path import smallest
from pddplan.units import HOURS_PER_DAY

LEVELS = 16
"""Hours are rounded up to so many steps of the peak rate: each step is one fleet to find."""


@dataclass(frozen=True, slots=True, eq=False)
class PoolDay:
    """One pool over a day."""

    pool: Pool
    chips_per_hour: tuple[int, ...]
    reserved_price: float
    reserved_source: str
    on_demand_price: float
    on_demand_source: str
    commitment: Commitment


@dataclass(frozen=True, slots=True, eq=False)
class DailyStudy:
    workload: str
    currency: str
    rates_rps: tuple[float, ...]
    peak: Outcome
    pools: tuple[PoolDay, ...]

    @property
    def monthly_cost(self) -> float:
        return math.fsum(day.commitment.monthly_cost for day in self.pools)

    @property
    def all_reserved_monthly_cost(self) -> float:
        return math.fsum(day.commitment.all_reserved_monthly_cost for day in self.pools)

    @property
    def all_on_demand_monthly_cost(self) -> float:
        return math.fsum(day.commitment.all_on_demand_monthly_cost for day in self.pools)


def daily_study(
    inputs: Inputs, *, topology: str, profile: Sequence[float] | None = None, limits: Limits | None = None
) -> DailyStudy:
    """Size for the busiest hour, find the smallest fleet of that kind for every hour, and split it by contract.

    ``profile``: 24 factors on the workload's rate, without it those of the workload.

    Raises:  InputError without a profile or an on-demand price, InfeasibleError if the peak has no plan.
    """
    factors = _profile(inputs, profile)
    rate = inputs.workload.arrival.rate_rps
    rates = tuple(rate * factor for factor in factors)
    top = max(rates)
    asked = replace(inputs, workload=inputs.workload.at_rate(top))
    question = api.problem_of(asked)
    peak = optimum(
        question,
        topology=topology,
        objective=Objective(kind="cost", rate_rps=top),
        limits=limits or Limits(),
        shapes=api.shapes_of(asked),
    )
    levels = {_level(r, top): None for r in rates}
    fleets = {level: smallest(question, peak.plan, level) if level > 0 else None for level in sorted(levels)}
    by_hour = [fleets[_level(r, top)] for r in rates]
    days = []
    for index, pool in enumerate(peak.plan.pools):
        chips = tuple(outcome.plan.pools[index].chips if outcome is not None else 0 for outcome in by_hour)
        days.append(_pool_day(asked, pool, chips))
    return DailyStudy(inputs.workload.name, inputs.sites.finance.currency, rates, peak, tuple(days))


def _level(rate_rps: float, top_rps: float) -> float:
    return math.ceil(rate_rps / top_rps * LEVELS - 1e-9) / LEVELS * top_rps


def _pool_day(inputs: Inputs, pool: Pool, chips: tuple[int, ...]) -> PoolDay:
    finance, chip = inputs.sites.finance, inputs.chips[pool.chip]
    own = inputs.sites.sites[pool.site].chips.get(pool.chip)
    reserved, source = chip_price_per_hour(chip, own, finance=finance)
    dear, dear_source = _on_demand(inputs, pool, chip)
    commitment = reserve_base(
        chips,
        reserved,
        on_demand_price_per_chip_hour=dear,
        hours_per_month=finance.hours_per_month,
        step_chips=pool.shape.chips,
    )
    return PoolDay(pool, chips, reserved, source, dear, dear_source, commitment)


def _on_demand(inputs: Inputs, pool: Pool, chip: Chip) -> tuple[float, str]:
    own = inputs.sites.sites[pool.site].chips.get(pool.chip)
    if own is not None and own.on_demand_price_per_chip_hour is not None:
        return own.on_demand_price_per_chip_hour, "on-demand price of the sites file"
    if chip.price is not None:
        price = convert(chip.price.high_per_chip_hour, chip.price.currency, finance=inputs.sites.finance)
        return price, f"high end of the chip profile: {chip.price.source or 'no source'}"
    raise InputError(
        Problem(
            what=f"chip {chip.id!r} has no on-demand price",
            fix=f"give sites.{pool.site}.chips.{chip.id}.on_demand_price_per_chip_hour",
            where=f"sites.{pool.site}.chips.{chip.id}",
        )
    )


def _profile(inputs: Inputs, given: Sequence[float] | None) -> tuple[float, ...]:
    factors = given if given is not None else inputs.workload.arrival.hourly_profile
    if factors is None:
        raise InputError(
            Problem(
                what=f"workload {inputs.workload.name!r} has no daily profile (no trace of a day or more)",
                fix="give one: --profile with 24 factors, separated by commas",
                where="arrival.hourly_profile",
            )
        )
    if len(factors) != HOURS_PER_DAY or not all(math.isfinite(f) and f >= 0 for f in factors) or max(factors) <= 0:
        raise InputError(
            Problem(
                what=f"a daily profile has {HOURS_PER_DAY} factors of at least 0, not all 0; got {len(factors)}",
                fix="give one factor per hour of the day, mean about 1",
                where="--profile",
            )
        )
    return tuple(float(f) for f in factors)
