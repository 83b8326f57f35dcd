"""Lost lines in words: what passes, what stops, which promises hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pddplan.domain.outcome import Percentiles
from pddplan.evaluate.line_loss import LineLoss
from pddplan.report.html import render as page
from pddplan.report.json_plan import plan_json
from pddplan.report.line_loss import said
from pddplan.report.terminal import render
from tests import samples

TTFT = Percentiles(0.5, 5.0, 11.0, 1.5)
NEVER = Percentiles(0.5, float("inf"), float("inf"), float("inf"))


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        (
            LineLoss("a-b", 1, 1.0, True, ("TTFT P90",), (), TTFT),
            "a-b, 1 line left: all promises hold, TTFT P50 / P90 / P99 500 ms / 5.00 s / 11.0 s",
        ),
        (LineLoss("a-b", 2, 1.0, True, (), (), TTFT), "a-b, 2 lines left: what is left carries all requests"),
        (
            LineLoss("a-b", 2, 1.0, True, ("TPOT P90",), ("TTFT P90", "TTFT P99"), TTFT),
            "a-b, 2 lines left: TTFT P90, TTFT P99 break; TPOT P90 holds",
        ),
        (
            LineLoss("a-b", 1, 0.36, False, ("TTFT P50",), ("TTFT P99",), NEVER),
            "a-b, 1 line left: too thin for the 36 % of requests that cross it; TTFT P99 breaks; TTFT P50 holds",
        ),
        (
            LineLoss("a-b", 0, 0.05, False, ("TTFT P90",), ("TTFT P99",), NEVER),
            "a-b, no line left: nothing carries the 5 % of requests that cross it; TTFT P99 breaks; TTFT P90 holds",
        ),
        (
            LineLoss("a-b", 0, 1.0, False, (), ("TTFT P90",), NEVER),
            "a-b, no line left: nothing is served (--survive-line-loss pays for one line more)",
        ),
    ],
)
def test_sentences(lost: LineLoss, words: str) -> None:
    sizing = replace(samples.sizing(), line_losses=(lost,))
    assert said(sizing) == [words]
    assert words in " ".join(render(sizing, width=200).split())
    assert words in page(sizing)
    (told,) = plan_json(sizing)["line_loss"]
    assert (told["lines_left"], told["kept"], told["broken"]) == (lost.left, list(lost.kept), list(lost.broken))
    assert told["ttft_s"]["p99"] == (None if lost.ttft is NEVER else 11.0)


def test_plans_without_lines_say_nothing_of_them() -> None:
    assert "IF ONE LINE" not in render(samples.sizing(), width=100)
