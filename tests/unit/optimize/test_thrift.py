"""The last look at a plan: nothing paid for that the evaluator lets it do without."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pddplan.domain.sites import SiteChip
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Objective, thrift
from pddplan.optimize.judge import Judge
from pddplan.optimize.mending import judged
from pddplan.optimize.settle import Found, interrupted
from pddplan.optimize.size import find
from pddplan.optimize.thrift import last_look
from tests.unit.optimize.small_question import question, shapes, two_sites

LIMITS = Limits(gap=1e-3, acceptable_gap=5e-3, max_nodes=200, prove_shapes=False)
STOCK = SiteChip("fast", max_chips=24, roles=("P", "RLD", "MD", "AGG"))


def found_for(problem: Problem, objective: Objective, topology: str = "cross-dc-drc") -> Found:
    return find(problem, topology=topology, objective=objective, limits=LIMITS, shapes=shapes, relax=False)


def with_more(found: Found, *, pools: int = 0, line: str | None = None) -> Found:
    """The plan with instances and a line that it does not need."""
    judge = Judge(found.points)
    counts = {pool: count + pools if count else 0 for pool, count in found.candidate.instances.items()}
    taken = (line,) if line else found.candidate.taken
    own = judged(found.points, judge.priced(counts, taken, found.candidate.flow), topology="cross-dc-drc")
    assert own.short <= 0
    return Found(replace(own.outcome, solver=found.outcome.solver), found.points, own.candidate)


@pytest.mark.parametrize("pools", [0, 1, 3])
def test_what_is_not_needed_goes(pools: int) -> None:
    objective = Objective("cost")
    best = found_for(question(), objective)
    wasteful = with_more(best, pools=pools, line="ab:1x40")
    assert wasteful.outcome.cost.monthly_total > best.outcome.cost.monthly_total
    leaner = last_look(question(), "cross-dc-drc", wasteful, objective=objective, limits=LIMITS, deadline=float("inf"))
    assert leaner.outcome.cost.monthly_total == pytest.approx(best.outcome.cost.monthly_total)
    assert leaner.outcome.keeps_promises
    assert leaner.outcome.solver is not None
    assert leaner.outcome.solver.gap == 0.0


def test_of_equal_goodput_the_cheapest_line_is_taken() -> None:
    objective = Objective("rps")
    problem = question(sites=two_sites(at_a=STOCK, at_b=SiteChip("big", max_chips=64, roles=("MD",))))
    best = found_for(problem, objective)
    thick = with_more(best, line="ab:1x40")
    leaner = last_look(problem, "cross-dc-drc", thick, objective=objective, limits=LIMITS, deadline=float("inf"))
    assert leaner.outcome.cost.monthly_total <= best.outcome.cost.monthly_total * (1 + 1e-9)
    assert leaner.outcome.goodput_rps >= thick.outcome.goodput_rps * (1 - LIMITS.acceptable_gap)


def test_what_was_proven_is_restated_for_the_plan_that_is_left() -> None:
    objective = Objective("cost")
    best = found_for(question(), objective)
    assert best.outcome.solver is not None
    wasteful = with_more(best, pools=1)
    said = replace(best.outcome.solver, gap=0.5, gap_over_all=0.6)
    wasteful = replace(wasteful, outcome=replace(wasteful.outcome, solver=said))
    leaner = last_look(
        question(), "cross-dc-drc", wasteful, objective=objective, limits=LIMITS, deadline=float("inf")
    ).outcome
    before, now = wasteful.outcome.cost.monthly_total, leaner.cost.monthly_total
    assert leaner.solver is not None
    assert leaner.solver.gap_over_all is not None
    assert now * (1 - leaner.solver.gap) == pytest.approx(before * 0.5)  # the least cost that was not excluded
    assert now * (1 - leaner.solver.gap_over_all) == pytest.approx(before * 0.4)


def test_an_interrupt_leaves_the_plan_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_given: object, **_named: object) -> None:
        raise KeyboardInterrupt

    objective = Objective("cost")
    best = found_for(question(), objective)
    monkeypatch.setattr(thrift, "stretched", stopped)
    left = last_look(question(), "cross-dc-drc", best, objective=objective, limits=LIMITS, deadline=float("inf"))
    assert left.outcome.plan is best.outcome.plan
    assert interrupted(left.outcome)
