"""Nearness to an existing plan: never dearer than allowed, and no nearer plan is overlooked (brute force)."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import LinePlan, Plan
from pddplan.domain.sites import SiteChip
from pddplan.errors import InputError
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Nearness, Objective, moves, size
from pddplan.optimize.changes import _distance
from tests.oracles.test_bruteforce_plans import Everything, everything
from tests.unit.optimize.small_question import classes, question, shapes, two_sites

EXACT = Limits(gap=1e-3, acceptable_gap=1e-3)
TOPOLOGY = "pd-hetero"


def two_kinds() -> Problem:
    """Two kinds of chips at one site, nearly as good as each other."""
    sites = two_sites(at_a=SiteChip("fast", price_per_chip_hour=2.0, roles=("P", "MD")))
    place = sites.sites["a"]
    big = SiteChip("big", price_per_chip_hour=2.1, roles=("P", "MD"))
    mix = classes([1, 2], [64e3, 64e3], [20e3, 1e3], [800, 800])
    return question(
        4.0, mix=mix, sites=replace(sites, sites={"a": replace(place, chips={**place.chips, "big": big})}, lines={})
    )


def best(problem: Problem, nearness: Nearness | None = None) -> Outcome:
    goal = Objective("cost", rate_rps=problem.workload.arrival.rate_rps)
    return size(problem, topology=TOPOLOGY, objective=goal, limits=EXACT, shapes=shapes, relax=False, nearness=nearness)


def plans_within(space: Everything, most: float, *, largest: int = 3) -> list[Plan]:
    """All plans of whole classes on one path, with at most so many instances per pool, that cost at most so much."""
    found = []
    for routing in itertools.product(range(len(space.paths)), repeat=space.problem.workload.classes.count):
        used = {pool for path in set(routing) for pool in (space.paths[path].prefill, space.paths[path].decode) if pool}
        for counts in itertools.product(range(1, largest + 1), repeat=len(used)):
            plan = space.plan(routing, dict(zip(sorted(used), counts, strict=True)), None, 4.0)
            outcome = space.judged(plan)
            if outcome is not None and outcome.cost.monthly_total <= most:
                found.append(plan)
    return found


def some_plan(problem: Problem, seed: int) -> Plan:
    """A fleet that is there: one path, more instances than needed or fewer."""
    draw = random.Random(seed)
    space = everything(problem, TOPOLOGY)
    path = draw.randrange(len(space.paths))
    counts = {pool.id: draw.randint(1, 5) for pool in space.pools}
    return space.plan([path] * problem.workload.classes.count, counts, None, 4.0)


@pytest.mark.parametrize("seed", range(2))
def test_no_nearer_plan_within_the_share_is_overlooked(seed: int) -> None:
    problem = two_kinds()
    there, within = some_plan(problem, seed), 0.3
    cheapest = best(problem).cost.monthly_total
    near = best(problem, Nearness(there, within))
    assert near.keeps_promises
    assert near.cost.monthly_total <= (1 + within) * cheapest * (1 + 1e-6)
    by_hand = min(
        _distance(plan, there) for plan in plans_within(everything(problem, TOPOLOGY), (1 + within) * cheapest)
    )
    assert _distance(near.plan, there) <= by_hand


def test_a_plan_that_still_serves_stays_as_it_is() -> None:
    problem = two_kinds()
    there = best(problem).plan
    near = best(problem, Nearness(there, 0.0))
    assert moves(there, near.plan) == ()


def test_fewer_kinds_of_chips_where_they_cost_little_more() -> None:
    problem = two_kinds()
    one_kind = min(
        size(
            problem,
            topology=TOPOLOGY,
            objective=Objective("cost", rate_rps=4.0),
            limits=replace(EXACT, allowed_chips=(chip,)),
            shapes=shapes,
            relax=False,
        ).cost.monthly_total
        for chip in ("fast", "big")
    )
    whole = best(problem)
    needed = one_kind / whole.cost.monthly_total - 1.0
    near = best(problem, Nearness(None, needed + 1e-6))
    assert len({pool.chip for pool in near.plan.pools}) == 1
    assert near.cost.monthly_total <= one_kind * (1 + 1e-6)


def test_moves_name_what_to_add_and_take_away() -> None:
    problem = two_kinds()
    before = best(problem).plan
    grown = replace(before, pools=tuple(replace(pool, instances=pool.instances + 1) for pool in before.pools))
    found = moves(before, grown)
    assert len(found) == len(before.pools)
    assert all(move.after - move.before == 1 and move.unit == "instances" for move in found)
    assert math.isclose(sum(move.after for move in found), sum(pool.instances for pool in grown.pools))
    assert evaluate(problem, grown).keeps_promises
    assert np.array_equal(grown.share, before.share)


def test_other_lines_of_the_same_rate_are_a_move_too() -> None:
    before = replace(best(two_kinds()).plan, lines=(LinePlan("ab", 10.0, 2),))
    after = replace(before, lines=(LinePlan("ab", 20.0, 1),))
    (move,) = moves(before, after)
    assert (move.what, move.before, move.after) == ("line ab", 2, 1)
    assert "10 Gbit/s" in move.unit
    assert moves(before, before) == ()


@pytest.mark.parametrize("within", [-0.1, math.nan, math.inf, 2.0])
def test_a_share_out_of_range_is_refused(within: float) -> None:
    problem = two_kinds()
    with pytest.raises(InputError):
        best(problem, Nearness(None, within))
