"""The optimiser against brute force where promises are made to traffic classes and limits go beyond promises.

As in test_bruteforce_plans, each class is whole on one path; every count and tier is judged by the one evaluator.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import LinePlan, Plan
from pddplan.domain.sites import Finance, SiteChip
from pddplan.domain.workload import Promises
from pddplan.economics.unit_costs import chip_power_w
from pddplan.errors import InfeasibleError
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Objective, size
from pddplan.optimize.mix import pools_of
from pddplan.optimize.topologies import candidate_paths, candidate_pools, find_topology, paces
from pddplan.units import WATTS_PER_KW
from tests.oracles.test_bruteforce_plans import Everything
from tests.unit.optimize.small_question import (
    PREFILL_FIXED_S,
    PREFILL_S_PER_TOKEN,
    classes,
    line,
    question,
    shapes,
    two_sites,
)

GAP = 1e-3
EXACT = Limits(gap=GAP, acceptable_gap=GAP)
EXTRA = 3


def with_classes(seed: int) -> Problem:
    """Two traffic classes: chat wants a quick first token and sometimes a quick pace, agents are patient."""
    draw = random.Random(seed)
    missing = [draw.uniform(300, 1_500), draw.uniform(8e3, 30e3)]
    quick_s = PREFILL_FIXED_S + PREFILL_S_PER_TOKEN * missing[0]
    slow_s = PREFILL_FIXED_S + PREFILL_S_PER_TOKEN * missing[1]
    mix = replace(classes([draw.uniform(0.3, 3), 1.0], [8e3, 64e3], missing, [300, 900]), group=("chat", "agents"))
    promises = Promises(
        ttft_p99_s=slow_s * draw.uniform(2.0, 4.0),
        tpot_s=0.05,
        by_class={
            "chat": Promises(ttft_p99_s=quick_s * draw.uniform(1.5, 6.0), tpot_s=draw.choice([None, 0.022, 0.03])),
            "agents": Promises(ttft_p90_s=slow_s * draw.uniform(1.5, 3.0)),
        },
    )
    return question(
        draw.uniform(1.0, 4.0),
        promises=promises,
        mix=mix,
        sites=two_sites(
            at_a=SiteChip("fast", price_per_chip_hour=draw.uniform(1, 3), roles=("P", "MD")),
            at_b=SiteChip("big", price_per_chip_hour=draw.uniform(1, 3), roles=("MD",)),
        ),
    )


def all_of(problem: Problem, topology: str) -> Everything:
    chosen = find_topology(topology)
    pools = candidate_pools(
        problem.sites, chosen, shapes=shapes, allowed_chips=None, paces=paces(problem.workload.promises)
    )
    paths = candidate_paths(problem.sites, chosen, pools)
    used = {pool for path in paths for pool in pools_of(path)}
    return Everything(problem, tuple(pool for pool in pools if pool.id in used), tuple(paths))


def cheapest(space: Everything, limits: Limits, *, extra: int = EXTRA) -> float:
    """Least monthly cost of all counts, tiers and numbers of lines, each class whole on one path."""
    problem, best = space.problem, math.inf
    for routing in space.routings():
        for working in _lines(space, routing, limits):
            many = {pool.id: 1000 for pool in space.pools}
            loads = evaluate(problem, space.plan(routing, many, working, problem.workload.arrival.rate_rps)).pools
            least = {
                load.pool: max(1, math.ceil(load.utilization * 1000 / limits.max_utilization - 1e-6)) for load in loads
            }
            for more in itertools.product(range(extra + 1), repeat=len(least)):
                counts = {pool: count + add for (pool, count), add in zip(least.items(), more, strict=True)}
                plan = space.plan(routing, counts, working, problem.workload.arrival.rate_rps)
                paid = _paid(plan, limits)
                if _within(problem, paid, limits):
                    outcome, whole = evaluate(problem, plan), evaluate(problem, paid)
                    if outcome.keeps_promises and whole.keeps_promises and _fits(outcome, limits):
                        best = min(best, whole.cost.monthly_total)
    return best


def _lines(space: Everything, routing: tuple[int, ...], limits: Limits) -> list[LinePlan | None]:
    """Working lines: with the loss of one to be survived, one more is paid for."""
    if not any(space.paths[path].line for path in routing):
        return [None]
    leased = space.problem.sites.lines["ab"]
    counts = range(1, leased.max_lines + 1 - limits.survive_line_loss)
    return [LinePlan("ab", tier.gbps, count) for tier in leased.tiers for count in counts]


def _paid(plan: Plan, limits: Limits) -> Plan:
    pools = tuple(replace(pool, instances=pool.instances + limits.redundant_instances) for pool in plan.pools)
    return replace(
        plan,
        pools=pools,
        lines=tuple(replace(taken, count=taken.count + limits.survive_line_loss) for taken in plan.lines),
    )


def _within(problem: Problem, plan: Plan, limits: Limits) -> bool:
    drawn: dict[str, float] = {}
    for pool in plan.pools:
        site = problem.sites.sites[pool.site]
        watts = chip_power_w(problem.chips[pool.chip], site, finance=problem.sites.finance)
        drawn[pool.site] = drawn.get(pool.site, 0.0) + pool.chips * watts / WATTS_PER_KW
    sites = problem.sites.sites
    fits = all(drawn.get(s.id, 0.0) <= s.power_limit_kw + 1e-9 for s in sites.values() if s.power_limit_kw is not None)
    return fits and (limits.max_chips is None or sum(pool.chips for pool in plan.pools) <= limits.max_chips)


def _fits(outcome: Outcome, limits: Limits) -> bool:
    return all(load.utilization <= limits.max_utilization + 1e-6 for load in outcome.pools) and all(
        load.utilization <= limits.max_line_utilization + 1e-6 for load in outcome.lines
    )


def check(problem: Problem, topology: str, limits: Limits, *, extra: int = EXTRA) -> Outcome | None:
    by_hand = cheapest(all_of(problem, topology), limits, extra=extra)
    try:
        found = size(problem, topology=topology, objective=Objective("cost"), limits=limits, shapes=shapes, relax=False)
    except InfeasibleError:
        assert math.isinf(by_hand), "brute force found a plan where the optimiser saw none"
        return None
    assert found.keeps_promises
    assert found.cost.monthly_total <= by_hand * (1 + 1.1 * GAP)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_promises_to_traffic_classes(seed: int) -> None:
    problem = with_classes(seed)
    found = check(problem, "pd-hetero", EXACT, extra=2)
    if found is not None:
        for promise in problem.workload.promises.made():
            assert found.reached_s(promise) <= promise.limit_s * (1 + 1e-9), promise.name


def test_a_promise_to_one_class_costs_less_than_the_same_promise_to_all() -> None:
    problem = with_classes(1)
    by_class = problem.workload.promises.by_class
    tight = by_class["chat"].ttft_p99_s
    assert tight is not None
    to_all = replace(problem.workload.promises, ttft_p99_s=tight)
    asked = replace(problem, workload=replace(problem.workload, promises=to_all), memo={})
    one = check(problem, "pd-hetero", EXACT, extra=1)
    assert one is not None
    with pytest.raises(InfeasibleError):  # an agent's prefill alone takes longer
        size(asked, topology="pd-hetero", objective=Objective("cost"), limits=EXACT, shapes=shapes, relax=False)


COMBINATIONS = [
    replace(EXACT, redundant_instances=1),
    replace(EXACT, survive_line_loss=True),
    replace(EXACT, max_utilization=0.6, redundant_instances=1),
    replace(EXACT, max_utilization=0.7, max_line_utilization=0.4, survive_line_loss=True),
    replace(EXACT, redundant_instances=1, survive_line_loss=True, max_chips=64),
]


@pytest.mark.parametrize("limits", COMBINATIONS)
@pytest.mark.parametrize(
    "seed", [0, 4]
)  # 4: with its spare a pool sends in larger bunches and breaks P99 on a thin line
def test_limits_in_combination(seed: int, limits: Limits) -> None:
    draw = random.Random(seed)
    sites = two_sites(
        at_a=SiteChip("fast", price_per_chip_hour=draw.uniform(1, 3), roles=("P",)),
        at_b=SiteChip("big", price_per_chip_hour=draw.uniform(1, 3), roles=("MD",)),
        leased=line(max_lines=3),
    )
    finance = Finance(spare_fraction=draw.choice([0.0, 0.1]), hours_per_month=730.0)
    places = {name: replace(site, power_limit_kw=draw.choice([None, 20.0, 40.0])) for name, site in sites.sites.items()}
    sites = replace(sites, sites=places, finance=finance)
    problem = question(draw.uniform(2.0, 6.0), mix=classes([1, 2], [64e3, 64e3], [20e3, 1e3], [800, 800]), sites=sites)
    check(problem, "cross-dc-drc", limits)


def test_members_of_a_traffic_class() -> None:
    mix = with_classes(0).workload.classes
    assert mix.groups == ("chat", "agents")
    assert np.array_equal(mix.members("agents"), [0.0, 1.0])
    assert np.array_equal(mix.members(""), [1.0, 1.0])
