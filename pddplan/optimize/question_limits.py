"""What limits a plan beyond its promises: rates, chips, money and line tiers of a question."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pddplan.domain.plan import Pool, Role
from pddplan.economics.costs import line_monthly_cost, owned_chip_credit, pool_monthly_cost_per_instance
from pddplan.errors import InputError
from pddplan.errors import Problem as Fault
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.stages import prefill_servers
from pddplan.network.rate import effective_rate
from pddplan.optimize.data import LineOption, OwnedChips
from pddplan.optimize.objective import LARGEST_RATE_RPS, SMALLEST_RATE_RPS, Limits, Objective

BUSIEST = 0.9995
"""No pool or line is planned busier, whatever the ceiling asked for: at 1 waits never end."""
MOST_EVERY = 32
LINES_STEP = 1.1
SMALLEST_SHARE = 1e-3
"""A plan serves at least this share of the demand: serving nothing keeps every promise, but is no plan."""


def rate_range(problem: Problem, pools: Sequence[Pool], *, objective: Objective, limits: Limits) -> tuple[float, float]:
    """Lowest and highest rate a plan may serve."""
    demand = problem.workload.arrival.rate_rps
    if objective.kind == "rps":
        cap = objective.rate_rps
        most = cap if cap is not None else _largest_rate(problem, pools, objective=objective, limits=limits)
        most = min(most, LARGEST_RATE_RPS)  # without a limit that binds: no question is asked beyond it either
        return SMALLEST_RATE_RPS, max(most, SMALLEST_RATE_RPS)  # what can be served may be a small part of it
    if objective.rate_rps is not None:
        return objective.rate_rps, objective.rate_rps
    return (demand, demand) if objective.kind == "cost" else (SMALLEST_SHARE * demand, demand)


def _largest_rate(problem: Problem, pools: Sequence[Pool], *, objective: Objective, limits: Limits) -> float:
    """A rate no plan can exceed, from the first pools all requests pass: inventory, budget or chips bound it."""
    weight = problem.workload.classes.weight
    total = 0.0
    for pool in pools:
        if pool.role not in (Role.PREFILL, Role.AGGREGATED):
            continue
        bounds = [math.inf]
        inventory = problem.sites.sites[pool.site].chips[pool.chip].max_chips
        if inventory is not None:
            bounds.append(inventory // pool.shape.chips)
        if limits.max_chips is not None:
            bounds.append(limits.max_chips // pool.shape.chips)
        price = instance_cost(problem, pool)
        if objective.budget_per_month is not None and price > 0:
            bounds.append(objective.budget_per_month / price)
        work = problem.prefill_s(pool) / prefill_servers(problem, pool, instances=1)
        fastest = np.min(work[weight > 0])
        total += min(bounds) / max(float(fastest), 1e-9)
    if not math.isfinite(total):
        raise InputError(
            Fault(
                what="most requests per second was asked for, but nothing limits the fleet",
                fix="give --budget, or max_chips per site and chip in the sites file, or --max-chips",
                where="--objective rps",
            )
        )
    return total


def instance_cost(problem: Problem, pool: Pool) -> float:
    return pool_monthly_cost_per_instance(problem.sites, pool.site, chip=problem.chips[pool.chip], shape=pool.shape)


def chip_limits(problem: Problem, pools: Sequence[Pool]) -> dict[tuple[str, str], int]:
    limits = {}
    for pool in pools:
        most = problem.sites.sites[pool.site].chips[pool.chip].max_chips
        if most is not None:
            limits[pool.site, pool.chip] = most
    return limits


def owned_kinds(problem: Problem, pools: Sequence[Pool]) -> tuple[OwnedChips, ...]:
    found = []
    for site_id, chip_id in dict.fromkeys((pool.site, pool.chip) for pool in pools):
        count = problem.sites.sites[site_id].chips[chip_id].owned_chips
        if count > 0:
            credit = owned_chip_credit(problem.sites, site_id, chip=problem.chips[chip_id])
            held = 1.0 + problem.sites.finance.spare_fraction
            found.append(OwnedChips(site_id, chip_id, count, credit, held))
    return tuple(found)


def on_usable_lines(problem: Problem, limits: Limits) -> Problem:
    """The question without lines that may not be taken: a single one, where the loss of one must be survived."""
    lines = problem.sites.lines
    kept = {name: line for name, line in lines.items() if line.max_lines > limits.survive_line_loss}
    return problem if len(kept) == len(lines) else replace(problem, sites=replace(problem.sites, lines=kept))


def options_of(problem: Problem, lines: Sequence[str], limits: Limits) -> tuple[LineOption, ...]:
    prices = {
        (line, tier.gbps): line_monthly_cost(problem.sites.lines[line], tier.gbps, sites=problem.sites)
        for line in lines
        for tier in problem.sites.lines[line].tiers
    }
    return line_options(
        problem,
        lines=lines,
        max_utilization=min(limits.max_line_utilization, BUSIEST),
        cost=prices,
        survive_loss=limits.survive_line_loss,
    )


def line_options(
    problem: Problem,
    *,
    lines: Sequence[str],
    max_utilization: float,
    cost: Mapping[tuple[str, float], float],
    survive_loss: bool = False,
) -> tuple[LineOption, ...]:
    """Every tier and number of the lines, less those that another option beats on rate and cost.

    Beyond MOST_EVERY lines their number grows by a tenth at a time.
    With ``survive_loss`` one line of each bundle is paid for but not counted on.
    """
    found: list[LineOption] = []
    for line_id in lines:
        line = problem.sites.lines[line_id]
        own = [
            LineOption(
                id=f"{line.id}:{count}x{tier.gbps:g}",
                line=line.id,
                gbps=tier.gbps,
                count=count,
                working=count - survive_loss,
                monthly_cost=count * cost[line.id, tier.gbps],
                capacity_bytes_per_s=effective_rate(line, tier.gbps, count=count - survive_loss).bytes_per_s
                * max_utilization,
            )
            for tier in line.tiers
            for count in _line_counts(1 + survive_loss, max(line.max_lines, 1))
        ]
        own.sort(key=lambda o: (o.monthly_cost, -o.capacity_bytes_per_s, o.count))
        fastest = 0.0
        for option in own:
            if option.capacity_bytes_per_s > fastest * (1 + 1e-9):
                found.append(option)
                fastest = option.capacity_bytes_per_s
    return tuple(found)


def _line_counts(least: int, most: int) -> Iterator[int]:
    """Numbers of parallel lines worth a look."""
    count = least
    while count <= most:
        yield count
        count = count + 1 if count < MOST_EVERY else min(math.ceil(count * LINES_STEP), max(most, count + 1))
