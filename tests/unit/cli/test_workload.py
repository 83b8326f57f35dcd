"""``pddplan workload``: import, list and show, from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pddplan.cli.main import run
from pddplan.profiles.workload_profile import load_workload

BUNDLED = "weka-agentic-40-sessions"


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(arguments)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    rows = [
        {
            "timestamp": 400 * i,
            "input_length": 512 * (i % 7 + 1),
            "output_length": 20 + i % 9,
            "hash_ids": [i % 3 * 100 + k for k in range(i % 7 + 1)],
        }
        for i in range(400)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


class TestImport:
    def test_a_trace_becomes_a_workload_that_loads(
        self, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "w.yaml"
        code, printed, err = called(
            capsys, "workload", "import", str(trace), "--model", "DeepSeek_V3", "--out", str(out), "--ttft-p90", "3"
        )
        assert (code, printed) == (0, "")
        assert "read as mooncake" in err
        assert "--format overrules" in " ".join(err.split())
        workload = load_workload(out)
        assert workload.llm == "deepseek-v3"
        assert workload.name == "chat"
        assert workload.promises.ttft_p90_s == 3
        assert workload.arrival.rate_rps == pytest.approx(2.5)
        assert workload.provenance["trace"]["rows"] == 400
        assert workload.cache_curve

    def test_to_standard_output_nothing_but_the_workload(self, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, printed, _ = called(capsys, "workload", "import", str(trace), "-m", "deepseek-v3", "--out", "-")
        assert code == 0
        assert printed.startswith("schema: workload/1\n")

    def test_json_summary(self, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, printed, _ = called(
            capsys, "workload", "import", str(trace), "-m", "deepseek-v3", "--out", str(tmp_path / "w.yaml"), "--json"
        )
        data = json.loads(printed)
        assert code == 0
        assert data["requests"] == 400
        assert data["format"] == "mooncake"
        assert sum(b["share"] for b in data["hit_rate"]["bins"]) == pytest.approx(1)

    def test_smaller_caches_hit_less(self, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        rates = []
        for size in ("inf", "3k", "2blocks"):
            _, printed, _ = called(capsys, "workload", "show", str(trace), "--prefill-cache", size, "--json")
            rates.append(json.loads(printed)["hit_rate"]["token_weighted"])
        assert rates[0] >= rates[1] > rates[2]

    def test_no_decode_cache_sends_everything(self, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        _, printed, _ = called(capsys, "workload", "show", str(trace), "--decode-cache", "none", "--json")
        tokens = json.loads(printed)["tokens"]
        assert tokens["miss_decode_tokens"] == tokens["input_tokens"]

    def test_a_faster_rate(self, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = tmp_path / "w.yaml"
        arguments = ("workload", "import", str(trace), "-m", "deepseek-v3", "--out", str(out), "--scale-to-rps", "50")
        assert called(capsys, *arguments)[0] == 0
        assert load_workload(out).arrival.rate_rps == 50

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--model", "deepsek-v3"], "did you mean 'deepseek-"),
            (["--model", "some/file.json"], "takes the id of a model"),
            (["--model", "deepseek-v3", "--prefill-cache", "lots"], "cannot use 'lots'"),
            (["--model", "deepseek-v3", "--prefill-cache", "0"], "cannot use '0'"),
            (["--model", "deepseek-v3", "--routing", "stickey"], "did you mean 'sticky'"),
            (["--model", "deepseek-v3", "--format", "moncake"], "did you mean 'mooncake'"),
            (["--model", "deepseek-v3", "--time-unit", "h"], "unknown time unit"),
            (["--model", "deepseek-v3", "--columns", "input"], "cannot read 'input'"),
            (["--model", "deepseek-v3", "--assume-decode-hit-rate", "0.5"], "without --assume-hit-rate"),
            (["--model", "deepseek-v3", "--assume-hit-rate", "1.5"], "less than or equal to 1"),
            (["--model", "deepseek-v3", "--scale-to-rps", "0"], "greater than 0"),
            (["--model", "deepseek-v3", "--scale-to-rps", "nan"], "finite"),
        ],
    )
    def test_bad_usage(
        self, options: list[str], message: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "w.yaml"
        code, printed, err = called(capsys, "workload", "import", str(trace), "--out", str(out), *options)
        assert (code, printed) == (2, "")
        assert message in err
        assert not out.exists()

    def test_strict_stops_at_a_bad_row(self, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with trace.open("a") as stream:
            stream.write("oops\n")
        out = str(tmp_path / "w.yaml")
        arguments = ("workload", "import", str(trace), "-m", "deepseek-v3", "--out", out)
        assert called(capsys, *arguments)[0] == 0
        code, _, err = called(capsys, *arguments, "--strict")
        assert code == 2
        assert f"{trace}:401" in err

    def test_a_trace_that_tells_no_hits_asks_for_them(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "a.csv"
        path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,48,1\n")
        code, _, err = called(capsys, "workload", "show", str(path))
        assert code == 2
        assert "--assume-hit-rate" in err

    def test_a_client_profile_keeps_its_rate(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "chunk-1-trace.csv").write_text("".join(f"{600 * i},7.5,1.5,Gamma,0,0\n" for i in range(9)))
        lengths = {"input_tokens": "{100: 1.0}", "output_tokens": "{10: 1.0}"}
        (tmp_path / "chunk-1-dataset.json").write_text(json.dumps({"0": lengths}))
        path = str(tmp_path / "chunk-1-trace.csv")
        code, printed, _ = called(capsys, "workload", "show", path, "--assume-hit-rate", "0", "--json")
        assert code == 0
        assert json.loads(printed)["arrival"]["rate_rps"] == pytest.approx(7.5)


NUMBER, NAME = 987654321987, "canary-alice@example.org"


def canaries() -> dict[str, str]:
    """Traces of every kind that can carry ids, each with ids that must be found nowhere else."""
    base = {"session_id": NAME, "input_length": 1024, "output_length": 7}
    lines: dict[str, list[dict[str, object]]] = {
        "mooncake": [{**base, "timestamp": 977 * i, "hash_ids": [NUMBER, NUMBER + 1 + i]} for i in range(80)],
        "texts": [{**base, "timestamp": 977 * i, "hash_ids": [NAME, f"{NAME}{i}"]} for i in range(80)],
        "qwen": [
            {
                "chat_id": NUMBER + i,
                "parent_chat_id": NUMBER + i - 1 if i else -1,
                "timestamp": 1.5 * i,
                "input_length": 32,
                "output_length": 7,
                "hash_ids": [NUMBER, NUMBER + i],
            }
            for i in range(80)
        ],
        "weka": [
            {
                "id": NAME,
                "block_size": 64,
                "hash_id_scope": "local",
                "requests": [
                    {"t": 2.0 * i, "in": 128, "out": 3, "hash_ids": [NUMBER, NUMBER + i], "model": NAME}
                    for i in range(40)
                ],
            }
        ],
        "rounds": [
            {
                "session_id": NAME,
                "round_id": NAME,
                "input_tokens_total": 500,
                "prefix_tokens": 100,
                "output_tokens": 3,
                "timing_events": [{"timestamp": f"2026-06-01T05:40:{i:02d}Z"}],
            }
            for i in range(40)
        ],
        "usage": [
            {
                "id": NAME,
                "created": 1748736000 + i,
                "usage": {"prompt_tokens": 90, "completion_tokens": 4},
                "user": NAME,
            }
            for i in range(40)
        ],
    }
    texts = {f"{name}.jsonl": "".join(json.dumps(row) + "\n" for row in rows) for name, rows in lines.items()}
    head = "timestamp,session_id,request_id,api_key,prompt_tokens,completion_tokens\n"
    texts["log.csv"] = head + "".join(f"{i}.5,{NAME}{i % 3},{NUMBER},{NAME},90,4\n" for i in range(60))
    return texts


@pytest.mark.parametrize("name", canaries())
def test_nothing_of_a_request_reaches_any_output(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pddplan.traces.blocks.MEMORY_BYTES", 64)
    path, out = tmp_path / name, tmp_path / "w.yaml"
    path.write_text(canaries()[name])
    assumed = ["--assume-hit-rate", "0.5"] if name == "usage.jsonl" else []
    seen = []
    for arguments in (
        ["import", str(path), "-m", "deepseek-v3", "--out", str(out), "--scale-to-rps", "2", *assumed],
        ["import", str(path), "-m", "deepseek-v3", "--out", str(out), "--json", *assumed],
        ["show", str(path), "--prefill-instances", "2", *assumed],
        ["show", str(out), "--json"],
    ):
        code, printed, err = called(capsys, "workload", *arguments)
        assert code == 0, err
        seen += [printed, err]
    path.write_text(canaries()[name].replace("[" + json.dumps(NAME), '[{"x": "' + NAME + '"}').replace("90", "-5"))
    seen += called(capsys, "workload", "show", str(path), "--strict", *assumed)[1:]
    seen.append(out.read_text())
    assert {file.name for file in tmp_path.iterdir()} == {name, "w.yaml"}
    for secret in ("canary", "alice", "example.org", str(NUMBER)[:9]):
        assert not [text for text in seen if secret in text]


class TestShow:
    def test_the_page_of_a_bundled_workload(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = called(capsys, "workload", "show", "agentic-64k")
        assert code == 0
        assert "75 % of requests hit > 95 %" in out
        assert "99-100 %" in out
        assert "Assumed, not measured" in out
        assert max(map(len, out.splitlines())) <= 100

    def test_the_page_of_a_trace(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = called(capsys, "workload", "show", BUNDLED)
        assert code == 0
        assert "951 requests, read as mooncake" in out
        assert "knee:" in out
        assert "929 x last partial block has no id" in out

    def test_json_is_pure(self, capsys: pytest.CaptureFixture[str]) -> None:
        for name in ("agentic-64k", "prfaas-lognormal", BUNDLED):
            code, out, err = called(capsys, "workload", "show", name, "--json")
            assert (code, err) == (0, "")
            assert json.loads(out)["reading"]

    def test_unknown_workload(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = called(capsys, "workload", "show", "agentik-64k")
        assert code == 2
        assert "did you mean 'agentic-64k'" in err

    def test_without_block_characters(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from pddplan.report.text_table import Paint, Screen

        plain = Screen(width=80, paint=Paint(), ascii_only=True)
        monkeypatch.setattr(Screen, "of", classmethod(lambda cls, stream: plain))
        code, out, _ = called(capsys, "workload", "show", BUNDLED)
        assert code == 0
        assert out.isascii()
        assert max(map(len, out.splitlines())) <= 80


class TestList:
    def test_names_what_is_bundled(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = called(capsys, "workload", "list")
        assert code == 0
        for name in ("agentic-64k", "prfaas-lognormal", "weka-agentic", BUNDLED):
            assert name in out

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = called(capsys, "workload", "list", "--json")
        data = json.loads(out)
        assert {w["id"] for w in data["workloads"]} >= {"agentic-64k", "uniform-example", "table-example"}
        assert data["traces"] == [BUNDLED]

    def test_a_broken_file_of_the_user_does_not_hide_the_others(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "mine.yaml").write_text("schema: workload/1\nname: mine\n")
        code, out, err = called(capsys, "workload", "list", "--profiles", str(tmp_path))
        assert code == 0
        assert "agentic-64k" in out
        assert "warning: mine is left out" in err


def test_the_bundled_workload_is_what_its_trace_gives(capsys: pytest.CaptureFixture[str]) -> None:
    """workloads/traces/README.md says how weka-agentic.yaml was made; it must still come out the same."""
    arguments = (
        f"workload import {BUNDLED} --model deepseek-v4-pro --name weka-agentic --scale-to-rps 10 "
        "--prefill-cache 20M --decode-cache 20M --ttft-p90 10.5 --ttft-p99 30 --tpot 50 --out -"
    ).split()
    bundled = load_workload("weka-agentic")
    description = bundled.provenance["description"]
    code, out, _ = called(capsys, *arguments, "--description", description)
    path = Path(__file__).resolve().parents[3] / "workloads" / "weka-agentic.yaml"
    assert code == 0
    assert out == path.read_text()
