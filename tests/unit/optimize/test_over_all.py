"""Bounds of the sets of shapes that were searched, held against the plan found last."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pddplan.domain.outcome import SolverReport
from pddplan.optimize import Limits, Objective
from pddplan.optimize.build import build
from pddplan.optimize.over_all import _OverAll
from pddplan.optimize.question import Question
from pddplan.optimize.rounds import search_plans
from pddplan.optimize.settle import UNPROVEN, Found, NothingFound, restated
from pddplan.optimize.topologies import find_topology
from tests.unit.optimize.small_question import question, shapes


def test_a_gap_to_an_earlier_plan_shrinks_with_a_better_one() -> None:
    """The first set's plan costs 110 with a gap of 20 %: none of its plans costs less than 88. Then 100 is found."""
    objective, pd = Objective("cost"), find_topology("pd")
    found = search_plans(question(), pd, objective=objective, limits=Limits(), shapes=shapes)
    points = build(question(), pd, objective=objective, limits=Limits(), shapes=shapes)
    assert isinstance(found, Found)
    assert points is not None

    def costs(monthly: float, gap: float) -> Found:
        outcome = found.outcome
        price = replace(outcome.cost, monthly_total=monthly)
        return replace(found, outcome=replace(outcome, cost=price, solver=SolverReport("any", "optimal", gap, 0.0)))

    over_all = _OverAll(Question(question(), pd, objective, Limits(), shapes, 0.0), points, cut_short=False)
    over_all.add(points, costs(110.0, 0.2))
    over_all.add(replace(points, pools=points.pools[1:], paths=()), costs(100.0, 0.0))
    solver = over_all.reported(costs(100.0, 0.0)).outcome.solver
    assert solver is not None
    assert solver.gap == pytest.approx(0.12)
    assert solver.shapes_searched == len(points.pools)
    few = replace(points, pools=points.pools[:1], paths=())  # searched before among others
    over_all.add(few, costs(100.0, 0.5))
    solver = over_all.reported(costs(100.0, 0.0)).outcome.solver
    assert solver is not None
    assert solver.gap == pytest.approx(0.12)


def test_shapes_count_as_left_out_by_what_they_are_not_by_their_number() -> None:
    """As many shapes were looked at as no other beats, but one that is beaten in place of the one that beats it."""
    points = build(question(), find_topology("pd"), objective=Objective("cost"), limits=Limits(), shapes=shapes)
    assert points is not None
    asked = Question(question(), find_topology("pd"), Objective("cost"), Limits(), shapes, 0.0)
    assert not _OverAll(asked, points, cut_short=False).others
    better = replace(points.considered[0], id="one that beats it")
    points.considered = (better, *points.considered[1:])
    assert _OverAll(asked, points, cut_short=False).others


def test_where_no_plan_was_found_nothing_is_proven_unless_there_is_none() -> None:
    points = build(question(), find_topology("pd"), objective=Objective("cost"), limits=Limits(), shapes=shapes)
    assert points is not None
    over_all = _OverAll(
        Question(question(), find_topology("pd"), Objective("cost"), Limits(), shapes, 0.0), points, cut_short=False
    )
    assert over_all.is_open(NothingFound(proven=False, why="out of luck"))
    assert not over_all.is_open(NothingFound(proven=True, why="impossible"))
    over_all.add(points, NothingFound(proven=False, why="out of luck"))
    over_all.add(points, NothingFound(proven=True, why="impossible"))
    assert [own.score for own in over_all.sets] == [float("inf"), float("-inf")]


def test_a_better_plan_does_not_prove_itself_where_nothing_was_proven() -> None:
    """10 req/s of which nothing is proven, then 25: still nothing is."""
    report = SolverReport("any", "best found", UNPROVEN, 0.0)
    assert restated(report, 10.0, 25.0).gap == UNPROVEN
    assert restated(report, -10.0, -8.0).gap == 1.0  # a cost is never below 0: that is a bound
