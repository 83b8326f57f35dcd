"""Real traces: the numbers their collection states, and what each file is known to hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pddplan.traces.arrival_pattern import arrival_pattern
from pddplan.traces.caching import CachePolicy, replay
from pddplan.traces.classes import build_classes, fit_of, marginals_of
from pddplan.traces.misses import find_misses
from pddplan.traces.reading import ReadOptions, read_trace
from pddplan.traces.trace import Trace

# file: block, then (mean hit, by tokens) for an unbounded cache, LRU of 1e4 blocks and of 1e5 blocks
REFERENCE = {
    "mooncake/conversation_trace.jsonl.gz": (512, (0.40938, 0.37362), (0.29719, 0.21575), (0.40797, 0.37084)),
    "mooncake/synthetic_trace.jsonl": (512, (0.43152, 0.65124), (0.29108, 0.43176), (0.43152, 0.65124)),
    "mooncake/arxiv_trace_rows_93.jsonl": (512, (0.52295, 0.36632), (0.52295, 0.36632), (0.52295, 0.36632)),
    "weka_agentic/mooncake_style_40_sessions.jsonl.gz": (
        64,
        (0.92201, 0.93182),
        (0.70380, 0.64465),
        (0.92201, 0.93182),
    ),
    "qwen_bailian_format/from_weka_16_sessions.jsonl.gz": (
        16,
        (0.85915, 0.88763),
        (0.34353, 0.27223),
        (0.85915, 0.88763),
    ),
}
CAPACITIES = (None, 10_000, 100_000)
_read: dict[str, Trace] = {}


def trace_of(shared_dir: Path, name: str) -> Trace:
    path = shared_dir / "traces" / name
    if not path.exists():
        pytest.skip(f"{name} is not there")
    if name not in _read:
        _read[name] = read_trace(path)
    return _read[name]


@pytest.mark.parametrize("name", REFERENCE)
def test_hit_rates_are_those_the_collection_states(shared_dir: Path, name: str) -> None:
    trace = trace_of(shared_dir, name)
    block, *expected = REFERENCE[name]
    assert trace.block_tokens == block
    for capacity, (mean, weighted) in zip(CAPACITIES, expected, strict=True):
        result = replay(trace, CachePolicy(capacity_blocks=capacity))
        assert round(float((result.hit_tokens / trace.input_tokens).mean()), 5) == mean
        assert round(float(result.hit_tokens.sum() / trace.input_tokens.sum()), 5) == weighted


@pytest.mark.parametrize("name", ["mooncake/conversation_trace.jsonl.gz", "mooncake/arxiv_trace_rows_93.jsonl"])
def test_the_curve_is_what_replay_at_each_capacity_gives(shared_dir: Path, name: str) -> None:
    trace = trace_of(shared_dir, name)
    curve = replay(trace, CachePolicy())
    for capacity in (1, 7, 100, 3_000, 20_000, 10**6):
        at = replay(trace, CachePolicy(capacity_blocks=capacity)).hit_tokens.sum() / trace.input_tokens.sum()
        assert float(curve.token_hit_fraction(capacity)) == pytest.approx(float(at), abs=1e-12)


@pytest.mark.parametrize("name", REFERENCE)
def test_classes_keep_means_and_percentiles(shared_dir: Path, name: str) -> None:
    trace = trace_of(shared_dir, name)
    misses = find_misses(trace, prefill=CachePolicy(), decode=CachePolicy(keep_generated=True))
    columns = {
        "input_tokens": trace.input_tokens,
        "miss_prefill_tokens": misses.prefill_tokens,
        "miss_decode_tokens": misses.decode_tokens,
        "output_tokens": trace.output_tokens,
    }
    classes = build_classes(**columns)
    assert classes.count <= 64
    assert fit_of(classes, marginals_of(*columns.values())).worst_relative_error < 0.02
    assert classes.mean(classes.input_tokens) == pytest.approx(trace.input_tokens.mean(), rel=0.005)
    # second moments decide queues: the spread must survive, not only means
    second = float(np.mean(misses.prefill_tokens.astype(float) ** 2))
    assert classes.mean(classes.miss_prefill_tokens**2) == pytest.approx(second, rel=0.03)


def test_a_coarse_clock_is_not_taken_for_bursts(shared_dir: Path) -> None:
    trace = trace_of(shared_dir, "mooncake/conversation_trace.jsonl.gz")
    assert trace.time_s is not None
    pattern = arrival_pattern(trace.time_s)
    assert pattern is not None
    assert pattern.grid_s == pytest.approx(3.0, abs=0.01)
    assert pattern.raw_scv**0.5 == pytest.approx(3.03, abs=0.01)
    assert pattern.scv**0.5 == pytest.approx(1.01, abs=0.02)
    assert pattern.raw_dispersion[10.0] == pytest.approx(2.1, abs=0.05)
    assert pattern.raw_dispersion[60.0] == pytest.approx(2.9, abs=0.05)


@pytest.mark.parametrize(
    ("name", "cv"), [("AzureLLMInferenceTrace_code_first.csv", 13.0), ("AzureLLMInferenceTrace_conv_first.csv", 1.1)]
)
def test_azure_burstiness(shared_dir: Path, name: str, cv: float) -> None:
    trace = trace_of(shared_dir, f"azure/{name}")
    assert trace.time_s is not None
    pattern = arrival_pattern(trace.time_s, clock_start_s=trace.clock_start_s)
    assert pattern is not None
    assert pattern.scv**0.5 == pytest.approx(cv, rel=0.05)


@pytest.mark.parametrize(
    ("name", "file_format", "requests", "oddities"),
    [
        (
            "mooncake/conversation_trace.jsonl.gz",
            "mooncake",
            12031,
            {"requests at the same instant as the one before": 10851, "exact duplicates of another row (kept)": 1},
        ),
        ("mooncake/arxiv_trace_rows_93.jsonl", "mooncake", 93, {}),
        ("azure/AzureLLMInferenceTrace_code_first.csv", "azure", 6118, {"no line end after the last row": 1}),
        ("azure/AzureLLMInferenceTrace_conv_first.csv", "azure", 11997, {"no line end after the last row": 1}),
        ("burstgpt/BurstGPT_format_sample.csv", "burstgpt", 3, {}),
        ("lengths_only/arxiv_summarization_llama2_first5000.csv", "lengths", 5000, {}),
        ("lengths_only/sharegpt_llama31_8b_300_sps10.csv", "llmservingsim", 300, {}),
        ("usage_log/exgentic_tau2_retail_usage.csv", "usage-log", 171, {}),
        ("tracelab/round_trace_sanitized_example.jsonl", "tracelab-rounds", 19, {}),
        ("tracelab/session_workload_example.csv", "tracelab-sessions", 11, {}),
        ("tracelab/multi_session_example.csv", "tracelab-sessions", 8, {}),
        ("weka_agentic/original_files/trace_0291.json", "weka", 32, {"last partial block has no id": 29}),
        (
            "weka_agentic/mooncake_style_40_sessions.jsonl.gz",
            "mooncake",
            951,
            {"zero output tokens (counted as 1)": 1},
        ),
        ("qwen_bailian_format/from_weka_16_sessions.jsonl.gz", "qwen-bailian", 170, {}),
    ],
)
def test_each_format_is_recognised_and_its_oddities_counted(
    shared_dir: Path, name: str, file_format: str, requests: int, oddities: dict[str, int]
) -> None:
    trace = trace_of(shared_dir, name)
    assert (trace.format, trace.count) == (file_format, requests)
    assert sum(trace.skipped.values()) == 0
    for what, count in oddities.items():
        assert trace.oddities[what] == count


def test_sub_agents_start_when_their_parent_starts_them(shared_dir: Path) -> None:
    import json

    path = shared_dir / "traces/weka_agentic/original_files/trace_0291.json"
    trace = trace_of(shared_dir, "weka_agentic/original_files/trace_0291.json")
    session = json.loads(path.read_text())
    expected = []
    for request in session["requests"]:
        if "requests" in request:
            expected += [request["t"] + inner["t"] for inner in request["requests"]]
        else:
            expected.append(request["t"])
    assert len(expected) > sum("requests" not in r for r in session["requests"])
    assert trace.time_s is not None
    assert trace.time_s == pytest.approx(np.sort(expected) - min(expected))


def test_provider_reported_hits_are_taken_as_they_are(shared_dir: Path) -> None:
    trace = trace_of(shared_dir, "tracelab/session_workload_example.csv")
    assert trace.hit_tokens is not None
    assert trace.input_tokens[0] == 12461 + 5875
    misses = find_misses(trace, prefill=CachePolicy(), decode=CachePolicy(keep_generated=True))
    assert misses.prefill_tokens[0] == 5875
    assert (misses.decode_tokens <= misses.prefill_tokens).all()


def test_client_profiles_give_rates_and_lengths(shared_dir: Path) -> None:
    folder = shared_dir / "traces/servegen"
    both = read_trace(folder / "deepseek-r1")
    one = read_trace(folder / "deepseek-r1/chunk-48-trace.csv")
    same = read_trace(folder / "deepseek-r1/chunk-48-dataset.json")
    assert one.count == same.count
    assert both.given_arrival is not None
    assert one.given_arrival is not None
    assert both.given_arrival.trace_rate_rps >= one.given_arrival.trace_rate_rps
    assert both.given_arrival.hourly_profile is not None
    assert np.mean(both.given_arrival.hourly_profile) == pytest.approx(1.0)


def test_wrong_block_size_is_refused_with_the_line(shared_dir: Path) -> None:
    from pddplan.errors import InputError

    path = shared_dir / "traces/mooncake/arxiv_trace_rows_93.jsonl"
    with pytest.raises(InputError) as error:
        read_trace(path, ReadOptions(block_tokens=64, strict=True))
    assert error.value.problems[0].where == f"{path}:1"
    assert "input tokens / 64" in error.value.problems[0].what
