"""Checking files and comparing plans from the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pddplan.cli.main import run
from pddplan.report.json_plan import save_plan
from pddplan.report.plan_diff import plan_changes, render_changes
from tests import samples


@pytest.mark.parametrize("folder", ["workloads", "workloads/sites", "workloads/finance", "hardware_profiles"])
def test_bundled_files_are_valid(folder: str, repo_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(str(p) for p in (repo_root / folder).glob("*.yaml"))
    assert files
    assert run(["validate", *files]) == 0, capsys.readouterr().out


def test_every_fault_of_every_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("schema: chop/1\n")
    (tmp_path / "b.yaml").write_text("name: x\n")
    (tmp_path / "c.yaml").write_text(
        "schema: sites/1\nname: x\nsites: {a: {chips: {h100-sxm: {max_chips: x}}}, b: 1}\n"
    )
    (tmp_path / "d.json").write_text("{}")
    names = [str(tmp_path / n) for n in ("a.yaml", "b.yaml", "c.yaml", "d.json")]
    assert run(["validate", *names]) == 2
    out = capsys.readouterr().out
    assert "unknown schema text 'chop/1'; did you mean 'chip'?" in out
    assert "the 'schema' line is missing" in out
    assert "must be a whole number, got text 'x'" in out
    assert "sites.b\n  must be a mapping, got 1" in out
    assert "is no plan file" in out
    assert run(["validate", "--json", *names]) == 2
    data = json.loads(capsys.readouterr().out)
    assert [len(entry["problems"]) for entry in data] == [1, 1, 2, 1]


def test_diff_shows_results_pools_and_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizing = samples.sizing()
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    save_plan(sizing, first)
    pools = (replace(sizing.outcome.plan.pools[0], instances=6), *sizing.outcome.plan.pools[1:])
    outcome = replace(sizing.outcome, plan=replace(sizing.outcome.plan, pools=pools), goodput_rps=12.0)
    inputs = replace(sizing.inputs, workload=sizing.inputs.workload.at_rate(12.0))
    save_plan(replace(sizing, outcome=outcome, inputs=inputs), second)
    assert run(["diff", str(first), str(second)]) == 0
    out = capsys.readouterr().out
    assert "goodput" in out
    assert "+20 %" in out
    assert "workload.arrival.rate_rps" in out
    assert run(["diff", "--json", str(first), str(second)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["pools"] == [{"name": "a P h100 TP8", "before": 5, "after": 6, "unit": "instances"}]
    assert run(["diff", str(first), str(first)]) == 0
    assert capsys.readouterr().out == "no differences\n"


def test_results_that_read_the_same_are_no_rows() -> None:
    def plan(cost: float, ttft: float, currency: str = "EUR") -> dict[str, object]:
        return {"cost": {"monthly_total": cost, "currency": currency}, "ttft_s": {"p50": ttft}}

    text = render_changes(plan_changes(plan(1000.0, 0.27), plan(1000.0, 0.270001)), width=80)
    assert text == "the same plan, but for less than rounding: TTFT P50\n"
    text = render_changes(plan_changes(plan(1000.0, 0.27), plan(1200.0, 0.270001)), width=80)
    assert "EUR a month" in text
    assert "the rest is the same, but for less than rounding: TTFT P50" in text
    assert "EUR to USD a month" in render_changes(plan_changes(plan(1.0, 1.0), plan(2.0, 1.0, "USD")), width=80)


def test_long_lists_of_inputs_are_counted() -> None:
    before = {"record": {"inputs": {"x": list(range(60))}}}
    after = {"record": {"inputs": {"x": list(range(1, 61))}}}
    text = render_changes(plan_changes(before, after), width=80)
    assert "... and 20 more" in text
