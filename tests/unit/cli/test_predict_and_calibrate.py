"""``pddplan predict`` and ``pddplan calibrate`` from the command line: outputs, exit codes, an overlay used again."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from pddplan.cli.main import run

HEADER = (
    "source,date,kind,model,weights_dtype,kv_dtype,chip,n_chips,tp,pp,dp,ep,framework,isl_tokens,prefix_tokens,"
    "osl_tokens,batch_or_concurrency,value,unit,note"
)


def line(batch: int, value: str, *, chip: str = "h100_sxm") -> str:
    start = f"mine,2026-01,decode_step,llama-3.1-8b,bf16,bf16,{chip},1,1,1,1,1,vllm 0.12,2000,0,1"
    return f"{start},{batch},{value},ms,mode=static"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    rows = [line(1, "8.1"), line(16, "9.6"), line(64, "13.9"), line(64, "", chip="h900"), line(8, "")]
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return path


def test_predict_prints_a_summary_and_every_reason(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", str(table)]) == 0
    out = capsys.readouterr().out
    assert "5 rows, 4 predicted, 1 not predicted" in out
    assert "unknown chip 'h900'" in out
    assert "h100_sxm / vllm-2025" in out


def test_predict_keeps_all_rows_and_columns(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", str(table), "--out", "-"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 5
    assert list(rows[0])[:20] == HEADER.split(",")
    assert float(rows[4]["predicted"]) > 0
    assert rows[4]["error_percent"] == ""
    assert rows[3]["predicted"] == ""
    assert "h900" in rows[3]["remark"]
    assert "gemm=" in rows[0]["terms_ms"]


def test_predict_json_is_pure(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", str(table), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["summary"]["not_predicted"] == 1
    assert data["summary"]["sections"]["scored"]["rows"] == 3


def test_another_stack_predicts_otherwise(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = []
    for stack in ("vllm-2025", "eager-2023"):
        assert run(["predict", str(table), "--stack", stack, "--out", "-"]) == 0
        values.append(float(next(csv.DictReader(io.StringIO(capsys.readouterr().out)))["predicted"]))
    assert values[1] > values[0]


@pytest.mark.parametrize("arguments", [["predict", "missing.csv"], ["predict", "x.csv", "--json", "--out", "-"]])
def test_bad_usage_exits_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert "fix:" in capsys.readouterr().err


def test_calibrate_writes_an_overlay_that_predicts_better(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    overlay = folder / "mine.yaml"
    arguments = ["calibrate", "--chip", "h100-sxm", "--model", "llama-3.1-8b", str(table), "--out", str(overlay)]
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert "5 rows, 4 of llama-3.1-8b on h100-sxm" in out
    assert "95 % interval" in out
    errors = []
    for extra in ([], ["--profiles", str(folder)]):
        assert run(["predict", str(table), "--json", *extra]) == 0
        errors.append(json.loads(capsys.readouterr().out)["summary"]["sections"]["scored"]["mape_percent"])
    assert errors[1] < errors[0]
    assert "kind: measured" in overlay.read_text(encoding="utf-8")


def test_calibrate_says_when_nothing_fits(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "--chip", "h100-sxm", "--model", "qwen3-32b", str(table)]) == 2
    assert "no measurement can be used" in capsys.readouterr().err


def test_a_table_of_another_model_is_named(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", str(table), "--chip", "h100-sxm", "--model", "llama-3.1-70b"]) == 2
    said = capsys.readouterr().err
    assert "0 of llama-3.1-70b on h100-sxm" in said
    assert "its rows are of llama-3.1-8b on h100_sxm" in said


def test_weights_that_no_chip_could_hold_are_not_fitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "large.csv"
    one_chip = line(1, "8.1").replace("llama-3.1-8b", "glm-4.5")
    path.write_text(f"{HEADER}\n{one_chip}\n", encoding="utf-8")
    assert run(["calibrate", "--chip", "h100-sxm", "--model", "glm-4.5", str(path)]) == 2
    said = capsys.readouterr().err
    assert "GB of weights a chip exceed the 86 GB of h100-sxm at TP1" in said
    assert "--tp" in said


def test_weights_that_leave_little_room_are_fitted_with_a_doubt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tight.csv"
    model = "qwen3-next-80b-a3b"
    tight = [line(batch, ms).replace("llama-3.1-8b,bf16", f"{model},fp8") for batch, ms in ((1, "9"), (4, "12"))]
    path.write_text("\n".join([HEADER, *tight]) + "\n", encoding="utf-8")
    assert run(["calibrate", "--chip", "h100-sxm", "--model", model, str(path)]) == 0
    out = capsys.readouterr().out
    assert "used, with a doubt" in out
    assert "leave no room" in out
