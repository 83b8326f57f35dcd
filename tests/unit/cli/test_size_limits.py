"""Limits of ``pddplan size`` that are no promises: chips in all, load of lines, loss of a line."""

from __future__ import annotations

import pytest

from pddplan import api
from pddplan.errors import InfeasibleError


def test_two_lines_where_the_loss_of_one_must_be_survived() -> None:
    sizing = api.size(survive_line_loss=True, compare=False)
    assert sizing.outcome.plan.lines
    assert all(line.count >= 2 for line in sizing.outcome.plan.lines)


def test_lines_stay_below_the_utilization_asked_for() -> None:
    sizing = api.size(max_line_utilization=0.3, compare=False)
    assert all(load.utilization <= 0.3 * (1 + 1e-6) for load in sizing.outcome.lines)


def test_chips_in_all_are_limited_and_named_as_the_conflict() -> None:
    with pytest.raises(InfeasibleError) as caught:
        api.size(max_chips=16, compare=False)
    assert "chips in all" in caught.value.conflicts
