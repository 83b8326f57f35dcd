"""Fleets that part short and long requests, and what counts as a proof that there is no plan."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from pddplan.domain.outcome import Outcome
from pddplan.domain.sites import Site, SiteChip, Sites
from pddplan.domain.workload import Promises
from pddplan.errors import InfeasibleError
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Objective, size
from pddplan.optimize.build import build
from pddplan.optimize.mending import Judged
from pddplan.optimize.no_plan import impossible
from pddplan.optimize.settle import NONE_EXISTS, NONE_FOUND
from pddplan.optimize.splits import cuts, split_plans
from pddplan.optimize.topologies import find_topology
from tests.unit.optimize.small_question import classes, line, question, shapes

EXACT = Limits(gap=1e-3, acceptable_gap=1e-3)


def small_stock(p99_s: float, *, chips: int = 16) -> Problem:
    """Long and short prefills; two kinds of chips at one site, two instances of each: one queue for all is too slow."""
    held = {
        name: SiteChip(name, max_chips=chips, price_per_chip_hour=price, roles=("P", "MD"))
        for name, price in (("fast", 2.8), ("big", 2.05))
    }
    return question(
        1.77,
        promises=Promises(ttft_p90_s=0.8 * p99_s, ttft_p99_s=p99_s),
        mix=classes([0.36, 0.64], [64e3, 32e3], [28_362, 3_547], [600, 600]),
        sites=Sites("one", {"a": Site("a", held)}, {"none": line()}),
    )


def sized(problem: Problem) -> Outcome:
    return size(problem, topology="pd-hetero", objective=Objective("cost"), limits=EXACT, shapes=shapes, relax=False)


def test_a_plan_that_only_parted_traffic_has_is_found() -> None:
    found = sized(small_stock(5.7))
    assert found.keeps_promises
    prefilling = [pool for pool in found.plan.pools if pool.role == "P"]
    assert len(prefilling) == 2


def test_no_plan_is_proven_where_an_idle_fleet_is_too_slow() -> None:
    with pytest.raises(InfeasibleError, match=NONE_EXISTS):  # a long prefill alone takes 1.85 s
        sized(small_stock(1.5))


def test_no_plan_is_not_proven_where_waits_are_to_blame() -> None:
    with pytest.raises(InfeasibleError, match=NONE_FOUND):  # idle instances would be in time
        sized(small_stock(2.5))


@pytest.mark.parametrize(("p99_s", "chips", "none"), [(1.5, 16, True), (2.5, 16, False), (5.7, 16, False)])
def test_what_is_impossible_is_so_whatever_shares_a_pool(p99_s: float, chips: int, none: bool) -> None:
    problem = small_stock(p99_s, chips=chips)
    points = build(problem, find_topology("pd-hetero"), objective=Objective("cost"), limits=EXACT, shapes=shapes)
    assert points is not None
    assert impossible(points, time_limit_s=10.0) is none


def test_cuts_part_the_used_classes_each_way_once() -> None:
    mix = classes([1, 1, 1, 0], [8e3, 16e3, 64e3, 99e3], [100, 9_000, 2_000, 5], [500, 500, 500, 9])
    found = cuts(replace(mix, group=("chat", "chat", "agents", "agents")))
    assert len({cut.tobytes() for cut in found}) == len(found)
    for cut in found:
        assert 0 < cut[:3].sum() < 3, "both parts hold requests"
        assert not cut[3], "classes without requests are in no part"
    assert any(np.array_equal(cut[:3], [False, False, True]) for cut in found), "the traffic class"
    assert math.isclose(sum(mix.weight), 1.0)


def test_one_class_has_no_cut() -> None:
    assert cuts(classes([1], [8e3], [100], [500])) == []


def test_fleets_take_traffic_whole_and_in_parts_and_only_promising_ones() -> None:
    points = build(question(), find_topology("pdd"), objective=Objective("cost"), limits=EXACT, shapes=shapes)
    assert points is not None

    def fleets(most: float) -> list[Judged]:
        starts = split_plans(
            points,
            lambda _plan: points,
            topology="pdd",
            deadline=math.inf,
            score=lambda candidate: -candidate.monthly_cost,
            least=-most,
        )
        return [start for _, start in itertools.islice(starts, 8)]

    found = fleets(math.inf)
    assert {int(start.candidate.used.sum()) for start in found} <= {1, 2}
    assert min(start.candidate.used.sum() for start in found) == 1
    assert any(start.short <= 0 for start in found)
    assert not fleets(1.0)
