"""``pddplan size`` from end to end on bundled files: pure JSON, files that agree, exit codes."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import pddplan
from pddplan.cli.main import run
from pddplan.report.json_schema import plan_schema


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the outputs of one call in a process of its own."""
    folder = tmp_path_factory.mktemp("planned")
    command = [sys.executable, "-m", "pddplan", "size", "--json", "--out", "plan.json", "--csv", "costs.csv"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (folder / "stdout.json").write_text(done.stdout)
    return folder


def test_standard_output_is_json_and_equals_the_plan_file(planned: Path) -> None:
    printed = json.loads((planned / "stdout.json").read_text())
    assert printed == json.loads((planned / "plan.json").read_text())
    jsonschema.validate(printed, plan_schema())


def test_outputs_agree_with_each_other(planned: Path) -> None:
    data = json.loads((planned / "plan.json").read_text())
    with (planned / "costs.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert math.fsum(float(r["monthly_cost"]) for r in rows) == pytest.approx(data["cost"]["monthly_total"])
    assert data["bcr"] == pytest.approx(data["goodput_rps"] / (data["cost"]["monthly_total"] / 1000))
    assert sum(p["gpus"] for p in data["pools"]) == data["chips"]["total"]
    assert sum(r["share"] for r in data["routing"]) == pytest.approx(1.0)
    for pool in data["pools"]:
        assert pool["gpus"] == pool["instances"] * pool["chips_per_instance"]
        assert 0 <= pool["utilization"] <= 1


def test_plan_keeps_its_promises(planned: Path) -> None:
    data = json.loads((planned / "plan.json").read_text())
    assert data["violations"] == []
    assert data["ttft_s"]["p50"] <= data["ttft_s"]["p90"] <= data["promises"]["ttft_p90_s"]
    assert data["ttft_s"]["p90"] <= data["ttft_s"]["p99"] <= data["promises"]["ttft_p99_s"]
    assert data["goodput_rps"] == pytest.approx(11.5)


def test_a_plan_read_back_evaluates_to_the_same_outcome(planned: Path) -> None:
    data = json.loads((planned / "plan.json").read_text())
    inputs, plan = pddplan.load_plan_inputs(planned / "plan.json")
    outcome = pddplan.evaluate_plan(inputs, plan)
    assert outcome.ttft.p99 == pytest.approx(data["ttft_s"]["p99"], rel=1e-6)
    assert outcome.bcr == pytest.approx(data["bcr"])
    assert outcome.cost.monthly_total == pytest.approx(data["cost"]["monthly_total"])
    assert np.allclose(
        [load.utilization for load in outcome.pools], [p["utilization"] for p in data["pools"]], rtol=1e-3
    )


def test_table_for_people_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", "--link", "40", "--rps", "5", "--tpot", "60", "--no-compare", "--verbose"]) == 0
    captured = capsys.readouterr()
    assert "serve 5.00 req/s within all promises" in captured.out
    assert "× 40.0" in captured.out
    assert "60.0 ms" in captured.out
    assert "optimise" in captured.err


def test_unreachable_promise_exits_3_and_names_the_relaxation(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["size", "--ttft-p90", "0.05", "--rps", "1", "--topology", "pd", "--no-compare"]
    assert run(arguments) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "TTFT P90" in captured.err
    assert "Traceback" not in captured.err
    assert run([*arguments, "--json"]) == 3
    data = json.loads(capsys.readouterr().out)
    jsonschema.validate(data, plan_schema())
    assert data["status"] == "infeasible"


def test_more_money_is_asked_for_than_nothing_costs(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["size", "--budget", "1", "--no-compare"])
    assert code == 3
    assert "budget" in capsys.readouterr().err.lower()
