"""Why a plan looks as it does: what binds, what one more unit of it would buy, what else was close, and why not T.

Everything is found by asking again: a marginal value is the difference between two optima, not a dual value,
because chips come in whole instances and lines in tiers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan
from pddplan.domain.sites import Line, Sites
from pddplan.domain.workload import Promise
from pddplan.errors import InfeasibleError, InputError, SolverError
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize.asking import with_chips
from pddplan.optimize.limits_used import inventory_name, limits_used
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.size import size, unbeaten
from pddplan.optimize.topologies import TOPOLOGIES, Shapes, Topology, candidate_paths
from pddplan.units import MS_PER_S

TPOT_STEP_S = 0.005
STEPS_S = (0.1, 1.0, 10.0)
"""Other promises are eased by the largest of these that is at most half of them, or else by a tenth."""
RATE_STEP = 0.1
POWER_STEP = 0.1
CEILING_STEP = 0.05
HIGHEST_CEILING = 0.99
WITHIN = 0.1
"""Alternatives are listed while they cost at most this fraction more."""
TIME_PER_QUESTION_S = 4.0
NODES_PER_QUESTION = 30
NODES_PER_FLEET = 200
"""A fleet that is there leaves little to search for, so that the last digits of its rate can be had."""
SEARCHED_WELL = 2e-3
"""Gaps below this are not worth a word."""
SAME = 5e-3
"""Costs closer than this fraction are called the same (searches stop at a gap)."""


@dataclass(frozen=True, slots=True)
class Marginal:
    """One thing made easier (or larger) and what the best plan then gains."""

    lever: str
    change: str
    cost_change: float | None
    """Per month; negative = cheaper. None where the lever buys requests."""
    chips_change: int | None
    rate_change_rps: float | None
    """Requests per second gained with the fleet as it is."""
    why_not: str | None = None
    uncertain: float = 0.0
    """How far the change may be off, because both searches stop at a gap; in its own unit."""


@dataclass(frozen=True, slots=True, eq=False)
class Alternative:
    """Another way, at its own optimum."""

    name: str
    outcome: Outcome | None
    cost_ratio: float | None
    """Its monthly cost over the plan's, less one."""
    why_not: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """All there is to say about a plan."""

    outcome: Outcome
    marginals: tuple[Marginal, ...]
    topologies: tuple[Alternative, ...]
    """Every other topology, feasible or not, cheapest first."""
    runners_up: tuple[Alternative, ...]
    """Different fleets that cost nearly the same."""
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Asker:
    problem: Problem
    plan: Plan
    limits: Limits
    shapes: Shapes

    def ask(
        self,
        problem: Problem,
        *,
        topology: str | None = None,
        objective: Objective | None = None,
        limits: Limits | None = None,
        known: Outcome | None = None,
        start: Outcome | None = None,
    ) -> Outcome | str:
        """The best plan of a changed question, or why there is none.

        ``known`` answers the changed question too: where nothing is better by more than SAME it is the answer, and
        a program without waits often shows that at once. ``start`` may answer it, or not.
        """
        name = topology or self.plan.topology
        goal = objective or Objective("cost", rate_rps=self.plan.rate_rps)
        within = limits or self.limits
        if known is not None and unbeaten(
            problem, known, by=SAME, topology=name, objective=goal, limits=within, shapes=self.shapes
        ):
            return replace(known, solver=None)
        begin = known or start
        try:
            return size(
                problem,
                topology=name,
                objective=goal,
                limits=within,
                shapes=self.shapes,
                relax=False,
                known=begin.plan if begin is not None else None,
            )
        except (InfeasibleError, SolverError, InputError) as error:
            return str(error).split("\n", maxsplit=1)[0]


