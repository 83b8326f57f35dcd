"""Scenarios: the best plan of each, what every plan makes of every other, and the one that regrets least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan
from pddplan.economics.regret import Regret, regret_table
from pddplan.economics.uncertainty import Score
from pddplan.errors import InfeasibleError, InputError, Problem, SolverError, did_you_mean
from pddplan.evaluate.problem import Problem as Question
from pddplan.optimize import Limits, Objective
from pddplan.optimize import size as optimum
from pddplan.sizing import Inputs
from pddplan.studies.sureness import LARGEST_VALUE, changed_question, levers_of, score_of

AS_PLANNED = "as planned"
ALL_AT_ONCE = "all at once"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Other values of some uncertain numbers, by name (see ``sureness.levers_of``)."""

    name: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class RegretStudy:
    workload: str
    currency: str
    topology: str
    scenarios: tuple[Scenario, ...]
    plans: Mapping[str, Outcome]
    """Different best plans by the scenarios they are best for, judged in the first of these."""
    carried: bool
    """A plan that breaks a promise counts with what it still carries, instead of with nothing."""
    holds: np.ndarray
    """Whether each plan keeps its promises in each scenario, shape (plans, scenarios)."""
    regret: Regret
    without_plan: Mapping[str, str]


def default_scenarios(inputs: Inputs, plan: Plan) -> tuple[Scenario, ...]:
    """As planned, and each of the usual troubles at the far end of its range."""
    ranges = {lever.factor.name: lever.factor for lever in levers_of(inputs, plan)}
    slow = {name: factor.high for name, factor in ranges.items() if name.startswith("prefill time on")}
    wanted: list[tuple[str, dict[str, float]]] = [
        (AS_PLANNED, {}),
        ("fewer hits", {"missing tokens": ranges["missing tokens"].high}),
        ("more demand", {"demand": ranges["demand"].high}),
        ("longer answers", {"output tokens": ranges["output tokens"].high}),
        ("slow prefill", slow),
        ("dear lines", {n: f.high for n, f in ranges.items() if n.startswith("price of line")}),
    ]
    return tuple(Scenario(name, values) for name, values in wanted if values or name == AS_PLANNED)


def parse_scenario(text: str) -> Scenario:
    """Read ``NAME: FACTOR=VALUE, FACTOR=VALUE``.

    Raises:  InputError saying what cannot be read.
    """
    name, _, rest = text.partition(":")
    values = {}
    try:
        for part in rest.split(","):
            key, _, value = part.rpartition("=")
            values[key.strip()] = float(value)
    except ValueError:
        values = {}
    if not name.strip() or not values or "" in values or not all(0 <= v <= LARGEST_VALUE for v in values.values()):
        raise InputError(
            Problem(
                what=f"cannot read the scenario {text!r}",
                fix="write 'NAME: FACTOR=VALUE, ...', for example 'busy: demand=1.3, missing tokens=1.2'",
                where="--scenario",
            )
        )
    return Scenario(name.strip(), values)


def regret_study(
    inputs: Inputs,
    first: Outcome,
    *,
    topology: str,
    scenarios: Sequence[Scenario] | None = None,
    carried: bool = False,
    limits: Limits | None = None,
) -> RegretStudy:
    """Size for every scenario and for all troubles at once, and name the plan with the least worst regret.

    ``first`` is the plan as sized for the question itself. Unless ``carried``, a plan that breaks a promise in a
    scenario has no benefit there.

    Raises:  InputError for a factor that no plan depends on.
    """
    levers = tuple(levers_of(inputs, first.plan))
    chosen = tuple(scenarios) if scenarios is not None else default_scenarios(inputs, first.plan)
    if not any(not scenario.values for scenario in chosen):
        chosen = (Scenario(AS_PLANNED, {}), *chosen)
    _check(chosen, [lever.factor.name for lever in levers])
    base, rate = api.problem_of(inputs), first.plan.rate_rps
    questions, plans, without = [], {}, {}
    for scenario in (*chosen, all_at_once(chosen)):
        question, factor = changed_question(inputs, levers, scenario.values, base=base)
        if scenario in chosen:
            questions.append((question, rate * factor))
        goal = Objective(kind="cost", rate_rps=rate * factor)
        try:
            plans[scenario.name] = optimum(
                replace(question, memo={}),
                topology=topology,
                objective=goal,
                limits=limits or Limits(),
                shapes=api.shapes_of(inputs),
                relax=False,
            )
        except (InfeasibleError, SolverError) as error:
            without[scenario.name] = error.what
    if not plans:
        raise InfeasibleError("no scenario has a plan", conflicts=tuple(without.values()))
    groups = merged(plans)
    scores = [[_best_score(variants, q, r) for q, r in questions] for variants in groups.values()]
    benefit = np.array([[score.bcr if score.holds or carried else 0.0 for score in row] for row in scores])
    return RegretStudy(
        workload=inputs.workload.name,
        currency=inputs.sites.finance.currency,
        topology=topology,
        scenarios=chosen,
        plans={name: variants[0] for name, variants in groups.items()},
        carried=carried,
        holds=np.array([[score.holds for score in row] for row in scores]),
        regret=regret_table(tuple(groups), tuple(s.name for s in chosen), benefit=benefit),
        without_plan=without,
    )


def all_at_once(scenarios: Sequence[Scenario]) -> Scenario:
    """Every trouble together: not a scenario to be judged in, but one whose plan may be robust to all others."""
    values: dict[str, float] = {}
    for scenario in scenarios:
        for name, value in scenario.values.items():
            values[name] = max(value, values.get(name, value))
    return Scenario(ALL_AT_ONCE, values)


def merged(plans: Mapping[str, Outcome]) -> dict[str, list[Outcome]]:
    """Plans that take the same pools and lines together, under the names of all their scenarios.

    They differ in routing only, which can be changed from one day to the next.
    """
    names: dict[tuple[object, ...], list[str]] = {}
    variants: dict[tuple[object, ...], list[Outcome]] = {}
    for name, outcome in plans.items():
        plan = outcome.plan
        pools = tuple(sorted((p.site, str(p.role), p.chip, str(p.shape), p.instances) for p in plan.pools))
        key = (pools, tuple(sorted((x.line, x.gbps, x.count) for x in plan.lines)))
        names.setdefault(key, []).append(name)
        variants.setdefault(key, []).append(outcome)
    return {", ".join(who): variants[key] for key, who in names.items()}


def _best_score(variants: Sequence[Outcome], question: Question, rate_rps: float) -> Score:
    """What a fleet makes of a scenario under the best of the routings known for it."""
    scores = [score_of(question, outcome.plan, rate_rps) for outcome in variants]
    return max(scores, key=lambda score: (score.holds, score.bcr))


def _check(scenarios: Sequence[Scenario], known: Sequence[str]) -> None:
    names = [scenario.name for scenario in scenarios]
    if len(set(names)) < len(names):
        raise InputError(
            Problem(what="two scenarios have the same name", fix="give each its own name", where="--scenario")
        )
    for scenario in scenarios:
        for name in scenario.values:
            if name not in known:
                raise InputError(
                    Problem(
                        what=f"scenario {scenario.name!r}: no uncertain number is called {name!r}"
                        f"{did_you_mean(name, known)}",
                        fix=f"use some of: {'; '.join(known)}",
                        where="--scenario",
                    )
                )
