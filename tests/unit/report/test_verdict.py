"""Words about plans that several reports share."""

from __future__ import annotations

from dataclasses import replace

from pddplan.domain.outcome import Violation
from pddplan.report.terminal import render
from pddplan.report.verdict import fleet_words, shown_plans, unproven_baseline, whole_instances
from tests import samples


def test_a_fleet_in_a_line_names_every_pool_and_line_that_is_paid_for() -> None:
    outcome = samples.outcome()
    words = fleet_words(outcome)
    assert words.startswith("40 h100 P at a")
    assert "1 x 100 Gbit/s on a-b" in words
    idle = replace(outcome.plan, lines=tuple(replace(line, count=0) for line in outcome.plan.lines))
    assert "Gbit/s" not in fleet_words(replace(outcome, plan=idle))


def test_plans_shown_side_by_side_are_different_ones() -> None:
    sizing = samples.sizing()
    names = [name for name, _ in shown_plans(sizing)]
    assert names[0] == "this plan"
    assert "aggregated baseline" in names
    assert "aggregated baseline" not in [name for name, _ in shown_plans(replace(sizing, baseline=sizing.outcome))]


def test_a_baseline_without_a_proof_is_said_to_have_none() -> None:
    sizing = samples.sizing()
    assert sizing.baseline is not None
    assert unproven_baseline(sizing) == unproven_baseline(replace(sizing, baseline=None)) == ""
    quick = replace(sizing, baseline=replace(sizing.baseline, solver=None))
    assert "not proven to be the cheapest" in unproven_baseline(quick)
    assert "not proven to be the cheapest" in " ".join(render(quick, width=200).split())


def test_a_broken_plan_has_no_whole_replicas_to_blame() -> None:
    outcome = samples.outcome()
    assert "one fewer" in whole_instances(outcome)
    broken = Violation("TTFT P99", 15.0, 19.6, "s")
    assert whole_instances(replace(outcome, violations=(broken,))) == ""
