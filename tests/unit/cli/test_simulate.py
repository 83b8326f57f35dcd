"""``pddplan simulate``: from a plan file to tables, JSON and CSV; and what it refuses."""

import json
from pathlib import Path

import pytest

from pddplan.cli.main import run


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    assert run(["size", "--no-compare", "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mooncake rows: two users, ten turns of one more block each."""
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    rows = [
        {
            "timestamp": 5000 * turn + 100 * user,
            "input_length": 512 * (8 + turn),
            "output_length": 64,
            "hash_ids": [1000 * user + k for k in range(8 + turn)],
        }
        for turn in range(10)
        for user in range(2)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def test_table(plan_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(plan_file), "--requests", "5000"]) == 0
    out, err = capsys.readouterr()
    for wanted in ("TTFT by closed form against simulation", "TTFT P99", "utilization", "OVER TIME", "queue"):
        assert wanted in out
    assert err == ""


def test_json_is_pure_and_reproducible(plan_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = []
    for _ in range(2):
        assert run(["simulate", str(plan_file), "-n", "3000", "--seed", "5", "--seeds", "2", "--json"]) == 0
        seen.append(capsys.readouterr().out)
    assert seen[0] == seen[1]
    record = json.loads(seen[0])
    assert record["seeds"] == [5, 6]
    assert record["stable"] is True


def test_csv_holds_the_series(plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "load.csv"
    assert run(["simulate", str(plan_file), "-n", "2000", "--csv", str(file)]) == 0
    head, *rows = file.read_text().splitlines()
    assert head.startswith("time_s,")
    assert len(rows) == 240
    capsys.readouterr()
    assert run(["simulate", str(plan_file), "-n", "2000", "--csv", "-"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == head


def test_a_rate_beyond_the_plan_is_called_unstable(plan_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(plan_file), "-n", "3000", "--rps", "40"]) == 0
    assert "unstable: " in capsys.readouterr().out


def test_a_trace_is_replayed(plan_file: Path, trace_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(plan_file), "--trace", str(trace_file)]) == 0
    out = capsys.readouterr().out
    assert "20 requests" in out
    assert "prefill hit" in out
    assert "the plan was made for" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--requests", "5"], "--requests must lie between"),
        (["--seed", "-1"], "--seed must not be negative"),
        (["--seeds", "0"], "--seeds must lie between"),
        (["--rps", "nan"], "--rps must be a finite number"),
        (["--bunch", "0.5"], "--bunch must lie between"),
        (["--rps", "1e300"], "must lie between"),
        (["--scv", "-1"], "--scv must be a finite number"),
        (["--trace", "nowhere.jsonl"], "there is no such file"),
        (["--json", "--csv", "-"], "more than one output"),
    ],
)
def test_bad_usage(plan_file: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(plan_file), *arguments]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert out == ""


def test_a_trace_brings_its_own_arrivals(plan_file: Path, trace_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(plan_file), "--trace", str(trace_file), "--seeds", "2"]) == 2
    assert "a trace brings its own arrivals" in capsys.readouterr().err


def test_what_is_no_plan_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    file.write_text("{}")
    assert run(["simulate", str(file)]) == 2
    assert "error: " in capsys.readouterr().err
