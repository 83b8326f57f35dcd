"""Topologies against each other: each at its own optimum, under the same promises, with fixed plans beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan
from pddplan.domain.token_price import TokenPrice
from pddplan.economics.attribution import TokenCost
from pddplan.economics.revenue import monthly_revenue, with_cached_ratio
from pddplan.errors import InfeasibleError, InputError, Problem, SolverError, did_you_mean
from pddplan.evaluate.problem import Problem as Question
from pddplan.optimize import TOPOLOGIES, Limits, Objective
from pddplan.optimize import size as optimum
from pddplan.optimize.rounds import PARTS
from pddplan.optimize.search import BEST_FOUND
from pddplan.optimize.settle import UNPROVEN, better, value_of
from pddplan.optimize.topologies import Shapes, find_topology, paths_outside
from pddplan.sizing import Inputs
from pddplan.studies.break_evens import BreakEvens, break_evens
from pddplan.studies.fleet import Fleet, fleet_outcome
from pddplan.studies.perturb import for_classes
from pddplan.studies.serving import plan_token_cost

DEFAULT_BASELINE = "pd"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One contender: a topology at its optimum, or a given plan."""

    name: str
    fixed: bool
    outcome: Outcome | None
    why_not: str | None = None
    """Why there is no plan."""
    token_cost: TokenCost | None = None
    monthly_revenue: float | None = None
    bcr_gain: float | None = None
    """BCR over the baseline's, less one."""
    cost_gain: float | None = None
    rps_gain: float | None = None

    idle_chips: int = 0
    """Chips of a given fleet that are paid for but not used."""

    @property
    def chips(self) -> int:
        """Chips in service."""
        return sum(pool.chips for pool in self.outcome.plan.pools) if self.outcome else 0


@dataclass(frozen=True, slots=True, eq=False)
class BcrComparison:
    workload: str
    currency: str
    baseline: str
    entries: tuple[Entry, ...]
    break_evens: BreakEvens
    price: TokenPrice | None = None
    price_assumed: bool = False

    @property
    def best(self) -> Entry | None:
        kept = [entry for entry in self.entries if entry.outcome is not None and entry.outcome.keeps_promises]
        return max(kept, key=lambda entry: entry.outcome.bcr if entry.outcome else 0.0, default=None)

    @property
    def baseline_entry(self) -> Entry | None:
        return next((entry for entry in self.entries if entry.name == self.baseline), None)


def compare_topologies(
    inputs: Inputs,
    topologies: Sequence[str],
    *,
    baseline: str = DEFAULT_BASELINE,
    fixed: Mapping[str, Plan] | None = None,
    fleets: Sequence[Fleet] = (),
    objective: Objective | None = None,
    limits: Limits | None = None,
    price: TokenPrice | None = None,
    price_assumed: bool = False,
) -> BcrComparison:
    """Size every topology for the same question, evaluate the fixed plans on it, and set them against the baseline.

    A topology is never dearer than another one whose plan it allows as well.

    Raises:  InputError for an unknown topology, or a baseline that is not among the contenders.
    """
    plans = dict(fixed or {})
    names = list(dict.fromkeys([*topologies, *([baseline] if baseline in TOPOLOGIES else [])]))
    _check_names(names, [*plans, *(fleet.name for fleet in fleets)], baseline)
    question, shapes = api.problem_of(inputs), api.shapes_of(inputs)
    goal = objective or Objective(kind="cost", rate_rps=inputs.workload.arrival.rate_rps)
    optima = _optima(question, names, objective=goal, limits=limits or Limits(), shapes=shapes)
    entries = []
    for name in names:
        found = optima[name]
        if isinstance(found, str):
            entries.append(Entry(name, fixed=False, outcome=None, why_not=found))
        else:
            entries.append(_entry(name, question, found, fixed=False, price=price))
    for fleet in fleets:
        try:
            outcome = fleet_outcome(inputs, fleet, limits=limits or Limits())
            entry = _entry(fleet.name, question, outcome, fixed=True, price=price)
            entries.append(replace(entry, idle_chips=sum(fleet.chips.values()) - entry.chips))
        except (InfeasibleError, SolverError) as error:
            entries.append(Entry(fleet.name, fixed=True, outcome=None, why_not=error.what))
    classes = inputs.workload.classes.count
    for name, plan in plans.items():
        entries.append(
            _entry(name, question, api.evaluate_plan(inputs, for_classes(plan, classes)), fixed=True, price=price)
        )
    base = next((entry for entry in entries if entry.name == baseline), None)
    entries = [_against(entry, base) for entry in entries]
    compared = BcrComparison(
        inputs.workload.name,
        inputs.sites.finance.currency,
        baseline,
        tuple(entries),
        BreakEvens(),
        price=price,
        price_assumed=price_assumed,
    )
    rival, base_outcome = _rivals(compared)
    if rival is None or base_outcome is None:
        return compared
    return replace(compared, break_evens=break_evens(inputs, question, best=rival, base=base_outcome))


