"""What else was there: other topologies at their best and why they are not taken, and other fleets that come near."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import PathKind, Plan, Role, Shape
from pddplan.domain.workload import Promises
from pddplan.evaluate.problem import Problem
from pddplan.optimize.aggregated import AGGREGATED, cheapest_aggregated
from pddplan.optimize.asker import Asker, cost
from pddplan.optimize.asking import Question
from pddplan.optimize.one_fewer import Needed, needed
from pddplan.optimize.settle import interrupted
from pddplan.optimize.topologies import TOPOLOGIES, Shapes, Topology, find_topology, paths_outside

WIDER: Mapping[str, tuple[str, ...]] = {
    "any": ("prfaas", "pdd", "cross-dc-drc", "pd-hetero", "pd", "colocated"),
    "prfaas": ("cross-dc-drc", "pd-hetero", "pd"),
    "pdd": ("cross-dc-drc",),
    "pd-hetero": ("pd",),
}
"""Topologies that allow every path of others: what a wider one finds among the paths of a narrower one is its best."""
ORDER = ("any", "prfaas", "pdd", "cross-dc-drc", "pd-hetero", "pd", "cross-dc", "colocated")
"""The wider one first."""
NODES_PER_TOPOLOGY = 8
NODES_PER_RUNNER_UP = 2
NEARLY = 0.1
"""Of what a runner-up may be worse by: how near to their best these are looked for."""
MOST_RUNNERS_UP = 8


@dataclass(frozen=True, slots=True, eq=False)
class Alternative:
    """Another way, at its own optimum."""

    name: str
    outcome: Outcome | None
    cost_ratio: float | None = None
    """Its monthly cost over the plan's, less one; None where most requests were asked for."""
    why_not: str | None = None
    """Why there is no plan."""
    rate_ratio: float | None = None
    """Its requests per second over the plan's, less one, where most requests were asked for."""
    same_plan: bool = False
    """The plan itself is its best: whatever else it allows is not worth it."""
    lacks: tuple[str, ...] = ()
    """What the plan does that this topology does not allow."""
    needs: tuple[Needed, ...] = ()
    """Why its fleet is not smaller."""
    open_gap: float = 0.0
    """How much better than this its plans may still be, as a fraction; 0 where that is proven."""

    @property
    def worse_by(self) -> float | None:
        """Share by which it is worse than the plan; negative = better."""
        if self.cost_ratio is not None:
            return self.cost_ratio
        return -self.rate_ratio if self.rate_ratio is not None else None


def topologies(asker: Asker, base: Outcome) -> tuple[Alternative, ...]:
    """Every other topology at its best, the best first, then those without a plan."""
    found: dict[str, Outcome | str] = {asker.plan.topology: base}
    for name in ORDER:
        if name not in found:
            found[name] = _best_of(asker, name, found, base)
    for name, narrower in WIDER.items():  # a narrower search may have found what a wider one missed
        plans = [plan for part in narrower if isinstance(plan := found[part], Outcome)]
        best = max(plans, key=asker.value, default=None)
        mine = found[name]
        if best is None or name == asker.plan.topology:
            continue
        if not isinstance(mine, Outcome) or asker.value(best) > asker.value(mine):
            found[name] = best
    others = [_alternative(asker, name, plan, base) for name, plan in found.items() if name != asker.plan.topology]
    return tuple(sorted(others, key=lambda a: (a.worse_by is None, a.worse_by or 0.0, a.name)))


def _best_of(asker: Asker, name: str, found: Mapping[str, Outcome | str], base: Outcome) -> Outcome | str:
    topology = find_topology(name)
    for wide, narrower in WIDER.items():
        best = found.get(wide)
        if (
            name in narrower
            and isinstance(best, Outcome)
            and not paths_outside(asker.problem.sites, topology, best.plan)
        ):
            return best
    start = base if not paths_outside(asker.problem.sites, topology, base.plan) else None
    limits = asker.limits_for(name, nodes=NODES_PER_TOPOLOGY)
    if name == AGGREGATED and start is None and not asker.most_requests:
        cheapest = cheapest_aggregated(asker.problem, objective=asker.goal, limits=limits, shapes=asker.shapes)
        if cheapest is not None and interrupted(cheapest.outcome):
            raise KeyboardInterrupt  # there is more to ask
        if cheapest is not None:
            return cheapest.outcome
    answer = asker.ask(topology=name, start=start, limits=limits)
    if start is not None and (isinstance(answer, str) or asker.value(answer) < asker.value(start)):
        return start
    return answer if isinstance(answer, Outcome) else _why_none(asker, topology, answer)


def _why_none(asker: Asker, topology: Topology, said: str) -> str:
    """Which promise a topology cannot keep: the first without which there is a plan."""
    question = Question(asker.problem, topology, asker.goal, asker.limits, asker.shapes)
    promises = tuple(asker.problem.workload.promises.made())
    free = replace(
        question,
        problem=asker.problem.under(replace(asker.problem.workload, promises=Promises())),
    )
    if not promises or free.answer() is None:
        if "has no path" in said:
            return said
        return "its chips, power, money or lines do not carry the traffic, whatever is promised"
    for promise in promises:
        if question.with_limit(promise, None).answer() is not None:
            return f"it cannot keep {promise.name} beside the other promises"
    return "no single promise is to blame; it cannot keep them together"


