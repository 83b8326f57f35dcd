"""Infeasible is an answer: which single promise or limit to relax, and by how little."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pddplan.domain.sites import SiteChip
from pddplan.errors import InfeasibleError, Relaxation
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Objective, size
from pddplan.optimize.asking import round_up, smallest_feasible
from tests.unit.optimize.small_question import (
    question,
    shapes,
    two_sites,
    with_promises,
)


def refused(problem: Problem, objective: Objective | None = None, limits: Limits | None = None) -> InfeasibleError:
    with pytest.raises(InfeasibleError) as caught:
        size(problem, objective=objective or Objective("cost"), limits=limits or Limits(), shapes=shapes)
    return caught.value


def by_limit(error: InfeasibleError) -> dict[str, Relaxation]:
    return {relaxation.limit: relaxation for relaxation in error.relaxations}


def test_unreachable_tpot_in_milliseconds() -> None:
    found = by_limit(refused(with_promises(question(), tpot_s=0.004)))["TPOT P90"]
    assert found.unit == "ms"
    assert 12.0 <= found.needed <= 20.0


def test_too_small_budget() -> None:
    error = refused(question(), Objective("cost", budget_per_month=10_000))
    assert by_limit(error)["budget"].needed > 10_000
    assert "budget" in error.conflicts


def test_without_relaxations_nothing_is_searched_for() -> None:
    problem = with_promises(question(), ttft_p99_s=0.1)
    with pytest.raises(InfeasibleError) as caught:
        size(problem, objective=Objective("cost"), limits=Limits(), shapes=shapes, relax=False)
    assert not caught.value.relaxations


def test_smallest_feasible_is_found_and_safe() -> None:
    needed = smallest_feasible(2.0, lambda value: value if value >= 7.3 else None, start=64.0)
    assert 7.3 <= needed <= 7.4
    assert smallest_feasible(2.0, lambda _: None, start=9.0) == 9.0


@pytest.mark.parametrize(("value", "rounded"), [(12.341, 12.4), (0.0012301, 0.00124), (5.0, 5.0), (0.0, 0.0)])
def test_rounding_up_never_goes_below(value: float, rounded: float) -> None:
    assert round_up(value) == pytest.approx(rounded)
    assert round_up(value) >= value


def test_reserves_that_leave_no_room_are_named() -> None:
    problem = question(4.0, sites=two_sites(at_b=SiteChip("big", max_chips=32, roles=("MD",))))
    spares = by_limit(refused(problem, limits=Limits(redundant_instances=10)))["spare instances per pool"]
    assert 0 <= spares.needed < 4
    assert spares.hint == f"--spare {spares.needed:g}"
    tight = by_limit(refused(problem, limits=Limits(max_utilization=0.02)))["ceiling of pools"]
    assert 0.02 < tight.needed <= 0.95
    eased = Limits(max_utilization=tight.needed)
    assert size(problem, objective=Objective("cost"), limits=eased, shapes=shapes).keeps_promises


def test_power_is_named_by_what_a_plan_draws() -> None:
    sites = two_sites()
    places = {**sites.sites, "a": replace(sites.sites["a"], power_limit_kw=0.01)}
    found = by_limit(refused(question(sites=replace(sites, sites=places))))["power of site a"]
    assert found.needed > 1.0  # far beyond the multiples that promises are tried with
    assert found.hint == f"--power a={found.needed:g}"
