"""What one more of each thing would buy: promises eased, limits widened, more traffic, an instance, a thicker line.

A marginal value is the difference between two plans, not a dual value, because chips come in whole instances and lines
in tiers. Promises are eased in groups first: what nothing comes of together, nothing comes of alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan
from pddplan.domain.sites import Line, Sites
from pddplan.domain.workload import Promise, Promises
from pddplan.evaluate.problem import Problem
from pddplan.optimize.asker import SAME, Asker, chips, cost, only_shapes_of
from pddplan.optimize.asking import with_chips
from pddplan.optimize.limits_used import inventory_name, limits_used
from pddplan.optimize.objective import Objective
from pddplan.units import MS_PER_S

TPOT_STEP_S = 0.005
STEPS_S = (0.1, 1.0, 10.0)
"""Other promises are eased by the largest of these that is at most half of them, or else by a tenth."""
RATE_STEPS = (0.1, 0.25, 0.5, 1.0, 2.0)
"""More traffic is asked about at the first of these that the fleet as it is does not carry."""
LIMIT_STEP = 0.1
CEILING_STEP = 0.05
HIGHEST_CEILING = 0.99
NODES_FOR_RATE = 8
NODES_FROM_FLEET = 2
"""From a fleet that carries so much: one that costs less is near, or not found soon."""
NODES_FOR_ALL = 40
"""For all promises eased together: what that shows it shows of each."""
FLEET_GAP = 2e-3
NODES_PER_FLEET = 25
"""A fleet that is there leaves little to search for, so that the last digits of its rate can be had."""
MOST_TIMES = 4.0
"""Of the plan's rate: no fleet is asked for more."""
ALL_PROMISES = "all promises"
RATE = "rate"


@dataclass(frozen=True, slots=True)
class Marginal:
    """One thing made easier (or larger) and what the best plan then gains."""

    lever: str
    change: str
    cost_change: float | None = None
    """Per month; negative = cheaper. None where the lever buys requests."""
    chips_change: int | None = None
    rate_change_rps: float | None = None
    """Requests per second gained."""
    why_not: str | None = None
    uncertain: float = 0.0
    """How much more than this may be gained, because the search stopped at a gap; in its own unit."""
    doubtful: float = 0.0
    """How much of it the fleet as it is may carry as well, because the search for that stopped at a gap."""
    price_per_month: float | None = None
    """What the lever itself costs (an instance, a thicker line), where it buys requests with the fleet as it is."""
    however_far: bool = False
    """True where even taking the promise back would change nothing."""

    @property
    def eases(self) -> bool:
        """Whether the plan answers the changed question too: then nothing better there is nothing better here."""
        return self.lever != RATE and self.price_per_month is None

    @property
    def nothing(self) -> bool:
        """Whether no better plan was found."""
        return self.why_not is None and not self.cost_change and not self.rate_change_rps


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """All levers, most valuable first, and what the fleet as it is can carry."""

    levers: tuple[Marginal, ...]
    carries_rps: float | None
    """Most requests per second that the plan's fleet serves within all promises; None where that was not found."""


def all_eased(asker: Asker, start: Outcome) -> Outcome | str:
    """The best plan with every promise eased by its step: nothing better there is nothing better here."""
    eased = _with(asker.problem, _eased(asker.problem.workload.promises, None))
    return asker.ask(eased, limits=asker.limits_for(asker.plan.topology, nodes=NODES_FOR_ALL), start=start)


def marginals(asker: Asker, base: Outcome, eased: Outcome | str) -> Marginals:
    """Every lever of a plan, in the order of what it is worth; ``eased`` is the answer of ``all_eased``."""
    found = [*_promises(asker, base, eased), *_wider_limits(asker, base)]
    fleet = _Fleet(asker, base)
    now = fleet.served(fleet.sites(base.plan), start=base)
    carries, larger = None, []
    if isinstance(now, Outcome):
        carries = now.goodput_rps
        for made, outcome in _more_of_the_fleet(fleet, base, now):
            found.append(made)
            larger += [outcome] if isinstance(outcome, Outcome) else []
    if not asker.most_requests:
        found.append(_more_traffic(asker, base, carries or base.plan.rate_rps, larger))
    per_request = cost(base) / base.plan.rate_rps
    return Marginals(tuple(sorted(found, key=lambda m: -_worth(m, per_request))), carries)


