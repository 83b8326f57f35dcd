"""The cheapest aggregated fleet: what splitting must beat, found quickly enough to stand beside every plan.

One kind of instances is tried first, of every shape. Then the program of flows over all shapes says which kinds a
cheaper mixture would use (long prefills on one, short ones on another). Of these the few fleets cheaper than the best
one are tried with balanced traffic, and where that leaves much they are searched. It goes on with the next kinds until
the program leaves little, or has been asked often enough.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

from pddplan.evaluate.problem import Problem
from pddplan.optimize.balanced import balanced_fleet
from pddplan.optimize.every_shape import every_shape
from pddplan.optimize.known import as_found
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.question import Question, reporting
from pddplan.optimize.search import BEST_FOUND
from pddplan.optimize.settle import Found, NothingFound, better, interrupted, value_of
from pddplan.optimize.topologies import Shapes, find_topology

AGGREGATED = "colocated"
NODES = 20
MOST_LOOKS = 4
"""Cells that the search of the first mixture may take, and mixtures tried: counted, so that slow machines find the same
fleet unless time runs out."""
CLOSE_ENOUGH = 0.05
"""After the first mixture: what is compared with need not be proven closer than this fraction."""
SHARE_PER_LOOK = 0.2
"""Of the time, what the program over all shapes may take at a time."""


def cheapest_aggregated(problem: Problem, *, objective: Objective, limits: Limits, shapes: Shapes) -> Found | None:
    """The cheapest aggregated fleet that a short search finds, with how much cheaper one could be; None without any.

    ``objective`` is least cost at a rate.
    """
    quick = replace(limits, every_shape=True, prove_shapes=False)
    question = Question(problem, find_topology(AGGREGATED), objective, quick, shapes, time.perf_counter())
    points = question.points()
    if points is None:
        return None
    best = _better(None, question.best(points, None, nodes=0), objective)
    if best is not None and interrupted(best.outcome):
        return best
    every = every_shape(
        problem,
        question.topology,
        points.considered,
        objective=objective,
        limits=limits,
        score=value_of(best.outcome, objective) if best is not None else None,
        time_limit_s=SHARE_PER_LOOK * limits.time_limit_s,
        apart=True,
    )
    inside, outside = -math.inf, math.inf
    enough = limits.acceptable_gap
    for look in range(MOST_LOOKS if every is not None else 0):
        assert every is not None
        if best is not None:
            every.only_better_than(value_of(best.outcome, objective))
        bound = every.bound(time_limit_s=SHARE_PER_LOOK * limits.time_limit_s)
        outside = min(outside, bound.score) if bound is not None else outside
        if bound is None or not bound.pools or _within(best, outside, enough, objective) or question.left_s() <= 0:
            break
        enough = CLOSE_ENOUGH
        best = _with_balance(question, bound.pools, best, above=-outside)
        if _within(best, outside, enough, objective):
            break
        kinds = bound.pools | (frozenset(pool.id for pool in best.outcome.plan.pools) if best else frozenset())
        own = question.points(only=kinds) if look == 0 else None
        if own is not None:
            found = question.best(own, best, nodes=NODES)
            best = _better(best, found, objective)
            if best is None or isinstance(found, NothingFound):
                break
            inside = max(inside, min(_most(found, objective), bound.score))
        else:
            inside = max(inside, bound.score)  # not searched: the program alone speaks for them
        every.leave_out(kinds)
        if best is not None and (interrupted(best.outcome) or _within(best, outside, enough, objective)):
            break
    if best is None or math.isinf(outside) or interrupted(best.outcome):
        return best
    gap = max(_ahead(best, max(inside, outside), objective), 0.0)
    return reporting(
        best,
        status="optimal" if gap <= max(limits.gap, limits.acceptable_gap) else BEST_FOUND,
        gap=gap,
        gap_over_all=gap,
        shapes_searched=len(points.considered),
        shapes_possible=len(points.considered),
    )


def _with_balance(question: Question, kinds: frozenset[str], best: Found | None, *, above: float) -> Found | None:
    """The best fleet known, or a cheaper one of these kinds with balanced traffic."""
    points = question.points(only=kinds)
    if points is None or best is None:
        return best
    tried = balanced_fleet(points, topology=AGGREGATED, above=above, below=best.outcome.cost.monthly_total)
    found = as_found(points, tried.outcome.plan, topology=AGGREGATED) if tried is not None else None
    return _better(best, found, question.objective)


def _better(best: Found | None, found: Found | NothingFound | None, objective: Objective) -> Found | None:
    if found is None or isinstance(found, NothingFound):
        return best
    return found if best is None or better(found.outcome, best.outcome, objective) else best


def _most(found: Found, objective: Objective) -> float:
    """What no plan of the shapes searched exceeds."""
    reached, report = value_of(found.outcome, objective), found.outcome.solver
    return reached + (report.gap if report is not None else 0.0) * abs(reached)


def _within(best: Found | None, score: float, gap: float, objective: Objective) -> bool:
    return best is not None and _ahead(best, score, objective) <= gap


def _ahead(best: Found, score: float, objective: Objective) -> float:
    """How far a score lies above that of a plan, as a fraction."""
    reached = value_of(best.outcome, objective)
    return (score - reached) / abs(reached) if reached else 0.0
