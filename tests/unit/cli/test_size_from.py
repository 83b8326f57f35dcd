"""A plan file is a question too: sized anew as it is, and with one number changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import pddplan
from pddplan import api
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
