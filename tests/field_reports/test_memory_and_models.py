"""Sizes in memory, as users of other planners found them wrong: one test per report (named in its docstring)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pddplan.domain.llm import Llm
from pddplan.domain.plan import Shape
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.instance import FormulaInstance, instance_performance
from pddplan.performance.kv import kv_size
from pddplan.performance.memory import kv_capacity_tokens, memory_budget, sequences_in_memory
from pddplan.performance.parameters import active_parameters, total_parameters, weight_bytes
from pddplan.performance.shape import candidate_shapes
from pddplan.performance.work import linear_flops_per_token
from pddplan.profiles.chip_profile import load_chip
from pddplan.profiles.efficiency_profile import load_efficiency
from pddplan.profiles.hf_config import config_to_llm
from pddplan.profiles.llm_profile import load_llm
from pddplan.units import GIB, GIGA, KIB, MIB, TERA

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


def instance(chip_id: str, llm_id: str, shape: Shape, **dtypes: str) -> FormulaInstance:
    chip = load_chip(chip_id)
    return instance_performance(
        chip=chip,
        llm=load_llm(llm_id),
        shape=shape,
        efficiency=load_efficiency(None, chip),
        weights_dtype=dtypes.get("weights"),
        kv_dtype=dtypes.get("kv"),
    )


def test_a_trillion_parameters_leave_little_room_for_kv() -> None:
    """aiconfigurator#1396: a 1T model in 4 bits on eight B200; the batch must stop where KV memory ends."""
    got = instance("b200-sxm", "kimi-k2.5", Shape(tp=8), weights="fp4")
    assert 8 * got.budget.weights_bytes == pytest.approx(590 * GIGA, rel=0.03)  # parts left in bf16 counted
    for context in (8_192.0, 65_536.0, 131_072.0):
        batch, reason = got.max_batch(context_tokens=context)
        assert reason == "memory"
        held = batch * float(got.kv.rank_bytes(context, ranks=8))
        assert held <= got.budget.kv_bytes < held + float(got.kv.rank_bytes(context, ranks=8))


def test_one_function_says_what_fits() -> None:
    """aiconfigurator#1208: the same arithmetic twice, with different answers."""
    chip, llm = load_chip("h100-sxm"), load_llm("llama-3.1-70b")
    efficiency = load_efficiency(None, chip)
    for shape in candidate_shapes(chip, llm, efficiency=efficiency, context_tokens=32_768.0):
        got = instance("h100-sxm", "llama-3.1-70b", shape)
        fits = sequences_in_memory(got.budget, got.kv, shape=shape, tokens=32_768.0)
        assert fits >= 1
        assert got.max_batch(context_tokens=32_768.0)[0] == min(fits, int(efficiency.max_sequences) * shape.dp)


def test_latent_attention_keeps_seventy_kilobytes_a_token() -> None:
    """aiconfigurator PR#912 and vllm-ascend#2470: 274.5 MiB at 4K, 8.6 GiB at 128K, not six times as much."""
    kv = kv_size(load_llm("deepseek-v3"), "bf16")
    assert kv.growing_bytes_per_token == 61 * (512 + 64) * 2
    assert float(kv.sequence_bytes(4 * KIB)) == pytest.approx(274.5 * MIB, rel=1e-3)
    assert float(kv.sequence_bytes(128 * KIB)) == pytest.approx(8.58 * GIB, rel=1e-3)


def test_hybrid_models_count_kv_per_layer_type() -> None:
    """vllm#28228: of 27 layers only seven keep a growing cache; the others keep a state of fixed size."""
    kv = kv_size(load_llm("kimi-linear-48b-a3b"), "bf16")
    assert kv.growing_bytes_per_token == 7 * (512 + 64) * 2
    assert kv.fixed_bytes > 20 * 32 * 128 * 128  # twenty states of 32 heads, more than a byte a value


