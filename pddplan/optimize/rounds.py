"""From a question to the best plan of a topology: its parts first, then all its paths, then a look at every shape."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pddplan.domain.plan import Plan
from pddplan.evaluate.problem import Problem
from pddplan.optimize.build import build, too_large
from pddplan.optimize.every_shape import EveryShape, every_shape
from pddplan.optimize.known import as_found, known_ids
from pddplan.optimize.no_plan import impossible
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.points import Points
from pddplan.optimize.search import BEST_FOUND, INTERRUPTED
from pddplan.optimize.settle import (
    LEAST_TIME_S,
    NONE_FOUND,
    UNPROVEN,
    Found,
    NothingFound,
    better,
    in_terms_of,
    interrupted,
    search_objective,
    settled,
    value_of,
)
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
SHARE_FOR_SHAPES = 0.4
"""Of the time left, what the program over all shapes may take at a time."""
MOST_LOOKS = 60
NODES_PER_LOOK = 10
"""A search limited to so many cells looks at one in this many sets of shapes."""
PATIENT_LOOKS = 20
"""From then on the acceptable gap is enough."""
_ANY = 0.01
"""Searches that stop at their first plan need no proof over shapes."""


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    problem: Problem
    topology: Topology
    objective: Objective
    limits: Limits
    shapes: Shapes
    started: float

    def left_s(self) -> float:
        return self.limits.time_limit_s - (time.perf_counter() - self.started)

    def points(
        self, *, also: frozenset[str] = frozenset(), only: frozenset[str] | None = None, hasty: bool = False
    ) -> Points | None:
        return build(
            self.problem,
            self.topology,
            objective=self.objective,
            limits=self.limits,
            shapes=self.shapes,
            also=also,
            only=only,
            hasty=hasty,
        )

    def best(self, points: Points, known: Found | None, *, share: float = 1.0) -> Found | NothingFound:
        """Search these candidates in a share of the time, from a plan known before; never worse than that one."""
        start = in_terms_of(points, known) if known is not None else None
        found = settled(
            self.problem,
            self.topology.name,
            points,
            objective=self.objective,
            limits=replace(self.limits, time_limit_s=share * self.limits.time_limit_s),
            started=self.started,
            start=(start,) if start is not None else (),
        )
        if known is None or (isinstance(found, Found) and not better(known.outcome, found.outcome, self.objective)):
            return found
        return _as_known(known, found, self.objective)


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
    question = _Question(problem, topology, objective, limits, shapes, time.perf_counter())
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
        if part is not None and not _interrupted(part) and math.isinf(points.bound):
            also = frozenset(pool.id for pool in part.outcome.plan.pools)
            if not also <= {pool.id for pool in points.pools}:
                points = question.points(also=also) or points
        others = limits.prove_shapes and len(points.considered) > len(points.pools)
        best = question.best(points, part, share=SHARE_FOR_FEW if others and part is not None else 1.0)
        if isinstance(best, NothingFound) and math.isfinite(points.bound):
            hasty = question.points(hasty=True)  # what the program over all candidates chose does not do
            best = question.best(hasty, None) if hasty is not None else best
            if isinstance(best, NothingFound):
                best = NothingFound(
                    proven=False,
                    why=best.why if best.out_of_time else NONE_FOUND,
                    out_of_time=best.out_of_time or points.cut,
                )
        return _over_all_shapes(question, points, best)
    except KeyboardInterrupt:
        if not isinstance(best, Found):
            raise
        return _reporting(best, status=INTERRUPTED)


def _best_part(question: _Question, points: Points) -> Found | None:
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
        found = search_plans(
            question.problem,
            find_topology(name),
            objective=question.objective,
            limits=limits,
            shapes=question.shapes,
        )
        if isinstance(found, Found) and (best is None or better(found.outcome, best.outcome, question.objective)):
            best = found
        if _interrupted(found):
            break
    return best


def _path_count(question: _Question, name: str, points: Points) -> int:
    topology = find_topology(name)
    pools = [pool for pool in points.considered if pool.role in topology.roles]
    return path_count(topology, pools, ways_of(question.problem.sites, topology, pools))


def _as_known(known: Found, found: Found | NothingFound, objective: Objective) -> Found:
    """A plan known before, with what the search of more candidates proved about it."""
    status, gap = BEST_FOUND, UNPROVEN  # nothing is proven about candidates that no search has finished with
    if isinstance(found, Found) and found.outcome.solver is not None:
        status, value = found.outcome.solver.status, value_of(found.outcome, objective)
        bound = value + found.outcome.solver.gap * abs(value)
        reached = value_of(known.outcome, objective)
        gap = max((bound - reached) / abs(reached), 0.0) if reached else UNPROVEN
    return _reporting(known, status=status, gap=gap)


def _reporting(found: Found, **changes: Any) -> Found:
    """A plan with changes to what is said about its proof."""
    solver = found.outcome.solver
    if solver is None:
        return found
    return replace(found, outcome=replace(found.outcome, solver=replace(solver, **changes)))


def _over_all_shapes(question: _Question, points: Points, found: Found | NothingFound) -> Found | NothingFound:
    """Bound what any shapes could give, search those that would give it, and say what was proven over which shapes."""
    objective, limits = question.objective, question.limits
    every = None
    if limits.prove_shapes and len(points.considered) > len(points.pools) and not _interrupted(found):
        every = _every_shape(question, points, found)
    searched = _Searched(objective)
    searched.add(points, found)
    outside: float | None = -math.inf if len(points.considered) == len(points.pools) else None
    if every is not None:
        every.leave_out(searched.pools)
        score = math.inf  # of all other shapes
        # the first look is at the plain program
        for look in range(1 + min(MOST_LOOKS, max(limits.max_nodes // NODES_PER_LOOK, 1))):
            if isinstance(found, Found):
                every.only_better_than(value_of(found.outcome, objective))
            bound = every.bound(time_limit_s=SHARE_FOR_SHAPES * question.left_s())
            if bound is None:
                break
            outside = score = min(score, bound.score)  # what is left out or learnt only takes plans away
            ahead = _ahead(found, score, objective)
            enough = limits.gap if look < PATIENT_LOOKS else max(limits.gap, limits.acceptable_gap)
            closed = ahead is not None and ahead <= enough
            if closed or not bound.pools or question.left_s() < LEAST_TIME_S:
                break
            if every.tighten(bound):
                continue
            mine = {pool.id for pool in found.outcome.plan.pools} if isinstance(found, Found) else set()
            wider = question.points(only=bound.pools | mine)
            if wider is None or math.isfinite(wider.bound):
                break
            found = question.best(wider, found if isinstance(found, Found) else None)
            searched.add(wider, found)
            every.leave_out(bound.pools | mine)
            if _interrupted(found):
                break
    if isinstance(found, NothingFound):
        return _nothing_at_all(question, points, found)
    found = _once_more(question, searched, found)
    inside = searched.ahead(found)
    over_all = None
    if outside is not None and inside is not None:
        over_all = max(_ahead(found, outside, objective) or 0.0, inside)
    changes: dict[str, Any] = {} if inside is None else {"gap": inside}
    if points.cut:
        changes["status"] = "time limit"
    elif inside is not None and inside > max(limits.gap, limits.acceptable_gap) and _status(found) == "optimal":
        changes["status"] = BEST_FOUND
    return _reporting(
        found,
        **changes,
        shapes_searched=len(searched.pools),
        shapes_possible=len(points.considered),
        gap_over_all=over_all,
    )


@dataclass(frozen=True, slots=True)
class _SearchedSet:
    """Shapes that were searched, the score that no plan of them exceeds, and that of the best plan known then."""

    pools: frozenset[str]
    score: float
    reached: float


@dataclass(slots=True)
class _Searched:
    """Sets of shapes that were searched, and the score that no plan of each exceeds: held against the last plan."""

    objective: Objective
    sets: list[_SearchedSet] = field(default_factory=list)

    @property
    def pools(self) -> frozenset[str]:
        return frozenset().union(*(own.pools for own in self.sets))

    def add(self, points: Points, found: Found | NothingFound) -> None:
        """A set with what its search proved; nothing is known of one without a plan."""
        pools, reached = frozenset(pool.id for pool in points.pools), -math.inf
        gap = _gap(found)
        if isinstance(found, Found):
            reached = value_of(found.outcome, self.objective)
        self.sets.append(_SearchedSet(pools, -math.inf if gap is None else reached + gap * abs(reached), reached))

    def ahead(self, found: Found | NothingFound) -> float | None:
        """How far plans of the sets may still be better than a plan, as a fraction."""
        return _ahead(found, max(own.score for own in self.sets), self.objective)


def _once_more(question: _Question, searched: _Searched, found: Found) -> Found:
    """Search sets again whose plans might still be better, where a better plan to start from was found since."""
    objective, enough = question.objective, max(question.limits.gap, question.limits.acceptable_gap)
    for at, own in enumerate(searched.sets):
        reached = value_of(found.outcome, objective)
        open_gap = (_ahead(found, own.score, objective) or 0.0) > enough
        if not open_gap or reached <= own.reached or _interrupted(found) or question.left_s() < LEAST_TIME_S:
            continue
        again = question.points(only=own.pools | {pool.id for pool in found.outcome.plan.pools})
        if again is None or math.isfinite(again.bound):
            continue
        latest = question.best(again, found)
        if isinstance(latest, Found):
            found, reached = latest, value_of(latest.outcome, objective)
            score = reached + (_gap(latest) or 0.0) * abs(reached)
            searched.sets[at] = replace(own, score=min(own.score, score), reached=reached)
    return found


def _nothing_at_all(question: _Question, points: Points, found: NothingFound) -> NothingFound:
    """No plan of the shapes searched: proven only where there is none of any shape."""
    if not found.proven or len(points.considered) == len(points.pools):
        return found
    every = question.points(only=frozenset(pool.id for pool in points.considered))
    left_s = max(question.left_s(), LEAST_TIME_S)
    if every is not None and math.isinf(every.bound) and not every.cut and impossible(every, time_limit_s=left_s):
        return found
    return NothingFound(proven=False, why=NONE_FOUND)


def _every_shape(question: _Question, points: Points, found: Found | NothingFound) -> EveryShape | None:
    """The program over all shapes where it says anything: not where the ratio's rate is free."""
    if question.objective.kind != "rps" and search_objective(question.objective) != "cost":
        return None
    score = value_of(found.outcome, question.objective) if isinstance(found, Found) else None
    return every_shape(
        question.problem,
        question.topology,
        points.considered,
        objective=question.objective,
        limits=question.limits,
        score=score,
        time_limit_s=question.left_s(),
    )


def _gap(found: Found | NothingFound) -> float | None:
    return found.outcome.solver.gap if isinstance(found, Found) and found.outcome.solver is not None else None


def _ahead(found: Found | NothingFound, score: float, objective: Objective) -> float | None:
    """How far a score lies above that of the plan found, as a fraction; None without a plan."""
    if isinstance(found, NothingFound):
        return None
    reached = value_of(found.outcome, objective)
    return max((score - reached) / abs(reached), 0.0) if reached else None


def _interrupted(found: Found | NothingFound) -> bool:
    return isinstance(found, Found) and interrupted(found.outcome)


def _status(found: Found | NothingFound) -> str | None:
    return found.outcome.solver.status if isinstance(found, Found) and found.outcome.solver is not None else None
