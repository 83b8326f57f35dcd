"""The aggregated baseline: never dearer than one kind of instances alone, and where searches of it start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.domain.sites import SiteChip
from pddplan.evaluate.evaluate import evaluate
from pddplan.optimize import Limits, Objective, find
from pddplan.optimize.aggregated import cheapest_aggregated
from pddplan.optimize.balanced import balanced_fleet
from pddplan.optimize.build import build
from pddplan.optimize.topologies import find_topology
from tests.unit.optimize.small_question import question, shapes, two_sites

ALL = Limits(every_shape=True, prove_shapes=False)
BOTH = two_sites(at_b=SiteChip("big", roles=("AGG",)))
"""Aggregated instances of one chip at one site, of the other at the other."""


@settings(max_examples=6, deadline=None)
@given(st.floats(1.0, 12.0))
def test_mixed_kinds_are_tried_where_one_kind_is_not_the_cheapest(rate_rps: float) -> None:
    asked, goal = question(rate_rps, sites=BOTH), Objective("cost", rate_rps=rate_rps)
    alone = find(asked, topology="colocated", objective=goal, limits=replace(ALL, max_nodes=0), shapes=shapes)
    mixed = cheapest_aggregated(asked, objective=goal, limits=Limits(), shapes=shapes)
    assert mixed is not None
    assert mixed.outcome.keeps_promises
    assert mixed.outcome.cost.monthly_total <= alone.outcome.cost.monthly_total * (1 + 1e-9)
    solver = mixed.outcome.solver
    assert solver is not None
    assert solver.gap_over_all is not None
    searched = find(asked, topology="colocated", objective=goal, limits=Limits(max_nodes=60), shapes=shapes)
    assert searched.outcome.solver is not None
    assert searched.outcome.solver.gap_over_all is not None
    assert searched.outcome.solver.gap_over_all <= solver.gap_over_all + 1e-9
    assert searched.outcome.cost.monthly_total <= mixed.outcome.cost.monthly_total * (1 + 1e-9)


@pytest.mark.parametrize("rate_rps", [4.0, 9.0])
def test_balanced_fleets_keep_every_promise_between_the_costs_asked_for(rate_rps: float) -> None:
    asked, goal = question(rate_rps, sites=BOTH), Objective("cost", rate_rps=rate_rps)
    points = build(asked, find_topology("colocated"), objective=goal, limits=ALL, shapes=shapes)
    assert points is not None
    below = 1e6
    found = balanced_fleet(points, topology="colocated", above=0.0, below=below)
    while found is not None:  # the cheapest of those tried each time
        assert found.candidate.monthly_cost < below
        assert evaluate(asked, found.outcome.plan).keeps_promises
        assert found.candidate.flow.sum() == pytest.approx(rate_rps)
        below = found.candidate.monthly_cost
        found = balanced_fleet(points, topology="colocated", above=0.0, below=below)
    assert below < 1e6
    assert balanced_fleet(points, topology="colocated", above=below, below=np.nextafter(below, 0.0)) is None
