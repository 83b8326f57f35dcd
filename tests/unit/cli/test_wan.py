"""``pddplan wan check`` from end to end: text, JSON, CSV, exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from pddplan.cli.main import run
from pddplan.report.line_check import COLUMNS


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["wan", "check", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_verdict_stands_first(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys)
    assert (code, err) == (0, "")
    assert "10 Gbit/s CARRIES IT" in out.splitlines()[1]
    assert all(len(line) <= 100 for line in out.splitlines())


def test_json_is_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "--json", "--rps", "11.5")
    got = json.loads(out)
    assert code == 0
    assert got["status"] == "carries it"
    assert got["chosen"]["gbps"] == 10
    assert sum(row["share"] for row in got["classes"]) == pytest.approx(1.0)
    assert got["mean_gbps"] == pytest.approx(
        11.5 * sum(row["share"] * row["payload_bytes"] for row in got["classes"]) * 8 / 1e9
    )


def test_csv_has_every_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "line.csv"
    assert called(capsys, "--csv", str(file))[0] == 0
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert tuple(rows[0]) == COLUMNS
    assert {row["table"] for row in rows} == {"tier", "class", "hit rate"}


@pytest.mark.parametrize("arguments", [("--link", "1"), ("--rps", "2000"), ("--no-drc", "--link", "10")])
def test_too_thin_a_line_is_exit_three(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    code, out, _ = called(capsys, *arguments)
    assert code == 3
    assert "DOES NOT CARRY IT" in out
    assert json.loads(called(capsys, *arguments, "--json")[1])["status"] == "does not carry it"


def test_parallel_lines_show_one_down(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "--lines", "2", "--link", "10")
    assert code == 0
    assert "one down" in out
    assert "2 x 10" in out


def test_a_plain_kv_size_replaces_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = called(capsys, "--json", "--kv-bytes-per-token", "50000", "--link", "400")
    assert json.loads(out)["kv"] == {"growing_bytes_per_token": 50_000.0, "fixed_bytes": 0.0}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--line", "a-c"), "there is no line 'a-c'"),
        (("--workload", "agentic"), "agentic"),
        (("--model", "deepseek-v9"), "deepseek-v9"),
        (("--kv", "fp99"), "fp99"),
        (("--link", "-3"), "--link"),
        (("--link", "nan"), "--link"),
        (("--json", "--csv", "-"), "more than one output"),
    ],
)
def test_bad_input_is_one_clear_message(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = called(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert said in err
    assert "Traceback" not in err
