"""``pddplan bcr``: pure JSON, bad usage in words, and every command of its page runs."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path

import pytest

from pddplan.cli.main import run


def commands(repo_root: Path) -> list[str]:
    page = (repo_root / "docs" / "economics.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ pddplan")]


def test_every_command_of_the_page_runs(
    repo_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = commands(repo_root)
    assert len(found) >= 7
    for line in found:
        assert run(shlex.split(line)[1:]) == 0, f"{line}\n{capsys.readouterr().err}"
        out = capsys.readouterr().out
        assert max((len(text) for text in out.splitlines()), default=0) <= 100 or "--json" in line
    rows = list(csv.DictReader(io.StringIO((tmp_path / "months.csv").read_text())))
    assert {row["month"] for row in rows} == {str(month) for month in range(1, 10)}


def test_json_is_pure_and_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bcr", "compare", "--topologies", "pd", "--baseline", "pd", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["baseline"] == "pd"
    (entry,) = data["contenders"]
    assert entry["status"] == "feasible"
    assert entry["bcr"] == pytest.approx(entry["goodput_rps"] / entry["monthly_cost"] * 1e3)
    costs = entry["token_cost"]
    parts = costs["miss_monthly_cost"] + costs["cached_monthly_cost"] + costs["output_monthly_cost"]
    assert parts == pytest.approx(entry["monthly_cost"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "--topologies", "pdx"], "topology 'pdx' is unknown; did you mean 'pd'"),
        (["compare", "--topologies", "pd", "--baseline", "old"], "baseline 'old' is neither a topology nor"),
        (["compare", "--fleet", "pd a:h100-sxm"], "cannot read the fleet"),
        (["compare", "--fixed", "nowhere.json"], "nowhere.json"),
        (["compare", "--json", "--csv", "-"], "more than one output goes to standard output"),
        (["compare", "--token-price", "kimi-k9"], "did you mean 'kimi-k3'"),
        (["curve", "--cached-ratio", "-1"], "--cached-ratio must be a finite number from 0 up"),
        (["curve", "--cached-ratio", "nan"], "--cached-ratio must be a finite number from 0 up"),
        (["curve", "--points", "3"], "Invalid value for '--points'"),
        (["curve", "--plan", "nowhere.json"], "nowhere.json"),
        (["sure", "--range", "demand"], "cannot read the range"),
        (["sure", "--range", "demand=1:x"], "cannot read the range"),
        (["growth"], "Missing option '--demand'"),
        (["growth", "--demand", "4,x"], "cannot read the numbers"),
        (["growth", "--demand", "4,-1"], "must be finite and at least 0"),
        (["growth", "--demand", "nan"], "must be finite and at least 0"),
        (["growth", "--demand", "0"], "no demand in any quarter"),
        (["regret", "--scenario", "busy"], "cannot read the scenario"),
        (["reserve"], "no daily profile"),
        (["reserve", "--profile", "1,2,3"], "24 factors"),
        (["fleet", "-w", "agentic-64k", "-w", "agentic-64k"], "give each workload once"),
        (["fleet"], "Missing option '--workload'"),
    ],
)
def test_bad_usage_says_what_to_do(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bcr", *arguments]) == 2
    captured = capsys.readouterr()
    assert words in " ".join(captured.err.split())
    assert "Traceback" not in captured.err
    assert captured.out == ""
