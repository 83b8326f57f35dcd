"""The table of a sweep for people."""

from __future__ import annotations

from pddplan.report.sweep_file import header
from pddplan.report.sweep_table import MOST_ROWS, render
from pddplan.report.text_table import Paint, Screen
from pddplan.studies.axes import Axis
from pddplan.studies.sweep import FIGURES

SCREEN = Screen(width=120, paint=Paint(), ascii_only=False)
AXES = [Axis("rps", (1.0, 2.0))]
HEAD = header(AXES)


def row(rps: float, *, status: str = "plan", why: str = "", cost: float = 12_345.6) -> list[str]:
    known = dict.fromkeys(FIGURES, "1") | {"monthly_cost": str(cost), "currency": "USD", "chips": "16"}
    figures = [known[name] if status == "plan" else "" for name in FIGURES if name in HEAD]
    return [str(rps), status, why, *figures, "0123456789ab"]


def test_what_varies_stands_left_and_cost_to_the_unit() -> None:
    text = render(AXES, [row(1.0), row(2.0)], SCREEN)
    head, first, _ = text.splitlines()
    assert head.split()[:2] == ["rps", "USD/month"]
    assert first.split()[:3] == ["1", "12,346", "16"]


def test_a_question_without_a_plan_says_why() -> None:
    text = render(AXES, [row(1.0), row(2.0, status="infeasible", why="TTFT P99")], SCREEN)
    assert "infeasible: TTFT P99" in text


def test_long_sweeps_show_both_ends() -> None:
    lines = render(AXES, [row(float(n)) for n in range(100)], SCREEN).splitlines()
    assert len(lines) == MOST_ROWS + 3
    assert lines[1].split()[0] == "0"
    assert lines[-2].split()[0] == "99"
    assert "76 rows" in lines[-1]