def test_activations_and_reserve_are_taken_off_before_kv() -> None:
    """configiq#112: 972,134 KV tokens promised, 626,949 found: what is left is after weights, activations, graphs."""
    got = instance("h100-sxm", "llama-3.1-70b", Shape(tp=8))
    chip, efficiency = load_chip("h100-sxm"), load_efficiency(None, load_chip("h100-sxm"))
    naive = 8 * (chip.memory_bytes * GIB / GIGA * efficiency.memory_utilization - got.budget.weights_bytes)
    true = kv_capacity_tokens(got.budget, got.kv, shape=got.shape)
    assert true < 0.97 * naive / got.kv.growing_bytes_per_token
    assert got.budget.activation_bytes > 0
    assert got.budget.reserve_bytes > 0


def test_four_bit_weights_do_not_make_the_cache_four_bit() -> None:
    """configiq#112: the type of the cache is a choice of its own."""
    narrow = instance("b200-sxm", "llama-3.1-70b", Shape(tp=4), weights="fp4")
    plain = instance("b200-sxm", "llama-3.1-70b", Shape(tp=4))
    assert narrow.kv.growing_bytes_per_token == plain.kv.growing_bytes_per_token == 2 * 80 * 8 * 128 * 2
    assert narrow.budget.weights_bytes < 0.4 * plain.budget.weights_bytes


def test_quantization_config_is_read() -> None:
    """llm-d-benchmark#345: FP8 in the config halves the weights."""
    plain = _imported({})
    narrow = _imported({"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}})
    ratio = weight_bytes(narrow).resident / weight_bytes(plain).resident
    assert 0.5 < ratio < 0.62  # embedding and head stay in bf16


def _imported(more: dict[str, object]) -> Llm:
    return config_to_llm({**LLAMA_8B, **more}, source="config.json", model_id="example").llm


def test_memory_follows_all_parameters_and_compute_the_active_ones() -> None:
    """llmfit#230: a mixture holds 235B and computes with 22B."""
    llm = load_llm("qwen3-235b-a22b")
    assert total_parameters(llm) == pytest.approx(235e9, rel=0.02)
    assert active_parameters(llm) == pytest.approx(22e9, rel=0.03)
    assert weight_bytes(llm).resident == pytest.approx(2 * total_parameters(llm), rel=1e-6)
    assert linear_flops_per_token(llm).total == pytest.approx(2 * active_parameters(llm), rel=0.05)
    assert linear_flops_per_token(llm).total < 0.05 * TERA


def test_memory_share_is_an_input_with_a_source() -> None:
    """LLMServingSim PR#59: 0.9 against 0.8339 of memory moved results by an eighth."""
    chip, llm = load_chip("h100-sxm"), load_llm("llama-3.1-70b")
    efficiency = load_efficiency(None, chip)
    assert efficiency.sources["memory_utilization"]
    less = replace(efficiency, memory_utilization=0.8339)
    weights, shape = weight_bytes(llm), Shape(tp=8)
    budgets = [
        memory_budget(chip, llm, shape=shape, weights=weights, efficiency=e).kv_bytes for e in (efficiency, less)
    ]
    assert budgets[1] == pytest.approx(
        budgets[0] - (efficiency.memory_utilization - 0.8339) * chip.memory_bytes * GIB / GIGA
    )


def test_a_stack_may_cap_the_batch() -> None:
    """vllm-ascend#14440: beyond 256 sequences throughput collapses, whatever memory allows."""
    chip = load_chip("ascend-910b3")
    capped = replace(load_efficiency(None, chip), max_sequences=256.0)
    got = instance_performance(chip=chip, llm=load_llm("qwen3-8b"), shape=Shape(tp=2), efficiency=capped)
    assert got.max_batch(context_tokens=512.0) == (256, "stack")
    assert Efficiency().max_sequences > 0
    assert np.isfinite(Efficiency().max_sequences)
