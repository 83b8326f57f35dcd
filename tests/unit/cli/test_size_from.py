"""A plan file is a question too: sized anew as it is, and with one number changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import pddplan
from pddplan import api
from pddplan.cli.main import run
from pddplan.plan_file import read_plan_file


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    pddplan.save_plan(api.size(rps=4.0, tpot_s=0.045, compare=False), path)
    return path


def test_same_question_same_plan(plan_file: Path) -> None:
    inputs, plan = read_plan_file(plan_file)
    again = api.size(inputs, compare=False).outcome.plan
    assert [(p.chip, p.shape, p.instances) for p in again.pools] == [(p.chip, p.shape, p.instances) for p in plan.pools]
    assert again.rate_rps == plan.rate_rps


def test_what_is_given_overrides_the_file(plan_file: Path) -> None:
    inputs, _ = read_plan_file(plan_file)
    changed = api.load_inputs(inputs, rps=8.0, ttft_p99_s=12.0)
    assert changed.workload.arrival.rate_rps == 8.0
    assert changed.workload.promises.ttft_p99_s == 12.0
    assert changed.workload.promises.tpot_s == 0.045


def test_chips_of_the_file_win_over_bundled_ones(plan_file: Path) -> None:
    inputs, _ = read_plan_file(plan_file)
    chip = inputs.chips["h100-sxm"]
    doubled = replace(chip, memory_bytes=2 * chip.memory_bytes)
    again = api.load_inputs(replace(inputs, chips={**inputs.chips, "h100-sxm": doubled}))
    assert again.chips["h100-sxm"].memory_bytes == 2 * chip.memory_bytes


def test_latency_tables_of_the_file_serve_only_its_own_model() -> None:
    inputs = api.load_inputs("prfaas-lognormal", "prfaas")
    assert inputs.tables
    assert api.load_inputs(inputs).tables == inputs.tables
    assert not api.load_inputs(inputs, llm="deepseek-v3").tables


def test_topology_of_the_file_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pd.json"
    assert run(["size", "--topology", "pd", "--rps", "2", "--no-compare", "--out", str(file)]) == 0
    capsys.readouterr()
    assert run(["size", "--from", str(file), "--no-compare"]) == 0
    assert "PLAN (pd)" in capsys.readouterr().out


def test_two_sources_of_traffic_are_refused(plan_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", "--from", str(plan_file), "--workload", "table-example"]) == 2
    assert "--workload asks for another" in capsys.readouterr().err


def test_what_was_proven_stays_with_the_plan_that_is_exported(
    plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(plan_file), "--format", "json", "--no-compare"]) == 0
    first, again = json.loads(plan_file.read_text()), json.loads(capsys.readouterr().out)
    assert again["solver"] == first["solver"]
    changed = tmp_path / "changed.json"
    first["record"]["plan"]["pools"][0]["instances"] += 1
    changed.write_text(json.dumps({key: first[key] for key in first if key not in {"pools", "links", "rate_rps"}}))
    assert run(["export", str(changed), "--format", "json", "--no-compare"]) == 0
    assert json.loads(capsys.readouterr().out)["solver"] is None  # of another plan nothing was proven
