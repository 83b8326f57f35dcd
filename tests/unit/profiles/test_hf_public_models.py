"""Public models whose parameter counts their makers print: an oracle for the importer, family by family."""

from __future__ import annotations

from typing import Any

import pytest

from pddplan.performance.kv import kv_size
from pddplan.performance.parameters import active_parameters, parameters, total_parameters, weight_bytes
from pddplan.profiles.hf_config import config_to_llm

B = 1e9


def sizes(
    model_type: str,
    hidden: int,
    ffn: int | None,
    layers: int,
    heads: int,
    kv_heads: int | None,
    vocab: int,
    **more: Any,
) -> dict[str, Any]:
    base = {
        "model_type": model_type,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": vocab,
        "torch_dtype": "bfloat16",
        "max_position_embeddings": 32768,
    }
    if kv_heads is not None:
        base["num_key_value_heads"] = kv_heads
    return base | more


def searched(heads_in_group: int | None, ffn_mult: float) -> dict[str, Any]:
    """A layer of Nemotron-NAS; no heads in a group: no attention."""
    attention = {"n_heads_in_group": heads_in_group, "no_op": heads_in_group is None, "replace_with_linear": False}
    return {"attention": attention, "ffn": {"ffn_mult": ffn_mult, "no_op": False, "replace_with_linear": False}}


