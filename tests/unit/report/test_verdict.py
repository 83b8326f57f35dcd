"""Words about plans that several reports share."""

from __future__ import annotations

import math
from dataclasses import replace

from pddplan.domain.outcome import SolverReport, Violation
from pddplan.report.html import render as page
from pddplan.report.json_plan import plan_json
from pddplan.report.terminal import render
from pddplan.report.verdict import bcr_words, fleet_words, shown_plans, unproven_baseline, whole_instances
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


def test_how_far_a_baseline_was_searched_for_is_said() -> None:
    sizing = samples.sizing()
    assert sizing.baseline is not None
    assert unproven_baseline(replace(sizing, baseline=sizing.outcome)) == ""
    assert unproven_baseline(replace(sizing, baseline=None)) == ""
    quick = SolverReport("HiGHS", "best found", 0.04, 0.1, gap_over_all=0.04)
    open_gap = replace(sizing, baseline=replace(sizing.baseline, solver=quick))
    assert "up to 4 % cheaper is not ruled out" in unproven_baseline(open_gap)
    assert "up to 4 % cheaper is not ruled out" in " ".join(render(open_gap, width=200).split())
    close = replace(sizing.baseline, solver=replace(quick, gap_over_all=0.0))
    assert "not ruled out" not in unproven_baseline(replace(sizing, baseline=close))
    assert "a short search found" in unproven_baseline(replace(sizing, baseline=close))


def test_a_broken_plan_has_no_whole_replicas_to_blame() -> None:
    outcome = samples.outcome()
    assert "one fewer" in whole_instances(outcome)
    broken = Violation("TTFT P99", 15.0, 19.6, "s")
    assert whole_instances(replace(outcome, violations=(broken,))) == ""


def test_a_plan_that_costs_nothing_has_no_ratio() -> None:
    sizing = samples.sizing()
    free = replace(sizing.outcome, cost=replace(sizing.outcome.cost, monthly_total=0.0), bcr=math.inf)
    assert "BCR 0." in bcr_words(sizing.outcome)
    assert bcr_words(free).startswith("BCR without bound")
    shown = replace(sizing, outcome=free)
    assert "never" not in " ".join(render(shown, width=200).split()).partition("POOLS")[0]
    assert ">no bound<" in page(shown)
    assert plan_json(shown)["bcr"] is None
