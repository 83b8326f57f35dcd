"""Small random questions of every kind, and their best plan by brute force over counts, tiers and routes of classes.

Run many at once:  python -m tests.oracles.wide_cases FIRST LAST
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import LinePlan, Plan
from pddplan.domain.sites import Site, SiteChip, Sites
from pddplan.domain.workload import Promises
from pddplan.economics.costs import plan_cost
from pddplan.errors import InfeasibleError, PddplanError
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Objective, size
from tests.oracles.test_bruteforce_plans import Everything as PlainEverything
from tests.oracles.test_bruteforce_plans import everything as plain_everything
from tests.unit.optimize.small_question import (
    PREFILL_FIXED_S,
    PREFILL_S_PER_TOKEN,
    classes,
    line,
    question,
    shapes,
)

GAP = 1e-3
TOPOLOGIES = ("colocated", "pd", "pd-hetero", "cross-dc", "cross-dc-drc", "prfaas", "pdd")
ROOM = 0.01
"""How far loads of the plan found may lie beyond a ceiling: mixes settle to this."""


@dataclass(frozen=True)
class Case:
    """A question with its limits."""

    problem: Problem
    topology: str
    objective: Objective
    limits: Limits

    @property
    def budget(self) -> float:
        return self.objective.budget_per_month or math.inf


def drawn(seed: int) -> Case:
    """A random question: kinds of chips per role, inventory, spares, ceilings, topology and objective all vary."""
    draw = random.Random(seed)
    topology = draw.choice(TOPOLOGIES)
    count = 1 if topology in ("pdd", "prfaas") else draw.choice([1, 2])
    tokens = [draw.choice([8e3, 32e3, 64e3]) for _ in range(count)]
    missing = [length * draw.uniform(0.01, 0.6) for length in tokens]
    longest_s = PREFILL_FIXED_S + PREFILL_S_PER_TOKEN * max(missing)
    p99 = longest_s * draw.uniform(1.3, 4.0)
    kind = draw.choice(["cost", "cost", "bcr", "rps"])
    stock = draw.choice([None, None, 16, 24, 40]) if kind != "rps" else draw.choice([16, 24, 32])

    def offered(name: str, roles: tuple[str, ...]) -> SiteChip:
        return SiteChip(name, max_chips=stock, price_per_chip_hour=draw.uniform(1, 3), roles=roles)

    at_a = {"fast": offered("fast", ("P", "RLD", "MD", "AGG"))}
    if draw.random() < 0.3 and topology in ("pd-hetero", "colocated", "cross-dc-drc"):
        at_a["big"] = offered("big", ("P", "MD", "AGG"))
    at_b = {"big": offered("big", ("MD", "AGG"))}
    sites = Sites("wide", {"a": Site("a", at_a), "b": Site("b", at_b)}, {"ab": line(max_lines=draw.choice([1, 1, 2]))})
    problem = question(
        draw.uniform(0.5, 3.0),
        promises=Promises(
            ttft_p90_s=draw.choice([None, p99 * draw.uniform(0.5, 1.0)]),
            ttft_p99_s=p99,
            tpot_s=draw.choice([None, 0.05]),
        ),
        mix=classes(
            [draw.uniform(0.1, 1.0) for _ in range(count)],
            tokens,
            missing,
            [draw.choice([200.0, 600.0, 1500.0]) for _ in range(count)],
        ),
        sites=sites,
        scv=draw.choice([1.0, 1.0, 2.5]),
    )
    limits = Limits(
        gap=GAP,
        acceptable_gap=GAP,
        time_limit_s=300.0,
        redundant_instances=draw.choice([0, 0, 0, 1]),
        max_utilization=draw.choice([0.95, 0.95, 0.8]),
        max_line_utilization=draw.choice([0.9, 0.6]),
    )
    return Case(problem, topology, Objective(kind), limits)


@dataclass(frozen=True)
class Everything(PlainEverything):
    """All plans of a case, with its own ceilings, spares, inventory and numbers of lines."""

    case: Case

    def lines(self, routing: Sequence[int]) -> list[LinePlan | None]:
        if not any(self.paths[path].line for path in routing):
            return [None]
        leased = self.problem.sites.lines["ab"]
        return [LinePlan("ab", tier.gbps, n) for tier in leased.tiers for n in range(1, leased.max_lines + 1)]

    def keeps(self, plan: Plan, room: float = 1e-6) -> bool:
        """Promises and ceilings, without spares."""
        outcome = evaluate(self.problem, plan, detail=False)
        limits = self.case.limits
        fits = all(load.utilization <= limits.max_utilization + room for load in outcome.pools)
        fits = fits and all(load.utilization <= limits.max_line_utilization + room for load in outcome.lines)
        return outcome.keeps_promises and fits

    def full(self, plan: Plan) -> Plan:
        """With the instances that stand in reserve."""
        more = self.case.limits.redundant_instances
        return replace(plan, pools=tuple(replace(pool, instances=pool.instances + more) for pool in plan.pools))

    def within(self, plan: Plan) -> bool:
        held: dict[tuple[str, str], int] = {}
        for pool in plan.pools:
            held[pool.site, pool.chip] = held.get((pool.site, pool.chip), 0) + pool.chips
        stock = self.problem.sites.sites
        return all(
            stock[site].chips[chip].max_chips is None or chips <= stock[site].chips[chip].max_chips
            for (site, chip), chips in held.items()
        )

    def cost(self, plan: Plan) -> float:
        return plan_cost(self.full(plan), self.problem.sites, self.problem.chips).monthly_total

    def least_counts(self, routing: Sequence[int], taken: LinePlan | None, rate: float) -> dict[str, int]:
        """Instances that the load alone asks for."""
        many = {pool.id: 1000 for pool in self.pools}
        loads = evaluate(self.problem, self.plan(routing, many, taken, rate), detail=False).pools
        ceiling = self.case.limits.max_utilization
        return {load.pool: max(1, math.ceil(load.utilization * 1000 / ceiling - 1e-6)) for load in loads}


def everything(case: Case) -> Everything:
    plain = plain_everything(case.problem, case.topology)
    return Everything(plain.problem, plain.pools, plain.paths, case)


def cheapest(space: Everything, *, extra: int = 2) -> float:
    """Least cost at the rate of the workload, inf without a plan."""
    rate, best = space.problem.workload.arrival.rate_rps, math.inf
    for routing in space.routings():
        for taken in space.lines(routing):
            least = space.least_counts(routing, taken, rate)
            for more in itertools.product(range(extra + 1), repeat=len(least)):
                counts = {pool: count + add for (pool, count), add in zip(least.items(), more, strict=True)}
                plan = space.plan(routing, counts, taken, rate)
                if space.within(space.full(plan)) and space.cost(plan) < best and space.keeps(plan):
                    best = space.cost(plan)
    return best


def best_at_free_rate(space: Everything, *, most_rps: float, ratio: bool) -> float:
    """Best req/s per 1,000 a month, or most req/s, over all counts, each at the highest rate that it serves."""
    best = 0.0
    for routing in space.routings():
        for taken in space.lines(routing):
            most = space.least_counts(routing, taken, most_rps)
            for values in itertools.product(*(range(1, count + 2) for count in most.values())):
                counts = dict(zip(most, values, strict=True))
                plan = space.plan(routing, counts, taken, most_rps)
                if not space.within(space.full(plan)):
                    continue
                scale = 1000.0 / space.cost(plan) if ratio else 1.0
                if most_rps * scale > best:
                    best = max(best, scale * _highest_rate(space, plan, most_rps, worth=best / scale))
    return best


def _highest_rate(space: Everything, plan: Plan, most_rps: float, *, worth: float) -> float:
    """The highest rate a fleet serves; 0 when that is not more than ``worth``."""
    if worth > 0 and not space.keeps(replace(plan, rate_rps=worth)):
        return 0.0
    low, high = worth, most_rps
    if space.keeps(replace(plan, rate_rps=high)):
        return high
    for _ in range(14):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if space.keeps(replace(plan, rate_rps=middle)) else (low, middle)
    return low


def found_by_optimiser(case: Case) -> Outcome | None:
    try:
        return size(
            case.problem,
            topology=case.topology,
            objective=case.objective,
            limits=case.limits,
            shapes=shapes,
            relax=False,
        )
    except InfeasibleError:
        return None


def miss(case: Case) -> float:
    """By how much brute force is better than the optimiser, as a fraction; also checks the plan itself."""
    space, found = everything(case), found_by_optimiser(case)
    demand = case.problem.workload.arrival.rate_rps
    if found is not None:
        less = case.limits.redundant_instances
        bare = replace(
            found.plan,
            pools=tuple(replace(pool, instances=pool.instances - less) for pool in found.plan.pools),
        )
        assert space.keeps(bare, ROOM), "the plan found breaks a promise or a ceiling"
        assert space.within(found.plan), "the plan found uses more chips than there are"
    if case.objective.kind == "cost":
        by_hand = cheapest(space)
        if math.isinf(by_hand):
            return 0.0
        return math.inf if found is None else found.cost.monthly_total / by_hand - 1.0
    ratio = case.objective.kind == "bcr"
    most = demand if ratio else 3.0 * demand
    by_hand = best_at_free_rate(space, most_rps=most, ratio=ratio)
    if by_hand <= 0.0:
        return 0.0
    if found is None:
        return math.inf
    reached = found.bcr if ratio else min(found.goodput_rps, most)
    return by_hand / reached - 1.0


def main() -> None:
    """Print every case in which brute force is better."""
    worst, bad, first, last = 0.0, 0, int(sys.argv[1]), int(sys.argv[2])
    for seed in range(first, last):
        case = drawn(seed)
        try:
            missed = miss(case)
        except (AssertionError, PddplanError) as error:
            bad += 1
            print(
                f"seed {seed}: {type(error).__name__} {error}",
                case.topology,
                case.objective.kind,
                case.limits,
                flush=True,
            )
            continue
        worst = max(worst, missed)
        if (seed - first) % 20 == 19:
            print(f"{seed - first + 1} cases, {bad} bad, worst miss {worst:.3%}", flush=True)
        if missed > 1.1 * GAP:
            bad += 1
            print(f"seed {seed}: {missed:.2%}", case.topology, case.objective.kind, case.limits, flush=True)
    print(f"{last - first} cases, {bad} bad, worst miss {worst:.3%}")


if __name__ == "__main__":
    main()
