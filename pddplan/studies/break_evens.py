"""How far a price or the hit rate may move before a plan only equals another one, both kept as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan, Role
from pddplan.domain.token_price import TokenPrice
from pddplan.domain.workload import Array
from pddplan.economics.bathtub import request_economics
from pddplan.economics.breakeven import LinearCost, break_even_factor, crossings, linear_cost
from pddplan.economics.costs import plan_cost
from pddplan.economics.hit_rate import miss_tokens_at, token_hit_rate
from pddplan.evaluate.problem import Problem as Question
from pddplan.sizing import Inputs
from pddplan.studies.perturb import scale_chip_price, scale_line_prices
from pddplan.studies.serving import serving_cost

GRID_POINTS = 201


@dataclass(frozen=True, slots=True)
class BreakEvens:
    """Where the best plan only equals the baseline. A plan sized anew for the other price can only gain."""

    plan: str | None = None
    """Topology of the plan that is held against the baseline."""
    decode_chip: str | None = None
    price_premium_now: float | None = None
    """Price of the decode chip over the prefill chip, less one."""
    price_premium: float | None = None
    has_line: bool = False
    line_price_factor: float | None = None
    line_monthly_cost: float | None = None
    """Cost of the plan's lines at which both are equal."""
    hit_rates: tuple[float, ...] = ()
    """Token hit rates at which both cost the same per request, pools sized to their load."""
    hit_rate_now: float | None = None


def break_evens(inputs: Inputs, question: Question, *, best: Outcome, base: Outcome) -> BreakEvens:
    """Break-even price premium of the decode chip, line price and hit rate of one plan against another."""
    found = BreakEvens(plan=best.plan.topology)
    found = _chip(found, inputs, best=best, base=base)
    found = _line(found, inputs, best=best, base=base)
    return _hit_rate(found, question, best=best, base=base)


def _factor(best: Outcome, base: Outcome, *, cost: Callable[[Plan], LinearCost]) -> float | None:
    return break_even_factor(
        best.goodput_rps,
        cost(best.plan),
        baseline_goodput_rps=base.goodput_rps,
        baseline_cost=cost(base.plan),
    )


def _chip(found: BreakEvens, inputs: Inputs, *, best: Outcome, base: Outcome) -> BreakEvens:
    prefill = {pool.chip for pool in best.plan.pools if pool.role is Role.PREFILL}
    decode = {pool.chip for pool in best.plan.pools if pool.role is Role.DECODE} - prefill
    if len(prefill) != 1 or len(decode) != 1:
        return found
    (chip_a,), (chip_b,) = prefill, decode

    def cost(plan: Plan) -> LinearCost:
        def monthly(factor: float) -> float:
            changed = scale_chip_price(inputs, chip_b, factor)
            return plan_cost(plan, changed.sites, changed.chips).monthly_total

        return linear_cost(monthly)

    factor = _factor(best, base, cost=cost)
    price_a, price_b = (_capital_of(best, chip) for chip in (chip_a, chip_b))
    now = price_b / price_a - 1 if price_a and price_b else None
    premium = factor * (1 + now) - 1 if factor is not None and now is not None else None
    return replace(found, decode_chip=chip_b, price_premium_now=now, price_premium=premium)


def _capital_of(outcome: Outcome, chip: str) -> float | None:
    """What one chip costs a month as capital, from the items of the plan."""
    for item in outcome.cost.items:
        if item.item in (f"{chip}: rent", f"{chip}: purchase") and item.quantity > 0:
            return item.unit_price * item.hours
    return None


def _line(found: BreakEvens, inputs: Inputs, *, best: Outcome, base: Outcome) -> BreakEvens:
    if not any(line.count for line in best.plan.lines):
        return found

    def cost(plan: Plan) -> LinearCost:
        return linear_cost(
            lambda factor: plan_cost(plan, scale_line_prices(inputs.sites, factor), inputs.chips).monthly_total
        )

    found = replace(found, has_line=True)
    factor = _factor(best, base, cost=cost)
    if factor is None:
        return found
    return replace(found, line_price_factor=factor, line_monthly_cost=factor * cost(best.plan).slope)


def _hit_rate(found: BreakEvens, question: Question, *, best: Outcome, base: Outcome) -> BreakEvens:
    classes, finance = question.workload.classes, question.sites.finance
    rates = np.linspace(0.0, 1.0, GRID_POINTS)
    missed = miss_tokens_at(classes, rates)
    nothing = TokenPrice("none", 0.0, 0.0, 0.0, currency=finance.currency)

    def cost(outcome: Outcome) -> Array:
        serving = serving_cost(question, outcome)
        return request_economics(classes, missed, serving=serving, price=nothing, finance=finance)[1]

    return replace(found, hit_rates=crossings(rates, cost(best), cost(base)), hit_rate_now=token_hit_rate(classes))
