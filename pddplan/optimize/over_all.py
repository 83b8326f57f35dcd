"""How much better plans of any instance shapes could be: asked of a program, and searched where it leaves something."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from pddplan.optimize.build import fractional_bound
from pddplan.optimize.every_shape import SLIGHTLY, Bound, EveryShape, every_shape, is_ratio
from pddplan.optimize.no_plan import impossible
from pddplan.optimize.objective import Objective
from pddplan.optimize.points import Points
from pddplan.optimize.question import Question, reporting
from pddplan.optimize.search import BEST_FOUND, Search
from pddplan.optimize.settle import (
    LEAST_TIME_S,
    NONE_FOUND,
    UNPROVEN,
    Found,
    NothingFound,
    better,
    bound_of,
    interrupted,
    search_objective,
    value_of,
)
from pddplan.units import KILO

SHARE_FOR_SHAPES = 0.4
"""Of the time left, what the program over all shapes may take at a time."""
SHARE_FOR_CHECK = 0.2
"""Of the time left, what one look into a set of shapes may take."""
SHARE_TO_GO_ON = 0.5
"""Of the time left, what is kept for the first search to go on where it was ended early."""
MOST_LOOKS = 200
NODES_PER_LOOK = 10
"""A search limited to so many cells looks at one in this many sets of shapes."""
NODES_PER_CHECK = 20
"""Cells that show, nearly always, that a set of few shapes has no better plan; else it is searched in earnest."""
NODES_PER_SET = 100
"""Cells of that search."""
PATIENT_LOOKS = 60
"""From then on the acceptable gap is enough."""


def over_all_shapes(
    question: Question, points: Points, found: Found | NothingFound, *, nodes: int | None = None
) -> Found | NothingFound:
    """Bound what any shapes could give, search those that would give it, and say what was proven over which shapes.

    A first search whose gap is open leaves its own shapes in the program too: that often knows better. Where it was
    ended after so many ``nodes`` and the program does not, it goes on afterwards.
    """
    over_all = _OverAll(question, points, cut_short=nodes is not None and nodes < question.limits.max_nodes)
    over_all.add(points, found)
    if isinstance(found, Found) and _is_free(found, question.objective):
        return over_all.for_nothing(found)
    if question.limits.prove_shapes and not is_interrupted(found) and (over_all.others or over_all.is_open(found)):
        found = over_all.ask(found)
    if isinstance(found, NothingFound):
        return _nothing_at_all(question, points, found)
    return over_all.reported(over_all.once_more(found))


@dataclass(frozen=True, slots=True)
class _SearchedSet:
    """Shapes that were searched, the score that no plan of them exceeds, and that of the best plan known then."""

    pools: frozenset[str]
    score: float
    reached: float
    to_its_end: bool = True
    """Whether the search was ended by nothing but its proof, or the time."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a short search of a set of shapes saw."""

    score: float | None
    """None: no plan of the set is better than the one known; else what none of its plans exceeds."""
    candidate: frozenset[str] | None = None
    """Shapes of a plan that is better under the mix assumed."""


class _Probe(Search):
    """A search that is only asked whether there is anything."""

    def open_score(self) -> float:
        """Score that nothing in the cells left open exceeds."""
        return max([self._lost_bound, *(-key for key, _, _ in self._open)])


