"""A demand per quarter turned into instances and line tiers per month, and into purchases that are never stranded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import LinePlan, Plan, Pool
from pddplan.domain.sites import SiteChip, Sites
from pddplan.economics.growth import GrowthPlan, MonthRow, UnitTerms, line_path, monthly_demand, phase_units
from pddplan.economics.purchase import RentOrBuy, rent_or_buy
from pddplan.economics.unit_costs import chip_unit_costs
from pddplan.errors import InputError, Problem
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem as Question
from pddplan.optimize import Limits, Objective
from pddplan.optimize import size as optimum
from pddplan.sizing import Inputs
from pddplan.studies.perturb import at_rate, scale_line_prices
from pddplan.units import MONTHS_PER_YEAR

_MOST_STEPS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One quarter: the rate, and the smallest plan of the final kind that carries it."""

    quarter: int
    rate_rps: float
    outcome: Outcome | None
    """None in a quarter without demand."""


@dataclass(frozen=True, slots=True, eq=False)
class GrowthStudy:
    workload: str
    currency: str
    final: Outcome
    steps: tuple[Step, ...]
    plan: GrowthPlan
    at_once_present_cost: float
    """Present cost of having the final fleet from the first month on."""
    rent_only_present_cost: float
    annual_rate_fraction: float
    contracts: tuple[tuple[str, RentOrBuy], ...] = ()
    """Per kind that can be bought: one instance rented and bought, per month."""

    @property
    def monthly_rows(self) -> tuple[MonthRow, ...]:
        return self.plan.rows


def growth_study(
    inputs: Inputs, quarterly_rps: Sequence[float], *, topology: str, limits: Limits | None = None
) -> GrowthStudy:
    """Size for the largest demand, find the smallest fleet of the same kind for each quarter, and phase it.

    Keeping the kinds of pools is what keeps capacity from being stranded: an instance bought for the second quarter
    is one of the instances of the last.

    Raises:  InputError for a demand that makes no sense, InfeasibleError if the largest demand has no plan.
    """
    months = monthly_demand(list(quarterly_rps))
    top = max(quarterly_rps)
    if top <= 0:
        raise InputError(
            Problem(what="there is no demand in any quarter", fix="give rates, e.g. --demand 4,6,9", where="--demand")
        )
    asked = replace(inputs, workload=inputs.workload.at_rate(top))
    question = api.problem_of(asked)
    final = optimum(
        question,
        topology=topology,
        objective=Objective(kind="cost", rate_rps=top),
        limits=limits or Limits(),
        shapes=api.shapes_of(asked),
    )
    found = {rate: smallest(question, final.plan, rate) for rate in sorted(set(quarterly_rps)) if rate > 0}
    steps = tuple(Step(index + 1, rate, found.get(rate)) for index, rate in enumerate(quarterly_rps))
    per_quarter = len(months) // len(steps)
    by_month = [step.outcome for step in steps for _ in range(per_quarter)]
    annual = inputs.sites.finance.cost_of_capital_fraction
    rows: list[MonthRow] = []
    contracts: list[tuple[str, RentOrBuy]] = []
    rent_only = at_once = 0.0
    for index, pool in enumerate(final.plan.pools):
        needed = [outcome.plan.pools[index].instances if outcome else 0 for outcome in by_month]
        terms = unit_terms(asked, pool)
        kind = f"{pool.site} {pool.role} {pool.chip} {pool.shape}"
        rows += phase_units(kind, needed, terms=terms, annual_rate_fraction=annual)
        contracts += [(kind, both) for both in (_both_ways(asked, terms),) if both is not None]
        only_rent = replace(terms, purchase_price=None)
        if math.isfinite(terms.rent_monthly_cost):
            rent_only += _present(phase_units(kind, needed, terms=only_rent, annual_rate_fraction=annual))
        else:
            rent_only = math.inf
        flat = [max(needed)] * len(needed)
        at_once += _present(phase_units(kind, flat, terms=terms, annual_rate_fraction=annual))
    for taken in final.plan.lines:
        if taken.count:
            gbps = [_gbps(outcome, taken.line) for outcome in by_month]
            path = _line_rows(asked.sites, taken, gbps, annual)
            rows += path
            rent_only += _present(path)
            at_once += _present(_line_rows(asked.sites, taken, [max(gbps)] * len(gbps), annual))
    return GrowthStudy(
        workload=inputs.workload.name,
        currency=inputs.sites.finance.currency,
        final=final,
        steps=steps,
        plan=GrowthPlan(inputs.sites.finance.currency, tuple(rows)),
        at_once_present_cost=at_once,
        rent_only_present_cost=rent_only,
        annual_rate_fraction=annual,
        contracts=tuple(contracts),
    )


