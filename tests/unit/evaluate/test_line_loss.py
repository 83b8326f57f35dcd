"""Which promises hold with one line lost: the evaluator on a line less, and by hand where none is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pddplan.domain.outcome import Cost
from pddplan.domain.plan import LinePlan, Plan
from pddplan.domain.workload import Promises
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.line_loss import LineLoss, line_losses
from pddplan.evaluate.problem import Problem

COST = Cost("USD", 50_000.0, ())


def _only(problem: Problem, plan: Plan) -> LineLoss:
    (lost,) = line_losses(problem, evaluate(problem, plan, cost=COST))
    return lost


@pytest.mark.parametrize("gbps", [10.0, 100.0])
def test_one_line_fewer_is_what_the_evaluator_says_of_that_plan(problem: Problem, plan: Plan, gbps: float) -> None:
    lost = _only(problem, replace(plan, lines=(LinePlan("a-b", gbps, 2),)))
    alone = evaluate(problem, replace(plan, lines=(LinePlan("a-b", gbps, 1),)), cost=COST)
    assert lost.left == 1
    assert lost.ttft == alone.ttft
    assert lost.broken == tuple(v.limit for v in alone.violations if not v.limit.startswith("capacity"))
    assert set(lost.kept) | set(lost.broken) == {"TTFT P90", "TTFT P99", "TPOT P90"}


@pytest.mark.parametrize(
    ("crossing", "broken"),
    [
        (0.005, set()),
        (0.03, {"TTFT P99"}),
        (0.3, {"TTFT P90", "TTFT P99", "TPOT P90"}),
        (1.0, {"TTFT P90", "TTFT P99", "TPOT P90"}),
    ],
)
def test_without_its_only_line_a_promise_breaks_where_too_many_requests_cross_it(
    problem: Problem, plan: Plan, crossing: float, broken: set[str]
) -> None:
    local = replace(plan, rate_rps=0.05, share=np.array([[crossing] * 3, [0.0] * 3, [1.0 - crossing] * 3]))
    lost = _only(problem, local)
    assert (lost.left, lost.passes) == (0, False)
    assert lost.share == pytest.approx(crossing)
    assert set(lost.broken) == broken


def test_a_promise_to_a_traffic_class_breaks_by_its_own_requests(problem: Problem, plan: Plan) -> None:
    classes = replace(problem.workload.classes, group=("rare", "common", "common"))
    promises = Promises(by_class={"rare": Promises(ttft_p90_s=50.0), "common": Promises(ttft_p90_s=50.0)})
    grouped = problem.under(replace(problem.workload, classes=classes, promises=promises))
    local = replace(plan, rate_rps=0.05, share=np.array([[1.0, 0.0, 0.0], [0.0] * 3, [0.0, 1.0, 1.0]]))
    lost = _only(grouped, local)
    assert (lost.kept, lost.broken) == (("common TTFT P90",), ("rare TTFT P90",))


def test_lines_that_no_request_uses_are_not_told_of(problem: Problem, plan: Plan) -> None:
    idle = replace(plan, rate_rps=0.05, share=np.array([[0.0] * 3, [0.0] * 3, [1.0] * 3]))
    assert line_losses(problem, evaluate(problem, idle, cost=COST)) == ()
