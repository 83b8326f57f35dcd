"""Several workloads on one fleet: they share sites, chips (also those already owned), power and lines.

Each workload keeps pools of its own (models differ), so sharing means sharing what limits them. The workloads are
sized one after the other, each on what the others left. When nothing they want is scarce the order does not matter
and every plan is the best for its workload; when something is, orders are tried and the cheapest total is kept.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan
from pddplan.domain.sites import Sites
from pddplan.economics.unit_costs import chip_power_w, with_spares
from pddplan.errors import InfeasibleError, InputError, Problem, Relaxation, SolverError
from pddplan.optimize import Limits, Objective
from pddplan.optimize import size as optimum
from pddplan.optimize.asking import relaxed_chips, relaxed_lines, relaxed_power
from pddplan.sizing import Inputs
from pddplan.units import WATTS_PER_KW

MOST_PLACED = 24
"""Workloads placed on what others left, over all orders."""
NODES_PER_PLACE = 40
"""Cells each such search may look at: counted, so that slow machines come to the same fleet."""


@dataclass(frozen=True, slots=True, eq=False)
class Tenant:
    """One workload of the fleet, and what it was given."""

    name: str
    inputs: Inputs
    """Its question, on the sites as they were left for it."""
    outcome: Outcome


@dataclass(frozen=True, slots=True, eq=False)
class SharedFleet:
    topology: str
    currency: str
    tenants: tuple[Tenant, ...]
    """In the order in which the workloads were given."""
    order: tuple[str, ...]
    """In the order in which they were sized."""
    scarce: bool
    """Something they share is limited, so the order mattered and the sum is good rather than proven best."""

    @property
    def monthly_total(self) -> float:
        return math.fsum(tenant.outcome.cost.monthly_total for tenant in self.tenants)

    @property
    def goodput_rps(self) -> float:
        return math.fsum(tenant.outcome.goodput_rps for tenant in self.tenants)

    def chips(self) -> Mapping[tuple[str, str], int]:
        """Chips taken per site and kind."""
        taken: dict[tuple[str, str], int] = {}
        for tenant in self.tenants:
            for pool in tenant.outcome.plan.pools:
                taken[pool.site, pool.chip] = taken.get((pool.site, pool.chip), 0) + pool.chips
        return taken


def shared_fleet(questions: Sequence[Inputs], *, topology: str, limits: Limits | None = None) -> SharedFleet:
    """Size several workloads on the same sites.

    ``questions`` must name the same sites (the first one's are taken for all).

    Raises:  InputError without workloads or with two of one name, InfeasibleError if they do not fit together.
    """
    names = [question.workload.name for question in questions]
    if not names or len(set(names)) < len(names):
        raise InputError(
            Problem(
                what="give each workload once" if names else "no workload was given",
                fix="for example --workload chat --workload agentic-64k",
                where="--workload",
            )
        )
    sites = questions[0].sites
    alone = [_size(question, sites, topology=topology, limits=limits) for question in questions]
    if _fits_together(sites, questions, alone):
        tenants = tuple(Tenant(n, q, o) for n, q, o in zip(names, questions, alone, strict=True))
        return SharedFleet(topology, sites.finance.currency, tenants, tuple(names), scarce=False)
    best = min(_ways(questions, alone, sites, topology=topology, limits=limits), key=_total, default=None)
    if best is None:
        raise _too_little(sites, questions, alone)
    return SharedFleet(
        topology,
        sites.finance.currency,
        tuple(best[index] for index in range(len(questions))),
        tuple(names[index] for index in best),
        scarce=True,
    )


def _total(placed: Mapping[int, Tenant]) -> float:
    return math.fsum(tenant.outcome.cost.monthly_total for tenant in placed.values())


def _ways(
    questions: Sequence[Inputs], alone: Sequence[Outcome], sites: Sites, *, topology: str, limits: Limits | None
) -> Iterator[dict[int, Tenant]]:
    """Workloads placed one after the other, in every order (as far as that is affordable), where all find room."""
    quick = replace(limits or Limits(), prove_shapes=False)
    quick = replace(quick, max_nodes=min(quick.max_nodes, NODES_PER_PLACE))
    asked = itertools.count()

    def place(placed: dict[int, Tenant], left: Sites) -> Iterator[dict[int, Tenant]]:
        if len(placed) == len(questions):
            yield placed
            return
        for index, question in enumerate(questions):
            if index in placed or (placed and next(asked) >= MOST_PLACED):
                continue
            mine = replace(question, sites=left)
            outcome = alone[index]
            if placed and not _fits_together(left, [question], [outcome]):  # else nothing it wants was taken
                try:
                    outcome = _size(mine, left, topology=topology, limits=quick, known=outcome)
                except (InfeasibleError, SolverError):
                    continue  # the others may leave more
            yield from place(
                {**placed, index: Tenant(question.workload.name, mine, outcome)}, without(left, outcome.plan, mine)
            )

    return place({}, sites)


def _too_little(sites: Sites, questions: Sequence[Inputs], alone: Sequence[Outcome]) -> InfeasibleError:
    """What the best plans of the workloads take together beyond what there is: with that much all of them fit."""
    lacking = tuple(_lacking(sites, questions, alone))
    single = len(lacking) == 1
    return InfeasibleError(
        f"each workload has a plan of its own, but they do not fit together on sites {sites.name!r}, as far as "
        "was searched",
        conflicts=tuple(question.workload.name for question in questions),
        relaxations=lacking if single else (),
        joint=() if single else lacking,
    )


def _lacking(sites: Sites, questions: Sequence[Inputs], alone: Sequence[Outcome]) -> Iterator[Relaxation]:
    chips: Counter[tuple[str, str]] = Counter()
    power: defaultdict[str, float] = defaultdict(float)
    lines: Counter[str] = Counter()
    for question, outcome in zip(questions, alone, strict=True):
        chips.update(_taken(outcome.plan))
        for site_id, kilowatts in _power_kw(outcome.plan, question).items():
            power[site_id] += kilowatts
        lines.update({line.line: line.count for line in outcome.plan.lines})
    for (site_id, chip_id), needed in chips.items():
        most = sites.sites[site_id].chips[chip_id].max_chips
        if most is not None and needed > most:
            yield relaxed_chips(site_id, chip_id, most, needed)
    for site_id, kilowatts in power.items():
        limit = sites.sites[site_id].power_limit_kw
        if limit is not None and kilowatts > limit:
            yield relaxed_power(site_id, limit, kilowatts)
    for line_id, count in lines.items():
        if count > sites.lines[line_id].max_lines:
            yield relaxed_lines(line_id, sites.lines[line_id].max_lines, count)


def _size(
    question: Inputs, sites: Sites, *, topology: str, limits: Limits | None, known: Outcome | None = None
) -> Outcome:
    asked = replace(question, sites=sites)
    return optimum(
        api.problem_of(asked),
        topology=topology,
        objective=Objective(kind="cost", rate_rps=asked.workload.arrival.rate_rps),
        limits=limits or Limits(),
        shapes=api.shapes_of(asked),
        relax=known is None,
        known=known.plan if known is not None else None,
    )


def _fits_together(sites: Sites, questions: Sequence[Inputs], outcomes: Sequence[Outcome]) -> bool:
    """Whether plans made apart stay within what they share; chips already owned are scarce by nature."""
    if any(own.owned_chips for site in sites.sites.values() for own in site.chips.values()):
        return False
    left = sites
    for question, outcome in zip(questions, outcomes, strict=True):
        for (site_id, chip_id), taken in _taken(outcome.plan).items():
            available = left.sites[site_id].chips.get(chip_id)
            if available is None or (available.max_chips is not None and taken > available.max_chips):
                return False
        for site_id, kilowatts in _power_kw(outcome.plan, question).items():
            limit = left.sites[site_id].power_limit_kw
            if limit is not None and kilowatts > limit:
                return False
        for line in outcome.plan.lines:
            if line.count and (line.line not in left.lines or line.count > left.lines[line.line].max_lines):
                return False
        left = without(left, outcome.plan, question)
    return True


def without(sites: Sites, plan: Plan, inputs: Inputs) -> Sites:
    """What a plan leaves of the sites: chips, owned chips, power and lines."""
    taken, power = _taken(plan), _power_kw(plan, inputs)
    places = {}
    for site_id, site in sites.sites.items():
        chips = {}
        for chip_id, own in site.chips.items():
            used = taken.get((site_id, chip_id), 0)
            rest = None if own.max_chips is None else own.max_chips - used
            owned = max(0, own.owned_chips - math.ceil(with_spares(used, sites.finance) - 1e-9))
            if rest is None or rest > 0:
                chips[chip_id] = replace(own, max_chips=rest, owned_chips=owned)
        limit = site.power_limit_kw
        limit = None if limit is None else max(0.0, limit - power.get(site_id, 0.0))
        places[site_id] = replace(site, chips=chips, power_limit_kw=limit)
    leased = {line.line: line.count for line in plan.lines}
    lines = {
        line_id: replace(line, max_lines=line.max_lines - leased.get(line_id, 0))
        for line_id, line in sites.lines.items()
        if line.max_lines > leased.get(line_id, 0)
    }
    return replace(sites, sites=places, lines=lines)


def _taken(plan: Plan) -> dict[tuple[str, str], int]:
    taken: dict[tuple[str, str], int] = {}
    for pool in plan.pools:
        taken[pool.site, pool.chip] = taken.get((pool.site, pool.chip), 0) + pool.chips
    return taken


def _power_kw(plan: Plan, inputs: Inputs) -> dict[str, float]:
    """Power at the meter per limited site [kW]."""
    power: dict[str, float] = {}
    for pool in plan.pools:
        site = inputs.sites.sites[pool.site]
        if site.power_limit_kw is not None:
            watts = chip_power_w(inputs.chips[pool.chip], site, finance=inputs.sites.finance) * pool.chips
            power[pool.site] = power.get(pool.site, 0.0) + watts / WATTS_PER_KW
    return power