def _worth(marginal: Marginal, per_request: float) -> float:
    """Money a month that a lever is worth, for the order only: what more requests cost today, less their own price."""
    if marginal.rate_change_rps is not None:
        bought = marginal.rate_change_rps * per_request
        return bought - (marginal.price_per_month or 0.0) if bought > 0 else -math.inf
    if marginal.why_not is not None or not marginal.cost_change:
        return -math.inf
    return -marginal.cost_change


# ---- promises


def _promises(asker: Asker, base: Outcome, eased: Outcome | str) -> Iterator[Marginal]:
    promises = tuple(asker.problem.workload.promises.made())
    if not promises:
        return
    free = asker.ask(_with(asker.problem, Promises()), start=base)
    if isinstance(eased, Outcome) and (isinstance(free, str) or asker.gain(eased, free) > 0):
        free = eased  # a plan that was found with less eased
    most = math.inf
    if isinstance(free, Outcome):
        most = _gained(asker, free, base) + asker.open_gain(free, base)
        if most <= SAME * abs(asker.value(base)):
            for promise in promises:
                yield replace(_nothing(asker, f"{promise.name} promise", _step_shown(promise)), however_far=True)
            return
        if len(promises) > 1 and not asker.same(free, base):
            yield _change(asker, ALL_PROMISES, "not made", free, base)
    yield from _tested(asker, base, promises, eased, most=most)


def _eased(promises: Promises, those: Sequence[Promise] | None) -> Promises:
    """Some promises, or all, eased by their steps."""
    for promise in tuple(promises.made()) if those is None else those:
        promises = promises.with_limit(promise.kind, promise.limit_s + _step_s(promise), group=promise.group)
    return promises


def _tested(
    asker: Asker, base: Outcome, promises: Sequence[Promise], found: Outcome | str, *, most: float
) -> Iterator[Marginal]:
    """Promises of which all together bring what was ``found``; each alone where that is anything, at most ``most``."""
    if len(promises) == 1:
        made = _change(asker, f"{promises[0].name} promise", _step_shown(promises[0]), found, base)
        yield replace(made, uncertain=min(made.uncertain, max(most - _gained(asker, found, base), 0.0)))
        return
    if isinstance(found, Outcome) and (asker.same(found, base) or asker.gain(found, base) < 0):
        left = min(asker.open_gain(found, base), most)
        for promise in promises:
            yield replace(_nothing(asker, f"{promise.name} promise", _step_shown(promise)), uncertain=left)
        return
    if isinstance(found, Outcome):
        most = min(most, asker.gain(found, base) + asker.open_gain(found, base))
    parts = len(promises) // 2 if len(promises) > 3 else 1  # halves of many, else one by one
    for at in range(0, len(promises), parts):
        part = promises[at : at + parts]
        alone = asker.ask(_with(asker.problem, _eased(asker.problem.workload.promises, part)), start=base)
        yield from _tested(asker, base, part, alone, most=most)


def _gained(asker: Asker, found: Outcome | str, base: Outcome) -> float:
    return max(asker.gain(found, base), 0.0) if isinstance(found, Outcome) else 0.0


def _with(problem: Problem, promises: Promises) -> Problem:
    return problem.under(replace(problem.workload, promises=promises))


def _step_s(promise: Promise) -> float:
    """By how much a promise is eased."""
    if promise.kind.latency == "tpot":
        return TPOT_STEP_S
    return max((step for step in STEPS_S if step <= 0.5 * promise.limit_s), default=0.1 * promise.limit_s)


def _step_shown(promise: Promise) -> str:
    step_s = _step_s(promise)
    return f"+{step_s * MS_PER_S:g} ms" if promise.kind.latency == "tpot" else f"+{step_s:g} s"


# ---- limits that bind, and redundancy that was asked for