UNTIED, TIED = {"tie_word_embeddings": False}, {"tie_word_embeddings": True}
GRANITE_H = ["mamba"] * 5 + ["attention"] + (["mamba"] * 9 + ["attention"]) * 3 + ["mamba"] * 4
MAMBA = {"mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}
JAMBA = {
    "num_experts": 16, "num_experts_per_tok": 2, "expert_layer_period": 2, "expert_layer_offset": 1,
    "attn_layer_period": 8, "attn_layer_offset": 4, **MAMBA,
}  # fmt: skip
QWEN_WINDOW = {"use_sliding_window": False, "sliding_window": 131072, "max_window_layers": 28}
MLA_V2 = {
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "n_shared_experts": 2,
    "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1,
}  # fmt: skip

# name: (config, published total, published active or None, KV bytes per token in bf16 or None)
EXACT: dict[str, tuple[dict[str, Any], int]] = {
    "llama-2-7b": (sizes("llama", 4096, 11008, 32, 32, None, 32000, **UNTIED), 6_738_415_616),
    "llama-2-70b": (sizes("llama", 8192, 28672, 80, 64, 8, 32000, **UNTIED), 68_976_648_192),
    "llama-3-8b": (sizes("llama", 4096, 14336, 32, 32, 8, 128256, **UNTIED), 8_030_261_248),
    "llama-3.2-1b": (sizes("llama", 2048, 8192, 16, 32, 8, 128256, head_dim=64, **TIED), 1_235_814_400),
    "mistral-7b": (sizes("mistral", 4096, 14336, 32, 32, 8, 32000, sliding_window=4096, **UNTIED), 7_241_732_096),
    "mixtral-8x7b": (
        sizes("mixtral", 4096, 14336, 32, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2, **UNTIED),
        46_702_792_704,
    ),
    "yi-34b": (sizes("llama", 7168, 20480, 60, 56, 8, 64000, **UNTIED), 34_388_917_248),
    "qwen2-7b": (sizes("qwen2", 3584, 18944, 28, 28, 4, 152064, **UNTIED, **QWEN_WINDOW), 7_615_616_512),
    "qwen2.5-0.5b": (sizes("qwen2", 896, 4864, 24, 14, 2, 151936, **TIED, **QWEN_WINDOW), 494_032_768),
    "phi-3-mini": (sizes("phi3", 3072, 8192, 32, 32, 32, 32064, sliding_window=262144, **UNTIED), 3_821_079_552),
    "phi-4": (sizes("phi3", 5120, 17920, 40, 40, 10, 100352, sliding_window=None, **UNTIED), 14_659_507_200),
    "gemma-7b": (sizes("gemma", 3072, 24576, 28, 16, 16, 256000, head_dim=256), 8_537_680_896),
    "stablelm-3b": (sizes("stablelm", 2560, 6912, 32, 32, 32, 50304, **UNTIED), 2_795_443_200),
}

CLOSE: dict[str, tuple[dict[str, Any], float, float | None]] = {
    "llama-2-13b": (sizes("llama", 5120, 13824, 40, 40, None, 32000, **UNTIED), 13.02 * B, None),
    "mixtral-8x22b": (
        sizes("mixtral", 6144, 16384, 56, 48, 8, 32768, num_local_experts=8, num_experts_per_tok=2, **UNTIED),
        140.6 * B,
        39.1 * B,
    ),
    "qwen1.5-moe-a2.7b": (
        sizes(
            "qwen2_moe", 2048, 5632, 24, 16, 16, 151936, num_experts=60, num_experts_per_tok=4, decoder_sparse_step=1,
            moe_intermediate_size=1408, shared_expert_intermediate_size=5632, **UNTIED,
        ),
        14.3 * B,
        None,
    ),
    "qwen2-57b-a14b": (
        sizes(
            "qwen2_moe", 3584, 18944, 28, 28, 4, 151936, num_experts=64, num_experts_per_tok=8, decoder_sparse_step=1,
            moe_intermediate_size=2560, shared_expert_intermediate_size=20480, **UNTIED,
        ),
        57.4 * B,
        14.0 * B,
    ),
    "qwen3-0.6b": (sizes("qwen3", 1024, 3072, 28, 16, 8, 151936, head_dim=128, **TIED), 0.596 * B, None),
    "qwen3-coder-480b": (
        sizes(
            "qwen3_moe", 6144, 8192, 62, 96, 8, 151936, head_dim=128, num_experts=160, num_experts_per_tok=8,
            moe_intermediate_size=2560, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True, **UNTIED,
        ),
        480 * B,
        35 * B,
    ),
    "gemma-2-9b": (
        sizes("gemma2", 3584, 14336, 42, 16, 8, 256000, head_dim=256, sliding_window=4096), 9.24 * B, None
    ),
    "gemma-2-27b": (
        sizes("gemma2", 4608, 36864, 46, 32, 16, 256000, head_dim=128, sliding_window=4096), 27.2 * B, None
    ),
    "gemma-3-4b": (
        {
            "model_type": "gemma3",
            "text_config": {
                "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
                "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            },
            "vision_config": {
                "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14,
                "num_attention_heads": 16, "model_type": "siglip_vision_model",
            },
        },
        4.3 * B,
        None,
    ),
    "phi-2": (sizes("phi", 2560, 10240, 32, 32, 32, 51200, **UNTIED), 2.78 * B, None),
    "phi-3.5-moe": (
        sizes(
            "phimoe", 4096, 6400, 32, 32, 8, 32064, num_local_experts=16, num_experts_per_tok=2,
            sliding_window=131072, **UNTIED,
        ),
        41.9 * B,
        6.6 * B,
    ),
    "deepseek-v2": (
        sizes(
            "deepseek_v2", 5120, 12288, 60, 128, 128, 102400, q_lora_rank=1536, n_routed_experts=160,
            moe_intermediate_size=1536, **MLA_V2, **UNTIED,
        ),
        235.7 * B,
        21 * B,
    ),
    "deepseek-v2-lite": (
        sizes(
            "deepseek_v2", 2048, 10944, 27, 16, 16, 102400, q_lora_rank=None, n_routed_experts=64,
            moe_intermediate_size=1408, **MLA_V2, **UNTIED,
        ),
        15.7 * B,
        2.4 * B,
    ),
    "glm-4-9b": (
        sizes("glm", 4096, 13696, 40, 32, 2, 151552, head_dim=128, attention_bias=True, **UNTIED), 9.4 * B, None
    ),
    "glm-4-9b-chat": (
        {"model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 40, "kv_channels": 128,
         "num_attention_heads": 32, "multi_query_attention": True, "multi_query_group_num": 2, "add_qkv_bias": True,
         "padded_vocab_size": 151552, "seq_length": 131072, "torch_dtype": "bfloat16", "tie_word_embeddings": False},
        9.4 * B,
        None,
    ),
    "glm-4-32b": (
        sizes("glm4", 6144, 23040, 61, 48, 8, 151552, head_dim=128, attention_bias=False, **UNTIED), 32.57 * B, None
    ),
    "deepseek-moe-16b": (
        sizes(
            "deepseek", 2048, 10944, 28, 16, 16, 102400, n_routed_experts=64, n_shared_experts=2, moe_layer_freq=1,
            num_experts_per_tok=6, moe_intermediate_size=1408, first_k_dense_replace=1, **UNTIED,
        ),
        16.4 * B,
        2.8 * B,
    ),
    "olmo-2-7b": (sizes("olmo2", 4096, 11008, 32, 32, 32, 100352, **UNTIED), 7.3 * B, None),
    "olmoe-1b-7b": (
        sizes("olmoe", 2048, 1024, 16, 16, 16, 50304, num_experts=64, num_experts_per_tok=8, **UNTIED),
        6.92 * B,
        None,
    ),
    "command-r": (sizes("cohere", 8192, 22528, 40, 64, 64, 256000), 34.98 * B, None),
    "command-r-plus": (sizes("cohere", 12288, 33792, 64, 96, 8, 256000), 103.8 * B, None),
    "command-r7b": (
        sizes("cohere2", 4096, 14336, 32, 32, 8, 256000, sliding_window=4096, sliding_window_pattern=4), 8.03 * B, None
    ),
    "internlm2-20b": (sizes("internlm2", 6144, 16384, 48, 48, 8, 92544, bias=False, **UNTIED), 19.86 * B, None),
    "granite-3.1-8b": (sizes("granite", 4096, 12800, 40, 32, 8, 49155, **TIED), 8.17 * B, None),
    "granite-3.1-3b-a800m": (
        sizes("granitemoe", 1536, 512, 32, 24, 8, 49155, num_local_experts=40, num_experts_per_tok=8, **TIED),
        3.3 * B,
        0.88 * B,
    ),
    "granite-4.0-h-small": (
        sizes(
            "granitemoehybrid", 4096, 768, 40, 32, 8, 100352, num_local_experts=72, num_experts_per_tok=10,
            shared_intermediate_size=1536, layer_types=GRANITE_H, mamba_n_heads=128, mamba_d_head=64, mamba_n_groups=1,
            mamba_d_state=128, mamba_d_conv=4, mamba_expand=2, **TIED,
        ),
        32.2 * B,
        9 * B,
    ),
    "jamba-v0.1": (
        sizes("jamba", 4096, 14336, 32, 32, 8, 65536, mamba_dt_rank=256, **JAMBA, **UNTIED), 51.6 * B, 12 * B
    ),
    "jamba-1.5-large": (
        sizes("jamba", 8192, 24576, 72, 64, 8, 65536, mamba_dt_rank=512, **JAMBA, **UNTIED), 398.6 * B, 94 * B
    ),
    "falcon-7b": (
        {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
         "num_kv_heads": 71, "multi_query": True, "new_decoder_architecture": False, "vocab_size": 65024,
         "bias": False, "torch_dtype": "bfloat16"},
        6.92 * B,
        None,
    ),
    "falcon-40b": (
        {"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
         "num_kv_heads": 8, "multi_query": True, "new_decoder_architecture": True, "vocab_size": 65024,
         "bias": False, "torch_dtype": "bfloat16"},
        41.3 * B,
        None,
    ),
    "opt-13b": (
        {"model_type": "opt", "hidden_size": 5120, "ffn_dim": 20480, "num_hidden_layers": 40, "vocab_size": 50272,
         "num_attention_heads": 40, "max_position_embeddings": 2048, "torch_dtype": "float16"},
        12.85 * B,
        None,
    ),
    "opt-66b": (
        {"model_type": "opt", "hidden_size": 9216, "ffn_dim": 36864, "num_hidden_layers": 64, "vocab_size": 50272,
         "num_attention_heads": 72, "max_position_embeddings": 2048, "torch_dtype": "float16"},
        65.7 * B,
        None,
    ),
    "gpt2": (
        {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257},
        0.1244 * B,
        None,
    ),
    "gpt2-xl": (
        {"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024, "vocab_size": 50257},
        1.5576 * B,
        None,
    ),
    "gpt-neox-20b": (sizes("gpt_neox", 6144, 24576, 44, 64, None, 50432, **UNTIED), 20.55 * B, None),
    "gpt-j-6b": (
        {"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_positions": 2048, "vocab_size": 50400,
         "n_inner": None, "tie_word_embeddings": False},
        6.05 * B,
        None,
    ),
    "bloom-176b": (
        {"model_type": "bloom", "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112, "vocab_size": 250880},
        176.2 * B,
        None,
    ),
    "starcoder": (
        {"model_type": "gpt_bigcode", "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_inner": 24576,
         "n_positions": 8192, "vocab_size": 49152, "multi_query": True},
        15.5 * B,
        None,
    ),
    "starcoder2-15b": (
        sizes("starcoder2", 6144, 24576, 40, 48, 4, 49152, sliding_window=4096, use_bias=True, **UNTIED),
        15.96 * B,
        None,
    ),
    "nemotron-4-340b": (sizes("nemotron", 18432, 73728, 96, 96, 8, 256000, **UNTIED), 341 * B, None),
    "hunyuan-a13b": (
        sizes(
            "hunyuan_v1_moe", 4096, 3072, 32, 32, 8, 128167, head_dim=128, num_experts=64, moe_topk=[8] * 32,
            num_shared_expert=[1] * 32, moe_intermediate_size=[3072] * 32, use_mixed_mlp_moe=True, **TIED,
        ),
        80.4 * B,
        13 * B,
    ),
    "hunyuan-large": (
        sizes(
            "hunyuan", 6400, 18304, 64, 80, 8, 129024, num_experts=16, moe_topk=1, num_shared_expert=1,
            moe_intermediate_size=18304, use_cla=True, cla_share_factor=2, use_mixed_mlp_moe=True, head_dim=128, **TIED,
        ),
        389 * B,
        None,
    ),
    "ernie-4.5-21b-a3b": (
        sizes(
            "ernie4_5_moe", 2560, 12288, 28, 20, 4, 103424, head_dim=128, moe_num_experts=64, moe_k=6,
            moe_num_shared_experts=2, moe_intermediate_size=1536, moe_layer_start_index=1, moe_layer_interval=1,
            use_bias=False, **TIED,
        ),
        21.8 * B,
        3 * B,
    ),
    "ernie-4.5-300b-a47b": (
        sizes(
            "ernie4_5_moe", 8192, 28672, 54, 64, 8, 103424, moe_num_experts=64, moe_k=8, moe_num_shared_experts=0,
            moe_intermediate_size=3584, moe_layer_start_index=3, moe_layer_end_index=53, moe_layer_interval=1, **UNTIED,
        ),
        300 * B,
        47 * B,
    ),
    "minimax-text-01": (
        sizes(
            "minimax_text_01", 6144, 9216, 80, 64, 8, 200064, head_dim=128, num_local_experts=32,
            num_experts_per_tok=2, attn_type_list=([0] * 7 + [1]) * 10, shared_intermediate_size=0, **UNTIED,
        ),
        456 * B,
        45.9 * B,
    ),
    "dbrx": (
        {"model_type": "dbrx", "d_model": 6144, "n_layers": 40, "n_heads": 48, "vocab_size": 100352,
         "attn_config": {"kv_n_heads": 8, "clip_qkv": 8}, "max_seq_len": 32768, "tie_word_embeddings": False,
         "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}},
        131.6 * B,
        36 * B,
    ),
    "arctic": (
        sizes(
            "arctic", 7168, 4864, 35, 56, 8, 32000, num_local_experts=128, num_experts_per_tok=2, moe_layer_frequency=1,
            parallel_attn_mlp_res=True, use_residual=True, sliding_window=None, quantization=None, **UNTIED,
        ),
        480 * B,
        17 * B,
    ),
    "seed-oss-36b": (sizes("seed_oss", 5120, 27648, 64, 80, 8, 155136, head_dim=128, **UNTIED), 36.15 * B, None),
    "smollm3-3b": (sizes("smollm3", 2048, 11008, 36, 16, 4, 128256), 3.08 * B, None),
    "exaone-4-32b": (
        sizes("exaone4", 5120, 27392, 64, 40, 8, 102400, sliding_window=4096, sliding_window_pattern="LLLG", **UNTIED),
        32.0 * B,
        None,
    ),
    "ling-lite": (
        sizes(
            "bailing_moe", 2048, 5632, 28, 16, 4, 126464, head_dim=128, num_experts=64, num_experts_per_tok=6,
            num_shared_experts=2, moe_intermediate_size=1408, first_k_dense_replace=0, **UNTIED,
        ),
        16.8 * B,
        2.75 * B,
    ),
    "qwen2.5-vl-7b": (
        sizes("qwen2_5_vl", 3584, 18944, 28, 28, 4, 152064, **UNTIED, **QWEN_WINDOW)
        | {"vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
                             "hidden_act": "silu"}},
        8.29 * B,
        None,
    ),
    "mimo-7b": (
        sizes("mimo", 4096, 11008, 36, 32, 8, 151680, attention_bias=True, num_nextn_predict_layers=1, **UNTIED),
        7.62 * B,
        None,
    ),
    "grok-1": (
        sizes("grok-1", 6144, 32768, 64, 48, 8, 131072, num_experts=8, num_experts_per_tok=2, **TIED),
        314 * B,
        86 * B,
    ),
    "grok-2": (  # its file carries another model's type, and its class
        sizes(
            "git", 8192, 32768, 64, 64, 8, 131072, architectures=["Grok1ForCausalLM"], moe_intermediate_size=16384,
            num_local_experts=8, num_experts_per_tok=2, residual_moe=True, sliding_window_size=-1, **UNTIED,
        ),
        270 * B,
        115 * B,
    ),
    "longcat-flash": (
        {"model_type": "longcat_flash", "hidden_size": 6144, "ffn_hidden_size": 12288, "num_layers": 28,
         "num_attention_heads": 64, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
         "qk_nope_head_dim": 128, "v_head_dim": 128, "n_routed_experts": 512, "expert_ffn_hidden_size": 2048,
         "zero_expert_num": 256, "moe_topk": 12, "vocab_size": 131072, "attention_method": "MLA"},
        560 * B,
        27 * B,
    ),
    "falcon-h1-34b": (
        sizes(
            "falcon_h1", 5120, 21504, 72, 20, 4, 261120, head_dim=128, mamba_d_ssm=4096, mamba_n_heads=32,
            mamba_d_head=128, mamba_n_groups=2, mamba_d_state=256, mamba_d_conv=4, mamba_expand=2, **UNTIED,
        ),
        33.6 * B,
        None,
    ),
    "falcon-mamba-7b": (
        {"model_type": "falcon_mamba", "hidden_size": 4096, "intermediate_size": 8192, "num_hidden_layers": 64,
         "state_size": 16, "conv_kernel": 4, "expand": 2, "time_step_rank": 256, "vocab_size": 65024,
         "tie_word_embeddings": False},
        7.27 * B,
        None,
    ),
    "dots.llm1": (
        sizes(
            "dots1", 4096, 10944, 62, 32, 32, 152064, head_dim=128, n_routed_experts=128, n_shared_experts=2,
            num_experts_per_tok=6, moe_intermediate_size=1408, first_k_dense_replace=1, moe_layer_freq=1,
            max_window_layers=62, sliding_window=None, use_sliding_window=False, **UNTIED,
        ),
        142 * B,
        14 * B,
    ),
    "nemotron-super-49b": (  # 80 layers as a search left them
        {"model_type": "nemotron-nas", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
         "num_key_value_heads": None, "intermediate_size": None, "vocab_size": 128256, "tie_word_embeddings": False,
         "block_configs": [searched(8, 5.25)] * 48 + [searched(8, 2.625)] + [searched(None, 1.3125)] * 10
         + [searched(None, 1.0)] * 8 + [searched(None, 0.5)] * 6 + [searched(None, 2.625)] * 5
         + [searched(None, 3.28125), searched(None, 5.25)]},
        49.87 * B,
        None,
    ),
    "step-3": (
        {"model_type": "step3_vl",
         "text_config": {
             "model_type": "step3_text", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
             "num_attention_heads": 64, "num_attention_groups": 1, "head_dim": 256, "share_q_dim": 2048,
             "vocab_size": 128815, "moe_num_experts": 48, "moe_top_k": 3, "moe_intermediate_size": 5120,
             "share_expert_dim": 5120, "moe_layers_enum": ",".join(str(i) for i in range(4, 60)),
         },
         "vision_config": {"hidden_size": 1792, "intermediate_size": 15360, "num_hidden_layers": 63}},
        321 * B,
        38 * B,
    ),
    "qwen-7b": (  # the width of both halves of the feed-forward together
        sizes("qwen", 4096, 22016, 32, 32, None, 151936, kv_channels=128, no_bias=True, **UNTIED), 7.72 * B, None
    ),
    "granite-4.0-micro": (  # of the hybrid class, without a recurrent layer
        sizes(
            "granitemoehybrid", 2560, 8192, 40, 40, 8, 100352, shared_intermediate_size=8192, num_local_experts=0,
            num_experts_per_tok=0, layer_types=["attention"] * 40, mamba_d_state=256, mamba_n_heads=128, mamba_d_conv=4,
            mamba_expand=2, mamba_n_groups=1, **TIED,
        ), 3.40 * B, None,
    ),
    "lfm2-1.2b": (
        sizes(
            "lfm2", 2048, None, 16, 32, 8, 65536, block_ff_dim=12288, block_auto_adjust_ff_dim=True,
            block_ffn_dim_multiplier=1.0, block_multiple_of=256, conv_L_cache=3, conv_dim=2048,
            full_attn_idxs=[2, 5, 8, 10, 12, 14],
        ), 1.17 * B, None,
    ),
    "lfm2-8b-a1b": (
        sizes(
            "lfm2_moe", 2048, 7168, 24, 32, 8, 65536, moe_intermediate_size=1792, num_experts=32, num_experts_per_tok=4,
            num_dense_layers=2, conv_L_cache=3,
            layer_types=["full_attention" if i in (2, 6, 10, 14, 18, 21) else "conv" for i in range(24)],
        ), 8.34 * B, 1.5 * B,
    ),
    "ring-mini-linear": (
        sizes(
            "bailing_moe_linear", 2048, 5120, 20, 16, 4, 157184, moe_intermediate_size=512, num_experts=256,
            num_experts_per_tok=8, num_shared_experts=1, first_k_dense_replace=1, layer_group_size=5, head_dim=128,
            **UNTIED,
        ), 16.4 * B, 1.6 * B,
    ),
    "persimmon-8b": (sizes("persimmon", 4096, 16384, 36, 64, None, 262144, **UNTIED), 9.4 * B, None),
    "codegen-16b": (
        {"model_type": "codegen", "n_embd": 6144, "n_layer": 34, "n_head": 24, "n_inner": None, "vocab_size": 51200,
         "torch_dtype": "float16", "n_positions": 2048, **UNTIED}, 16.1 * B, None,
    ),
    "ministral-3-3b": (  # with its gated tower
        {
            "model_type": "mistral3", "tie_word_embeddings": True, "dtype": "bfloat16",
            "text_config": sizes("ministral3", 3072, 9216, 26, 32, 8, 131072, head_dim=128, **TIED),
            "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096,
                              "num_hidden_layers": 24},
        }, 3.85 * B, None,
    ),
    "glm-4.1v-9b": (  # the intermediate size of its tower is that of the merger
        {
            "model_type": "glm4v",
            "text_config": sizes("glm4v_text", 4096, 13696, 40, 32, 2, 151552, attention_bias=True, **UNTIED),
            "vision_config": {"model_type": "glm4v", "depth": 24, "hidden_size": 1536, "intermediate_size": 13696,
                              "out_hidden_size": 4096},
        }, 10.3 * B, None,
    ),
    "mpt-30b": (
        {"model_type": "mpt", "d_model": 7168, "n_layers": 48, "n_heads": 64, "vocab_size": 50432,
         "expansion_ratio": 4, "max_seq_len": 8192},
        29.97 * B,
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_parameter_count_is_exactly_the_published_one(name: str) -> None:
    config, published = EXACT[name]
    got = total_parameters(config_to_llm(config, source="config.json", model_id=name).llm)
    # biases of q, k, v and norms are counted; what is left out is below one in ten thousand
    assert got == pytest.approx(published, rel=1e-4)


@pytest.mark.parametrize("name", CLOSE)
def test_parameter_count_is_within_two_percent_of_the_published_one(name: str) -> None:
    config, total, active = CLOSE[name]
    llm = config_to_llm(config, source="config.json", model_id=name).llm
    assert total_parameters(llm) == pytest.approx(total, rel=0.02)
    if active is not None:
        # makers differ in whether the embedding table and the head count, and round to a digit or two
        count = parameters(llm)
        without = count.active_experts + count.outside_experts - count.embedding - count.head
        assert 0.98 * without <= active * 1.04
        assert active * 0.96 <= 1.02 * (without + count.embedding + count.head)
        assert without <= active_parameters(llm) <= without + count.embedding + count.head


@pytest.mark.parametrize(
    ("name", "growing_bytes", "fixed_bytes"),
    [
        ("mistral-7b", 0, 2 * 32 * 8 * 128 * 2 * 4096),
        ("qwen2-7b", 2 * 28 * 4 * 128 * 2, 0),
        ("gemma-2-9b", 2 * 21 * 8 * 256 * 2, 2 * 21 * 8 * 256 * 2 * 4096),
        ("command-r7b", 2 * 8 * 8 * 128 * 2, 2 * 24 * 8 * 128 * 2 * 4096),
        ("deepseek-v2-lite", 27 * 576 * 2, 0),
        ("falcon-7b", 2 * 32 * 1 * 64 * 2, 0),
        ("starcoder", 2 * 40 * 1 * 128 * 2, 0),
        ("opt-13b", 2 * 40 * 5120 * 2, 0),
        ("hunyuan-large", 2 * 32 * 8 * 128 * 2, 0),
        ("minimax-text-01", 2 * 10 * 8 * 128 * 2, 70 * 64 * 128 * 128 * 4),
        ("jamba-v0.1", 2 * 4 * 8 * 128 * 2, 28 * (8192 * 16 * 4 + 8192 * 3 * 2)),
        ("granite-4.0-h-small", 2 * 4 * 8 * 128 * 2, 36 * (128 * 64 * 128 * 4 + (8192 + 2 * 128) * 3 * 2)),
        ("longcat-flash", 56 * 576 * 2, 0),
        ("step-3", 2 * 61 * 1 * 256 * 2, 0),
        ("nemotron-super-49b", 2 * 49 * 8 * 128 * 2, 0),
        ("grok-2", 2 * 64 * 8 * 128 * 2, 0),
        ("falcon-mamba-7b", 0, 64 * (8192 * 16 * 4 + 8192 * 3 * 2)),
        ("falcon-h1-34b", 2 * 72 * 4 * 128 * 2, 72 * (4096 * 256 * 4 + (4096 + 2 * 2 * 256) * 3 * 2)),
        ("lfm2-1.2b", 2 * 6 * 8 * 64 * 2, 10 * 2048 * 2 * 2),
        ("granite-4.0-micro", 2 * 40 * 8 * 64 * 2, 0),
        ("ring-mini-linear", 2 * 4 * 4 * 128 * 2, 16 * 16 * 128 * 128 * 4),
        ("exaone-4-32b", 2 * 16 * 8 * 128 * 2, 2 * 48 * 8 * 128 * 2 * 4096),
    ],
)
def test_cache_of_public_models(name: str, growing_bytes: float, fixed_bytes: float) -> None:
    config = EXACT[name][0] if name in EXACT else CLOSE[name][0]
    size = kv_size(config_to_llm(config, source="config.json", model_id=name).llm, "bf16")
    assert size.growing_bytes_per_token == growing_bytes
    assert size.fixed_bytes == fixed_bytes


LLAMA_70B = sizes("llama", 8192, 28672, 80, 64, 8, 128256, **UNTIED)
LLAMA_405B = sizes("llama", 16384, 53248, 126, 128, 8, 128256, **UNTIED)
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True}
QKVO = [f"model.layers.{n}.self_attn.{part}_proj" for n in range(126) for part in "qkvo"]


@pytest.mark.parametrize(
    ("config", "quantization", "gigabytes"),
    [
        (LLAMA_70B, BNB | {"bnb_4bit_use_double_quant": True}, 39.5),
        (LLAMA_70B, BNB, 42.7),
        (LLAMA_70B, {"quant_method": "w8a8_fp8"}, 72.7),
        (LLAMA_70B, {"quant_method": "w8a8_int8"}, 72.7),
        (LLAMA_70B, {"quant_method": "ptpc_fp8"}, 72.7),
        # attention stays in bf16 as a whole, each of its four projections listed
        (LLAMA_405B, {"quant_method": "fbgemm_fp8", "modules_to_not_convert": [*QKVO, "lm_head"]}, 405.9 + 71.9 + 4.2),
    ],
)
def test_bytes_of_quantised_checkpoints(config: dict[str, Any], quantization: dict[str, Any], gigabytes: float) -> None:
    llm = config_to_llm({**config, "quantization_config": quantization}, source="config.json", model_id="m").llm
    assert weight_bytes(llm).resident == pytest.approx(gigabytes * 1e9, rel=0.005)
