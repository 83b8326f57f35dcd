"""Result files of load-test clients: what each layout means, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.plan import Shape
from pddplan.errors import InputError
from pddplan.performance.benchmark_files import measurements_of, read_benchmark, runs_of_records
from pddplan.performance.benchmark_run import BenchmarkRun

VLLM = {
    "date": "20261130-163546", "backend": "vllm", "model_id": "m", "num_prompts": 40, "request_rate": "inf",
    "max_concurrency": 4, "completed": 40, "total_input_tokens": 16_000, "total_output_tokens": 2400,
    "request_throughput": 6.0, "mean_ttft_ms": 50.0, "mean_tpot_ms": 9.0,
}  # fmt: skip


def read(tmp_path: Path, content: Any, name: str = "r.json") -> list[BenchmarkRun]:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_benchmark(path)


def test_vllm_closed_loop(tmp_path: Path) -> None:
    (run,) = read(tmp_path, VLLM)
    assert (run.client, run.input_tokens, run.output_tokens) == ("vllm", 400, 60)
    assert (run.tpot_s, run.ttft_s, run.in_flight, run.closed_loop) == (0.009, 0.05, 4, True)
    kinds = [m.kind for m in measurements(run)]
    assert kinds == ["tpot", "ttft", "throughput_e2e"]


def measurements(run: BenchmarkRun) -> list[Any]:
    return measurements_of(
        run, chip="h100-sxm", llm="llama-3.1-8b", shape=Shape(), framework="vllm", weights_dtype=None, kv_dtype=None
    )


def test_open_loop_uses_littles_law_and_no_throughput(tmp_path: Path) -> None:
    (run,) = read(tmp_path, {**VLLM, "request_rate": 6.2, "max_concurrency": None})
    assert run.in_flight == pytest.approx(6.0 * (0.05 + 59 * 0.009))
    assert "throughput_e2e" not in [m.kind for m in measurements(run)]


@pytest.mark.parametrize("key", ["accept_length", "spec_decode_acceptance_length"])
def test_runs_with_speculative_decoding_are_told_since_their_steps_make_several_tokens(
    tmp_path: Path, key: str
) -> None:
    (run,) = read(tmp_path, {**VLLM, key: 2.4})
    assert "speculative decoding (2.4 tokens a step)" in run.remark
    (plain,) = read(tmp_path, {**VLLM, key: None})
    assert plain.remark == ""


def test_other_spellings_of_the_same_vllm_run(tmp_path: Path) -> None:
    """Older and newer releases, and what people save themselves: same numbers."""
    (plain,) = read(tmp_path, VLLM)
    without_rate = {k: v for k, v in VLLM.items() if k != "request_throughput"} | {"duration": 40 / 6.0}
    medians = {k: v for k, v in VLLM.items() if not k.startswith("mean_")} | {"p50_tpot_ms": 9.0, "p50_ttft_ms": 50.0}
    endless = json.dumps({**VLLM, "request_rate": float("inf")})
    for content in (without_rate, medians, endless, [VLLM]):
        (run,) = read(tmp_path, content)
        for name in ("tpot_s", "ttft_s", "rate_rps", "in_flight", "closed_loop", "requests"):
            assert getattr(run, name) == pytest.approx(getattr(plain, name)), name


def test_failed_requests_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, {**VLLM, "completed": 0, "failed": 40})
    assert "no completed request" in caught.value.problems[0].what
    (run,) = read(tmp_path, {**VLLM, "failed": 10})
    assert run.remark == "10 of 50 requests failed"
    (run,) = read(tmp_path, {**VLLM, "failed": 1})
    assert run.remark == ""


def test_a_line_cut_off_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, json.dumps(VLLM) + "\n" + json.dumps(VLLM)[:50], "r.jsonl")
    assert (caught.value.problems[0].where or "").endswith("r.jsonl:2")


def test_overload_and_missing_tokens_are_told(tmp_path: Path) -> None:
    (slow,) = read(tmp_path, {**VLLM, "request_rate": 60.0, "max_concurrency": None})
    assert "overloaded" in slow.remark
    bare = {k: v for k, v in VLLM.items() if not k.startswith("total_")}
    assert "token counts" in read(tmp_path, bare)[0].remark


def test_tpot_is_put_right_where_a_client_counts_events(tmp_path: Path) -> None:
    (run,) = read(tmp_path, {**VLLM, "mean_tpot_ms": 4.5, "mean_e2el_ms": 50.0 + 59 * 9.0})
    assert run.tpot_s == pytest.approx(0.009)
    assert "latencies say 9.00 ms" in run.corrected


def test_sglang_appends_runs(tmp_path: Path) -> None:
    line = json.dumps({**VLLM, "backend": "sglang", "random_input_len": 700, "mean_e2e_latency_ms": 581.0})
    runs = read(tmp_path, f"{line}\n{line}\n", "r.jsonl")
    assert [r.client for r in runs] == ["sglang", "sglang"]


def test_aiperf_in_both_layouts_and_as_csv(tmp_path: Path) -> None:
    def metric(value: float, unit: str) -> dict[str, Any]:
        return {"avg": value, "unit": unit}

    metrics = {
        "request_latency": metric(590, "ms"), "time_to_first_token": metric(50, "ms"),
        "inter_token_latency": metric(9, "ms"), "input_sequence_length": metric(400, "tokens"),
        "output_sequence_length": metric(61, "tokens"), "request_throughput": metric(6, "requests/sec"),
        "request_count": metric(40, "requests"),
    }  # fmt: skip
    older = {"ttft" if k == "time_to_first_token" else k: v for k, v in metrics.items()}
    table = (
        "Metric,avg,min\nInput Sequence Length (tokens),400,1\nOutput Sequence Length (tokens),61,1\n"
        "Inter Token Latency (ms),9,1\nTime to First Token (ms),50,1\nRequest Latency (ms),590,1\n\n"
        "Metric,Value\nRequest Throughput (requests/sec),6\nRequest Count,40\n"
    )
    for content, name in ((metrics, "a.json"), ({"records": older}, "b.json"), (table, "c.csv")):
        (run,) = read(tmp_path, content, name)
        assert (run.input_tokens, run.output_tokens, run.requests) == (400, 61, 40)
        assert run.tpot_s == pytest.approx(0.009)
        assert run.in_flight == pytest.approx(6 * 0.59)


def test_aiperf_requests_leave_warm_up_and_failures_out(tmp_path: Path) -> None:
    def line(phase: str, start_s: float, **more: Any) -> str:
        metrics = {
            "request_latency": {"value": 1000.0, "unit": "ms"}, "time_to_first_token": {"value": 100.0, "unit": "ms"},
            "inter_token_latency": {"value": 10.0, "unit": "ms"},
            "input_sequence_length": {"value": 500, "unit": "tokens"},
            "output_sequence_length": {"value": 91, "unit": "tokens"},
        }  # fmt: skip
        meta = {"benchmark_phase": phase, "request_start_ns": start_s * 1e9}
        return json.dumps({"metadata": meta, "metrics": metrics, **more})

    text = "\n".join(
        [line("warmup", 0), line("profiling", 1), line("profiling", 2), line("profiling", 9, error={"code": 1})]
    )
    (run,) = read(tmp_path, text, "p.jsonl")
    assert (run.requests, run.tpot_s) == (2, 0.01)
    assert run.in_flight == pytest.approx(1.0)


def test_inference_perf_stage(tmp_path: Path) -> None:
    stage = {
        "load_summary": {"requested_rate": 10.0, "achieved_rate": 10.0},
        "successes": {
            "count": 600, "throughput": {"requests_per_sec": 10.0},
            "prompt_len": {"mean": 200.0}, "output_len": {"mean": 61.0},
            "latency": {
                "request_latency": {"mean": 0.65}, "time_to_first_token": {"mean": 0.05},
                "time_per_output_token": {"mean": 0.005},
            },
        },
    }  # fmt: skip
    (run,) = read(tmp_path, stage)
    assert run.tpot_s == pytest.approx(0.01)
    assert run.in_flight == pytest.approx(6.5)
    del stage["successes"]["latency"]  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="lifecycle"):
        read(tmp_path, stage)


def guidellm(version: int | None, **bench: Any) -> dict[str, Any]:
    def mean(value: float) -> dict[str, Any]:
        return {"successful": {"mean": value}}

    metrics = {
        "requests_per_second": mean(2.0), "request_concurrency": mean(4.0), "request_latency": mean(2.0),
        "prompt_token_count": mean(500), "output_token_count": mean(101), "time_to_first_token_ms": mean(100.0),
        "inter_token_latency_ms": mean(19.0),
    }  # fmt: skip
    report: dict[str, Any] = {"benchmarks": [{"metrics": metrics | bench.pop("metrics", {}), **bench}]}
    return report if version is None else report | {"metadata": {"version": version}}


def test_guidellm_layouts(tmp_path: Path) -> None:
    """The first releases wrote no version and counted requests elsewhere; unknown versions are refused."""
    counts = {"metrics": {"request_totals": {"successful": 60}}}
    older = {"run_stats": {"requests_made": {"successful": 60}}}
    for report in (guidellm(2, **counts), guidellm(1, **older), guidellm(None, **older)):
        (run,) = read(tmp_path, report)
        assert (run.requests, run.input_tokens, run.in_flight) == (60, 500, 4.0)
        assert run.tpot_s == pytest.approx(0.019)
    with pytest.raises(InputError, match="versions 1 and 2 are read"):
        read(tmp_path, guidellm(3, **counts))


def llmd(*, version: str = "0.2.1", replicas: int = 1, units: str = "s/token") -> dict[str, Any]:
    latency = {
        "time_to_first_token": {"mean": 0.1, "units": "s"},
        "time_per_output_token": {"mean": 0.01, "units": units},
        "request_latency": {"mean": 1.09, "units": "s"},
    }
    requests = {"total": 500, "failures": 10, "input_length": {"mean": 800}, "output_length": {"mean": 100}}
    total = {"latency": latency, "requests": requests, "throughput": {"request_rate": {"mean": 5.0}}}
    engine = {"standardized": {"kind": "inference_engine", "replicas": replicas}}
    return {
        "version": version,
        "results": {"request_performance": {"aggregate": total}},
        "scenario": {"stack": [engine, {"standardized": {"kind": "router", "replicas": 3}}]},
    }


def test_reports_of_llmd(tmp_path: Path) -> None:
    (run,) = read(tmp_path, llmd())
    assert (run.client, run.requests, run.input_tokens, run.output_tokens, run.remark) == ("llm-d", 490, 800, 100, "")
    assert run.tpot_s == pytest.approx(0.01)
    assert run.ttft_s == pytest.approx(0.1)
    assert run.in_flight == pytest.approx(5 * 1.09)
    (slow,) = read(tmp_path, llmd(units="ms/token"))
    assert "latencies say 10.00 ms" in slow.corrected
    (several,) = read(tmp_path, llmd(replicas=2))
    assert "2 engine instances" in several.remark  # not a run of one instance: told, not used
    with pytest.raises(InputError, match="versions 0.2 are read"):
        read(tmp_path, llmd(version="0.1"))
    with pytest.raises(InputError, match="is in 'minutes'"):
        read(tmp_path, llmd(units="minutes"))
    assert runs_of_records([llmd()], "report.yaml")[0].where == "report.yaml"
    with pytest.raises(InputError, match="not a report of a client that writes YAML"):
        runs_of_records([{"api": {}}], "config.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "MLPerf Results Summary\nMean First Token latency (ns) : 50000000\nMean Time per Output Token (ns) : 8000000",
        ':::MLLOG {"key": "result_first_token_mean_latency_ns", "value": 50000000}\n'
        ':::MLLOG {"key": "result_time_to_output_token_mean", "value": 8000000}',
    ],
)
def test_mlperf_logs_are_refused_with_what_they_say(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"how long the prompts were \(it says TTFT 0.05 s, TPOT 8 ms\)"):
        read(tmp_path, text, "mlperf_log.txt")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"elapsed_time": 1, "num_requests": 2, "tokens_per_second": 3}, "vllm bench throughput"),
        ({"avg_latency": 1, "latencies": [1], "percentiles": {}}, "vllm bench latency"),
        ({"run_name": "x", "batch_size": 1, "input_len": 10, "prefill_latency": 0.1}, "sglang.bench_one_batch"),
    ],
)
def test_offline_results_are_refused_by_name(tmp_path: Path, content: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(tmp_path, content)


@pytest.mark.parametrize("content", ["", "{}", "[]", "nonsense", '{"a": 1}', "[1, 2]", "null", '"text"'])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError):
        read(tmp_path, content)


@given(
    changes=st.dictionaries(
        st.sampled_from(sorted(VLLM)),
        st.none() | st.text(max_size=3) | st.floats() | st.lists(st.integers(), max_size=2),
        max_size=4,
    )
)
def test_hostile_fields_never_crash(tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("hostile") / "r.json"
    path.write_text(json.dumps({**VLLM, **changes}), encoding="utf-8")
    try:
        runs = read_benchmark(path)
    except InputError:
        return
    assert all(run.requests > 0 for run in runs)


def test_published_runs(shared_dir: Path) -> None:
    folder = shared_dir / "bench_results"
    if not folder.is_dir():
        pytest.skip("no result files beside the checkout")
    stage = read_benchmark(folder / "inference_perf" / "vllm" / "stage_1_lifecycle_metrics.json")[0]
    assert stage.tpot_s == pytest.approx(0.00842, rel=0.01)  # the client says half of it
    for name in ("profile_export.jsonl", "profile_export_aiperf.csv", "profile_export_aiperf.json"):
        (run,) = read_benchmark(folder / "aiperf_2025_10" / name)
        assert (run.requests, run.tpot_s) == (89, pytest.approx(0.02776, rel=0.01))
    assert len(read_benchmark(folder / "guidellm_0.8_report_v2" / "guidellm_report_v2.json")) == 2
    assert len(read_benchmark(folder / "mock_server" / "sglang_bench_serving_0.5.23" / "result.jsonl")) == 2
