"""KV capacity as engines log it at start ("GPU KV cache size: N tokens"), against the memory model."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pddplan.domain.plan import Shape
from pddplan.performance.kv import kv_size
from pddplan.performance.memory import kv_capacity_tokens, memory_budget
from pddplan.performance.parameters import weight_bytes
from pddplan.profiles.chip_profile import load_chip
from pddplan.profiles.efficiency_profile import load_efficiency
from pddplan.profiles.llm_profile import load_llm
from pddplan.units import GIB


@dataclass(frozen=True)
class Log:
    """What was started, and the tokens that the engine found room for."""

    chip: str
    llm: str
    tokens: int
    source: str
    tp: int = 1
    weights: str = "bf16"
    kv: str = "bf16"
    stack: str = "vllm"
    utilization: float = 0.9
    chunk_tokens: int = 8192
    """vLLM's own default: 8,192 on chips of 70 GB or more except A100, else 2,048."""
    allowed: float = 0.03


LOGS = (
    Log("a100-40g", "llama-3.1-8b", 163_168, "vLLM, notes of a research team, GCP, 2026-05", chunk_tokens=2048),
    Log("h100-nvl", "llama-3.1-8b", 545_456, "vLLM, the same notes, 2026-05"),
    Log("h100-sxm", "qwen3-32b", 306_528, "vLLM 0.26, notes of a user, 2026-08", weights="fp8", kv="fp8"),
    Log(
        "h100-sxm", "qwen3-235b-a22b", 367_404, "vllm-project/vllm#21348", tp=4, weights="fp8", stack="sglang",
        utilization=0.93, allowed=0.08,
    ),
)  # fmt: skip


def capacity_tokens(log: Log) -> float:
    chip, llm = load_chip(log.chip), load_llm(log.llm)
    efficiency = replace(
        load_efficiency(log.stack, chip), memory_utilization=log.utilization, chunk_tokens=float(log.chunk_tokens)
    )
    shape = Shape(tp=log.tp)
    budget = memory_budget(chip, llm, shape=shape, weights=weight_bytes(llm, log.weights), efficiency=efficiency)
    return kv_capacity_tokens(budget, kv_size(llm, log.kv), shape=shape)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.llm} on {log.tp} x {log.chip}")
def test_tokens_that_fit_are_those_the_engine_logs(log: Log) -> None:
    assert capacity_tokens(log) == pytest.approx(log.tokens, rel=log.allowed), log.source


def test_the_log_that_comes_with_the_benchmarks(shared_dir: Path) -> None:
    """vLLM 0.19 on an RTX 4090; its card reports 2 % less memory than its name says."""
    path = shared_dir / "bench_results/llmservingsim_vllm_per_request/RTX4090_Llama-3.1-8B/meta.json"
    meta = json.loads(path.read_text(encoding="utf-8"))
    logged, arguments = meta["kv_cache"], meta["engine_kwargs"]
    ours = Log(
        "rtx-4090", "llama-3.1-8b", logged["num_kv_tokens"], path.parent.name,
        utilization=logged["gpu_memory_utilization"], chunk_tokens=arguments["max_num_batched_tokens"],
    )  # fmt: skip
    assert logged["num_kv_tokens"] == logged["num_gpu_blocks"] * logged["block_size"]
    assert capacity_tokens(ours) == pytest.approx(ours.tokens, rel=0.03)


@pytest.mark.parametrize(
    ("llm", "dtype", "tp", "gib", "tokens"),
    [
        ("kimi-k2.5", "bf16", 8, 160.63, 2_454_421),  # SGLang, 8 chips of 288 GB, 2026-02: latents are copied
        ("deepseek-v3", "fp8", 1, 17.16, 524_288),  # SGLang, one attention rank, 2025-11
        ("qwen3-235b-a22b", "bf16", 4, 8.11, 178_880),  # vllm-project/vllm#21348: K and V heads are shared out
        ("qwen3-32b", "fp8", 1, 37.42, 306_528),
        ("llama-3.1-8b", "bf16", 1, 19.92, 163_168),
    ],
)
def test_bytes_per_token_of_logged_pools(llm: str, dtype: str, tp: int, gib: float, tokens: int) -> None:
    size = kv_size(load_llm(llm), dtype)
    far = 1_000_000.0
    per_token = float(size.rank_bytes(2 * far, ranks=tp) - size.rank_bytes(far, ranks=tp)) / far
    assert per_token == pytest.approx(gib * GIB / tokens, rel=0.012)


def test_pages_of_compressed_attention_in_vllm() -> None:
    """DeepSeek-V4-Flash, vllm-project/vllm#54703: a page of 256 tokens over all layers with entries and index keys.

    vLLM pads its pages, and keeps index keys in fp8 unless told otherwise.
    """
    size = kv_size(load_llm("deepseek-v4-flash"), "fp8-index-fp8")
    page = float(size.rank_bytes(2.0**20 + 256, ranks=1) - size.rank_bytes(2.0**20, ranks=1))
    assert page == 985_664 == pytest.approx(1_002_240, rel=0.02)


@pytest.mark.parametrize(("shape", "logged"), [(Shape(tp=8, ep=8), 20.43), (Shape(tp=1, dp=8, ep=8), 156.9)], ids=str)
def test_logged_concurrency_of_compressed_attention_holds_a_reserve(shape: Shape, logged: float) -> None:
    """DeepSeek-V4-Flash on 8 x B200, vllm-project/recipes#762: requests of 2^20 tokens at a utilisation of 0.95.

    vLLM counts for each request what a prefill of 8,192 tokens may have in flight (some 3.2 GB: fits to logs of two
    other machines, vllm-project/vllm#51041 and a report on DGX Spark), so that its log is no capacity for decoding.
    """
    chip, llm = load_chip("b200-sxm"), load_llm("deepseek-v4-flash")
    efficiency = replace(load_efficiency("vllm", chip), memory_utilization=0.95)
    budget = memory_budget(chip, llm, shape=shape, weights=weight_bytes(llm), efficiency=efficiency)
    per_request = float(kv_size(llm, "fp8-index-fp8").rank_bytes(2.0**20, ranks=shape.tp)) + 3.2e9
    assert budget.kv_bytes / per_request * shape.dp == pytest.approx(logged, rel=0.1)
