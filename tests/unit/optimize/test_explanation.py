"""Explanations: marginal values have the right sign, alternatives are real plans, text says what JSON says."""

from __future__ import annotations

import pytest

from pddplan.optimize import TOPOLOGIES, Limits, Objective, size
from pddplan.optimize.explanation import Explanation, chips, cost, explain
from pddplan.report.explanation import explanation_json, render
from pddplan.report.text_table import Paint, Screen
from tests.unit.optimize.small_question import question, shapes


@pytest.fixture(scope="module")
def explained() -> Explanation:
    problem = question()
    plan = size(problem, topology="cross-dc-drc", objective=Objective("cost"), limits=Limits(), shapes=shapes).plan
    return explain(problem, plan, shapes=shapes)


def test_relaxed_promises_never_cost_more_and_more_fleet_never_serves_less(explained: Explanation) -> None:
    for marginal in explained.marginals:
        if marginal.lever.endswith("promise"):
            assert marginal.cost_change is not None
            assert marginal.cost_change <= 0
        if marginal.rate_change_rps is not None:
            assert marginal.rate_change_rps >= 0
    rate = next(m for m in explained.marginals if m.lever == "rate")
    assert rate.cost_change is not None
    assert rate.cost_change >= 0


def test_every_other_topology_is_answered(explained: Explanation) -> None:
    assert {a.name for a in explained.topologies} == set(TOPOLOGIES) - {"cross-dc-drc"}
    for other in explained.topologies:
        assert (other.outcome is None) == (other.why_not is not None)
        if other.outcome is not None:
            assert other.outcome.keeps_promises


def test_runners_up_are_near_and_different(explained: Explanation) -> None:
    fleets = [tuple((p.id, p.instances) for p in a.outcome.plan.pools) for a in explained.runners_up if a.outcome]
    assert len(set(fleets)) == len(fleets)
    assert all(a.cost_ratio is not None and a.cost_ratio <= 0.1 for a in explained.runners_up)


def test_text_and_json_agree(explained: Explanation) -> None:
    text = render(explained, Screen(width=100, paint=Paint(), ascii_only=True))
    record = explanation_json(explained)
    for heading in ("What binds", "What one more would buy", "Nearly as good", "Other topologies"):
        assert heading in text
    assert f"{chips(explained.outcome)} chips" in text
    assert record["monthly_cost"] == pytest.approx(cost(explained.outcome))
    assert len(record["marginals"]) == len(explained.marginals)