def _lacking(problem: Problem, topology: Topology, base: Outcome) -> tuple[str, ...]:
    """What a plan does that a topology does not allow, in words."""
    said = []
    for path in paths_outside(problem.sites, topology, base.plan):
        if topology.name == "colocated":
            said.append("it prefills and decodes on the same instances")
        elif path.kind is PathKind.AGGREGATED:
            said.append("it has no instances that prefill and decode")
        elif path.relay is not None:
            said.append("it has no relay")
        elif path.line is None and topology.name == "pd":
            said.append("it has one kind of chip for prefill and decode")
        elif path.line is None:
            said.append("it decodes at another site only")
        elif topology.name == "cross-dc":
            said.append("the whole KV crosses the line, as nothing is cached where it is decoded")
        else:
            said.append("it cannot decode at another site")
    return tuple(dict.fromkeys(said))


def _alternative(asker: Asker, name: str, found: Outcome | str, base: Outcome) -> Alternative:
    topology = TOPOLOGIES.get(name)
    lacks = _lacking(asker.problem, topology, base) if topology is not None else ()
    if isinstance(found, str):
        return Alternative(name, None, why_not=found, lacks=lacks)
    cost_ratio = rate_ratio = None
    if asker.most_requests:
        rate_ratio = found.goodput_rps / base.goodput_rps - 1.0 if base.goodput_rps > 0 else None
    else:
        cost_ratio = cost(found) / cost(base) - 1.0 if cost(base) > 0 else None
    same = _fleet(found) == _fleet(base) and asker.same(found, base)
    needs = () if same else needed(asker.problem, found, limits=asker.limits)
    left = asker.open_gain(found) / abs(asker.value(found)) if asker.value(found) else 0.0
    return Alternative(
        name, found, cost_ratio, rate_ratio=rate_ratio, same_plan=same, lacks=lacks, needs=needs, open_gap=left
    )


# ---- other fleets


def runners_up(asker: Asker, base: Outcome, others: Sequence[Alternative], *, within: float) -> tuple[Alternative, ...]:
    """Fleets unlike the plan's that are nearly as good: of other topologies, and without a part of it; each once."""
    candidates = [a for a in others if a.outcome is not None and not a.same_plan]
    known = [a.outcome for a in others if a.outcome is not None and not a.same_plan]
    found = _without_parts(asker, base, known, within=within)
    candidates += [_alternative(asker, name, outcome, base) for name, outcome in found]
    seen, kept = {_fleet(base)}, []
    for candidate in sorted(candidates, key=lambda a: (a.worse_by if a.worse_by is not None else 1e9, a.name)):
        if candidate.outcome is None or candidate.worse_by is None or candidate.worse_by > within:
            continue
        fleet = _fleet(candidate.outcome)
        if fleet not in seen:
            seen.add(fleet)
            kept.append(candidate)
    return tuple(kept[:MOST_RUNNERS_UP])


def _without_parts(
    asker: Asker, base: Outcome, known: Sequence[Outcome], *, within: float
) -> Iterator[tuple[str, Outcome]]:
    """The best plans that do without a kind of chip of the plan, or without the shape that it has in a role.

    Any plan near enough will do, so that the searches are short; they start from ``known`` plans where these fit.
    """
    limits = asker.limits_for(asker.plan.topology, nodes=NODES_PER_RUNNER_UP)
    limits = replace(limits, gap=min(NEARLY * within, limits.acceptable_gap))
    offered = {chip for site in asker.problem.sites.sites.values() for chip in site.chips}
    topology = find_topology(asker.plan.topology)
    fitting = [plan for plan in known if not paths_outside(asker.problem.sites, topology, plan.plan)]
    for chip in sorted({pool.chip for pool in base.plan.pools}):
        others = tuple(sorted(offered - {chip}))
        if others:
            able = [plan for plan in fitting if all(pool.chip != chip for pool in plan.plan.pools)]
            start = max(able, key=asker.value, default=None)
            found = asker.ask(limits=replace(limits, allowed_chips=others), start=start)
            if isinstance(found, Outcome):
                yield f"without {chip}", found
    for part in dict.fromkeys((pool.chip, pool.role, pool.shape) for pool in base.plan.pools):
        able = [p for p in fitting if part not in {(pool.chip, pool.role, pool.shape) for pool in p.plan.pools}]
        start = max(able, key=asker.value, default=None)
        found = asker.ask(shapes=_less(asker.shapes, *part), limits=limits, start=start)
        if isinstance(found, Outcome):
            chip, role, shape = part
            yield f"no {role} on {chip} as {shape}", found


def _less(shapes: Shapes, chip: str, role: Role, shape: Shape) -> Shapes:
    """All instance shapes but one of a chip in a role."""

    def left(asked_chip: str, asked_role: Role) -> list[Shape]:
        found = shapes(asked_chip, asked_role)
        return [own for own in found if (asked_chip, asked_role) != (chip, role) or own != shape]

    return left


def _fleet(outcome: Outcome) -> frozenset[tuple[object, ...]]:
    """What is rented: instances and lines."""
    plan: Plan = outcome.plan
    pools = [(p.site, p.role.value, p.chip, str(p.shape), p.instances) for p in plan.pools if p.instances]
    return frozenset((*pools, *((line.line, line.gbps, line.count) for line in plan.lines if line.count)))
