"""The one door to solvers: muted, mapped, whole numbers."""

from __future__ import annotations

import math

import pulp
import pytest

from pddplan.errors import SolverError
from pddplan.optimize.solver import SolveStatus, solve


def knapsack(*, least: float = 0.0) -> pulp.LpProblem:
    program = pulp.LpProblem("knapsack", pulp.LpMaximize)
    x = pulp.LpVariable("x", 0, 10, cat=pulp.LpInteger)
    y = pulp.LpVariable("y", least)
    program += 2 * x + y - 3
    program += 1.5 * x + y <= 7.2
    return program


def test_integers_come_back_whole_and_constants_count() -> None:
    solved = solve(knapsack(), time_limit_s=5)
    assert solved.status is SolveStatus.OPTIMAL
    assert solved.values["x"] == 4.0
    assert solved.objective == pytest.approx(6.2)
    assert solved.bound == pytest.approx(6.2)


def test_relaxed_program_is_an_upper_bound() -> None:
    whole = solve(knapsack(), time_limit_s=5)
    relaxed = solve(knapsack(), time_limit_s=5, relax_integers=True)
    assert relaxed.objective >= whole.objective


def test_infeasible_has_no_values() -> None:
    solved = solve(knapsack(least=8.0), time_limit_s=5)
    assert solved.status is SolveStatus.INFEASIBLE
    assert not solved.has_plan
    assert math.isnan(solved.objective)


def test_nothing_reaches_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    solve(knapsack(), time_limit_s=5)
    captured = capfd.readouterr()
    assert captured.out == ""


def test_zero_has_no_minus_sign() -> None:
    program = pulp.LpProblem("zero", pulp.LpMinimize)
    x = pulp.LpVariable("x", 0, 5, cat=pulp.LpInteger)
    program += x
    program += x >= 0
    solved = solve(program, time_limit_s=5)
    assert math.copysign(1.0, solved.values["x"]) == 1.0


def test_cbc_gives_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    if not pulp.PULP_CBC_CMD().available():
        pytest.skip("no CBC in this build of PuLP")
    monkeypatch.setattr(pulp.HiGHS, "available", lambda self: False)
    solved = solve(knapsack(), time_limit_s=5)
    assert solved.solver == "CBC"
    assert solved.objective == pytest.approx(6.2)


def test_numbers_beyond_the_solver_are_said() -> None:
    """HiGHS leaves out rows with coefficients beyond 1e15, and PuLP then looks for their values in vain."""
    program = pulp.LpProblem("absurd", pulp.LpMinimize)
    x, y = pulp.LpVariable("x", 0), pulp.LpVariable("y", 0, 1, cat="Integer")
    program += x + y
    program += x <= 4e20 * y
    program += x >= 1
    with pytest.raises(SolverError, match="beyond what HiGHS"):
        solve(program, time_limit_s=1.0)