def explain(
    problem: Problem, plan: Plan, *, shapes: Shapes, limits: Limits | None = None, within: float = WITHIN
) -> Explanation:
    """Explain a plan: evaluate it again, and ask what would change it.

    ``problem`` is the question the plan answers (its promises, prices and places), ``limits`` those it was asked for
    with, ``within`` the fraction of cost up to which another fleet counts as a runner-up.
    """
    asked = limits or Limits()
    bounded = replace(asked, time_limit_s=TIME_PER_QUESTION_S, max_nodes=NODES_PER_QUESTION, acceptable_gap=0.01)
    known = plan if plan.topology in TOPOLOGIES else replace(plan, topology="any")
    outcome = evaluate(problem, plan)
    outcome = replace(outcome, binding=(*outcome.binding, *limits_used(problem, outcome, limits=asked)))
    asker = _Asker(problem, known, bounded, shapes)
    own = asker.ask(problem, known=outcome if _answers(outcome, asked) else None)
    optimum = own if isinstance(own, Outcome) else None
    # compare optimum with optimum, so that the gap of an older search is not taken for a gain
    worse = not outcome.keeps_promises or (optimum is not None and cost(optimum) < cost(outcome))
    base = optimum if optimum is not None and worse else outcome
    topologies = tuple(_topologies(asker, base))
    return Explanation(
        outcome=outcome,
        marginals=tuple(_marginals(asker, base)),
        topologies=topologies,
        runners_up=_runners_up(asker, base, topologies, within=within),
        remarks=tuple(_remarks(outcome, optimum)),
    )


def _answers(outcome: Outcome, limits: Limits) -> bool:
    """True when a plan keeps what was promised and asked for."""
    full = any(load.utilization > limits.max_utilization for load in outcome.pools)
    many = limits.max_chips is not None and chips(outcome) > limits.max_chips
    return outcome.keeps_promises and not full and not many


def cost(outcome: Outcome) -> float:
    """Monthly cost of an outcome's plan."""
    return outcome.cost.monthly_total


def chips(outcome: Outcome) -> int:
    """Chips of all pools of an outcome's plan."""
    return sum(pool.chips for pool in outcome.plan.pools)


def _remarks(outcome: Outcome, optimum: Outcome | None) -> Iterator[str]:
    for broken in outcome.violations:
        yield f"the plan breaks {broken.limit}: {broken.predicted:.4g} {broken.unit}, promised {broken.promised:.4g}"
    if optimum is not None and not outcome.keeps_promises:
        yield f"a plan that keeps all promises costs {cost(optimum):,.0f} per month; what follows is about that one"
    elif optimum is not None and cost(optimum) < (1 - SAME) * cost(outcome):
        yield (
            f"a cheaper plan of the same topology exists now: {cost(optimum):,.0f} against {cost(outcome):,.0f} "
            "per month; marginal values below are those of the cheaper one"
        )


def _marginals(asker: _Asker, base: Outcome) -> Iterator[Marginal]:
    workload = asker.problem.workload
    for promise in workload.promises.made():
        step_s = _step_s(promise)
        eased = workload.promises.with_limit(promise.kind, promise.limit_s + step_s, group=promise.group)
        changed = replace(asker.problem, workload=replace(workload, promises=eased))
        shown = f"+{step_s * MS_PER_S:g} ms" if promise.kind.latency == "tpot" else f"+{step_s:g} s"
        yield _saving(f"{promise.name} promise", shown, asker.ask(changed, known=base), base)
    more = Objective("cost", rate_rps=base.plan.rate_rps * (1 + RATE_STEP))
    yield _saving("rate", f"+{RATE_STEP:.0%}", asker.ask(asker.problem, objective=more, start=base), base, easier=False)
    yield from _wider_limits(asker, base)
    yield from _more_of_the_fleet(asker, base)


def _step_s(promise: Promise) -> float:
    """By how much a promise is eased."""
    if promise.kind.latency == "tpot":
        return TPOT_STEP_S
    return max((step for step in STEPS_S if step <= 0.5 * promise.limit_s), default=0.1 * promise.limit_s)


