"""Ctrl-C while a plan is searched for: a real process, a real signal, at a known moment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pddplan.cli.main import EXIT_INTERRUPTED
from pddplan.cli.main import run as command
from pddplan.optimize.search import Search, SearchResult

SCRIPT = """
import os, signal, sys
from {module} import {owner}
inner, calls = {owner}.{method}, 0
def interrupted(*given, **named):
    global calls
    calls += 1
    if calls == {call}:
        os.kill(os.getpid(), signal.SIGINT)
    return inner(*given, **named)
{owner}.{method} = interrupted
from pddplan.cli.main import main
sys.argv = ["pddplan", *{arguments}]
main()
"""
PATIENT = ("--time-limit", "600")
LONG = ("size", "--workload", "uniform-example", "--topology", "cross-dc-drc", "--json", *PATIENT)
SHORT = ("size", "--workload", "uniform-example", "--topology", "pd", "--json", *PATIENT)


def run(
    *, module: str, owner: str, method: str, call: int, arguments: tuple[str, ...] = LONG
) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(module=module, owner=owner, method=method, call=call, arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)


def test_the_best_plan_so_far_is_printed_with_its_gap() -> None:
    ended = run(module="pddplan.optimize.search", owner="Search", method="_visit", call=6)
    assert ended.returncode == 0, ended.stderr
    plan = json.loads(ended.stdout)
    assert plan["solver"]["status"] == "interrupted"
    assert plan["solver"]["gap"] > 0
    assert plan["goodput_rps"] > 0
    assert any("interrupted" in remark for remark in plan["remarks"])


def test_comparisons_are_left_out_once_the_plan_is_there() -> None:
    ended = run(module="pddplan", owner="optimize", method="baseline", call=1, arguments=SHORT)
    assert ended.returncode == 0, ended.stderr
    plan = json.loads(ended.stdout)
    assert plan["solver"]["status"] != "interrupted"
    assert any("interrupted" in remark for remark in plan["remarks"])


def test_without_a_plan_it_ends_in_a_word() -> None:
    ended = run(module="pddplan.optimize", owner="question", method="build", call=1)
    assert ended.returncode == 130
    assert ended.stderr.strip() == "interrupted"
    assert ended.stdout == ""


QUICK = ("--workload", "uniform-example")
STUDIES = [
    ("pareto", *QUICK, "--topology", "pd"),
    ("sweep", *QUICK, "--vary", "topology=pd,cross-dc-drc", "--backend", "serial"),
    ("sweep", *QUICK, "--vary", "topology=pd,cross-dc-drc", "--backend", "threading", "--jobs", "1"),
    ("bcr", "regret", *QUICK, "--topology", "pd"),
    ("bcr", "fleet", *QUICK, "--topology", "pd"),
    ("explain", "PLAN"),
]


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    assert command(["size", "--topology", "pd", "--no-compare", "--out", str(path)]) == 0
    return path


@pytest.mark.parametrize("arguments", STUDIES, ids=" ".join)
def test_a_study_of_many_searches_does_not_go_on_to_the_next(
    arguments: tuple[str, ...], plan_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[str] = []
    inner = Search.run

    def searched(self: Search) -> SearchResult:
        begun.append("search")
        return inner(self)

    def visited(self: Search, *_given: object, **_named: object) -> None:
        assert self.best is not None  # there is a best plan so far, which one search alone would answer with
        raise KeyboardInterrupt

    monkeypatch.setattr(Search, "run", searched)
    monkeypatch.setattr(Search, "_visit", visited)
    given = [str(plan_file) if word == "PLAN" else word for word in arguments]
    assert command(given) == EXIT_INTERRUPTED
    assert begun == ["search"]
    assert capsys.readouterr().err.endswith("interrupted\n")
