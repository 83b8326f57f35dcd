"""Families whose layers differ from one another: which layer is of which kind, and what each keeps, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from pddplan.domain.llm import (
    CompressedAttention,
    DenseFeedForward,
    GroupedAttention,
    LatentAttention,
    Llm,
    RecurrentKind,
    RecurrentMixer,
)
from pddplan.errors import InputError
from pddplan.performance.kv import kv_size
from pddplan.profiles.hf_config import config_to_llm

BASE: dict[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 32_000,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 100_000,
}
MLA: dict[str, Any] = {
    "kv_lora_rank": 512,
    "q_lora_rank": 256,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
V4: dict[str, Any] = {
    "model_type": "deepseek_v4",
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "q_lora_rank": 256,
    "o_lora_rank": 128,
    "o_groups": 4,
    "sliding_window": 128,
    "index_n_heads": 8,
    "index_head_dim": 128,
    "index_topk": 512,
}
MAMBA2: dict[str, Any] = {
    "mamba_n_heads": 32,
    "mamba_d_head": "auto",
    "mamba_expand": 2,
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
}
ONE_LAYER = 2 * 4 * 64 * 2
"""K and V of four heads of 64 in bf16."""


def load(**config: Any) -> Llm:
    return config_to_llm(BASE | config, source="config.json", model_id="m").llm


def faults(**config: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(**config)
    return str(caught.value)


def kinds(llm: Llm) -> dict[str, int]:
    found: dict[str, int] = {}
    for group in llm.layers:
        match group.attention:
            case GroupedAttention(window=int()):
                word = "window"
            case GroupedAttention(chunk=int()):
                word = "chunk"
            case GroupedAttention() | LatentAttention():
                word = "full"
            case RecurrentMixer() as mixer:
                word = mixer.kind.value
            case CompressedAttention() as compressed:
                word = f"ratio {compressed.ratio}"
            case None:
                word = "none"
        found[word] = found.get(word, 0) + group.count
    return found


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "afmoe", "global_attn_every_n_layers": 4, "sliding_window": 512}, {"window": 9, "full": 3}),
        ({"model_type": "dots1", "sliding_window": 512, "max_window_layers": 8}, {"full": 8, "window": 4}),
        ({"model_type": "gemma2", "sliding_window": 512}, {"window": 6, "full": 6}),
        ({"model_type": "olmo3", "sliding_window": 512}, {"window": 9, "full": 3}),
        ({"model_type": "exaone4", "sliding_window": None}, {"full": 12}),
        ({"model_type": "mistral", "sliding_window": 512}, {"window": 12}),
        ({"model_type": "mistral", "sliding_window": 200_000}, {"full": 12}),
        ({"model_type": "smollm3", "use_sliding_window": True, "sliding_window": 512}, {"window": 12}),
        ({"model_type": "mimo_v2_flash", "hybrid_layer_pattern": [0, 1, 1] * 4, "sliding_window_size": 128},
         {"full": 4, "window": 8}),
        ({"model_type": "llama4_text", "attention_chunk_size": 128}, {"chunk": 9, "full": 3}),
        ({"model_type": "llama4_text", "no_rope_layers": [1, 0] * 6, "attention_chunk_size": 128},
         {"chunk": 6, "full": 6}),
        ({"model_type": "llama4_text", "no_rope_layers": [0] * 12}, {"full": 12}),
        ({"model_type": "bamba", "attn_layer_indices": [3, 9], **MAMBA2}, {"mamba2": 10, "full": 2}),
        ({"model_type": "minimax", "attn_type_list": [0, 0, 1] * 4, "num_local_experts": 4, "num_experts_per_tok": 2},
         {"lightning": 8, "full": 4}),
        ({"model_type": "bailing_moe_v2_5", "layer_group_size": 5, **MLA}, {"lightning": 8, "full": 4}),
        ({"model_type": "bailing_hybrid", "layer_group_size": 6, "short_conv_kernel_size": 4, **MLA},
         {"kda": 10, "full": 2}),
        ({"model_type": "jamba", "attn_layer_period": 6, "attn_layer_offset": 2, "mamba_d_state": 16,
          "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": "auto"}, {"mamba": 10, "full": 2}),
    ],
)  # fmt: skip
def test_which_layer_is_of_which_kind(config: dict[str, Any], expected: dict[str, int]) -> None:
    assert kinds(load(**config)) == expected


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "kimi_linear", **MLA}, "full_attn_layers is missing"),
        ({"model_type": "kimi_linear", **MLA,
          "linear_attn_config": {"full_attn_layers": [1], "kda_layers": [1, 2]}}, "must name each of the layers"),
        ({"model_type": "kimi_linear", **MLA,
          "linear_attn_config": {"full_attn_layers": ["a"], "kda_layers": []}}, "must hold whole numbers"),
        ({"model_type": "bamba", **MAMBA2}, "attn_layer_indices is missing"),
        ({"model_type": "mimo_v2_flash", "sliding_window": 128}, "layer_types is missing"),
        ({"model_type": "mimo_v2_flash", "hybrid_layer_pattern": [2] * 12, "sliding_window": 128}, "only 0 and 1"),
        ({"model_type": "nemotron_h"}, "hybrid_override_pattern is missing"),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "M*X"}, "unknown letters 'X'"),
        ({"model_type": "nemotron_h", "layers_block_type": ["mlp", "spiral"] * 6}, "unknown blocks: spiral"),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "*-"}, "the list of blocks has 2"),
        ({**V4}, "compress_ratios is missing"),
        ({**V4, "compress_ratios": [4] * 12, "qk_rope_head_dim": 600}, "must not be larger than head_dim"),
        ({**V4, "layer_types": ["spiral"] * 12, "compress_rates": {"a": 4}}, "nobody knows here: spiral"),
        ({"model_type": "glm_moe_dsa", **MLA, "index_topk": 8, "index_n_heads": 2, "index_head_dim": 4,
          "index_topk_pattern": "FX"}, "must have 12 letters F or S"),
        ({"model_type": "minimax_m3", "sparse_attention_config": {"sparse_block_size": 128}}, "sparse_index_dim"),
        ({"model_type": "minimax_m3", "sparse_attention_config": {
            "sparse_num_index_heads": 4, "sparse_index_dim": 128, "sparse_block_size": 128, "sparse_topk_blocks": 16,
            "sparse_attention_freq": [1]}}, "one mark for each of 12 layers"),
        ({"model_type": "deepseek_v3", **MLA, "layer_types": ["sliding_attention"] * 12, "sliding_window": 8},
         "latent attention with kind 'window'"),
        ({"model_type": "bamba", "attn_layer_indices": [1], **MAMBA2, "mamba_n_heads": 7},
         "must divide the inner width"),
        ({"model_type": "opt", "word_embed_proj_dim": 512, "ffn_dim": 4096}, "not the hidden size"),
        ({"model_type": "hunyuan_v1_moe", "num_experts": 4, "moe_topk": 1, "moe_intermediate_size": 64,
          "moe_layers_enum": "1,b"}, "layer numbers separated by commas"),
        ({"model_type": "jamba", "attn_layer_period": 6, "attn_layer_offset": 2, "mamba_d_state": 16,
          "mamba_d_conv": 4, "mamba_expand": 2, "mamba_ssm_dtype": "int3"}, "unknown dtype 'int3'"),
        ({"model_type": "qwen3", "attn_config": 3}, "must be a mapping"),
        ({"model_type": "llama", "torch_dtype": 3}, "must be text"),
    ],
)  # fmt: skip
def test_refused(config: dict[str, Any], says: str) -> None:
    assert says in faults(**config)


def test_compressed_layers_of_deepseek_v4() -> None:
    llm = load(**V4, compress_ratios=[0, 0, *[4, 128] * 5, 0])
    assert kinds(llm) == {"ratio 0": 2, "ratio 4": 5, "ratio 128": 5}
    indexed = [g.attention for g in llm.layers if isinstance(g.attention, CompressedAttention) and g.attention.indexer]
    assert [a.ratio for a in indexed] == [4]
    size = kv_size(llm, "bf16")
    assert size.growing_bytes_per_token == 5 * (1024 + 256) / 4 + 5 * 1024 / 128
    assert size.window_bytes == 12 * 128 * 1024
    assert kv_size(llm).growing_bytes_per_token == 5 * (584 + 68) / 4 + 5 * 584 / 128


def test_compressed_layers_as_newer_files_name_them() -> None:
    words = [
        "sliding_attention",
        *["compressed_sparse_attention", "heavily_compressed_attention"] * 5,
        "sliding_attention",
    ]
    rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    assert kinds(load(**V4, layer_types=words, compress_rates=rates)) == {"ratio 0": 2, "ratio 4": 5, "ratio 128": 5}


def test_block_sparse_layers_keep_an_index_key() -> None:
    sparse = {
        "sparse_num_index_heads": 4, "sparse_index_dim": 128, "sparse_block_size": 128, "sparse_topk_blocks": 16,
        "sparse_local_block": 1, "sparse_attention_freq": [0, 0, 0] + [1] * 9,
    }  # fmt: skip
    llm = load(model_type="minimax_m3", sparse_attention_config=sparse)
    size = kv_size(llm, "bf16")
    assert size.growing_bytes_per_token == 12 * ONE_LAYER + 9 * 256
    chosen = 17 * 128
    assert size.read_bytes(100_000) == 3 * ONE_LAYER * 100_000 + 9 * ONE_LAYER * chosen + 9 * 256 * 100_000
    flat = load(
        model_type="minimax_m3", index_n_heads=4, index_head_dim=128, index_block_size=128, index_topk_blocks=16,
        index_local_blocks=1, layer_types=["full_attention"] * 3 + ["minimax_m3_sparse"] * 9,
    )  # fmt: skip
    assert flat.layers == llm.layers
    off = load(model_type="minimax_m3", sparse_attention_config={"use_sparse_attention": False})
    assert kv_size(off, "bf16").growing_bytes_per_token == 12 * ONE_LAYER


def test_windows_with_heads_of_their_own() -> None:
    llm = load(
        model_type="mimo_v2_flash", hybrid_layer_pattern=[0, 1] * 6, sliding_window=128, swa_num_key_value_heads=8,
        swa_head_dim=64, v_head_dim=32, swa_v_head_dim=32,
    )  # fmt: skip
    size = kv_size(llm, "bf16")
    assert size.growing_bytes_per_token == 6 * 4 * (64 + 32) * 2
    assert size.window_bytes == 6 * 8 * (64 + 32) * 2 * 128


def test_global_layers_of_gemma_4() -> None:
    gemma = {
        "model_type": "gemma4_text", "sliding_window": 512, "global_head_dim": 128, "attention_k_eq_v": True,
        "num_global_key_value_heads": 2, "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 2,
    }  # fmt: skip
    full = next(
        g.attention
        for g in load(**gemma).layers
        if isinstance(g.attention, GroupedAttention) and not g.attention.window
    )
    assert (full.kv_heads, full.head_dim, full.values_are_keys) == (2, 128, True)
    small = load(**gemma, num_kv_shared_layers=6, use_double_wide_mlp=True, hidden_size_per_layer_input=32)
    shared = [g for g in small.layers if isinstance(g.attention, GroupedAttention) and g.attention.shares_kv]
    assert sum(g.count for g in shared) == 6
    assert all(isinstance(g.feed_forward, DenseFeedForward) and g.feed_forward.width == 8192 for g in shared)
    assert small.lookup_parameters == 262_144 * 32 * 12
    assert small.extra_parameters == 3 * 1024 * 32 * 12


def test_layers_that_read_the_latents_of_others() -> None:
    sources = [0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10]
    llm = load(model_type="mistral_large4", **MLA, kv_source_layers=sources)
    assert kv_size(llm, "bf16").growing_bytes_per_token == 6 * 576 * 2


def test_gates_of_kda_by_family() -> None:
    lists = {"full_attn_layers": [4, 8, 12], "kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11]}
    sizes = {"num_heads": 8, "head_dim": 64, "short_conv_kernel_size": 4}

    def mixer(**config: Any) -> RecurrentMixer:
        (found,) = {g.attention for g in load(**MLA, **config).layers if isinstance(g.attention, RecurrentMixer)}
        assert found.kind is RecurrentKind.KDA
        return found

    low = mixer(model_type="kimi_linear", linear_attn_config=lists | sizes)
    assert (low.gate_rank, low.decay_rank) == (64, 64)
    full = mixer(model_type="kimi_linear", linear_attn_config=lists | sizes | {"use_full_rank_gate": True})
    assert (full.gate_rank, full.decay_rank) == (None, 64)
    flat = mixer(
        model_type="kimi_linear", layer_types=["linear_attention"] * 9 + ["full_attention"] * 3, linear_num_heads=8,
        linear_head_dim=64, linear_conv_kernel_dim=4,
    )  # fmt: skip
    assert flat == low


def test_experts_listed_by_number() -> None:
    llm = load(
        model_type="hunyuan_v1_moe", num_experts=4, moe_topk=1, moe_intermediate_size=64, moe_layers_enum="1, 3,5"
    )
    assert sum(g.count for g in llm.moe) == 3
    chosen = load(model_type="llama4_text", moe_layers=[1, 3], num_local_experts=4)
    assert sum(g.count for g in chosen.moe) == 2


def test_newer_names_of_nemotron_blocks() -> None:
    more = {
        "mamba_num_heads": 16, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4,
        "num_hidden_layers": 4,
    }  # fmt: skip
    llm = load(model_type="nemotron_h", layer_types=["linear_attention", "mlp", "full_attention", "mlp"], **more)
    assert kinds(llm) == {"mamba2": 1, "full": 1}
    assert llm.layer_count == 2