def _wider_limits(asker: Asker, base: Outcome) -> Iterator[Marginal]:
    problem, sites = asker.problem, asker.problem.sites
    limits = asker.limits_for(asker.plan.topology)
    binding = {found.limit: found for found in limits_used(problem, base, limits=limits, objective=asker.goal)}
    for pool in base.plan.pools:
        held = binding.pop(inventory_name(pool.chip, pool.site), None)
        if held is not None:
            more = with_chips(sites, sites.sites[pool.site], pool.chip, round(held.available) + pool.shape.chips)
            found = asker.ask(replace(problem, sites=more), start=base)
            yield _change(asker, held.limit, f"+{pool.shape.chips} chips", found, base)
    for site in sites.sites.values():
        limit_kw = site.power_limit_kw
        if f"power of site {site.id}" in binding and limit_kw is not None:
            places = {**sites.sites, site.id: replace(site, power_limit_kw=(1 + LIMIT_STEP) * limit_kw)}
            found = asker.ask(replace(problem, sites=replace(sites, sites=places)), start=base)
            yield _change(asker, f"power of site {site.id}", f"+{LIMIT_STEP:.0%}", found, base)
    if limits.max_chips is not None and "chips in all" in binding:
        step = min(pool.shape.chips for pool in base.plan.pools)
        found = asker.ask(limits=replace(limits, max_chips=limits.max_chips + step), start=base)
        yield _change(asker, "chips in all", f"+{step} chips", found, base)
    budget = asker.goal.budget_per_month
    if budget is not None and asker.most_requests:
        more_money = replace(asker.goal, budget_per_month=(1 + LIMIT_STEP) * budget)
        found = asker.ask(objective=more_money, start=base)
        made = _change(asker, "budget", f"+{LIMIT_STEP:.0%}", found, base)
        yield replace(made, price_per_month=cost(found) - cost(base)) if isinstance(found, Outcome) else made
    yield from _ceilings(asker, base, frozenset(binding))
    if limits.redundant_instances:
        fewer = limits.redundant_instances - 1
        found = asker.ask(limits=replace(limits, redundant_instances=fewer), start=base)
        yield _change(asker, "spare instances per pool", f"{fewer + 1} -> {fewer}", found, base)
    if limits.survive_line_loss and base.plan.lines:
        found = asker.ask(limits=replace(limits, survive_line_loss=False), start=base)
        yield _change(asker, "survival of a lost line", "not asked for", found, base)


def _ceilings(asker: Asker, base: Outcome, binding: frozenset[str]) -> Iterator[Marginal]:
    limits = asker.limits_for(asker.plan.topology)
    pools, lines = (_higher(limits.max_utilization), _higher(limits.max_line_utilization))
    for what, asked, higher, eased in (
        ("pool", limits.max_utilization, pools, replace(limits, max_utilization=pools)),
        ("line", limits.max_line_utilization, lines, replace(limits, max_line_utilization=lines)),
    ):
        if any(name.startswith(f"ceiling of {what}") for name in binding) and higher > asked:
            found = asker.ask(limits=eased, start=base)
            yield _change(asker, f"ceiling of {what}s", f"{asked:g} -> {higher:g}", found, base)


def _higher(ceiling: float) -> float:
    return max(min(ceiling + CEILING_STEP, HIGHEST_CEILING), ceiling)


# ---- more traffic, and more of the fleet


def _more_traffic(asker: Asker, base: Outcome, carries_rps: float, larger: Sequence[Outcome]) -> Marginal:
    """What more traffic costs than the fleet as it is can carry; ``larger`` are fleets known to carry more."""
    rate = base.plan.rate_rps
    step = next((s for s in RATE_STEPS if (1 + s) * rate > carries_rps * (1 + 1e-9)), RATE_STEPS[-1])
    able = [plan for plan in larger if plan.goodput_rps >= (1 + step) * rate]
    found = asker.ask(
        objective=replace(asker.goal, rate_rps=(1 + step) * rate), start=min(able, key=cost, default=None)
    )
    if isinstance(found, str):
        return Marginal(RATE, f"+{step:.0%}", why_not=found)
    return _difference(asker, RATE, f"+{step:.0%}", found, base)


@dataclass(frozen=True, slots=True, eq=False)
class _Fleet:
    """The plan's own kinds of instances and lines, in its own roles: how much do they carry?"""

    asker: Asker
    base: Outcome

    def served(self, places: Sites, *, start: Outcome | Plan) -> Outcome | str:
        """Most requests per second that places serve; ``start`` is a plan known to fit them."""
        asker = self.asker
        limits = replace(
            asker.limits,
            gap=FLEET_GAP,
            acceptable_gap=FLEET_GAP,
            max_nodes=NODES_PER_FLEET,
            max_chips=None,
            allowed_chips=None,
        )
        most = Objective("rps", rate_rps=MOST_TIMES * self.base.plan.rate_rps)
        known = start if isinstance(start, Outcome) else replace(self.base, plan=start)
        question = replace(asker.problem, sites=places)
        return asker.ask(question, objective=most, limits=limits, shapes=only_shapes_of(self.base.plan), start=known)

    def sites(self, plan: Plan, *, more: str | None = None, tiers: dict[str, float] | None = None) -> Sites:
        """Places that hold exactly a plan's chips in their roles, and its lines at their tiers."""
        sites = self.asker.problem.sites
        held: dict[tuple[str, str], int] = {}
        roles: dict[tuple[str, str], set[str]] = {}
        for pool in plan.pools:
            key = (pool.site, pool.chip)
            held[key] = held.get(key, 0) + pool.chips + (pool.shape.chips if pool.id == more else 0)
            roles.setdefault(key, set()).add(pool.role.value)
        places = {}
        for site in sites.sites.values():
            kept = {
                name: replace(chip, max_chips=held[site.id, name], roles=tuple(sorted(roles[site.id, name])))
                for name, chip in site.chips.items()
                if (site.id, name) in held
            }
            places[site.id] = replace(site, chips=kept, power_limit_kw=None)
        lines = {}
        for taken in plan.lines:
            line = sites.lines[taken.line]
            gbps = (tiers or {}).get(line.id, taken.gbps)
            kept_tiers = tuple(tier for tier in line.tiers if abs(tier.gbps - gbps) <= 1e-9 * gbps)
            lines[line.id] = replace(line, tiers=kept_tiers, max_lines=taken.count)
        return replace(sites, sites=places, lines=lines)


