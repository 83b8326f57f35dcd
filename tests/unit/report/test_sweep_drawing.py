"""Figures of a sweep drawn in characters: curves, shades or bars, by what varies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pddplan.errors import InputError
from pddplan.report.sweep_drawing import NO_PLAN, SHADES, drawings
from pddplan.report.sweep_file import cells
from pddplan.report.sweep_layout import MOST_PANELS, figure_named
from pddplan.report.text_table import Paint, Screen
from pddplan.studies.axes import Axis, grid, parse_axis
from pddplan.studies.levers import Value
from pddplan.studies.sweep import PLAN, Row

SCREEN = Screen(width=80, paint=Paint(), ascii_only=False)


def drawn(cost: Callable[..., float], *texts: str, screen: Screen = SCREEN) -> list[str]:
    """Drawing of the cost of questions; those of no cost have no plan."""
    axes = [parse_axis(text) for text in texts]
    return drawings(axes, [_row(axes, point, cost(*point)) for point in grid(axes)], "monthly_cost", screen)


def _row(axes: list[Axis], point: tuple[Value, ...], cost: float) -> list[str]:
    known = {"monthly_cost": cost} if cost else {}
    return cells(Row(point, PLAN if cost else "infeasible", "", {"currency": "EUR", **known}, "0"), axes)


def test_one_axis_is_a_curve_of_dots_over_it() -> None:
    lines = drawn(lambda rps: 1e4 * rps, "rps=1:10:10")
    assert lines[0] == "Cost a month, EUR"
    assert sum(line.count("•") for line in lines) == 10
    assert "requests per second" in lines[-1]


def test_a_second_axis_is_a_letter_each_and_a_third_a_drawing_each() -> None:
    lines = drawn(lambda rps, link, mtp: 1e4 * rps + 1e3 * link + mtp, "rps=1:8:8", "link=10,40", "mtp=0,1")
    text = "\n".join(lines)
    assert "a link_gbps 10   b link_gbps 40" in text
    assert [line for line in lines if line.startswith("mtp ")] == ["mtp 0", "mtp 1"]
    assert max(map(len, lines)) <= SCREEN.width


def test_more_drawings_than_are_shown_are_told() -> None:
    lines = drawn(lambda *given: sum(given), "rps=1:6:6", "rtt=1:4:4", "scv=1:4:4", "link=10,40")
    assert sum(line.startswith("scv ") for line in lines) == MOST_PANELS
    assert "2 more drawings are left out: the table has all values" in lines


@pytest.mark.parametrize("ascii_only", [False, True])
def test_two_axes_of_many_numbers_are_shades(ascii_only: bool) -> None:
    screen = Screen(width=60, paint=Paint(), ascii_only=ascii_only)
    lines = drawn(
        lambda rps, rtt: 0 if rps == 9 and rtt == 90 else rps * rtt, "rps=1:9:9", "rtt=10:90:9", screen=screen
    )
    rows = [line for line in lines if " |" in line]
    assert [row.split()[0] for row in rows] == [str(10 * n) for n in range(9, 0, -1)]
    none = "x" if ascii_only else NO_PLAN
    assert rows[0].endswith(none * 2)
    assert rows[-1][-2] == rows[-1][-18] == ("." if ascii_only else SHADES[0])
    assert "".join(lines).isascii() == ascii_only


def test_words_are_bars() -> None:
    lines = drawn(lambda topology: {"pd": 50.0, "pdd": 100.0, "any": 0.0}[topology], "topology=pd,pdd,any")
    assert lines[1].count("█") * 2 == lines[2].count("█") > 0
    assert lines[3].endswith("no plan")
    assert lines[-1] == "questions without a plan, which leave gaps: 1"


def test_nothing_to_draw_is_said() -> None:
    assert "  no question has a plan" in drawn(lambda _: 0.0, "rps=1,2")


def test_figures_have_short_names() -> None:
    assert figure_named("cost") == "monthly_cost"
    assert figure_named("TTFT-P99") == "ttft_p99_s"
    assert figure_named("chips_relay") == "chips_relay"
    with pytest.raises(InputError, match="did you mean 'chips'"):
        figure_named("chip")