def _both_ways(inputs: Inputs, terms: UnitTerms) -> RentOrBuy | None:
    if terms.purchase_price is None or not math.isfinite(terms.rent_monthly_cost):
        return None
    finance = inputs.sites.finance
    return rent_or_buy(
        terms.rent_monthly_cost,
        terms.purchase_price,
        amortisation_years=finance.amortisation_years,
        residual_fraction=finance.residual_fraction,
        annual_rate_fraction=finance.cost_of_capital_fraction,
        running_monthly_cost=terms.running_monthly_cost,
    )


def _present(rows: Sequence[MonthRow]) -> float:
    return math.fsum(row.present_value for row in rows)


def _gbps(outcome: Outcome | None, line_id: str) -> float:
    if outcome is None:
        return 0.0
    return max((line.gbps for line in outcome.plan.lines if line.line == line_id and line.count), default=0.0)


def _line_rows(sites: Sites, taken: LinePlan, gbps: list[float], annual: float) -> tuple[MonthRow, ...]:
    priced = scale_line_prices(sites, float(taken.count), line_id=taken.line)
    return line_path(priced.lines[taken.line], gbps, sites=priced, annual_rate_fraction=annual)


def smallest(question: Question, plan: Plan, rate_rps: float) -> Outcome:
    """Smallest plan of the same kind that keeps its promises at a lower rate: counts first, then the line.

    Starts from counts in proportion to the rate, adds instances where the load is highest until all promises hold,
    then takes away whatever is not needed, dearest pool first.
    """
    share = min(1.0, rate_rps / plan.rate_rps)
    counts = [max(1, math.ceil(pool.instances * share - 1e-9)) for pool in plan.pools]
    outcome = _at(question, plan, counts, rate_rps)
    for _ in range(_MOST_STEPS):
        if outcome.keeps_promises:
            break
        free = [i for i, pool in enumerate(plan.pools) if counts[i] < pool.instances]
        if not free:
            break
        loads = {load.pool: load.utilization for load in outcome.pools}
        busiest = max(free, key=lambda i: (loads.get(plan.pools[i].id, 0.0), -i))
        counts[busiest] += 1
        outcome = _at(question, plan, counts, rate_rps)
    for index in sorted(range(len(counts)), key=lambda i: (-plan.pools[i].shape.chips, i)):
        while outcome.keeps_promises and counts[index] > 1:
            fewer = [n - (i == index) for i, n in enumerate(counts)]
            tried = _at(question, plan, fewer, rate_rps)
            if not tried.keeps_promises:
                break
            counts, outcome = fewer, tried
    return _thinnest_lines(question, outcome)


def _at(question: Question, plan: Plan, counts: Sequence[int], rate_rps: float) -> Outcome:
    pools = tuple(replace(pool, instances=n) for pool, n in zip(plan.pools, counts, strict=True))
    return evaluate(question, at_rate(replace(plan, pools=pools), rate_rps), detail=False)


def _thinnest_lines(question: Question, outcome: Outcome) -> Outcome:
    for index, taken in enumerate(outcome.plan.lines):
        if not taken.count:
            continue
        for tier in question.sites.lines[taken.line].tiers:
            if tier.gbps >= outcome.plan.lines[index].gbps:
                break
            lines = tuple(
                replace(line, gbps=tier.gbps) if i == index else line for i, line in enumerate(outcome.plan.lines)
            )
            tried = evaluate(question, replace(outcome.plan, lines=lines), detail=False)
            if tried.keeps_promises:
                outcome = tried
                break
    return outcome


def unit_terms(inputs: Inputs, pool: Pool) -> UnitTerms:
    """One instance of a pool, rented and bought; without a purchase price it can only be rented.

    Raises:  InputError if there is neither rent nor purchase price.
    """
    finance = inputs.sites.finance
    own = inputs.sites.sites[pool.site].chips.get(pool.chip)
    chips = pool.shape.chips

    def items(acquisition: str) -> tuple[float, float]:
        sites = _acquired(inputs.sites, pool, acquisition)
        units = chip_unit_costs(sites, pool.site, chip=inputs.chips[pool.chip])
        capital = math.fsum(unit.monthly_cost for unit in units if unit.capital)
        return capital * chips, math.fsum(unit.monthly_cost for unit in units if not unit.capital) * chips

    price = own.purchase_price_per_chip if own is not None else None
    running = items("purchase")[1] if price is not None else 0.0
    try:
        rent = math.fsum(items("rent"))
    except InputError:
        if price is None:
            raise
        rent = math.inf  # only to be bought
    return UnitTerms(
        rent_monthly_cost=rent,
        purchase_price=None if price is None else price * chips * (1 + finance.spare_fraction),
        running_monthly_cost=running,
        residual_fraction=finance.residual_fraction,
        life_months=finance.amortisation_years * MONTHS_PER_YEAR,
    )


def _acquired(sites: Sites, pool: Pool, acquisition: str) -> Sites:
    site = sites.sites[pool.site]
    own = replace(site.chips.get(pool.chip, SiteChip(pool.chip)), acquisition=acquisition)
    return replace(sites, sites={**sites.sites, pool.site: replace(site, chips={**site.chips, pool.chip: own})})
