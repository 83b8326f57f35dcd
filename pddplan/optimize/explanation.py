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
from pddplan.errors import InfeasibleError, InputError, SolverError
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.size import size
from pddplan.optimize.topologies import TOPOLOGIES, Shapes
from pddplan.units import MS_PER_S

TTFT_STEP_S = 1.0
TPOT_STEP_S = 0.005
RATE_STEP = 0.1
WITHIN = 0.1
"""Alternatives are listed while they cost at most this fraction more."""
TIME_PER_QUESTION_S = 4.0
NODES_PER_QUESTION = 30
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
        self, problem: Problem, *, topology: str | None = None, objective: Objective | None = None
    ) -> Outcome | str:
        """The best plan of a changed question, or why there is none."""
        try:
            return size(
                problem,
                topology=topology or self.plan.topology,
                objective=objective or Objective("cost", rate_rps=self.plan.rate_rps),
                limits=self.limits,
                shapes=self.shapes,
                relax=False,
            )
        except (InfeasibleError, SolverError, InputError) as error:
            return str(error).split("\n", maxsplit=1)[0]


def explain(
    problem: Problem, plan: Plan, *, shapes: Shapes, limits: Limits | None = None, within: float = WITHIN
) -> Explanation:
    """Explain a plan: evaluate it again, and ask what would change it.

    ``problem`` is the question the plan answers (its promises, prices and places), ``within`` the fraction of
    cost up to which another fleet counts as a runner-up.
    """
    bounded = replace(
        limits or Limits(), time_limit_s=TIME_PER_QUESTION_S, max_nodes=NODES_PER_QUESTION, acceptable_gap=0.01
    )
    known = plan if plan.topology in TOPOLOGIES else replace(plan, topology="any")
    outcome = evaluate(problem, plan)
    asker = _Asker(problem, known, bounded, shapes)
    own = asker.ask(problem)
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
    promises = asker.problem.workload.promises
    for field, name, step in (
        ("ttft_p50_s", "TTFT P50", TTFT_STEP_S),
        ("ttft_p90_s", "TTFT P90", TTFT_STEP_S),
        ("ttft_p99_s", "TTFT P99", TTFT_STEP_S),
        ("tpot_s", "TPOT", TPOT_STEP_S),
    ):
        promised = getattr(promises, field)
        if promised is not None:
            eased = replace(promises, **{field: promised + step})
            changed = replace(asker.problem, workload=replace(asker.problem.workload, promises=eased))
            shown = f"+{step:g} s" if field != "tpot_s" else f"+{step * MS_PER_S:g} ms"
            yield _saving(f"{name} promise", shown, asker.ask(changed), base)
    more = Objective("cost", rate_rps=base.plan.rate_rps * (1 + RATE_STEP))
    yield _saving("rate", f"+{RATE_STEP:.0%}", asker.ask(asker.problem, objective=more), base)
    yield from _more_of_the_fleet(asker, base)


def _saving(lever: str, change: str, found: Outcome | str, base: Outcome) -> Marginal:
    if isinstance(found, str):
        return Marginal(lever, change, None, None, None, why_not=found)
    difference = cost(found) - cost(base)
    if abs(difference) <= SAME * cost(base):
        return Marginal(lever, change, 0.0, 0, None)
    return Marginal(lever, change, difference, chips(found) - chips(base), None)


def _more_of_the_fleet(asker: _Asker, base: Outcome) -> Iterator[Marginal]:
    """What one more instance or the next tier of a line lets the same fleet serve."""
    fleet = _fleet_sites(asker.problem.sites, base.plan)
    most = Objective("rps", rate_rps=4.0 * base.plan.rate_rps)
    now = asker.ask(replace(asker.problem, sites=fleet), objective=most)
    if isinstance(now, str):
        return
    for pool in base.plan.pools:
        larger = _fleet_sites(asker.problem.sites, base.plan, more=pool.id)
        found = asker.ask(replace(asker.problem, sites=larger), objective=most)
        yield _gain(f"{pool.chip} at {pool.site} ({pool.role.value})", f"+1 instance ({pool.shape})", found, now)
    for line in base.plan.lines:
        higher = _next_tier(asker.problem.sites.lines[line.line], line.gbps)
        if higher is not None:
            thicker = _fleet_sites(asker.problem.sites, base.plan, tiers={line.line: higher})
            found = asker.ask(replace(asker.problem, sites=thicker), objective=most)
            yield _gain(f"line {line.line}", f"{line.gbps:g} -> {higher:g} Gbit/s", found, now)


def _gain(lever: str, change: str, found: Outcome | str, now: Outcome) -> Marginal:
    if isinstance(found, str):
        return Marginal(lever, change, None, None, None, why_not=found)
    gained = found.goodput_rps - now.goodput_rps
    return Marginal(lever, change, None, None, gained if gained > SAME * now.goodput_rps else 0.0)


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
    found = [
        _alternative(name, asker.ask(asker.problem, topology=name), base)
        for name in TOPOLOGIES
        if name != asker.plan.topology
    ]
    yield from sorted(found, key=lambda a: (a.cost_ratio is None, a.cost_ratio or 0.0, a.name))


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
