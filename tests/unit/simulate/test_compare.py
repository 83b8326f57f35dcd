"""Rows of the comparison and what they are marked with."""

import math

import pytest

from benchmarks.closed_form_vs_simulation import NO_COST, Case, build
from pddplan.domain.workload import Promises
from pddplan.evaluate.evaluate import evaluate
from pddplan.simulate import Draw, simulate
from pddplan.simulate.compare import PromiseCheck, Row, comparison, promise_checks
from pddplan.simulate.statistics import Estimate


@pytest.mark.parametrize(
    ("quantity", "closed", "mark"),
    [
        ("TTFT P99", 0.90, "optimistic"),
        ("TTFT P90", 0.88, "off"),
        ("TTFT P90", 0.92, "ok"),
        ("TTFT P99", 1.04, "ok"),
        ("TTFT P99", 1.30, "off"),
        ("TTFT P99", math.inf, ""),
    ],
)
def test_marks(quantity: str, closed: float, mark: str) -> None:
    assert Row("all", quantity, "s", closed, Estimate(1.0, 0.01)).mark == mark


def test_what_chance_explains_is_not_called_off() -> None:
    assert Row("all", "TTFT P99", "s", 0.7, Estimate(1.0, 0.4)).mark == "within margin"


def test_nothing_simulated_has_no_error() -> None:
    for value in (0.0, math.nan):
        row = Row("all", "wait P99", "s", 1.0, Estimate(value, 0.0))
        assert row.relative_error is None
        assert row.mark == ""


def test_every_pool_and_line_of_the_plan_is_compared() -> None:
    problem, plan = build(Case("skewed", 4, 0.6, 0.5, topology="pdd"))
    rows = comparison(evaluate(problem, plan, cost=NO_COST), simulate(problem, plan, draw=Draw(3000)))
    assert {row.group for row in rows} == {"all requests", "P-MD", "P-RLD-MD", "P", "RLD", "MD", "a-b"}
    assert {"TTFT P50", "TTFT P99", "E2E P90", "tokens made by relay"} <= {row.quantity for row in rows}


@pytest.mark.parametrize(
    ("promised", "verdict"), [(2.0, "kept"), (1.05, "too close to call"), (0.95, "too close to call"), (0.5, "broken")]
)
def test_a_promise_is_kept_broken_or_too_close_to_call(promised: float, verdict: str) -> None:
    assert PromiseCheck("TTFT P99", promised, 1.0, Estimate(1.0, 0.1)).verdict == verdict


def test_every_promise_is_checked() -> None:
    problem, plan = build(Case("skewed", 4, 0.6, 0.5))
    outcome, result = evaluate(problem, plan, cost=NO_COST), simulate(problem, plan, draw=Draw(3000))
    promises = Promises(1.0, 2.0, 3.0, 0.1, 20.0, 30.0, 40.0)
    checks = promise_checks(promises, outcome, result)
    assert [check.limit for check in checks] == [
        "TTFT P50",
        "TTFT P90",
        "TTFT P99",
        "TPOT P90",
        "E2E P50",
        "E2E P90",
        "E2E P99",
    ]
    assert promise_checks(Promises(), outcome, result) == ()
