"""From an evaluated plan to what a request costs at other hit rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pddplan.domain.outcome import Cost, Outcome
from pddplan.domain.plan import Plan, Pool, Role
from pddplan.domain.workload import Array
from pddplan.economics.attribution import TokenCost, token_cost
from pddplan.economics.bathtub import ServingCost
from pddplan.economics.costs import ROLE_IDLE, ROLE_LINE, ROLE_SITE
from pddplan.economics.revenue import monthly_tokens, seconds_per_month
from pddplan.evaluate.problem import Problem as Question

PREFILLING = (Role.PREFILL, Role.AGGREGATED)


@dataclass(frozen=True, slots=True)
class RoleCost:
    """Monthly cost of a plan by what it is spent on; credits are spread in proportion."""

    prefill: float
    decode: float
    aggregated: float
    line: float

    @property
    def total(self) -> float:
        return self.prefill + self.decode + self.aggregated + self.line


def role_cost(cost: Cost) -> RoleCost:
    """Split a monthly cost by role.

    Formula:     items by role, times total / (total without credits)
    Parameters:  cost
    Returns:     RoleCost, adding up to cost.monthly_total
    Raises:      nothing.
    Holds when:  credits (owned chips) lower all roles alike.
    References:  definition
    """

    def of(*roles: str) -> float:
        return math.fsum(item.monthly_cost for item in cost.items if item.role in roles)

    paid = math.fsum(item.monthly_cost for item in cost.items if item.role not in (ROLE_SITE, ROLE_IDLE))
    scale = cost.monthly_total / paid if paid > 0 else 0.0
    return RoleCost(
        prefill=of(Role.PREFILL) * scale,
        decode=of(Role.RELAY, Role.DECODE) * scale,
        aggregated=of(Role.AGGREGATED) * scale,
        line=of(ROLE_LINE) * scale,
    )


def prefill_mix(plan: Plan, weight: Array) -> tuple[tuple[Pool, Array], ...]:
    """Pools that prefill, each with the share of every class it takes, shape (classes,)."""
    share = np.asarray(plan.share, dtype=float)
    found = []
    for pool in plan.pools:
        if pool.role in PREFILLING:
            mine = [index for index, path in enumerate(plan.paths) if path.prefill == pool.id]
            taken = share[mine].sum(axis=0) if mine else np.zeros_like(weight)
            if float(taken @ weight) > 0:
                found.append((pool, taken))
    return tuple(found)


def prefill_time_of(
    question: Question, plan: Plan, *, replaced: Callable[[Pool], Callable[[Array, Array], Array]] | None = None
) -> Callable[[Array, Array], Array]:
    """Prefill time of a request of each class, mean over the pools that take it; (new, cached) -> s.

    Formula:     t = sum over pools share_pc * t_p(new, cached)
    Parameters:  question; plan; replaced, other prefill times per pool (to try another chunk size)
    Returns:     function of arrays (..., classes) [tokens] -> (..., classes) [s]
    Raises:      as the instances.
    Holds when:  routing stays as it is at other hit rates.
    References:  definition
    """
    mix = prefill_mix(plan, question.workload.classes.weight)

    def one(pool: Pool) -> Callable[[Array, Array], Array]:
        if replaced is not None:
            return replaced(pool)
        instance = question.instance_of(pool)
        return lambda new, cached: instance.prefill_time_s(new_tokens=new, cached_tokens=cached)

    times = [(one(pool), share) for pool, share in mix]

    def seconds(new: Array, cached: Array) -> Array:
        total = np.zeros(np.broadcast_shapes(np.shape(new), np.shape(cached)))
        for time_of, share in times:
            total = total + share * np.asarray(time_of(new, cached), dtype=float)
        return total

    return seconds


def aggregated_prefill_share(question: Question, outcome: Outcome) -> float:
    """Share of the busy time of aggregated pools that goes into prefill.

    Formula:     lambda E[t_stop] / (n rho), at most 1; t_stop = what of prefill stops decoding
    Parameters:  question; outcome of a plan with aggregated pools
    Returns:     [fraction]; 0 without such pools
    Raises:      nothing.
    Holds when:  utilisation counts prefill and decode of the same instances.
    References:  definition
    """
    plan, weight = outcome.plan, question.workload.classes.weight
    busy = prefilling = 0.0
    for pool, share in prefill_mix(plan, weight):
        if pool.role is Role.AGGREGATED:
            load = next((load for load in outcome.pools if load.pool == pool.id), None)
            busy += pool.instances * (load.utilization if load is not None else 1.0)
            prefilling += plan.rate_rps * float((weight * share) @ question.prefill_stop_s(pool))
    return min(1.0, prefilling / busy) if busy > 0 else 0.0


def serving_cost(question: Question, outcome: Outcome) -> ServingCost:
    """What a request costs, split into the part that follows prefill work, the line's, and the rest.

    Formula:     c_p = prefill cost / (requests E[t]); c_d = decode cost / requests; c_l = line cost / (requests E[s])
    Parameters:  question; outcome of a plan
    Returns:     ServingCost; at today's hit rate it gives exactly the plan's cost per request
    Raises:      nothing.
    Holds when:  pools keep their utilisation at other hit rates: they are sized to their load.
    References:  pdd-report, A4
    """
    classes = question.workload.classes
    requests = outcome.plan.rate_rps * seconds_per_month(question.sites.finance)
    by_role = role_cost(outcome.cost)
    part = aggregated_prefill_share(question, outcome)
    prefill_cost = by_role.prefill + by_role.aggregated * part
    time_of = prefill_time_of(question, outcome.plan)
    mean_s = classes.mean(time_of(classes.miss_prefill_tokens, classes.cached_prefill_tokens))
    crossing = classes.mean(classes.miss_decode_tokens)
    # Without any miss today nothing can be said per second or token: that cost is then charged per request.
    fixed = (0.0 if mean_s > 0 else prefill_cost) + (0.0 if crossing > 0 else by_role.line)
    return ServingCost(
        prefill_time_s=time_of,
        prefill_cost_per_s=prefill_cost / (requests * mean_s) if mean_s > 0 else 0.0,
        decode_cost_per_request=(by_role.decode + by_role.aggregated * (1 - part)) / requests,
        line_cost_per_token=by_role.line / (requests * crossing) if crossing > 0 else 0.0,
        fixed_cost_per_request=fixed / requests,
    )


def context_share(question: Question, plan: Plan) -> float:
    """Share of prefill time that is only there because of cached context.

    Formula:     1 - E[t(m, 0)] / E[t(m, c)]
    Parameters:  question; plan
    Returns:     [fraction] in [0, 1]
    Raises:      nothing.
    Holds when:  as prefill_time_of.
    References:  configiq10
    """
    classes = question.workload.classes
    time_of = prefill_time_of(question, plan)
    missed, cached = classes.miss_prefill_tokens, classes.cached_prefill_tokens
    whole = classes.mean(time_of(missed, cached))
    bare = classes.mean(time_of(missed, np.zeros_like(cached)))
    return float(np.clip(1.0 - bare / whole, 0.0, 1.0)) if whole > 0 else 0.0


def plan_token_cost(question: Question, outcome: Outcome) -> TokenCost:
    """Cost per million missed, cached and output tokens of a plan at its own rate."""
    finance = question.sites.finance
    return token_cost(
        outcome.cost,
        monthly_tokens(question.workload.classes, outcome.plan.rate_rps, finance=finance),
        context_share=context_share(question, outcome.plan),
        aggregated_prefill_share=aggregated_prefill_share(question, outcome),
    )
