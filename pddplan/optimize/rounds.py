"""From a question to the best plan of a topology: its parts first, then all its paths, then a look at every shape."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace

from pddplan.domain.plan import Plan
from pddplan.evaluate.problem import Problem
from pddplan.optimize.build import MOST_PATHS, too_large
from pddplan.optimize.known import as_found, known_ids
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.over_all import is_interrupted, over_all_shapes
from pddplan.optimize.points import Points
from pddplan.optimize.question import Question, reporting
from pddplan.optimize.search import INTERRUPTED
from pddplan.optimize.settle import LEAST_TIME_S, NONE_FOUND, Found, NothingFound, better, open_gap, opening, parted
from pddplan.optimize.topologies import Shapes, Topology, find_topology, path_count, ways_of

__all__ = ["Found", "NothingFound", "search_plans"]

PARTS: Mapping[str, tuple[str, ...]] = {
    "pdd": ("cross-dc-drc",),
    "prfaas": ("pd-hetero", "cross-dc-drc"),
    "any": ("colocated", "pd-hetero", "cross-dc-drc", "pdd"),
}
"""Topologies whose paths are among those of another one: quickly searched, their best plan is a start for all."""
SHARE_FOR_PARTS = 0.4
"""Of the time, what the parts may take together."""
NODES_FOR_PARTS = 500
SHARE_FOR_FEW = 0.75
"""Of the time, when the search of the few shapes ends: the rest goes into a bound over all others."""
SHARE_FOR_LISTING = 0.2
"""Questions so large that listing their candidates takes more of the time have none left for parts."""
SHARE_FOR_OPENING = 0.25
"""Of the time left, for fleets to start from."""
SHARE_AT_FIRST = 0.5
"""Of the time, when the first search ends of a question whose plans are bounded afterwards."""
SHARE_FOR_BOUND = 0.75
"""Of the time left, for a bound over all shapes: the rest goes into fleets that part the traffic."""
NODES_AT_FIRST, NODES_WITH_PLAN = 100, 20
"""Cells of the first search of a question whose plans are bounded afterwards, without a plan to start from and with
one: what it leaves open, that may close."""
_ANY = 0.01
"""Searches that stop at their first plan need no proof over shapes."""


def search_plans(
    problem: Problem,
    topology: Topology,
    *,
    objective: Objective,
    limits: Limits,
    shapes: Shapes,
    known: Plan | None = None,
) -> Found | NothingFound:
    """Best plan of a topology, evaluated by the one evaluator; never one that breaks a promise there.

    ``known`` is a plan that may answer the question: the search starts from it instead of from narrower topologies.

    The few shapes that promise most are searched first. Then a program over all shapes says how much better any plan
    could be, and which shapes such a plan would use: these are searched as well.
    """
    question = Question(problem, topology, objective, limits, shapes, time.perf_counter())
    found = _searched(question, known, whole=True)
    if isinstance(found, Found):  # a part's plan is an answer to the whole question now
        plan = replace(found.outcome.plan, topology=topology.name)
        found = replace(found, outcome=replace(found.outcome, plan=plan))
        return reporting(found, seconds=round(limits.time_limit_s - question.left_s(), 3))
    return found


def _searched(question: Question, known: Plan | None, *, whole: bool) -> Found | NothingFound:
    """The plan of a question; of a part of one (not ``whole``) without what the whole question looks at itself."""
    topology, limits = question.topology, question.limits
    best: Found | NothingFound | None = None
    try:
        points = question.points(also=known_ids(known))
        if points is None:
            return NothingFound(
                proven=True,
                why=f"with these sites, shapes and promises topology {topology.name} has no path ({topology.about})",
            )
        if limits.gap >= 1 - _ANY:
            return question.best(points, None)
        part = best = as_found(points, known, topology=topology.name) if known is not None else None
        part = best = part if part is not None else _best_part(question, points)
        if part is not None and not is_interrupted(part) and math.isinf(points.bound):
            also = frozenset(pool.id for pool in part.outcome.plan.pools)
            if not also <= {pool.id for pool in points.pools}:
                points = question.points(also=also) or points
        if limits.prove_shapes and math.isfinite(points.bound) and (part is None or not is_interrupted(part)):
            hasty = question.points(hasty=True)  # the cheapest pools of each site and role
            part = best = _opening(question, hasty, part) if hasty is not None else part
        left_out = {pool.id for pool in points.considered} - {pool.id for pool in points.pools}
        others = limits.prove_shapes and bool(left_out)
        share = SHARE_FOR_FEW if others and part is not None else 1.0
        nodes = None
        if limits.prove_shapes and math.isinf(points.bound):
            # most requests: a good fleet to start from comes before many cells
            nodes = NODES_AT_FIRST if part is None and question.objective.kind != "rps" else NODES_WITH_PLAN
            share = SHARE_AT_FIRST
        best = question.best(points, part, share=share, nodes=nodes)
        if isinstance(best, NothingFound) and math.isfinite(points.bound):
            hasty = question.points(hasty=True)  # what the program over all candidates chose does not do
            best = question.best(hasty, None) if hasty is not None else best
            if isinstance(best, NothingFound):
                best = NothingFound(
                    proven=False,
                    why=best.why if best.out_of_time else NONE_FOUND,
                    out_of_time=best.out_of_time or points.cut,
                )
        if not (whole and limits.prove_shapes):
            return over_all_shapes(question, points, best, nodes=nodes)
        if isinstance(best, NothingFound) and not best.proven:
            best = _parted(question, points, best)
        elif isinstance(best, Found) and open_gap(best, limits) and not is_interrupted(best):
            best = _opening(question, _of_all_shapes(question, points), best) or best
        best = over_all_shapes(question.within(SHARE_FOR_BOUND), points, best, nodes=nodes)
        if isinstance(best, NothingFound) or is_interrupted(best):
            return best
        return _parted(question, points, best)
    except KeyboardInterrupt:
        if not isinstance(best, Found):
            raise
        return reporting(best, status=INTERRUPTED)


def _best_part(question: Question, points: Points) -> Found | None:
    """The best plan of those topologies whose paths are among this one's, quickly."""
    parts = PARTS.get(question.topology.name, ())
    best: Found | None = None
    # plans that are only there to be compared with (no proof asked) do without
    ways = ways_of(question.problem.sites, question.topology, points.considered)
    alike = path_count(question.topology, points.considered, ways)  # no relay, say: then the part would be the whole
    quick_s = SHARE_FOR_LISTING * question.limits.time_limit_s
    if (
        not parts
        or not question.limits.prove_shapes
        or any(_path_count(question, name, points) == alike for name in parts)
        or too_large(question.problem, points.considered, ways, time_limit_s=quick_s)
    ):
        return None
    for done, name in enumerate(parts):
        spent_s = question.limits.time_limit_s - question.left_s()
        share_s = (SHARE_FOR_PARTS * question.limits.time_limit_s - spent_s) / (len(parts) - done)
        limits = replace(
            question.limits,
            time_limit_s=min(share_s, question.left_s() - LEAST_TIME_S * (len(parts) - done)),
            max_nodes=min(question.limits.max_nodes, NODES_FOR_PARTS),
        )
        if limits.time_limit_s < LEAST_TIME_S:
            break
        part = replace(question, topology=find_topology(name), limits=limits, started=time.perf_counter())
        found = _searched(part, None, whole=False)
        if isinstance(found, Found) and (best is None or better(found.outcome, best.outcome, question.objective)):
            best = found
        if is_interrupted(found):
            break
    return best


