"""Relaxations that help only together: they give a plan, each of them is needed, and amounts stand in users' units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pddplan.domain.sites import SiteChip, Sites
from pddplan.domain.workload import Promises
from pddplan.errors import InfeasibleError, Relaxation
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Objective, size
from pddplan.optimize.asking import Question
from pddplan.optimize.elastic import LADDER, _price
from pddplan.optimize.joint import joint_relaxations
from pddplan.optimize.topologies import find_topology
from tests.unit.optimize.small_question import (
    PREFILL_FIXED_S,
    PREFILL_S_PER_TOKEN,
    classes,
    question,
    shapes,
    two_sites,
)

QUICKEST_S = PREFILL_FIXED_S + PREFILL_S_PER_TOKEN * 500
LONGEST_S = PREFILL_FIXED_S + PREFILL_S_PER_TOKEN * 30_000
COST = Objective("cost", rate_rps=4.0)


def small_inventory() -> Sites:
    return two_sites(at_a=SiteChip("fast", max_chips=8, roles=("P",)), at_b=SiteChip("big", max_chips=8, roles=("MD",)))


def by_class() -> Problem:
    mix = replace(classes(), group=("agents", "chat", "chat"))
    promises = Promises(
        tpot_s=0.05, by_class={"chat": Promises(ttft_p50_s=0.5 * QUICKEST_S), "agents": Promises(ttft_p90_s=1.0)}
    )
    return question(promises=promises, mix=mix)


CASES: dict[str, tuple[Problem, Objective, Limits, set[str]]] = {
    "two promises": (
        question(promises=Promises(ttft_p50_s=0.5 * QUICKEST_S, tpot_s=0.005)),
        COST,
        Limits(),
        {"TTFT P50", "TPOT P90"},
    ),
    "promises to classes": (by_class(), COST, Limits(), {"chat TTFT P50", "agents TTFT P90"}),
    "a promise and money": (
        question(promises=Promises(ttft_p99_s=0.5 * LONGEST_S, tpot_s=0.05)),
        Objective("cost", rate_rps=4.0, budget_per_month=15_000),
        Limits(),
        {"TTFT P99", "budget"},
    ),
    "a promise and chips": (
        question(promises=Promises(ttft_p99_s=0.5 * LONGEST_S, tpot_s=0.05)),
        COST,
        Limits(max_chips=8),
        {"TTFT P99", "chips in all"},
    ),
}


def refused(problem: Problem, objective: Objective, limits: Limits) -> InfeasibleError:
    with pytest.raises(InfeasibleError) as caught:
        size(problem, topology="cross-dc-drc", objective=objective, limits=limits, shapes=shapes)
    return caught.value


def eased(
    problem: Problem, objective: Objective, limits: Limits, relaxations: Sequence[Relaxation]
) -> tuple[Problem, Objective, Limits]:
    """The question as the relaxations say it should be asked."""
    for relaxation in relaxations:
        if relaxation.limit == "budget":
            objective = replace(objective, budget_per_month=relaxation.needed)
        elif relaxation.limit == "rate":
            objective = replace(objective, rate_rps=relaxation.needed)
        elif relaxation.limit == "chips in all":
            limits = replace(limits, max_chips=int(relaxation.needed))
        else:
            promise = next(p for p in problem.workload.promises.made() if p.name == relaxation.limit)
            limit_s = relaxation.needed / (1e3 if relaxation.unit == "ms" else 1.0)
            promises = problem.workload.promises.with_limit(promise.kind, limit_s, group=promise.group)
            problem = replace(problem, workload=replace(problem.workload, promises=promises))
    return problem, objective, limits


def has_plan(problem: Problem, objective: Objective, limits: Limits) -> bool:
    try:
        size(problem, topology="cross-dc-drc", objective=objective, limits=limits, shapes=shapes, relax=False)
    except InfeasibleError:
        return False
    return True


@pytest.mark.parametrize("name", CASES)
def test_the_set_gives_a_plan_and_nothing_of_it_can_be_left_out(name: str) -> None:
    problem, objective, limits, least = CASES[name]
    error = refused(problem, objective, limits)
    assert not any(r.limit != "rate" for r in error.relaxations)
    assert {r.limit for r in error.joint} - {"rate"} == least
    assert has_plan(*eased(problem, objective, limits, error.joint))
    for left_out in error.joint:
        others = [r for r in error.joint if r is not left_out]
        assert not has_plan(*eased(problem, objective, limits, others)), left_out.limit


@pytest.mark.parametrize("name", ["two promises", "a promise and chips", "a promise and money"])
def test_promises_are_relaxed_no_further_than_the_others_allow(name: str) -> None:
    problem, objective, limits, _ = CASES[name]
    joint = joint_relaxations(Question(problem, find_topology("cross-dc-drc"), objective, limits, shapes))
    assert joint
    for relaxation in (r for r in joint if r.unit in ("s", "ms")):
        tighter = replace(relaxation, needed=0.97 * relaxation.needed)
        others = [r for r in joint if r is not relaxation]
        assert not has_plan(*eased(problem, objective, limits, [*others, tighter])), relaxation.limit


def test_what_relaxations_count() -> None:
    assert _price(1.0) == 0.0
    assert _price(1.2) == pytest.approx(1.2)
    assert list(LADDER) == sorted(LADDER)


def test_inventory_is_named_with_the_promise() -> None:
    problem = question(8.0, promises=Promises(ttft_p99_s=0.5 * LONGEST_S, tpot_s=0.05), sites=small_inventory())
    error = refused(problem, Objective("cost", rate_rps=8.0), Limits())
    named = {r.limit for r in error.joint}
    assert "TTFT P99" in named
    assert named & {"rate", "fast at site a", "big at site b"}
