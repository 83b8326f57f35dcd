"""The program over every shape never takes a real plan away, whatever it has learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pddplan.domain.plan import Role, Shape
from pddplan.domain.sites import SiteChip
from pddplan.optimize import Limits, Objective, size
from pddplan.optimize.build import considered_pools
from pddplan.optimize.every_shape import EveryShape, every_shape
from pddplan.optimize.settle import value_of
from pddplan.optimize.topologies import find_topology
from tests.unit.optimize.small_question import question, two_sites
from tests.unit.optimize.test_all_shapes import of_shape

QUICK = Limits(max_nodes=10, prove_shapes=False)
LOOKS = 6


def shapes(_chip: str, _role: Role) -> Sequence[Shape]:
    """Two of one size each: kinds of two shapes."""
    return [Shape(tp=4), Shape(tp=2, pp=2), Shape(tp=8)]


PLACES = two_sites(at_a=SiteChip("fast"), at_b=SiteChip("big"))


def program(rate_rps: float, topology: str, objective: Objective, score: float) -> EveryShape:
    problem = replace(question(rate_rps, sites=PLACES), instance=of_shape)
    chosen = find_topology(topology)
    _, pools, _, _ = considered_pools(problem, chosen, limits=QUICK, shapes=shapes)
    every = every_shape(problem, chosen, pools, objective=objective, limits=QUICK, score=score, time_limit_s=60.0)
    assert every is not None
    return every


@pytest.mark.parametrize(
    ("topology", "objective", "rate_rps"),
    [
        ("colocated", Objective("cost"), 6.0),
        ("pd", Objective("bcr"), 0.7),
        ("cross-dc", Objective("rps", budget_per_month=60_000), 6.0),
        ("pdd", Objective("bcr"), 6.0),
        ("any", Objective("cost"), 6.0),
    ],
)
def test_a_plan_found_is_never_beyond_the_bound(topology: str, objective: Objective, rate_rps: float) -> None:
    """Asked for anything better than nine tenths of a plan, the program keeps a bound at or above that plan."""
    problem = replace(question(rate_rps, sites=PLACES), instance=of_shape)
    plan = size(problem, topology=topology, objective=objective, limits=QUICK, shapes=shapes, relax=False)
    value = value_of(plan, objective)
    worse = value - 0.1 * abs(value)
    every = program(rate_rps, topology, objective, worse)
    every.only_better_than(worse)
    divided = False
    for _ in range(LOOKS):
        bound = every.bound(time_limit_s=60.0)
        assert bound is not None
        assert bound.score >= value - 1e-6 * abs(value)
        assert bound.pools
        if not every.tighten(bound):
            divided |= every.divide(bound)
            if not divided:
                break