def _parted(question: Question, points: Points, known: Found | NothingFound) -> Found | NothingFound:
    """The plan held against fleets that part the traffic: they may be better than any plan under its mix."""
    return parted(
        question.problem,
        question.topology.name,
        points,
        known,
        objective=question.objective,
        limits=question.limits,
        started=question.started,
    )


def _of_all_shapes(question: Question, points: Points) -> Points:
    """Candidates of every shape where these are few enough to be looked at one by one; else those searched."""
    ways = ways_of(question.problem.sites, question.topology, points.considered)
    if path_count(question.topology, points.considered, ways) > MOST_PATHS:
        return points
    return question.points(only=frozenset(pool.id for pool in points.considered)) or points


def _opening(question: Question, points: Points, known: Found | None) -> Found | None:
    """The best of a plan known and of fleets that part the traffic, to start from."""
    return opening(
        question.problem,
        question.topology.name,
        points,
        known,
        objective=question.objective,
        limits=question.within(SHARE_FOR_OPENING).limits,
        started=question.started,
    )


def _path_count(question: Question, name: str, points: Points) -> int:
    topology = find_topology(name)
    pools = [pool for pool in points.considered if pool.role in topology.roles]
    return path_count(topology, pools, ways_of(question.problem.sites, topology, pools))
