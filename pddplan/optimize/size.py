"""The optimiser's front door: a question in, the best plan with its proof out."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Required, TypedDict, Unpack

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan
from pddplan.errors import InfeasibleError, ProblemList, SolverError
from pddplan.evaluate.problem import Problem
from pddplan.optimize.aggregated import AGGREGATED, cheapest_aggregated
from pddplan.optimize.changes import Nearness, nearest
from pddplan.optimize.every_shape import nothing_better
from pddplan.optimize.limits_used import limits_used
from pddplan.optimize.objective import Limits, Objective, check_rate
from pddplan.optimize.question import reporting
from pddplan.optimize.question_limits import on_usable_lines
from pddplan.optimize.rounds import Found, search_plans
from pddplan.optimize.search import BEST_FOUND
from pddplan.optimize.settle import LEAST_TIME_S, interrupted, search_objective, value_of
from pddplan.optimize.thrift import last_look
from pddplan.optimize.topologies import Shapes, find_topology

BEST_RATIO = Objective()
DEFAULT_LIMITS = Limits()
NODES_FOR_ONE_SITE = 40
"""Plans to compare with are bounded by cells, not by seconds: slow machines are to find the same ones."""
SHARE_FOR_AGGREGATED = 0.25
"""Of the time of a question for aggregated plans, for the fleet that others are compared with."""
SHARE_FOR_PROOF = 0.25
"""Of the time, for showing that nothing is better than a plan that is known."""


class Asked(TypedDict, total=False):
    """What may be asked of ``size`` and ``find``."""

    shapes: Required[Shapes]
    topology: str
    objective: Objective
    limits: Limits
    relax: bool
    nearness: Nearness | None
    known: Plan | None


def size(problem: Problem, **asked: Unpack[Asked]) -> Outcome:
    """Find the best plan of a topology for a question, evaluated by the one evaluator, with its proof.

    Raises InfeasibleError when no plan exists, with the smallest relaxation of each promise or limit
    (``relax=False`` leaves them out and saves their time), SolverError when time ran out before any plan
    was found, InputError for settings that make no sense, KeyboardInterrupt when Ctrl-C ended the search: who asks
    many questions is to stop there. ``find`` gives the best plan until then.
    """
    outcome = find(problem, **asked).outcome
    if interrupted(outcome):
        raise KeyboardInterrupt
    return outcome


def find(
    problem: Problem,
    *,
    topology: str = "pdd",
    objective: Objective = BEST_RATIO,
    limits: Limits = DEFAULT_LIMITS,
    shapes: Shapes,
    relax: bool = True,
    nearness: Nearness | None = None,
    known: Plan | None = None,
) -> Found:
    """As ``size``, and also give the model the plan came from (for explanations).

    ``known`` is a plan that may answer the question, of a similar one say: the search starts there.
    """
    objective.check()
    limits.check()
    if nearness is not None:
        nearness.check(objective)
    faults = ProblemList()
    check_rate(problem.workload.arrival.rate_rps, faults, where="workload: arrival.rate_rps")
    faults.raise_if_any()
    chosen = find_topology(topology)
    asked, problem = problem, on_usable_lines(problem, limits)
    deadline = time.perf_counter() + limits.time_limit_s
    quickly: Found | None = None
    left = limits
    if chosen.name == AGGREGATED and known is None and limits.prove_shapes and search_objective(objective) == "cost":
        first = replace(limits, time_limit_s=SHARE_FOR_AGGREGATED * limits.time_limit_s)
        quickly = cheapest_aggregated(problem, objective=objective, limits=first, shapes=shapes)
        known = quickly.outcome.plan if quickly is not None else None  # never dearer than what others are compared with
        left = replace(limits, time_limit_s=max(deadline - time.perf_counter(), LEAST_TIME_S))
    found = search_plans(problem, chosen, objective=objective, limits=left, shapes=shapes, known=known)
    if isinstance(found, Found):
        if quickly is not None:
            found = _as_proven(found, quickly, objective=objective, limits=limits)
            found = reporting(found, seconds=round(limits.time_limit_s - (deadline - time.perf_counter()), 3))
        found = last_look(problem, chosen.name, found, objective=objective, limits=limits, deadline=deadline)
        if nearness is not None:
            found = nearest(problem, chosen, found, nearness, objective=objective, limits=limits, shapes=shapes)
        binding = limits_used(problem, found.outcome, limits=limits, objective=objective)
        return replace(found, outcome=replace(found.outcome, binding=(*found.outcome.binding, *binding)))
    if found.out_of_time:
        raise SolverError(found.why, fix="raise --time-limit, or allow fewer kinds of chips, or one topology at a time")
    if not relax:
        raise InfeasibleError(found.why)
    from pddplan.optimize.relaxation import infeasible  # most questions have a plan

    raise infeasible(found, asked, chosen, objective=objective, limits=limits, shapes=shapes)


def _as_proven(found: Found, before: Found, *, objective: Objective, limits: Limits) -> Found:
    """A plan with the closer of two bounds: that of its own search, and one that a search before it came to."""
    own, other = found.outcome.solver, before.outcome.solver
    value, reached = value_of(found.outcome, objective), value_of(before.outcome, objective)
    if own is None or other is None or other.gap_over_all is None or not value:
        return found
    gap = max((reached + other.gap_over_all * abs(reached) - value) / abs(value), 0.0)
    over_all = gap if own.gap_over_all is None else min(gap, own.gap_over_all)
    least = min(gap, own.gap)
    proven = least <= max(limits.gap, limits.acceptable_gap) and own.status == BEST_FOUND
    return reporting(found, gap=least, gap_over_all=over_all, status="optimal" if proven else own.status)


def unbeaten(
    problem: Problem,
    known: Outcome,
    *,
    by: float,
    topology: str,
    objective: Objective,
    limits: Limits = DEFAULT_LIMITS,
    shapes: Shapes,
) -> bool:
    """True when a program without waits shows that no plan is better than one known by more than this share.

    Far quicker than a search, and often enough; False says nothing.
    """
    value = value_of(known, objective)
    return nothing_better(
        problem,
        find_topology(topology),
        objective=objective,
        limits=limits,
        shapes=shapes,
        score=value + by * abs(value),
        time_limit_s=SHARE_FOR_PROOF * limits.time_limit_s,
    )


def baseline(
    problem: Problem,
    outcome: Outcome,
    *,
    objective: Objective | None = None,
    limits: Limits = DEFAULT_LIMITS,
    shapes: Shapes,
) -> Outcome | None:
    """The cheapest aggregated plan of the same rate under the same promises; None when none was found.

    The cheapest fleet of one kind of instances, or of the kinds that a program over all shapes would mix: quickly, with
    how much cheaper one could still be.

    ``objective`` replaces "least cost at the rate of ``outcome``" where another comparison is wanted.
    """
    goal = objective or Objective(kind="cost", rate_rps=outcome.plan.rate_rps)
    deadline = time.perf_counter() + limits.time_limit_s
    try:
        found = cheapest_aggregated(problem, objective=goal, limits=limits, shapes=shapes)
    except SolverError:
        return None
    if found is None:
        return None
    quick = replace(limits, prove_shapes=False)
    found = last_look(problem, AGGREGATED, found, objective=goal, limits=quick, deadline=deadline)
    if interrupted(found.outcome):
        raise KeyboardInterrupt
    return found.outcome


def one_site(problem: Problem, outcome: Outcome, *, limits: Limits = DEFAULT_LIMITS, shapes: Shapes) -> Outcome | None:
    """The cheapest plan of the same rate with prefill and decode at one site, quickly; None when none was found.

    For plans that use a line: whoever pays for a second site should know what one site would cost.
    """
    bounded = replace(
        limits,
        max_nodes=min(limits.max_nodes, NODES_FOR_ONE_SITE),
        prove_shapes=False,
    )
    goal = Objective(kind="cost", rate_rps=outcome.plan.rate_rps)
    try:
        return size(problem, topology="pd-hetero", objective=goal, limits=bounded, shapes=shapes, relax=False)
    except (InfeasibleError, SolverError):
        return None
