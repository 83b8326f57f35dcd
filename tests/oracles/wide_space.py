"""Every plan of a small question with limits, by brute force: counts, tiers, numbers of lines, one path per class."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import LinePlan, Plan
from pddplan.economics.costs import plan_cost
from pddplan.economics.unit_costs import chip_power_w
from pddplan.errors import InfeasibleError
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Objective, size
from pddplan.optimize.mix import pools_of
from pddplan.optimize.topologies import Shapes, candidate_paths, candidate_pools, find_topology, paces
from pddplan.units import WATTS_PER_KW
from tests.oracles.test_bruteforce_plans import Everything as PlainEverything

ROOM = 0.01
"""How far loads of the plan found may lie beyond a ceiling: mixes settle to this."""
NEARLY = 0.01


@dataclass(frozen=True)
class Case:
    """A question with its limits."""

    problem: Problem
    topology: str
    objective: Objective
    limits: Limits
    shapes: Shapes

    @property
    def budget(self) -> float:
        return self.objective.budget_per_month or math.inf


@dataclass(frozen=True)
class Everything(PlainEverything):
    """All plans of a case, with its own ceilings, spares, inventory and numbers of lines."""

    case: Case

    def lines(self, routing: Sequence[int]) -> list[list[LinePlan]]:  # type: ignore[override]
        """Working lines: where the loss of one is to be survived, one more is paid for."""
        used = sorted({line for path in routing if (line := self.paths[path].line) is not None})
        lost = int(self.case.limits.survive_line_loss)
        options = []
        for line in used:
            leased = self.problem.sites.lines[line]
            counts = range(1, leased.max_lines + 1 - lost)
            options.append([LinePlan(line, tier.gbps, n) for tier in leased.tiers for n in counts])
        return [list(taken) for taken in itertools.product(*options)]

    def plan_on(self, routing: Sequence[int], counts: dict[str, int], taken: list[LinePlan], rate: float) -> Plan:
        return replace(self.plan(routing, counts, None, rate), lines=tuple(taken))

    def alike(self, routing: Sequence[int]) -> bool:
        """Instances of one chip in one role at one site (for one pace) have one shape."""
        open_pools = {pool for path in routing for pool in pools_of(self.paths[path])}
        kinds = [(p.site, p.role, p.chip, p.tpot_s) for p in self.pools if p.id in open_pools]
        return len(kinds) == len(set(kinds))

    def keeps(self, plan: Plan, room: float = 1e-6) -> bool:
        """Promises and ceilings, without what stands in reserve."""
        outcome = evaluate(self.problem, plan, detail=False)
        limits = self.case.limits
        fits = all(load.utilization <= limits.max_utilization + room for load in outcome.pools)
        fits = fits and all(load.utilization <= limits.max_line_utilization + room for load in outcome.lines)
        return outcome.keeps_promises and fits

    def keeps_in_full(self, plan: Plan) -> bool:
        full = self.full(plan)
        return full == plan or evaluate(self.problem, full, detail=False).keeps_promises

    def full(self, plan: Plan) -> Plan:
        """With the instances and lines that stand in reserve."""
        more, lost = self.case.limits.redundant_instances, int(self.case.limits.survive_line_loss)
        return replace(
            plan,
            pools=tuple(replace(pool, instances=pool.instances + more) for pool in plan.pools),
            lines=tuple(replace(taken, count=taken.count + lost) for taken in plan.lines),
        )

    def bare(self, plan: Plan) -> Plan:
        """Without them."""
        less, lost = self.case.limits.redundant_instances, int(self.case.limits.survive_line_loss)
        return replace(
            plan,
            pools=tuple(replace(pool, instances=pool.instances - less) for pool in plan.pools),
            lines=tuple(replace(taken, count=taken.count - lost) for taken in plan.lines),
        )

    def within(self, full: Plan) -> bool:
        """Inventory, power, chips in all and budget."""
        held: dict[tuple[str, str], int] = {}
        power: dict[str, float] = {}
        places = self.problem.sites
        for pool in full.pools:
            held[pool.site, pool.chip] = held.get((pool.site, pool.chip), 0) + pool.chips
            if places.sites[pool.site].power_limit_kw is not None:
                watts = chip_power_w(self.problem.chips[pool.chip], places.sites[pool.site], finance=places.finance)
                power[pool.site] = power.get(pool.site, 0.0) + pool.chips * watts / WATTS_PER_KW
        stock = {key: places.sites[key[0]].chips[key[1]].max_chips for key in held}
        kilowatts = {site: places.sites[site].power_limit_kw for site in power}
        most = self.case.limits.max_chips
        return (
            all(limit is None or held[key] <= limit for key, limit in stock.items())
            and all(limit is None or power[site] <= limit + 1e-9 for site, limit in kilowatts.items())
            and (most is None or sum(held.values()) <= most)
            and self.price(full) <= self.case.budget * (1 + 1e-9)
        )

    def price(self, full: Plan) -> float:
        return plan_cost(full, self.problem.sites, self.problem.chips).monthly_total

    def cost(self, plan: Plan) -> float:
        return self.price(self.full(plan))

    def least_on(self, routing: Sequence[int], taken: list[LinePlan], rate: float) -> dict[str, int] | None:
        """Instances that the load alone asks for; None where a pool cannot hold its pace at any number."""
        many = {pool.id: 1000 for pool in self.pools}
        loads = evaluate(self.problem, self.plan_on(routing, many, taken, rate), detail=False).pools
        ceiling = self.case.limits.max_utilization
        if not all(math.isfinite(load.utilization) for load in loads):
            return None
        return {load.pool: max(1, math.ceil(load.utilization * 1000 / ceiling - 1e-6)) for load in loads}


def everything(case: Case) -> Everything:
    chosen = find_topology(case.topology)
    pools = candidate_pools(
        case.problem.sites,
        chosen,
        shapes=case.shapes,
        allowed_chips=None,
        paces=paces(case.problem.workload.promises),
    )
    paths = candidate_paths(case.problem.sites, chosen, pools)
    used = {pool for path in paths for pool in pools_of(path)}
    return Everything(case.problem, tuple(pool for pool in pools if pool.id in used), tuple(paths), case)


def cheapest(space: Everything, *, extra: int = 2) -> float:
    """Least cost at the rate of the workload, inf without a plan."""
    rate, best = space.problem.workload.arrival.rate_rps, math.inf
    for routing in filter(space.alike, space.routings()):
        for taken in space.lines(routing):
            least = space.least_on(routing, taken, rate)
            if least is None:
                continue
            for more in itertools.product(range(extra + 1), repeat=len(least)):
                counts = {pool: count + add for (pool, count), add in zip(least.items(), more, strict=True)}
                plan = space.plan_on(routing, counts, taken, rate)
                full = space.full(plan)
                if space.price(full) < best and space.within(full) and space.keeps(plan) and space.keeps_in_full(plan):
                    best = space.price(full)
    return best


def best_at_free_rate(space: Everything, *, most_rps: float, ratio: bool) -> float:
    """Best req/s per 1,000 a month, or most req/s, over all counts, each at the highest rate that it serves."""
    best = 0.0
    for routing in filter(space.alike, space.routings()):
        for taken in space.lines(routing):
            most = space.least_on(routing, taken, most_rps)
            if most is None:
                continue
            for values in itertools.product(*(range(1, count + 2) for count in most.values())):
                counts = dict(zip(most, values, strict=True))
                plan = space.plan_on(routing, counts, taken, most_rps)
                if not space.within(space.full(plan)):
                    continue
                scale = 1000.0 / space.cost(plan) if ratio else 1.0
                if most_rps * scale > best:
                    best = max(best, scale * _highest_rate(space, plan, most_rps, worth=best / scale))
    return best


def _highest_rate(space: Everything, plan: Plan, most_rps: float, *, worth: float) -> float:
    """The highest rate a fleet serves; 0 when that is not more than ``worth``."""

    def serves(rate: float) -> bool:
        slower = replace(plan, rate_rps=rate)
        return space.keeps(slower) and space.keeps_in_full(slower)

    if worth > 0 and not serves(worth):
        return 0.0
    low, high = worth, most_rps
    if serves(high):
        return high
    for _ in range(14):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if serves(middle) else (low, middle)
    return low


def found_by_optimiser(case: Case) -> Outcome | InfeasibleError:
    try:
        return size(
            case.problem,
            topology=case.topology,
            objective=case.objective,
            limits=case.limits,
            shapes=case.shapes,
            relax=False,
        )
    except InfeasibleError as error:
        return error


@dataclass(frozen=True)
class Verdict:
    """What the optimiser found against brute force."""

    missed: float
    """By how much brute force is better, as a fraction; inf where only it has a plan."""
    gap: float = 0.0
    """What the plan says of itself."""
    says_not_proven: bool = False
    """Of no plan."""

    @property
    def kind(self) -> str:
        if math.isinf(self.missed):
            return "no plan, said not proven" if self.says_not_proven else "WRONGLY INFEASIBLE"
        if self.missed <= 1.1e-3:
            return "equal or better"
        if self.missed <= NEARLY:
            return "within 1 %"
        # bounds and what is missed have different bases: plan against best
        said = self.missed / (1.0 + self.missed) if self.gap < self.missed else self.missed
        return "short, gap says so" if self.gap >= 0.9 * said else "SHORT WITHOUT THE GAP SAYING SO"


def verdict(case: Case) -> Verdict:
    """Hold the optimiser against brute force; also checks the plan itself."""
    space, found = everything(case), found_by_optimiser(case)
    if isinstance(found, Outcome):
        assert space.keeps(space.bare(found.plan), ROOM), "the plan found breaks a promise or a ceiling"
        assert found.keeps_promises, "the plan found breaks a promise with its reserves"
        assert space.within(found.plan), "the plan found goes beyond a limit"
    demand = case.problem.workload.arrival.rate_rps
    if case.objective.kind == "cost":
        by_hand = cheapest(space)
        none = math.isinf(by_hand)
    else:
        ratio = case.objective.kind == "bcr"
        most = demand if ratio else 3.0 * demand
        by_hand = best_at_free_rate(space, most_rps=most, ratio=ratio)
        none = by_hand <= 0.0
    if none:
        return Verdict(0.0)
    if isinstance(found, InfeasibleError):
        return Verdict(math.inf, says_not_proven="not proven" in found.what)
    gap = found.solver.gap if found.solver is not None else math.inf
    if case.objective.kind == "cost":
        return Verdict((found.cost.monthly_total - by_hand) / max(by_hand, 1.0), gap)  # owned chips may cost nothing
    reached = found.bcr if ratio else min(found.goodput_rps, most)
    return Verdict(by_hand / reached - 1.0, gap)
