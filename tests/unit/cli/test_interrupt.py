"""Ctrl-C while a plan is searched for: a real process, a real signal, at a known moment."""

from __future__ import annotations

import json
import subprocess
import sys

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
LONG = ("size", "--workload", "uniform-example", "--topology", "cross-dc-drc", "--json")
SHORT = ("size", "--workload", "uniform-example", "--topology", "pd", "--json")


def run(
    *, module: str, owner: str, method: str, call: int, arguments: tuple[str, ...] = LONG
) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(module=module, owner=owner, method=method, call=call, arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)


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
    ended = run(module="pddplan.optimize", owner="rounds", method="build", call=1)
    assert ended.returncode == 130
    assert ended.stderr.strip() == "interrupted"
    assert ended.stdout == ""
