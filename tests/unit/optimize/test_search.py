"""What a search keeps beside its best plan."""

from __future__ import annotations

from pddplan.optimize import Limits, Objective
from pddplan.optimize.build import build
from pddplan.optimize.cells import root_cell
from pddplan.optimize.search import MOST_RUNNERS_UP, Search
from pddplan.optimize.topologies import find_topology
from tests.unit.optimize.small_question import question, shapes


def test_runners_up_keep_every_promise_and_are_no_better() -> None:
    objective = Objective("cost")
    points = build(question(), find_topology("pdd"), objective=objective, limits=Limits(), shapes=shapes)
    assert points is not None
    search = Search(points, "cost", 30.0, gap=1e-3, max_nodes=50)
    best = search.run().best
    assert best is not None
    assert 0 < len(search.runners_up) <= 2 * MOST_RUNNERS_UP
    for candidate in search.runners_up:
        assert search.score(candidate) <= search.best_score
        routes = points.routes(root_cell(points.data).best(), used=candidate.used)
        levels = search.judge.levels_of(candidate, routes)
        assert search.judge.keeps_all(candidate, points.routes(levels, used=candidate.used))