def _wider_limits(asker: _Asker, base: Outcome) -> Iterator[Marginal]:
    """What limits cost that bind, and what redundancy costs that was asked for."""
    problem, limits, sites = asker.problem, asker.limits, asker.problem.sites
    binding = {found.limit: found for found in limits_used(problem, base, limits=limits)}
    for pool in base.plan.pools:
        held = binding.pop(inventory_name(pool.chip, pool.site), None)
        if held is not None:
            more = with_chips(sites, sites.sites[pool.site], pool.chip, round(held.available) + pool.shape.chips)
            found = asker.ask(replace(problem, sites=more), known=base)
            yield _saving(held.limit, f"+{pool.shape.chips} chips", found, base)
    for site in sites.sites.values():
        limit_kw = site.power_limit_kw
        if f"power of site {site.id}" in binding and limit_kw is not None:
            places = {**sites.sites, site.id: replace(site, power_limit_kw=(1 + POWER_STEP) * limit_kw)}
            found = asker.ask(replace(problem, sites=replace(sites, sites=places)), known=base)
            yield _saving(f"power of site {site.id}", f"+{POWER_STEP:.0%}", found, base)
    if limits.max_chips is not None and "chips in all" in binding:
        step = min(pool.shape.chips for pool in base.plan.pools)
        found = asker.ask(problem, limits=replace(limits, max_chips=limits.max_chips + step), known=base)
        yield _saving("chips in all", f"+{step} chips", found, base)
    if any(name.startswith("ceiling of pool") for name in binding):
        higher = min(limits.max_utilization + CEILING_STEP, HIGHEST_CEILING)
        found = asker.ask(
            problem, limits=replace(limits, max_utilization=max(higher, limits.max_utilization)), known=base
        )
        yield _saving("ceiling of pools", f"{limits.max_utilization:g} -> {higher:g}", found, base)
    if any(name.startswith("ceiling of line") for name in binding):
        higher = min(limits.max_line_utilization + CEILING_STEP, HIGHEST_CEILING)
        wider = replace(limits, max_line_utilization=max(higher, limits.max_line_utilization))
        shown = f"{limits.max_line_utilization:g} -> {higher:g}"
        yield _saving("ceiling of lines", shown, asker.ask(problem, limits=wider, known=base), base)
    if limits.redundant_instances:
        fewer = limits.redundant_instances - 1
        found = asker.ask(problem, limits=replace(limits, redundant_instances=fewer), known=base)
        yield _saving("spare instances per pool", f"{fewer + 1} -> {fewer}", found, base)
    if limits.survive_line_loss and base.plan.lines:
        found = asker.ask(problem, limits=replace(limits, survive_line_loss=False), known=base)
        yield _saving("survival of a lost line", "not asked for", found, base)


def _saving(lever: str, change: str, found: Outcome | str, base: Outcome, *, easier: bool = True) -> Marginal:
    """What a changed question costs against the plan; an easier one never costs more, since the plan answers it too."""
    if isinstance(found, str):
        return Marginal(lever, change, None, None, None, why_not=found)
    difference = cost(found) - cost(base)
    uncertain = _gap(found) * cost(found) + _gap(base) * cost(base)
    if abs(difference) <= SAME * cost(base) or (easier and difference > 0):
        return Marginal(lever, change, 0.0, 0, None, uncertain=uncertain)
    return Marginal(lever, change, difference, chips(found) - chips(base), None, uncertain=uncertain)


def _gap(outcome: Outcome) -> float:
    """How far an outcome may be from the best of the shapes searched, as a fraction; 0 where nobody asked."""
    gap = outcome.solver.gap if outcome.solver is not None else 0.0
    return min(gap, 1.0) if gap >= SEARCHED_WELL else 0.0


def _more_of_the_fleet(asker: _Asker, base: Outcome) -> Iterator[Marginal]:
    """What one more instance or the next tier of a line lets the same fleet serve."""
    sites = asker.problem.sites
    most = Objective("rps", rate_rps=4.0 * base.plan.rate_rps)
    exact = replace(asker.limits, acceptable_gap=asker.limits.gap, max_nodes=NODES_PER_FLEET)

    def served(places: Sites, *, known: Outcome | None = None) -> Outcome | str:
        question = replace(asker.problem, sites=places)
        return asker.ask(question, objective=most, limits=exact, known=known, start=base)

    now = served(_fleet_sites(sites, base.plan))
    if isinstance(now, str):
        return
    asked: set[tuple[str, str, int]] = set()
    for pool in base.plan.pools:
        chips_more = (pool.site, pool.chip, pool.shape.chips)
        if chips_more not in asked:
            asked.add(chips_more)
            found = served(_fleet_sites(sites, base.plan, more=pool.id), known=now)
            yield _gain(f"{pool.chip} at {pool.site}", f"+{pool.shape.chips} chips", found, now)
    for line in base.plan.lines:
        higher = _next_tier(sites.lines[line.line], line.gbps)
        if higher is not None:
            found = served(_fleet_sites(sites, base.plan, tiers={line.line: higher}), known=now)
            yield _gain(f"line {line.line}", f"{line.gbps:g} -> {higher:g} Gbit/s", found, now)


