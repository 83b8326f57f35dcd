"""Limits of ``pddplan size`` that are no promises: chips in all, load of lines, loss of a line."""

from __future__ import annotations

import pytest

from pddplan import api
from pddplan.cli.main import run
from pddplan.errors import InfeasibleError
from pddplan.optimize import Limits


def test_two_lines_where_the_loss_of_one_must_be_survived() -> None:
    sizing = api.size(survive_line_loss=True, compare=False)
    assert sizing.outcome.plan.lines
    assert all(line.count >= 2 for line in sizing.outcome.plan.lines)
    (lost,) = sizing.line_losses
    assert (lost.left, lost.broken) == (1, ())
    assert set(lost.kept) == {promise.name for promise in sizing.inputs.workload.promises.made()}


def test_lines_stay_below_the_utilization_asked_for() -> None:
    sizing = api.size(max_line_utilization=0.3, compare=False)
    assert all(load.utilization <= 0.3 * (1 + 1e-6) for load in sizing.outcome.lines)


def test_chips_in_all_are_limited_and_named_as_the_conflict() -> None:
    with pytest.raises(InfeasibleError) as caught:
        api.size(max_chips=16, compare=False, limits=Limits(max_nodes=5))
    assert "chips in all" in caught.value.conflicts


def test_what_a_lost_line_does_is_said_where_nothing_was_asked_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", "--no-compare"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "IF ONE LINE IS LOST a-b, no line left: nothing is served (--survive-line-loss" in said


@pytest.mark.parametrize("option", ["--max-utilization", "--max-line-utilization"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1.01", "1e308"])
def test_shares_that_are_none_are_refused_with_one_that_is(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["size", option, value]) == 2
    assert f"{option} must lie in (0, 1]" in (said := capsys.readouterr().err)
    assert f"for example {option} 0.9" in said
