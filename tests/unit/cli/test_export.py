"""``pddplan export``: what it writes says the same as the plan file it was made from."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import jsonschema
import openpyxl
import pytest

from pddplan.cli.main import run
from pddplan.domain.outcome import Outcome
from pddplan.optimize.objective import Limits, Objective
from pddplan.profiles.kinds import KINDS
from pddplan.report.json_schema import plan_schema
from pddplan.sizing import Inputs


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "plan.json"
    assert run(["size", "--no-compare", "--out", str(path)]) == 0
    return path


def exported(plan_file: Path, *arguments: str) -> Path:
    target = plan_file.parent / "-".join(["out", *(a.strip("-") for a in arguments)])
    assert run(["export", str(plan_file), "--format", *arguments, "--out", str(target)]) == 0
    return target


def test_reports_of_a_plan_file_agree_with_it(plan_file: Path) -> None:
    plan = json.loads(plan_file.read_text())
    total = plan["cost"]["monthly_total"]
    rows = csv.DictReader(io.StringIO(exported(plan_file, "csv").read_text()))
    assert math.fsum(float(row["monthly_cost"]) for row in rows) == pytest.approx(total)
    again = json.loads(exported(plan_file, "json", "--no-compare").read_text())
    jsonschema.validate(again, plan_schema())
    assert again["cost"] == plan["cost"]
    assert again["ttft_s"] == pytest.approx(plan["ttft_s"])
    book = openpyxl.load_workbook(io.BytesIO(exported(plan_file, "xlsx", "--no-compare").read_bytes()), data_only=True)
    assert book["Comparison"]["B3"].value == pytest.approx(total)
    page = exported(plan_file, "html").read_text()
    assert "aggregated baseline" in page
    assert "What matters most" not in page


def test_a_page_in_full_has_simulation_bathtub_and_sensitivity(
    plan_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pddplan.report import html
    from pddplan.studies.in_full import studies_of

    monkeypatch.setattr(html, "studies_of", lambda s: studies_of(s, requests=3_000, samples=4, sized=False))
    text = exported(plan_file, "html", "--full", "--no-compare").read_text()
    assert len(text) < 2_000_000
    for title in ("Closed form against simulation", "What the hit rate is worth", "What matters most"):
        assert f"<h2>{title}</h2>" in text


def test_rivals_are_held_to_the_limits_that_the_plan_was_asked_to_keep(
    plan_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pddplan import api
    from pddplan.sizing import Sizing

    def compared(inputs: Inputs, outcome: Outcome, *, objective: Objective, limits: Limits) -> Sizing:
        return Sizing(inputs, outcome.plan.topology, outcome, objective=objective, limits=limits)

    monkeypatch.setattr(api, "compared", compared)
    data = json.loads(plan_file.read_text())
    data["record"]["asked"]["limits"]["redundant_instances"] = 1
    reserved = tmp_path / "reserved.json"
    reserved.write_text(json.dumps(data))
    assert "every pool keeps 1 of its replicas in reserve" in exported(reserved, "html").read_text()
    assert "in reserve" not in exported(plan_file, "html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--format", "htm"], "did you mean 'html'"),
        (["--format", "xlsx", "--full"], "--full is about the page"),
        (["--schema", "plan"], "give either a plan file or --schema"),
    ],
)
def test_what_cannot_be_exported_is_said(
    plan_file: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(plan_file), *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["plan", *KINDS])
def test_every_kind_of_file_has_a_schema(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--schema", kind]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
