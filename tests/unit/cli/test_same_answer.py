"""The same question has the same plan: asked twice, in processes that hash words differently, and side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from pddplan.cli.main import run

QUESTION = ("size", "--topology", "pdd", "--no-compare", "--json")
TWICE = """
from pddplan.cli.main import run
for _ in range(2):
    run({arguments})
    print("---")
"""


def without_times(text: str) -> str:
    """A plan file without how long the search took."""
    plan: dict[str, Any] = json.loads(text)
    del plan["solver"]["seconds"]
    return json.dumps(plan)


def test_neither_what_was_asked_before_nor_how_words_are_hashed_changes_a_plan() -> None:
    plans = []
    for seed in ("1", "2"):
        ended = subprocess.run(
            [sys.executable, "-c", TWICE.format(arguments=list(QUESTION))],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        plans += [without_times(part) for part in ended.stdout.split("---\n") if part]
    assert len(plans) == 4
    assert set(plans) == {plans[0]}


def test_questions_side_by_side_have_the_answers_of_questions_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    tables = []
    for jobs in ("1", "2"):
        vary = ("--vary", "topology=pd,pd-hetero", "--vary", "rps=10,12")
        assert run(["sweep", *vary, "--backend", "threading", "--jobs", jobs]) == 0
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1]
    assert len(tables[0].splitlines()) == 5
