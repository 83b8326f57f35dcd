"""What the reports claim was proven, and never more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pddplan.domain.outcome import SolverReport
from pddplan.report.proof import proof, searched


@pytest.mark.parametrize(
    ("gap", "searched", "possible", "over_all", "claim"),
    [
        (0.0, 0, 0, None, "proven to be the best plan"),
        (0.0, 9, 9, 0.0, "proven to be the best plan"),
        (0.02, 9, 9, 0.02, "no plan can be more than 2 % better"),
        (8.0, 2, 2, 8.0, "not proven: another plan could be much better"),
        (1.0, 4, 46, 0.19, "no plan can be more than 19 % better"),
        (1.0, 4, 46, None, "not proven best of the 4 of 46 instance shapes searched; not proven for the others"),
        (8.0, 4, 46, 8.0, "not proven: another plan could be much better"),
        (0.0, 4, 46, 0.0, "proven to be the best plan of any instance shapes"),
        (
            0.0,
            4,
            46,
            None,
            "proven to be the best plan of the 4 of 46 instance shapes searched; not proven for the others",
        ),
        (
            0.0,
            6,
            45,
            0.19,
            "proven to be the best plan of the 6 of 45 instance shapes searched; "
            "no plan of any shapes can be more than 19 % better",
        ),
        (
            0.05,
            6,
            45,
            0.19,
            "no plan of the 6 of 45 instance shapes searched can be more than 5 % better; "
            "no plan of any shapes can be more than 19 % better",
        ),
    ],
)
def test_claim(gap: float, searched: int, possible: int, over_all: float | None, claim: str) -> None:
    assert proof(SolverReport("HiGHS", "optimal", gap, 0.1, searched, possible, over_all)) == claim


def test_a_search_that_was_stopped_says_by_what() -> None:
    report = SolverReport("HiGHS", "interrupted", 0.2, 1.0)
    assert "stopped by Ctrl-C" in searched(report)
    assert "stopped at the time limit" in searched(replace(report, status="time limit"))
    assert "stopped" not in searched(replace(report, status="optimal"))