def _more_of_the_fleet(fleet: _Fleet, base: Outcome, now: Outcome) -> Iterator[tuple[Marginal, Outcome | str]]:
    """What one more instance or the next tier of a line lets the same fleet serve, and that fleet."""
    asked: set[tuple[str, str, int]] = set()
    for pool in base.plan.pools:
        chips_more = (pool.site, pool.chip, pool.shape.chips)
        if chips_more not in asked:
            asked.add(chips_more)
            found = fleet.served(fleet.sites(base.plan, more=pool.id), start=now)
            yield _bought(f"{pool.chip} at {pool.site}", f"+{pool.shape.chips} chips", found, now), found
    for line in base.plan.lines:
        higher = _next_tier(fleet.asker.problem.sites.lines[line.line], line.gbps)
        if higher is not None:
            wider = tuple(replace(own, gbps=higher) if own.line == line.line else own for own in now.plan.lines)
            start = replace(now.plan, lines=wider)
            found = fleet.served(fleet.sites(base.plan, tiers={line.line: higher}), start=start)
            yield _bought(f"line {line.line}", f"{line.gbps:g} -> {higher:g} Gbit/s", found, now), found


def _next_tier(line: Line, gbps: float) -> float | None:
    higher = [tier.gbps for tier in line.tiers if tier.gbps > gbps * (1 + 1e-9)]
    return min(higher) if higher else None


# ---- differences


def _bought(lever: str, change: str, found: Outcome | str, now: Outcome) -> Marginal:
    """What a fleet with a little more serves than the one there is."""
    if isinstance(found, str):
        return Marginal(lever, change, why_not=found)
    gained = found.goodput_rps - now.goodput_rps
    shown = gained if gained > SAME * now.goodput_rps else 0.0
    return Marginal(
        lever,
        change,
        rate_change_rps=shown,
        uncertain=_open_rps(found),
        doubtful=min(_open_rps(now), shown),
        price_per_month=max(cost(found) - cost(now), 0.0),
    )


def _open_rps(outcome: Outcome) -> float:
    """How many more requests a fleet may carry than was found."""
    gap = outcome.solver.gap if outcome.solver is not None else 0.0
    return gap * outcome.goodput_rps if gap >= SAME else 0.0


def _nothing(asker: Asker, lever: str, change: str) -> Marginal:
    if asker.most_requests:
        return Marginal(lever, change, rate_change_rps=0.0)
    return Marginal(lever, change, cost_change=0.0, chips_change=0)


def _change(asker: Asker, lever: str, change: str, found: Outcome | str, base: Outcome) -> Marginal:
    """What an easier question brings against the plan; never a loss, since the plan answers it too."""
    if isinstance(found, str):
        return Marginal(lever, change, why_not=found)
    if asker.same(found, base) or asker.gain(found, base) <= 0:
        return replace(_nothing(asker, lever, change), uncertain=asker.open_gain(found, base))
    return _difference(asker, lever, change, found, base)


def _difference(asker: Asker, lever: str, change: str, found: Outcome, base: Outcome) -> Marginal:
    left = asker.open_gain(found)
    if asker.most_requests:
        return Marginal(lever, change, rate_change_rps=asker.gain(found, base), uncertain=left)
    difference = cost(found) - cost(base)
    if abs(difference) <= SAME * cost(base):
        return Marginal(lever, change, cost_change=0.0, chips_change=0, uncertain=left)
    return Marginal(lever, change, cost_change=difference, chips_change=chips(found) - chips(base), uncertain=left)