def _optima(
    question: Question, names: Sequence[str], *, objective: Objective, limits: Limits, shapes: Shapes
) -> dict[str, Outcome | str]:
    """The best plan of each topology, or why there is none; never worse than one of another that it allows too."""
    optima: dict[str, Outcome | str] = {}
    for name in (topology for topology in TOPOLOGIES if topology in names):  # from narrow ones to wide ones
        rivals = [own for own in optima.values() if not isinstance(own, str) and _allows(question, name, own)]
        rival = max(rivals, key=lambda own: value_of(own, objective), default=None)
        searched = all(part in optima for part in PARTS.get(name, ()))  # what the search would start from otherwise
        asked = partial(
            optimum, question, topology=name, objective=objective, limits=limits, shapes=shapes, relax=False
        )
        own: Outcome | None = None
        try:
            own = asked(known=rival.plan if rival is not None and searched else None)
            if rival is not None and not searched and better(rival, own, objective):
                own = asked(known=rival.plan)
        except (InfeasibleError, SolverError) as error:
            if rival is None:
                optima[name] = error.what
                continue
        optima[name] = _better_of(rival, own, name, objective=objective)
    return optima


def _better_of(rival: Outcome | None, own: Outcome | None, topology: str, *, objective: Objective) -> Outcome:
    """What a topology found itself, or a plan of another one that it allows, with what is proven of it here."""
    if own is not None and (rival is None or not better(rival, own, objective)):
        return own
    assert rival is not None
    taken = replace(rival, plan=replace(rival.plan, topology=topology))
    if rival.solver is None:
        return taken
    gap, value = UNPROVEN, value_of(rival, objective)
    if own is not None and own.solver is not None and value:
        bound = value_of(own, objective) + own.solver.gap * abs(value_of(own, objective))
        gap = max((bound - value) / abs(value), 0.0)
    return replace(taken, solver=replace(rival.solver, status=BEST_FOUND, gap=gap, gap_over_all=None))


def _allows(question: Question, topology: str, outcome: Outcome) -> bool:
    return not paths_outside(question.sites, find_topology(topology), outcome.plan)


def _rivals(found: BcrComparison) -> tuple[Outcome | None, Outcome | None]:
    """The best contender and the baseline, as far as both serve something; the runner-up if the baseline is best."""
    base = found.baseline_entry
    if base is None or base.outcome is None or base.outcome.goodput_rps <= 0:
        return None, None
    others = [e.outcome for e in found.entries if e is not base and e.outcome is not None and e.outcome.goodput_rps > 0]
    return max(others, key=lambda outcome: outcome.bcr, default=None), base.outcome


def _check_names(names: list[str], given: Sequence[str], baseline: str) -> None:
    known = [*TOPOLOGIES, *given]
    for name in names:
        if name not in TOPOLOGIES:
            raise InputError(
                Problem(
                    what=f"topology {name!r} is unknown{did_you_mean(name, TOPOLOGIES)}",
                    fix=f"use some of: {', '.join(TOPOLOGIES)}",
                    where="--topologies",
                )
            )
    if baseline not in known:
        raise InputError(
            Problem(
                what=f"baseline {baseline!r} is neither a topology nor a fixed plan{did_you_mean(baseline, known)}",
                fix=f"use one of: {', '.join(known)}",
                where="--baseline",
            )
        )


def _entry(name: str, question: Question, outcome: Outcome, *, fixed: bool, price: TokenPrice | None) -> Entry:
    finance = question.sites.finance
    revenue = None
    if price is not None:
        priced = with_cached_ratio(price, None)
        revenue = monthly_revenue(question.workload.classes, outcome.goodput_rps, price=priced, finance=finance)
    return Entry(
        name,
        fixed=fixed,
        outcome=outcome,
        token_cost=plan_token_cost(question, outcome),
        monthly_revenue=revenue,
    )


def _against(entry: Entry, base: Entry | None) -> Entry:
    if entry.outcome is None or base is None or base.outcome is None:
        return entry
    mine, other = entry.outcome, base.outcome
    return replace(
        entry,
        bcr_gain=mine.bcr / other.bcr - 1 if other.bcr > 0 else None,
        cost_gain=mine.cost.monthly_total / other.cost.monthly_total - 1 if other.cost.monthly_total > 0 else None,
        rps_gain=mine.goodput_rps / other.goodput_rps - 1 if other.goodput_rps > 0 else None,
    )
