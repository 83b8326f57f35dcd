"""Plans on one path: at the rate asked, or at the highest one that limits allow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pddplan.domain.sites import SiteChip
from pddplan.optimize import Limits, Objective
from pddplan.optimize.build import build
from pddplan.optimize.search import Search
from pddplan.optimize.starts import at_highest_rate, filled_plan, single_path_plans
from pddplan.optimize.topologies import find_topology
from tests.oracles.wide_cases import drawn_wider
from tests.unit.optimize.small_question import question, shapes, two_sites


def test_a_budget_buys_the_highest_rate_that_one_path_serves() -> None:
    case = drawn_wider(20009)  # brute force: 2.6644 req/s on one path, which integer programs at idle waits never use
    points = build(
        case.problem, find_topology(case.topology), objective=case.objective, limits=case.limits, shapes=case.shapes
    )
    assert points is not None
    search = Search(points, "rps", 30.0, gap=1e-3)
    plans = list(single_path_plans(search.judge, search.score))
    assert all(search.judge.within_limits(plan) for plan in plans)
    assert max(plan.rate_rps for plan in plans) == pytest.approx(2.6644, rel=5e-3)


@pytest.mark.parametrize(("low", "high"), [(0.01, 4.0), (4.0, 4.0)])
def test_halving_ends_at_the_highest_rate(low: float, high: float) -> None:
    asked = question()
    points = build(asked, find_topology("pdd"), objective=Objective("cost"), limits=Limits(), shapes=shapes)
    assert points is not None
    search = Search(points, "cost", 30.0, gap=1e-3)
    plan = next(single_path_plans(search.judge, search.score))
    data = replace(points.data, min_rate_rps=low, max_rate_rps=high)
    found = at_highest_rate(data, lambda rate: replace(plan, rate_rps=rate) if rate <= 1.5 else None)
    assert (found is None) == (low > 1.5)
    if found is not None:
        assert found.rate_rps == pytest.approx(1.5, rel=0.01)


def test_an_inventory_is_filled_from_every_site() -> None:
    held = [SiteChip(name, max_chips=32, roles=("AGG",)) for name in ("fast", "big")]
    asked, goal = question(sites=two_sites(at_a=held[0], at_b=held[1])), Objective("rps")
    points = build(asked, find_topology("colocated"), objective=goal, limits=Limits(), shapes=shapes)
    assert points is not None
    search = Search(points, "rps", 30.0, gap=1e-3)
    filled = filled_plan(search.judge, deadline=math.inf)
    assert filled is not None
    assert search.judge.within_limits(filled)
    alone = next(single_path_plans(search.judge, search.score))
    assert filled.flow[0].sum() == pytest.approx(alone.rate_rps, rel=0.02)  # two sites that share nothing
    assert filled.flow[1].sum() > 0.5 * alone.rate_rps
