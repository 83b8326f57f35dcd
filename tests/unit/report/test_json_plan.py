"""Plan files: the keys other programs rely on, and the way back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pddplan.domain.outcome import Percentiles
from pddplan.errors import InfeasibleError, InputError, Relaxation
from pddplan.plan_file import read_plan_file
from pddplan.records import to_plain
from pddplan.report.json_plan import dump_json, infeasible_json, plan_file_text, plan_json, save_plan
from tests import samples

PROMISED_KEYS = {
    "status",
    "topology",
    "goodput_rps",
    "bcr",
    "cost",
    "pools",
    "links",
    "routing",
    "ttft_s",
    "tpot_s",
    "rld_token_share",
    "wan_gbps",
    "solver",
    "binding",
}


def test_keys_of_the_design() -> None:
    data = json.loads(plan_file_text(samples.sizing()))
    assert set(data) >= PROMISED_KEYS
    assert set(data["cost"]) == {"currency", "monthly_total", "items"}
    assert set(data["pools"][0]) >= {"site", "role", "chip", "instances", "gpus", "utilization"}
    assert set(data["links"][0]) >= {"from", "to", "gbps", "monthly_cost", "utilization"}
    assert set(data["routing"][0]) >= {"path", "share"}
    assert set(data["ttft_s"]) == {"p50", "p90", "p99", "mean"}
    assert {"name", "status", "gap", "seconds"} <= set(data["solver"])
    assert [p["role"] for p in data["pools"]] == ["P", "RLD", "MD"]
    assert data["pools"][0]["gpus"] == 40
    assert data["links"][0]["from"] == "a"
    assert data["links"][0]["monthly_cost"] == 8_700.0
    assert data["status"] == "optimal"
    assert data["comparison"]["baseline"]["bcr_gain"] == pytest.approx(140_160 / 131_340 - 1)


def test_plan_file_reads_back(tmp_path: Path) -> None:
    sizing, path = samples.sizing(), tmp_path / "plan.json"
    save_plan(sizing, path)
    inputs, plan = read_plan_file(path)
    assert to_plain(inputs) == to_plain(sizing.inputs)
    assert to_plain(plan) == to_plain(sizing.outcome.plan)


def test_numbers_json_does_not_know_become_null() -> None:
    inf = float("inf")
    sizing = samples.sizing()
    broken = replace(sizing, outcome=replace(sizing.outcome, ttft=Percentiles(1.0, inf, inf, float("nan"))))
    data = json.loads(plan_file_text(broken), parse_constant=lambda name: pytest.fail(name))
    assert data["ttft_s"] == {"p50": 1.0, "p90": None, "p99": None, "mean": None}


def test_infeasible_answer() -> None:
    error = InfeasibleError(
        "P99 is too short",
        conflicts=["TTFT P99"],
        relaxations=[Relaxation("TTFT P99", 1.0, 2.5, "s", "--ttft-p99 2.5")],
    )
    data = json.loads(dump_json(infeasible_json(error)))
    assert data["status"] == "infeasible"
    assert data["relaxations"][0] == {
        "limit": "TTFT P99",
        "asked": 1.0,
        "needed": 2.5,
        "unit": "s",
        "hint": "--ttft-p99 2.5",
    }


def _edit(*keys: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        place: Any = data
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_edit("schema", value="pddplan-plan/9"), "has schema 'pddplan-plan/9'"),
        (_edit("record", value=None), "has no 'record'"),
        (_edit("status", value="infeasible"), "holds no plan"),
        (_edit("pools", 0, "instances", value=7), "instances of pool 'p': 7 among the results but 5"),
        (_edit("links", 0, "count", value=3), "count of line 'a-b': 3 among the results but 1"),
        (_edit("links", 0, "tier_gbps", value=None), "tier_gbps of line 'a-b': None among the results"),
        (_edit("record", "plan", "rate_rps", value=3.5), "among the results but 3.5 in 'record.plan'"),
        (_edit("record", "plan", "pools", 0, "site", value="mars"), "unknown site 'mars'"),
        (_edit("record", "plan", "pools", 0, "chip", value="abacus"), "unknown chip 'abacus'"),
        (_edit("record", "plan", "pools", 0, "instances", value=-1), "counts must lie"),
        (_edit("record", "plan", "paths", 0, "decode", value="x"), "unknown pool 'x'"),
        (_edit("record", "plan", "paths", 0, "line", value="x"), "unknown line 'x'"),
        (_edit("record", "plan", "share", value=[[1.0, 1.0]]), "shares must be 2 x 2 numbers"),
        (_edit("record", "plan", "share", 0, 0, value=-1.0), "shares of each class"),
        (_edit("record", "plan", "rate_rps", value=0), "rate_rps must be finite"),
        (
            _edit("record", "inputs", "llm", "hidden", value="wide"),
            "record.inputs.llm.hidden\n  must be a whole number",
        ),
        (
            _edit("record", "inputs", "llm", "layers", 0, "attention", "$type", value="os.system"),
            "$type must be one of",
        ),
    ],
)
def test_damaged_plan_files(tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str) -> None:
    data = json.loads(plan_file_text(samples.sizing()))
    change(data)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError) as caught:
        read_plan_file(path)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not valid JSON"),
        (b'{"a": ', ":1\n  not valid JSON"),
        (b"[1]", "is no plan file"),
        (b"{}", "is no plan file"),
        (b"[" * 100_000, "plan.json"),
        (b"\xff\xfe{\x00}\x00", "UTF-16"),
        (b'{"a": ' + b"1" * 5000 + b"}", "too long"),
    ],
)
def test_files_that_are_no_plans(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_plan_file(path)
    assert words in str(caught.value)


def test_plan_json_is_plain_data() -> None:
    assert json.loads(json.dumps(plan_json(samples.sizing()), allow_nan=False))