@dataclass(slots=True, eq=False)
class _OverAll:
    """What is known of plans of any shapes: the bound of the program, and what sets of shapes were searched."""

    question: Question
    points: Points
    cut_short: bool
    outside: float | None = None
    """Score that no plan exceeds but those of sets left out of the program; None where it was not asked."""
    left_out: bool = False
    """The first set was left out of the program: its own search speaks for it."""
    sets: list[_SearchedSet] = field(default_factory=list)
    looked_at: set[str] = field(default_factory=set)
    tried: set[frozenset[str]] = field(default_factory=set)
    """Shapes of candidates that were searched under their own mix."""

    @property
    def others(self) -> bool:
        """Shapes were left out of the first search."""
        return _left_out(self.points)

    @property
    def _possible(self) -> int:
        """Shapes that no other beats, and those looked at beside them."""
        return len({pool.id for pool in self.points.considered} | self.looked_at)

    @property
    def _objective(self) -> Objective:
        return self.question.objective

    @property
    def _close(self) -> float:
        return max(self.question.limits.gap, self.question.limits.acceptable_gap)

    def is_open(self, found: Found | NothingFound) -> bool:
        """A plan is not proven as close as is acceptable; that there is none is not proven."""
        if isinstance(found, NothingFound):
            return not found.proven
        gap = _gap(found)
        return gap is not None and gap > self._close

    def add(self, points: Points, found: Found | NothingFound, *, at_most: float = math.inf) -> None:
        """A set with what its search proved: without a plan that there is none, or nothing."""
        pools = frozenset(pool.id for pool in points.pools)
        if isinstance(found, Found):
            score, reached = bound_of(found.outcome, self._objective), value_of(found.outcome, self._objective)
        else:
            score, reached = -math.inf if found.proven else math.inf, -math.inf
        self.looked_at |= pools
        self.sets.append(_SearchedSet(pools, min(score, at_most), reached))

    def ask(self, found: Found | NothingFound) -> Found | NothingFound:
        """Ask the program, and look into what it says is better, until nothing is."""
        question, limits = self.question, self.question.limits
        every = _every_shape(question, self.points, found)
        if every is None:
            self.outside = self._in_fractions()
            return found
        if not self.is_open(found):
            every.leave_out(self.sets[0].pools)
            self.left_out = True
        kept_s = LEAST_TIME_S
        if self.cut_short and self.is_open(found):
            kept_s = max(kept_s, SHARE_TO_GO_ON * question.left_s())
        looks = 1 + min(MOST_LOOKS, max(limits.max_nodes // NODES_PER_LOOK, 1))  # the first is at the plain program
        for look in range(looks):
            if isinstance(found, Found):
                every.only_better_than(value_of(found.outcome, self._objective))
            bound = every.bound(time_limit_s=SHARE_FOR_SHAPES * question.left_s())
            if bound is None:
                break
            # what is left out or learnt only takes plans away
            self.outside = min(bound.score, math.inf if self.outside is None else self.outside)
            ahead = _ahead(found, self.outside, self._objective)
            enough = limits.gap if look < PATIENT_LOOKS else self._close
            closed = ahead is not None and ahead <= enough
            if closed or not bound.pools or question.left_s() < kept_s:
                break
            if every.tighten(bound):
                continue
            searched = self._look_into(every, bound, found)
            if searched is None:
                break
            found = searched
            if is_interrupted(found):
                break
        return found

    def _in_fractions(self) -> float | None:
        """What no plan of any shapes exceeds where whole instances are more than can be asked for in time."""
        question = self.question
        score = fractional_bound(
            question.problem,
            question.topology,
            self.points.considered,
            objective=question.objective,
            limits=question.limits,
            time_limit_s=SHARE_FOR_SHAPES * question.left_s(),
        )
        per = KILO if is_ratio(question.objective) else 1.0  # the ratio is requests per thousand
        return None if score is None else score * per

    def _look_into(self, every: EveryShape, bound: Bound, found: Found | NothingFound) -> Found | NothingFound | None:
        """See whether the shapes of a solution hold a better plan; None where that cannot be asked."""
        if isinstance(found, NothingFound) or search_objective(self._objective) == "bcr":
            return found if every.divide(bound) else self._search(every, bound, found)
        seen = self._probe(bound.pools, found, nodes=NODES_PER_CHECK)
        if seen is None:
            return None
        if seen.candidate is not None:
            own = self._search_candidate(seen.candidate, found)
            if own is not None:
                return own
        if seen.score is not None and every.divide(bound):
            return found
        if seen.score is not None and seen.candidate is None:
            seen = self._probe(bound.pools, found, nodes=NODES_PER_SET) or seen
        if seen.score is not None:  # of these alone no more can be said than this
            reached = value_of(found.outcome, self._objective)
            self.sets.append(_SearchedSet(bound.pools, min(seen.score, bound.score), reached, to_its_end=False))
        self.looked_at |= bound.pools
        every.leave_out(bound.pools)
        return found

    def _search(self, every: EveryShape, bound: Bound, found: Found | NothingFound) -> Found | NothingFound | None:
        """Search the shapes of a solution, and those of the plan known beside them."""
        mine = {pool.id for pool in found.outcome.plan.pools} if isinstance(found, Found) else set()
        wider = self.question.points(only=bound.pools | mine)
        if wider is None or math.isfinite(wider.bound):
            return None
        latest = self.question.best(wider, found if isinstance(found, Found) else None, nodes=NODES_PER_SET)
        self.add(wider, latest, at_most=math.inf if mine else bound.score)
        every.leave_out(bound.pools | mine)
        return latest

    def _search_candidate(self, pools: frozenset[str], found: Found) -> Found | None:
        """Search the shapes of what looks like a better plan, under its own mix; None where it is none after all."""
        if pools in self.tried:
            return None
        self.tried.add(pools)
        points = self.question.points(only=pools)
        if points is None:
            return None
        latest = self.question.best(points, found, nodes=NODES_PER_SET)
        ahead = isinstance(latest, Found) and better(latest.outcome, found.outcome, self._objective)
        return latest if ahead and isinstance(latest, Found) else None

    def _probe(self, pools: frozenset[str], found: Found, *, nodes: int) -> _Seen | None:
        """Whether these shapes hold a better plan than the one known, by a search of so many cells."""
        points = self.question.points(only=pools)
        if points is None or math.isfinite(points.bound):
            return None
        value = value_of(found.outcome, self._objective)
        better_score = value + SLIGHTLY * abs(value)
        if self._objective.kind == "rps":
            if better_score > points.data.max_rate_rps:
                return _Seen(None)
            points.data = replace(points.data, min_rate_rps=better_score)
        else:
            given = points.data.budget
            points.data = replace(points.data, budget=-better_score if given is None else min(-better_score, given))
        left_s = max(SHARE_FOR_CHECK * self.question.left_s(), LEAST_TIME_S)
        search = _Probe(
            points,
            search_objective(self._objective),
            left_s,
            self.question.limits.gap,
            max_nodes=nodes,
            most_starts=0,
        )
        result = search.run()
        if result.best is not None:
            used = frozenset(pool_id for pool_id, count in result.best.instances.items() if count > 0)
            return _Seen(math.inf, used)
        return _Seen(None if result.status == "infeasible" else search.open_score())

    def once_more(self, found: Found) -> Found:
        """Search sets again whose plans might still be better: with a better plan to start from, or to the end."""
        for at, own in enumerate(self.sets):
            reached = value_of(found.outcome, self._objective)
            open_gap = (_ahead(found, self._spoken_for(at), self._objective) or 0.0) > self._close
            unfinished = self.cut_short if at == 0 else not own.to_its_end
            if not open_gap or (reached <= own.reached and not unfinished) or is_interrupted(found):
                continue
            if self.question.left_s() < LEAST_TIME_S:
                break
            again = self.question.points(only=own.pools | {pool.id for pool in found.outcome.plan.pools})
            if again is None or math.isfinite(again.bound):
                continue
            latest = self.question.best(again, found)
            if isinstance(latest, Found):
                found, reached = latest, value_of(latest.outcome, self._objective)
                score = min(own.score, bound_of(latest.outcome, self._objective))
                self.sets[at] = replace(own, score=score, reached=reached, to_its_end=True)
        return found

    def _spoken_for(self, at: int) -> float:
        """What no plan of a set exceeds: by its own search, by that of a larger set, by the program if left in it."""
        pools = self.sets[at].pools
        own = min(other.score for other in self.sets if other.pools >= pools)
        return min(own, self.outside) if at == 0 and not self.left_out and self.outside is not None else own

    def for_nothing(self, found: Found) -> Found:
        """A plan that costs nothing (its chips are owned): no other one of any shapes costs less."""
        return reporting(
            found,
            status=_status(found) if is_interrupted(found) else "optimal",
            gap=0.0,
            gap_over_all=0.0,
            shapes_searched=len(self.looked_at),
            shapes_possible=self._possible,
        )

    def reported(self, found: Found) -> Found:
        """The plan with what was proven of the shapes searched, and of all."""
        objective = self._objective
        inside = _ahead(found, max(self._spoken_for(at) for at in range(len(self.sets))), objective)
        outside = self.outside if self.others else -math.inf
        over_all = None
        if outside is not None and inside is not None:
            over_all = max(_ahead(found, outside, objective) or 0.0, inside)
            over_all = over_all if math.isfinite(over_all) else None
        if inside is not None and math.isinf(inside):
            inside = UNPROVEN
        changes: dict[str, Any] = {} if inside is None else {"gap": inside}
        status = _status(found)
        if self.points.cut:
            changes["status"] = "time limit"
        elif inside is not None and inside > self._close and status == "optimal":
            changes["status"] = BEST_FOUND
        elif inside is not None and inside <= self._close and status in (BEST_FOUND, "time limit"):
            changes["status"] = "optimal"
        return reporting(
            found,
            **changes,
            shapes_searched=len(self.looked_at),
            shapes_possible=self._possible,
            gap_over_all=over_all,
        )


def _left_out(points: Points) -> bool:
    """Some shapes are not looked at that no other beats (a shape looked at may be one that another beats slightly)."""
    return not {pool.id for pool in points.considered} <= {pool.id for pool in points.pools}


def _nothing_at_all(question: Question, points: Points, found: NothingFound) -> NothingFound:
    """No plan of the shapes searched: proven only where there is none of any shape."""
    if not found.proven or not _left_out(points):
        return found
    every = question.points(only=frozenset(pool.id for pool in points.considered))
    left_s = max(question.left_s(), LEAST_TIME_S)
    if every is not None and math.isinf(every.bound) and not every.cut and impossible(every, time_limit_s=left_s):
        return found
    return NothingFound(proven=False, why=NONE_FOUND)


def _every_shape(question: Question, points: Points, found: Found | NothingFound) -> EveryShape | None:
    """The program over all shapes, where it is not too large."""
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


def _is_free(found: Found, objective: Objective) -> bool:
    return search_objective(objective) == "cost" and value_of(found.outcome, objective) >= 0


def is_interrupted(found: Found | NothingFound) -> bool:
    """True where Ctrl-C ended a search."""
    return isinstance(found, Found) and interrupted(found.outcome)


def _status(found: Found | NothingFound) -> str | None:
    return found.outcome.solver.status if isinstance(found, Found) and found.outcome.solver is not None else None
