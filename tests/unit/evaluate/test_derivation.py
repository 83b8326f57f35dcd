"""Where the numbers of a plan come from: the steps are the plan's own numbers, and they add up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pddplan.domain.outcome import Cost
from pddplan.domain.plan import PathKind, Plan
from pddplan.evaluate.derivation import derivation
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.flows import system
from pddplan.evaluate.problem import Problem

PARTS = ("wait for prefill", "prefill", "KV over the line", "KV inside the site", "wait for a slot", "first step")


def test_steps_of_each_path_add_up_to_its_ttft(problem: Problem, plan: Plan) -> None:
    outcome = evaluate(problem, plan, cost=Cost("USD", 50_000.0, ()))
    steps = derivation(problem, plan, outcome)
    used = [path.id for path in plan.paths if outcome.path_share[path.id] > 0]
    for path_id in used:
        mine = {step.name: step.value for step in steps if step.about == path_id}
        parts = [value for name, value in mine.items() if name in PARTS]
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(mine["TTFT, mean"])
        assert mine["TTFT, mean"] == pytest.approx(outcome.ttft_by_path[path_id].mean, rel=1e-6)
        assert mine["E2E, mean"] > mine["TTFT, mean"]


def test_steps_add_up_in_waves_and_the_transfer_is_the_line_s_own(problem: Problem, plan: Plan) -> None:
    """Swells that one station stops are not counted again at the next."""
    arrival = replace(problem.workload.arrival, dispersion={1.0: 1.5, 10.0: 4.0, 60.0: 12.0})
    swelling = replace(problem, workload=replace(problem.workload, arrival=arrival), memo={})
    solved = system(swelling, plan)
    for path, result, flow in zip(plan.paths, solved.results, solved.flow_rps, strict=True):
        if not flow.any():
            continue
        steps = derivation(swelling, plan, evaluate(swelling, plan, cost=Cost("USD", 50_000.0, ())))
        mine = {step.name: step for step in steps if step.about == path.id}
        parts = [step.value for name, step in mine.items() if name in PARTS]
        assert sum(parts) == pytest.approx(mine["TTFT, mean"].value)
        if path.kind is PathKind.P_MD and result.transfer is not None:
            crossing = float(flow @ result.transfer.mean_s / flow.sum())
            assert mine["KV over the line"].value == pytest.approx(crossing)
        waited = {name: value for name, value, _ in mine["wait for prefill"].inputs}
        assert waited["lasting"] > 0
        assert "karandikar1995" in mine["wait for a slot"].source


def test_concurrency_follows_from_users_and_rate(problem: Problem, plan: Plan) -> None:
    outcome = evaluate(problem, plan, cost=Cost("USD", 50_000.0, ()))
    whole = {step.name: step.value for step in derivation(problem, plan, outcome) if step.about == "plan"}
    assert whole["requests in flight"] == pytest.approx(plan.rate_rps * outcome.e2e.mean)
    assert whole["users at work"] == pytest.approx(plan.rate_rps * (outcome.e2e.mean + problem.settings.think_s))
    assert whole["BCR"] == outcome.bcr


def test_every_step_names_formula_unit_and_a_known_source(problem: Problem, plan: Plan, repo_root: Path) -> None:
    outcome = evaluate(problem, plan, cost=Cost("USD", 50_000.0, ()))
    keys = (repo_root / "docs" / "references.yaml").read_text(encoding="utf-8")
    for step in derivation(problem, plan, outcome):
        assert step.formula
        assert step.source
        first = step.source.split(",")[0].split(";")[0]
        assert f"\n{first}:" in keys or first.startswith("chip profile")
