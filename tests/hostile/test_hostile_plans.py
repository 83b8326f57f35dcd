"""Plan files edited by hand, by accident or on purpose."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_targets import plan_file
from tests.hostile.conftest import READERS, Survives


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_spoiled_plans_are_read_or_refused(survives: Survives, seed: int) -> None:
    survives("plan.json", READERS["plan.json"].case(random.Random(seed)))


def _set(*path: Any, value: Any) -> Callable[[Any], None]:
    def edit(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return edit


INPUTS, PLAN = ("record", "inputs"), ("record", "plan")
EDITS = {
    "a chip without bf16": (_set(*INPUTS, "chips", "h100", "peak_flop_per_s", value={"fp8": 1e15}), "bf16"),
    "a chip without memory": (_set(*INPUTS, "chips", "h100", "memory_bytes", value=0.0), "memory_bytes"),
    "columns of two lengths": (_set(*INPUTS, "workload", "classes", "weight", value=[1.0]), "classes"),
    "weights that sum to two": (_set(*INPUTS, "workload", "classes", "weight", value=[1.0, 1.0]), "weight"),
    "more missing than there is": (
        _set(*INPUTS, "workload", "classes", "miss_decode_tokens", value=[1e6, 1.0]),
        "miss_decode_tokens",
    ),
    "an infinite rate": (_set(*INPUTS, "workload", "arrival", "rate_rps", value="inf"), "rate_rps"),
    "no answer to a promise": (_set(*INPUTS, "workload", "promises", "ttft_p90_s", value="nan"), "ttft_p90_s"),
    "a billion drafts": (_set(*INPUTS, "speculation_depth", value=10**9), "speculation_depth"),
    "a huge number": (_set(*INPUTS, "speculation_depth", value=10**400), "speculation_depth"),
    "no layers": (_set(*INPUTS, "llm", "layers", value=[]), "layers"),
    "no heads": (_set(*INPUTS, "llm", "layers", 0, "attention", "heads", value=0), "heads"),
    "a tag that is a list": (_set(*INPUTS, "llm", "layers", 0, "attention", "$type", value=[]), "$type"),
    "a line faster than light": (_set(*INPUTS, "sites", "lines", "a-b", "rtt_s", value=-1.0), "a-b"),
    "a free lunch": (_set(*INPUTS, "sites", "finance", "hours_per_month", value=0.0), "hours_per_month"),
    "half a pool": (_set(*PLAN, "pools", 0, "instances", value=2.5), "instances"),
    "fewer chips than none": (_set(*PLAN, "pools", 0, "instances", value=-3), "count"),
    "an empty batch": (_set(*PLAN, "pools", 2, "batch", value=0), "batch"),
    "two pools of one name": (_set(*PLAN, "pools", 1, "id", value="p"), "plan"),
    "shares above one": (_set(*PLAN, "share", value=[[1.0, 1.0], [1.0, 1.0]]), "share"),
    "an absurd line": (_set(*PLAN, "lines", 0, "gbps", value=1e308), "gbps"),
    "experts without speed": (
        _set(*INPUTS, "efficiencies", "h100", "experts_8bit_rate", value=0.0),
        "experts_8bit_rate",
    ),
    "an absurd efficiency": (_set(*INPUTS, "efficiencies", "h100", "kv_mbu", value=7.0), "kv_mbu"),
}


@pytest.mark.parametrize("what", sorted(EDITS))
def test_edits_that_no_formula_can_use_are_named(survives: Survives, what: str) -> None:
    edit, word = EDITS[what]
    data = json.loads(plan_file())
    edit(data)
    said = survives("plan.json", json.dumps(data).encode())
    assert word in said, said
    assert "fix: " in said


@pytest.mark.parametrize("pools", ["x", 7, [], [[]], [None], {"id": 1}, [{"id": []}], [{"id": "p", "instances": []}]])
def test_what_only_shows_results_may_be_anything(survives: Survives, pools: Any) -> None:
    data = json.loads(plan_file())
    data["pools"] = pools
    survives("plan.json", json.dumps(data).encode())


def test_the_sample_itself_is_sound(survives: Survives) -> None:
    assert survives("plan.json", plan_file()) == ""


def test_a_path_without_its_pool_is_named(survives: Survives) -> None:
    data = json.loads(plan_file())
    data["record"]["plan"]["paths"][0]["decode"] = None
    assert "needs a pool" in survives("plan.json", json.dumps(data).encode())


def test_a_line_that_no_sites_have_is_named(survives: Survives) -> None:
    data = json.loads(plan_file())
    data["record"]["plan"]["lines"][0]["line"] = "~"
    assert "unknown line '~'" in survives("plan.json", json.dumps(data).encode())


def test_a_whole_number_too_long_for_a_float_is_named(survives: Survives) -> None:
    data = json.loads(plan_file())
    data["record"]["plan"]["rate_rps"] = 10**400
    assert "rate_rps" in survives("plan.json", json.dumps(data).encode())