def _gain(lever: str, change: str, found: Outcome | str, now: Outcome) -> Marginal:
    if isinstance(found, str):
        return Marginal(lever, change, None, None, None, why_not=found)
    gained = found.goodput_rps - now.goodput_rps
    uncertain = _gap(found) * found.goodput_rps + _gap(now) * now.goodput_rps
    shown = gained if gained > SAME * now.goodput_rps else 0.0
    return Marginal(lever, change, None, None, shown, uncertain=uncertain)


def _fleet_sites(sites: Sites, plan: Plan, *, more: str | None = None, tiers: dict[str, float] | None = None) -> Sites:
    """Places that hold exactly the plan's chips in their roles, and its lines at their tiers."""
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
        places[site.id] = replace(site, chips=kept)
    lines = {}
    for taken in plan.lines:
        line = sites.lines[taken.line]
        gbps = (tiers or {}).get(line.id, taken.gbps)
        kept_tiers = tuple(tier for tier in line.tiers if abs(tier.gbps - gbps) <= 1e-9 * gbps)
        lines[line.id] = replace(line, tiers=kept_tiers, max_lines=taken.count)
    return replace(sites, sites=places, lines=lines)


def _next_tier(line: Line, gbps: float) -> float | None:
    higher = [tier.gbps for tier in line.tiers if tier.gbps > gbps * (1 + 1e-9)]
    return min(higher) if higher else None


def _topologies(asker: _Asker, base: Outcome) -> Iterator[Alternative]:
    best: list[Outcome] = [base]
    found = []
    for name, topology in TOPOLOGIES.items():
        if name == asker.plan.topology:
            continue
        # a plan of narrower paths is one of this topology too: nothing dearer is its best
        known = min((plan for plan in best if _uses_only(asker.problem, topology, plan)), key=cost, default=None)
        answer = asker.ask(asker.problem, topology=name, known=known)
        if known is not None and (isinstance(answer, str) or cost(answer) > cost(known)):
            answer = known
        if isinstance(answer, Outcome):
            best.append(answer)
        found.append(_alternative(name, answer, base))
    yield from sorted(found, key=lambda a: (a.cost_ratio is None, a.cost_ratio or 0.0, a.name))


def _uses_only(problem: Problem, topology: Topology, outcome: Outcome) -> bool:
    """True when a plan has no paths but those of a topology."""
    paths = candidate_paths(problem.sites, topology, outcome.plan.pools)
    allowed = {(p.kind, p.prefill, p.relay, p.decode, p.line, p.decode_cache) for p in paths}
    own = {(p.kind, p.prefill, p.relay, p.decode, p.line, p.decode_cache) for p in outcome.plan.paths}
    return own <= allowed


def _alternative(name: str, found: Outcome | str, base: Outcome) -> Alternative:
    if isinstance(found, str):
        return Alternative(name, None, None, why_not=found)
    return Alternative(name, found, cost(found) / cost(base) - 1.0 if cost(base) > 0 else None)


def _runners_up(
    asker: _Asker, base: Outcome, topologies: Sequence[Alternative], *, within: float
) -> tuple[Alternative, ...]:
    """Fleets unlike the plan's at nearly its cost: other topologies, and without each kind of chip; each once."""
    candidates = [a for a in topologies if a.outcome is not None]
    for chip_id in sorted({pool.chip for pool in base.plan.pools}):
        others = {c for site in asker.problem.sites.sites.values() for c in site.chips} - {chip_id}
        if others:
            limited = replace(asker, limits=replace(asker.limits, allowed_chips=tuple(sorted(others))))
            candidates.append(_alternative(f"without {chip_id}", limited.ask(asker.problem), base))
    seen = {_fleet(base)}
    kept = []
    for candidate in sorted(candidates, key=lambda a: (a.cost_ratio if a.cost_ratio is not None else 1e9, a.name)):
        if candidate.outcome is None or candidate.cost_ratio is None or candidate.cost_ratio > within:
            continue
        fleet = _fleet(candidate.outcome)
        if fleet not in seen:
            seen.add(fleet)
            kept.append(candidate)
    return tuple(kept)


def _fleet(outcome: Outcome) -> frozenset[tuple[str, str, str, int]]:
    return frozenset((p.site, p.role.value, f"{p.chip} {p.shape}", p.instances) for p in outcome.plan.pools)
