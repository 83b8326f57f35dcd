"""What is proven over shapes that no search looked at: the bound holds against a search of every shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pddplan.domain.plan import Pool, Role, Shape
from pddplan.domain.sites import SiteChip
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Objective, size
from tests.fakes import LinearInstance
from tests.unit.optimize.small_question import instance, question, two_sites

SHAPES = [Shape(tp=tp) for tp in (1, 2, 4, 8, 16, 32)]


def many_shapes(_chip: str, _role: Role) -> Sequence[Shape]:
    return SHAPES


def of_shape(pool: Pool) -> LinearInstance:
    """Larger instances are quicker, but dearer per request: nothing beats anything in everything."""
    base = instance(pool)
    speed = (pool.shape.chips / 8) ** 0.8
    return replace(
        base,
        prefill_fixed_s=base.prefill_fixed_s / speed,
        prefill_s_per_token=base.prefill_s_per_token / speed,
        step_a_s=base.step_a_s / speed**0.5,
        batch_cap=max(int(base.batch_cap * pool.shape.chips / 8), 1),
    )


def asked(rate_rps: float) -> Problem:
    places = two_sites(at_a=SiteChip("fast", roles=("P", "MD")), at_b=SiteChip("big", roles=("MD",)))
    return replace(question(rate_rps, sites=places), instance=of_shape)


@pytest.mark.parametrize("rate_rps", [0.5, 3.0, 11.0])
@pytest.mark.parametrize("topology", ["pd", "cross-dc-drc"])
def test_bound_over_all_shapes_holds(topology: str, rate_rps: float) -> None:
    cost = Objective("cost")
    few = size(asked(rate_rps), topology=topology, objective=cost, shapes=many_shapes, relax=False)
    every = size(
        asked(rate_rps), topology=topology, objective=cost, limits=Limits(every_shape=True), shapes=many_shapes
    )
    assert few.solver is not None
    assert few.solver.shapes_searched < few.solver.shapes_possible
    assert few.solver.gap_over_all is not None
    assert every.cost.monthly_total >= few.cost.monthly_total * (1 - few.solver.gap_over_all - 1e-9)
    assert every.solver is not None
    assert every.cost.monthly_total <= few.cost.monthly_total * (1 + every.solver.gap + 1e-9)


def test_bound_over_all_shapes_holds_for_most_requests() -> None:
    most = Objective("rps", budget_per_month=70_000)
    few = size(asked(4.0), topology="pd", objective=most, shapes=many_shapes, relax=False)
    every = size(asked(4.0), topology="pd", objective=most, limits=Limits(every_shape=True), shapes=many_shapes)
    assert few.solver is not None
    assert few.solver.gap_over_all is not None
    assert every.goodput_rps <= few.goodput_rps * (1 + few.solver.gap_over_all + 1e-9)


def test_bound_over_all_shapes_holds_for_the_best_ratio() -> None:
    """Any rate may be served: what is proven of all shapes holds against a search of every shape."""
    ratio, quick = Objective("bcr"), Limits(max_nodes=10)
    few = size(asked(2.0), topology="pd", objective=ratio, limits=quick, shapes=many_shapes, relax=False)
    every = size(
        asked(2.0), topology="pd", objective=ratio, limits=replace(quick, every_shape=True), shapes=many_shapes
    )
    assert few.solver is not None
    assert few.solver.gap_over_all is not None
    assert every.bcr <= few.bcr * (1 + few.solver.gap_over_all + 1e-9)
