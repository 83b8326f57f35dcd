"""Why no plan exists, and what it would take: each promise and limit relaxed alone, by as little as helps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from pddplan.domain.workload import Promise
from pddplan.errors import InfeasibleError, Relaxation
from pddplan.evaluate.problem import Problem
from pddplan.optimize.asking import (
    Question,
    relaxed_budget,
    relaxed_promise,
    relaxed_rate,
    smallest_feasible,
)
from pddplan.optimize.joint import joint_relaxations
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.question_limits import SMALLEST_SHARE
from pddplan.optimize.relaxed_limits import relaxed_limits
from pddplan.optimize.rounds import NothingFound
from pddplan.optimize.settle import NONE_EXISTS
from pddplan.optimize.topologies import TOPOLOGIES, Shapes, Topology, paths_outside

NEAR = 0.01
"""How near to the most a rate, or to the least a budget, is looked for."""
LONGEST_S = 30.0
"""Only large questions take as long, for each kind of answer: searches end by cells."""
NARROW_FIRST = ("colocated", "pd", "pd-hetero", "cross-dc-drc", "pdd", "prfaas", "any")
WIDEST = "any"


def infeasible(
    nothing: NothingFound, problem: Problem, topology: Topology, *, objective: Objective, limits: Limits, shapes: Shapes
) -> InfeasibleError:
    """The error that says what conflicts and which relaxation, as small as possible, gives a plan.

    Single relaxations first; where none but a lower rate helps, the smallest set that helps together.
    """
    guard_s = max(limits.time_limit_s, LONGEST_S)
    question = Question(problem, topology, objective, limits, shapes, time.perf_counter() + guard_s)
    # the quick ones first: promises are only brought nearer to what was asked for as long as there is time
    found = [*_rate(question), *_budget(question), *relaxed_limits(question), *_promises(question)]
    found.sort(key=_size)
    joint: tuple[Relaxation, ...] = ()
    if all(relaxation.limit == "rate" for relaxation in found):
        together = joint_relaxations(replace(question, deadline=time.perf_counter() + guard_s))
        if len(together) > 1:
            joint = together
        else:
            said = {relaxation.limit for relaxation in found}
            found.extend(relaxation for relaxation in together if relaxation.limit not in said)
    # with something relaxed there is a plan: then there are paths, and it is the limits that leave none
    what = f"{topology.name}: {NONE_EXISTS if nothing.proven and (found or joint) else nothing.why}"
    other = _other_topology(replace(question, deadline=time.perf_counter() + guard_s))
    if other is not None:
        what += f"; topology {other} would (--topology {other})"
    elif joint:
        what += "; no single promise or limit is to blame" if not found else ""
    elif not found:
        what += "; no relaxation of promises and limits was found that helps"
    conflicts = dict.fromkeys(relaxation.limit for relaxation in (*found, *joint))
    return InfeasibleError(what, conflicts=tuple(conflicts), relaxations=found, joint=joint)


def _size(relaxation: Relaxation) -> float:
    """By which fraction something is relaxed; what has no amount counts whole."""
    larger, smaller = max(relaxation.asked, relaxation.needed), min(relaxation.asked, relaxation.needed)
    return larger / smaller - 1.0 if smaller > 0 else 1.0


def _promises(question: Question) -> Iterator[Relaxation]:
    for promise in question.problem.workload.promises.made():
        free = question.with_limit(promise, None).answer()
        if free is None:
            continue  # even without this promise there is no plan
        margin = 1.0 + (question.problem.settings.tail_margin if promise.kind.is_tail else 0.0)
        highest = free.outcome.reached_s(promise) * margin * (1.0 + 1e-6)

        def reached(value: float, promise: Promise = promise, margin: float = margin) -> float | None:
            found = question.with_limit(promise, value).answer()
            return None if found is None else found.outcome.reached_s(promise) * margin * (1.0 + 1e-6)

        if highest > promise.limit_s:
            yield relaxed_promise(promise, smallest_feasible(promise.limit_s, reached, start=highest))


def _rate(question: Question) -> Iterator[Relaxation]:
    asked = question.objective.rate_rps
    if asked is None and question.objective.kind == "cost":
        asked = question.problem.workload.arrival.rate_rps
    if asked is None:
        return
    most = replace(question.objective, kind="rps", rate_rps=asked)
    found = replace(question, objective=most).answer(gap=NEAR)
    if found is not None and found.outcome.goodput_rps > 0:
        eased = relaxed_rate(asked, found.outcome.goodput_rps)
        if eased.needed < asked:
            yield eased


def _budget(question: Question) -> Iterator[Relaxation]:
    """The cheapest plan of the rate; where the rate is free, the cheapest that serves anything worth the name."""
    asked, rate = question.objective.budget_per_month, question.objective.rate_rps
    if asked is None:
        return
    if rate is None and question.objective.kind != "cost":
        rate = SMALLEST_SHARE * question.problem.workload.arrival.rate_rps
    found = replace(question, objective=Objective("cost", rate_rps=rate)).answer(gap=NEAR)
    if found is not None and found.outcome.cost.monthly_total > asked:
        yield relaxed_budget(asked, found.outcome.cost.monthly_total, found.outcome.cost.currency)


def _other_topology(question: Question) -> str | None:
    """The narrowest topology that has a plan; what the widest one finds belongs to it."""
    if question.topology.name == WIDEST:
        return None
    found = replace(question, topology=TOPOLOGIES[WIDEST]).answer()
    if found is None:
        return None
    plan = found.outcome.plan
    fits = (name for name in NARROW_FIRST if not paths_outside(question.problem.sites, TOPOLOGIES[name], plan))
    return next((name for name in fits if name != question.topology.name), None)
