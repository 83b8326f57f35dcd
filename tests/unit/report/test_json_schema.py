"""Published schemas accept what is written and bundled, and refuse what is not."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from pddplan.cli.main import run
from pddplan.errors import InfeasibleError, Relaxation
from pddplan.profiles.kinds import KINDS
from pddplan.profiles.schema_docs import json_schema, key_docs
from pddplan.profiles.yaml_source import load
from pddplan.report.json_plan import infeasible_json, plan_file_text
from pddplan.report.json_schema import plan_schema
from tests import samples

FILES = {
    "chip": "hardware_profiles",
    "model": "workloads/models",
    "workload": "workloads",
    "sites": "workloads/sites",
}


def test_plans_keep_to_the_schema() -> None:
    data = json.loads(plan_file_text(samples.sizing()))
    jsonschema.validate(data, plan_schema())
    error = InfeasibleError("x", conflicts=["y"], relaxations=[Relaxation("TTFT P99", 1.0, 2.0, "s", "z")])
    jsonschema.validate(infeasible_json(error), plan_schema())
    del data["ttft_s"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, plan_schema())


@pytest.mark.parametrize("kind", sorted(FILES))
def test_bundled_files_keep_to_their_schema(kind: str, repo_root: Path) -> None:
    schema = json_schema(KINDS[kind].schema_class())
    checker = jsonschema.Draft202012Validator(schema)
    for path in sorted((repo_root / FILES[kind]).glob("*.yaml")):
        faults = [f"{path.name}: {e.json_path}: {e.message}" for e in checker.iter_errors(load(path).data)]
        assert not faults, faults[:3]
    wrong = next(iter(sorted((repo_root / FILES[kind]).glob("*.yaml"))))
    assert list(checker.iter_errors({**load(wrong).data, "nmae": 1}))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_key_has_its_sentence(kind: str) -> None:
    silent = [row.path for row in key_docs(KINDS[kind].schema_class()) if not row.about]
    assert not silent, f"write one sentence below these fields: {silent}"


def test_schemas_from_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for kind in ("plan", *KINDS):
        assert run(["export", "--schema", kind]) == 0
        jsonschema.Draft202012Validator.check_schema(json.loads(capfd.readouterr().out))
    assert run(["export", "--schema", "sites", "--out", str(tmp_path / "s.json")]) == 0
    assert json.loads((tmp_path / "s.json").read_text())["title"] == "pddplan sites/1"
    assert run(["export", "--schema", "site"]) == 2
    assert "did you mean 'sites'?" in capfd.readouterr().err
    assert run(["export"]) == 2
