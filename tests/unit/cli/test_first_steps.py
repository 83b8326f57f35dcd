"""What people type first: one site, a trace in place of a workload, a model that is called otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pddplan import api
from pddplan.cli.main import run

ONE_HALL = "schema: sites/1\nname: one hall\nsites:\n  here: {chips: {h100-sxm: {max_chips: 64}}}\n"


@pytest.fixture
def hall(tmp_path: Path) -> Path:
    path = tmp_path / "hall.yaml"
    path.write_text(ONE_HALL)
    return path


def test_one_site_gets_a_plan_without_naming_a_topology(hall: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", "--sites", str(hall), "--workload", "uniform-example", "--no-compare", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"]["monthly_total"] > 0
    assert run(["size", "--sites", str(hall), "--workload", "uniform-example", "--topology", "pdd"]) == 3


def test_the_default_topology_splits_where_a_line_is(hall: Path) -> None:
    from pddplan.profiles.sites_profile import load_sites

    assert api.default_topology(load_sites("two-sites")) == "pdd"
    assert api.default_topology(load_sites(hall)) == "any"


def test_a_trace_in_place_of_a_workload_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("{}\n")
    assert run(["size", "--workload", str(trace)]) == 2
    assert f"pddplan workload import {trace} --model MODEL" in capsys.readouterr().err


def test_a_trace_named_alone_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.jsonl").write_text("{}\n")
    assert run(["size", "--workload", "trace.jsonl"]) == 2
    assert "pddplan workload import trace.jsonl --model MODEL --out workload.yaml" in capsys.readouterr().err


def test_long_lists_are_left_to_the_command_that_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", "--model", "llama3-70b"]) == 2
    said = capsys.readouterr().err
    assert "did you mean" in said
    assert "see pddplan model list" in said
    assert len(said) < 300
