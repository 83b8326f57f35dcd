"""The sentence on what the second site brings."""

from __future__ import annotations

from dataclasses import replace

from pddplan.domain.outcome import Outcome
from pddplan.report.verdict import second_site
from tests.samples import sizing


def priced(outcome: Outcome, factor: float) -> Outcome:
    cost = replace(outcome.cost, monthly_total=outcome.cost.monthly_total * factor)
    return replace(outcome, cost=cost, bcr=outcome.bcr / factor)


def test_says_nothing_without_a_plan_at_one_site() -> None:
    assert second_site(sizing().outcome, None) == ""


def test_names_winner_loser_and_tie() -> None:
    plan = sizing().outcome
    assert "save" in second_site(plan, priced(plan, 1.2))
    assert "LOSES" in second_site(plan, priced(plan, 0.8))
    assert "BRINGS NOTHING" in second_site(plan, priced(plan, 1.001))
