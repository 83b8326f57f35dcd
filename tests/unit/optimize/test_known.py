"""Plans known beforehand: searches from them find what searches without them find, and quick proofs hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pddplan.domain.outcome import Outcome
from pddplan.optimize import Objective, size, unbeaten
from tests.unit.optimize.small_question import question, shapes

NAMES = ("pd", "pd-hetero", "cross-dc-drc", "prfaas")
BY = 1e-3


def cost(outcome: Outcome) -> float:
    return outcome.cost.monthly_total


@pytest.mark.parametrize("rate_rps", [2.0, 9.0])
def test_what_is_shown_quickly_a_search_confirms(rate_rps: float) -> None:
    problem, goal = question(rate_rps), Objective("cost", rate_rps=rate_rps)
    best = {name: size(problem, topology=name, objective=goal, shapes=shapes) for name in NAMES}
    shown = 0
    for known in best.values():
        for name, found in best.items():
            if unbeaten(problem, known, by=BY, topology=name, objective=goal, shapes=shapes):
                assert cost(found) >= (1 - BY) * cost(known)
                shown += 1
    assert shown  # else the quick way would be of no use


@pytest.mark.parametrize("name", NAMES)
def test_a_start_from_a_plan_of_another_question_changes_no_answer(name: str) -> None:
    problem, goal = question(6.0), Objective("cost", rate_rps=6.0)
    alone = size(problem, topology=name, objective=goal, shapes=shapes)
    promises = replace(problem.workload.promises, ttft_p90_s=None)
    looser = replace(problem, workload=replace(problem.workload, promises=promises))
    for other in (problem, looser):
        known = size(other, topology="pd", objective=Objective("cost", rate_rps=5.0), shapes=shapes).plan
        started = size(problem, topology=name, objective=goal, shapes=shapes, known=known)
        assert started.keeps_promises
        assert cost(started) == pytest.approx(cost(alone), rel=BY)
