"""Which limits beyond the promises a plan uses whole: chips, power, money, ceilings."""

from __future__ import annotations

from collections.abc import Iterator

from pddplan.domain.outcome import Binding, Outcome
from pddplan.domain.plan import Plan
from pddplan.economics.unit_costs import chip_power_w
from pddplan.evaluate.problem import Problem
from pddplan.optimize.objective import Limits, Objective
from pddplan.units import WATTS_PER_KW

NEAR = 0.97
"""A limit used to this share binds; so does one that no further instance of the plan's kinds fits into."""
AT_CEILING = 0.99


def limits_used(
    problem: Problem, outcome: Outcome, *, limits: Limits, objective: Objective | None = None
) -> tuple[Binding, ...]:
    """Limits of a plan that bind: inventory, power, chips in all, budget, and ceilings of pools and lines."""
    budget = objective.budget_per_month if objective is not None else None
    return (
        *_chips(problem, outcome.plan, limits),
        *power_used(problem, outcome.plan),
        *(
            [Binding("budget", outcome.cost.monthly_total, budget, f"{outcome.cost.currency}/month")]
            if budget is not None and outcome.cost.monthly_total >= NEAR * budget
            else []
        ),
        *_ceilings(outcome, limits),
    )


def _chips(problem: Problem, plan: Plan, limits: Limits) -> Iterator[Binding]:
    for site, chip in dict.fromkeys((pool.site, pool.chip) for pool in plan.pools):
        own = [pool for pool in plan.pools if (pool.site, pool.chip) == (site, chip)]
        most = problem.sites.sites[site].chips[chip].max_chips if chip in problem.sites.sites[site].chips else None
        held = sum(pool.chips for pool in own)
        if most is not None and (held >= NEAR * most or most - held < min(pool.shape.chips for pool in own)):
            yield Binding(inventory_name(chip, site), float(held), float(most), "chips")
    held = sum(pool.chips for pool in plan.pools)
    most = limits.max_chips
    if most is not None and (held >= NEAR * most or most - held < min(pool.shape.chips for pool in plan.pools)):
        yield Binding("chips in all", float(held), float(most), "chips")


def inventory_name(chip: str, site: str) -> str:
    """What the inventory of a kind of chips at a site is called."""
    return f"inventory of {chip} at {site}"


def power_used(problem: Problem, plan: Plan) -> Iterator[Binding]:
    """Power of sites that no further instance of the plan's kinds could draw."""
    for site_id in dict.fromkeys(pool.site for pool in plan.pools):
        site = problem.sites.sites[site_id]
        if site.power_limit_kw is None:
            continue
        per_instance = [
            (
                chip_power_w(problem.chips[pool.chip], site, finance=problem.sites.finance)
                / WATTS_PER_KW
                * pool.shape.chips,
                pool.instances,
            )
            for pool in plan.pools
            if pool.site == site_id
        ]
        drawn = sum(each * count for each, count in per_instance)
        if drawn >= NEAR * site.power_limit_kw or site.power_limit_kw - drawn < min(each for each, _ in per_instance):
            yield Binding(f"power of site {site_id}", drawn, site.power_limit_kw, "kW")


def _ceilings(outcome: Outcome, limits: Limits) -> Iterator[Binding]:
    spare = limits.redundant_instances
    for load in outcome.pools:
        instances = outcome.plan.pool(load.pool).instances
        working = load.utilization * instances / (instances - spare) if instances > spare else load.utilization
        if working >= AT_CEILING * limits.max_utilization:
            yield Binding(f"ceiling of pool {load.pool}", working, limits.max_utilization, "utilization")
    lost = int(limits.survive_line_loss)
    for line in outcome.lines:
        filled = line.utilization * line.count / (line.count - lost) if line.count > lost else line.utilization
        if filled >= AT_CEILING * limits.max_line_utilization:
            yield Binding(f"ceiling of line {line.line}", filled, limits.max_line_utilization, "utilization")
