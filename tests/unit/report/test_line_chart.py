"""Curves in characters."""

from __future__ import annotations

import math

import pytest

from pddplan.report.line_chart import DOT, RULE, line_chart


def test_corners_marks_and_rule() -> None:
    lines = line_chart([0.0, 0.5, 1.0], [0.0, 1.0, 2.0], width=40, height=5, marks={"N": (0.5, 1.0)}, rule=1.0)
    body = [line.split("┤")[1] if "┤" in line else "" for line in lines[:5]]
    assert body[4].startswith(DOT)
    assert body[0].rstrip().endswith(DOT)
    assert "N" in body[2]
    assert RULE in body[2]
    assert lines[0].startswith("2.00")


@pytest.mark.parametrize("width", [30, 60, 200])
def test_no_line_is_wider_than_asked(width: int) -> None:
    lines = line_chart([0.0, 1.0], [1.0, 3.0], width=width, x_labels=[(0.0, "0 %"), (1.0, "100 %")])
    assert max(len(line) for line in lines) <= width


def test_what_cannot_be_drawn() -> None:
    assert line_chart([0.0, 1.0], [math.inf, math.nan], width=40) == []
    assert line_chart([0.0, 1.0], [2.0, 2.0], width=40)
    capped = line_chart([0.0, 1.0], [1.0, 1e9], width=40, top=2.0)
    assert capped[0].startswith("2.00")
