"""Known ``model_type`` families: which parts their layers have, and what their class takes where a file says nothing.

A family is a row of facts, not code. Layer rules are chosen by name and live in ``hf_layers``. Defaults stand here
only for keys that published files of the family do leave out; they are shown as assumptions of an import.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class Family:
    """How to read the configs of one ``model_type``."""

    full: str = "grouped"
    """Mixer of attention layers: grouped, latent or compressed."""
    linear: str | None = None
    """Mixer of recurrent layers: kda, gdn, lightning, mamba, mamba2 or conv."""
    pattern: str = "uniform"
    """Rule that gives each layer its kind where the file has no list of layer types."""
    gated: bool = True
    qkv_bias: bool = False
    tied: bool = False
    """Class default of tie_word_embeddings."""
    kv_heads_default: bool = False
    """Absent num_key_value_heads means as many as heads."""
    gate: str | None = None
    """Built-in output gate: ``value`` (as wide as the output) or ``head`` (one a head)."""
    narrow_experts: bool = True
    """Experts have a width of their own (moe_intermediate_size); otherwise intermediate_size is theirs."""
    ffn_ratio: int | None = None
    """Feed-forward width over hidden width where the file gives none."""
    both_halves: bool = False
    """The feed-forward width is that of both halves of a gated one together (first Qwen)."""
    learned_positions: bool = False
    position_offset: int = 0
    shared_expert: str | None = None
    """``always``: one shared expert as wide as a routed one (Llama 4)."""
    shared_gate: bool = False
    full_rank_gates: bool = False
    """KDA layers whose decay and output gates have no low-rank projection."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    nested_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Further class defaults, for configs nested in a multimodal one: those are saved without default values."""


def _with(**keys: Any) -> Mapping[str, Any]:
    return MappingProxyType(keys)


_LLAMA = Family(
    kv_heads_default=True,
    nested_defaults=_with(
        hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32, vocab_size=32000
    ),
)
_QWEN2 = Family(qkv_bias=True, pattern="qwen_window")
_QWEN3 = Family(pattern="qwen_window", defaults=_with(head_dim=128))
_QWEN3_MOE = Family(pattern="qwen_window")
_GDN = Family(
    linear="gdn", pattern="interval", gate="value", shared_gate=True, defaults=_with(full_attention_interval=4)
)
_GPT = Family(gated=False, qkv_bias=True, tied=True, kv_heads_default=True, ffn_ratio=4)
_MLA = Family(full="latent", kv_heads_default=True)
_MISTRAL = Family(
    pattern="all_window",
    nested_defaults=_with(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=32000,
    ),
)
_GEMMA3 = Family(
    pattern="every",
    tied=True,
    defaults=_with(
        sliding_window_pattern=6,
        vocab_size=262208,
        head_dim=256,
        num_attention_heads=8,
        num_key_value_heads=4,
        sliding_window=4096,
        max_position_embeddings=131072,
    ),
)
_LLAMA4 = Family(
    pattern="llama4",
    narrow_experts=False,
    shared_expert="always",
    defaults=_with(
        vocab_size=202048,
        hidden_size=5120,
        num_hidden_layers=48,
        num_attention_heads=40,
        num_key_value_heads=8,
        head_dim=128,
        intermediate_size=8192,
        intermediate_size_mlp=16384,
        num_experts_per_tok=1,
        num_local_experts=16,
        interleave_moe_layer_step=1,
        attention_chunk_size=8192,
        no_rope_layer_interval=4,
    ),
)
_GEMMA4 = Family(
    pattern="every",
    tied=True,
    defaults=_with(sliding_window_pattern=6, vocab_size=262144, global_head_dim=512, vocab_size_per_layer_input=262144),
)
_GRANITE_MOE = Family(kv_heads_default=True, narrow_experts=False)
_KIMI = replace(_MLA, linear="kda", pattern="kimi")
_BAILING_MLA = _with(qk_nope_head_dim=128, v_head_dim=128)
_RING = Family(
    full="latent",
    linear="lightning",
    pattern="group_tail",
    kv_heads_default=True,
    # Sizes of the public Ling-1T/Ring-1T, on which this family is built
    defaults=_with(
        vocab_size=157184,
        intermediate_size=18432,
        moe_intermediate_size=2048,
        q_lora_rank=1536,
        **_BAILING_MLA,
    ),
)

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "afmoe": Family(pattern="afmoe", kv_heads_default=True, gate="value"),
        "apertus": Family(gated=False, kv_heads_default=True),
        "aquila": _LLAMA,
        "arcee": Family(gated=False, kv_heads_default=True),
        "arctic": Family(kv_heads_default=True, narrow_experts=False),
        "aria_text": Family(kv_heads_default=True, narrow_experts=False),
        "axk1": _MLA,
        "baichuan": _LLAMA,
        "bailing_hybrid": Family(
            full="latent",
            linear="kda",
            pattern="group",
            gate="head",
            full_rank_gates=True,
            defaults=_with(q_lora_rank=None),
        ),
        "bailing_moe": Family(kv_heads_default=True),
        "bailing_moe_linear": Family(linear="lightning", pattern="group_tail", kv_heads_default=True),
        "bailing_moe_v2": Family(kv_heads_default=True),
        "bailing_moe_v2_5": _RING,
        "bamba": Family(linear="mamba2", pattern="attention_indices"),
        "bitnet": _LLAMA,
        "bloom": replace(_GPT, defaults=_with()),
        "chatglm": Family(qkv_bias=True),
        "codegen": Family(gated=False, kv_heads_default=True, ffn_ratio=4),
        "cohere": Family(tied=True, kv_heads_default=True),
        "cohere2": Family(tied=True, kv_heads_default=True, pattern="every", defaults=_with(sliding_window_pattern=4)),
        "cohere2_moe": Family(tied=True, kv_heads_default=True, narrow_experts=False, pattern="listed"),
        "cwm": replace(_LLAMA, pattern="listed"),
        "dbrx": Family(kv_heads_default=True),
        "deepseek": Family(kv_heads_default=True),
        "deepseek_v2": _MLA,
        "deepseek_v3": _MLA,
        "deepseek_v32": _MLA,
        "deepseek_v4": Family(full="compressed"),
        "dots1": Family(kv_heads_default=True, pattern="dots"),
        "ernie4_5": Family(tied=True, defaults=_with(head_dim=128)),
        "ernie4_5_moe": Family(tied=True),
        "exaone": Family(defaults=_with()),
        "exaone4": Family(pattern="every", defaults=_with(sliding_window_pattern=4)),
        "exaone_moe": Family(pattern="listed"),
        "falcon": Family(gated=False, tied=True, kv_heads_default=True, ffn_ratio=4),
        "falcon_h1": Family(linear="mamba2", pattern="parallel", kv_heads_default=True),
        "falcon_mamba": Family(linear="mamba", pattern="all_linear"),
        "flex_olmo": Family(kv_heads_default=True, narrow_experts=False),
        "gemma": Family(tied=True, defaults=_with(head_dim=256)),
        "gemma2": Family(tied=True, pattern="every", defaults=_with(sliding_window_pattern=2, head_dim=256)),
        "gemma3_text": _GEMMA3,
        "gemma4_text": _GEMMA4,
        "glm": Family(qkv_bias=True, defaults=_with(head_dim=128)),
        "glm4": Family(qkv_bias=True, defaults=_with(head_dim=128)),
        "glm4_moe": Family(),
        "glm4_moe_lite": _MLA,
        "glm_moe_dsa": _MLA,
        "gpt2": replace(_GPT, learned_positions=True),
        "gpt_bigcode": replace(_GPT, learned_positions=True),
        "gpt_neox": Family(gated=False, qkv_bias=True, kv_heads_default=True, ffn_ratio=4),
        "gpt_oss": Family(
            pattern="every", qkv_bias=True, narrow_experts=False, defaults=_with(sliding_window_pattern=2, head_dim=64)
        ),
        "gptj": Family(gated=False, kv_heads_default=True, ffn_ratio=4),
        "granite": _LLAMA,
        "granite_swa": replace(_LLAMA, pattern="listed"),
        "granitemoe": _GRANITE_MOE,
        "granitemoe_swa": replace(_GRANITE_MOE, pattern="listed"),
        "granitemoehybrid": replace(_GRANITE_MOE, linear="mamba2", pattern="listed"),
        "granitemoeshared": _GRANITE_MOE,
        "grok1": Family(tied=True, narrow_experts=False),
        "helium": _LLAMA,
        "hunyuan": Family(kv_heads_default=True),
        "hunyuan_v1_dense": _LLAMA,
        "hunyuan_v1_moe": Family(kv_heads_default=True),
        "hy_v3": Family(),
        "hyperclovax": _LLAMA,
        "internlm": Family(kv_heads_default=True),
        "internlm2": _LLAMA,
        "internlm3": Family(defaults=_with(head_dim=128)),
        "iquestcoder": _LLAMA,
        "jais2": Family(gated=False, qkv_bias=True, kv_heads_default=True),
        "jamba": Family(linear="mamba", pattern="jamba", narrow_experts=False),
        "kimi_k2": _MLA,
        "kimi_linear": _KIMI,
        "lfm2": Family(linear="conv", pattern="attention_indices", tied=True),
        "lfm2_moe": Family(linear="conv", pattern="listed", tied=True),
        "llama": _LLAMA,
        "llama4_text": _LLAMA4,
        "longcat_flash": replace(_MLA, pattern="shortcut"),
        "mamba": Family(linear="mamba", pattern="all_linear", tied=True),
        "mamba2": Family(linear="mamba2", pattern="all_linear"),
        "mellum": Family(pattern="listed"),
        "mimo": Family(qkv_bias=True),
        "mimo_v2_flash": Family(pattern="listed"),
        "minicpm": Family(kv_heads_default=True, tied=True),
        "minicpm3": _MLA,
        "minimax": Family(linear="lightning", pattern="listed", narrow_experts=False),
        "minimax_m1": Family(linear="lightning", pattern="listed", narrow_experts=False),
        "minimax_m2": Family(narrow_experts=False),
        "minimax_m3": Family(narrow_experts=False),
        "minimax_text_01": Family(linear="lightning", pattern="listed", narrow_experts=False),
        "ministral": replace(_MISTRAL, pattern="listed"),
        "ministral3": _MISTRAL,
        "mistral": _MISTRAL,
        "mistral4": _MLA,
        # no rank of its own for queries in this class
        "mistral_large4": replace(_MLA, defaults=_with(q_lora_rank=None)),
        "mixtral": Family(pattern="all_window", narrow_experts=False),
        "mpt": Family(gated=False, tied=True, kv_heads_default=True, ffn_ratio=4),
        "nemotron": Family(gated=False, kv_heads_default=True),
        "nemotron_h": Family(linear="mamba2", pattern="blocks", gated=False),
        "nemotron_nas": Family(pattern="searched"),
        "olmo": _LLAMA,
        "olmo2": _LLAMA,
        "olmo3": Family(kv_heads_default=True, pattern="every", defaults=_with(sliding_window_pattern=4)),
        "olmo_hybrid": Family(linear="gdn", pattern="listed", kv_heads_default=True),
        "olmoe": Family(kv_heads_default=True, narrow_experts=False),
        "opt": replace(_GPT, learned_positions=True, position_offset=2, ffn_ratio=None),
        "orion": _LLAMA,
        "persimmon": Family(gated=False, qkv_bias=True, kv_heads_default=True),
        "phi": Family(gated=False, qkv_bias=True, kv_heads_default=True),
        "phi3": Family(kv_heads_default=True, pattern="all_window"),
        "phimoe": Family(pattern="all_window", narrow_experts=False),
        "qwen": Family(qkv_bias=True, kv_heads_default=True, both_halves=True),
        "qwen2": _QWEN2,
        "qwen2_moe": replace(_QWEN2, shared_gate=True),
        "qwen3": _QWEN3,
        "qwen3_5_moe_text": _GDN,
        "qwen3_5_text": _GDN,
        "qwen3_moe": _QWEN3_MOE,
        "qwen3_next": _GDN,
        "sarvam_mla": _MLA,
        "sarvam_moe": Family(kv_heads_default=True),
        "seed_oss": Family(qkv_bias=True, defaults=_with(head_dim=128)),
        "smollm3": Family(tied=True),
        "solar_open": Family(defaults=_with(head_dim=128)),
        "stablelm": Family(kv_heads_default=True),
        "starcoder2": Family(gated=False, qkv_bias=True, tied=True, pattern="all_window"),
        "step3_text": Family(),
        "step3p5": Family(gate="head", pattern="listed"),
        "vaultgemma": Family(tied=True, pattern="listed", defaults=_with(head_dim=256)),
        "xverse": _LLAMA,
        "youtu": _MLA,
    }
)

SAME_AS: Mapping[str, str] = MappingProxyType(
    {
        "apertus1p5_text": "apertus",
        "deepseek_ref": "deepseek_v4",
        "deepseek_v2_5": "deepseek_v2",
        "emu3_text_model": "llama",
        "ernie4_5_moe_vl": "ernie4_5_moe",
        "ernie4_5_vl_moe": "ernie4_5_moe",
        "ernie4_5_vl_moe_text": "ernie4_5_moe",
        "gemma3": "gemma3_text",
        "gemma4": "gemma4_text",
        "gemma4_unified": "gemma4_text",
        "gemma4_unified_text": "gemma4_text",
        "glm4v_text": "glm4",
        "grok": "grok1",
        "grok_1": "grok1",
        "glm4v_moe_text": "glm4_moe",
        "hunyuan_dense": "hunyuan_v1_dense",
        "hunyuan_moe": "hunyuan_v1_moe",
        "keye": "qwen3",
        "keyevl1_5": "qwen3",
        "kimi_k25": "kimi_k2",
        "kimi_k3": "kimi_linear",
        "kimi_vl": "deepseek_v3",
        "llama4": "llama4_text",
        "minimax_m3_vl": "minimax_m3",
        "minimax_m3_vl_text": "minimax_m3",
        "mistral3": "mistral",
        "mistral_large4_text": "mistral_large4",
        "pixtral": "mistral",
        "qwen2_5_omni": "qwen2",
        "qwen2_5_omni_text": "qwen2",
        "qwen2_5_vl": "qwen2",
        "qwen2_5_vl_text": "qwen2",
        "qwen2_vl": "qwen2",
        "qwen2_vl_text": "qwen2",
        "qwen3_5": "qwen3_5_text",
        "qwen3_5_moe": "qwen3_5_moe_text",
        "qwen3_omni_moe": "qwen3_moe",
        "qwen3_omni_moe_text": "qwen3_moe",
        "qwen3_vl": "qwen3",
        "qwen3_vl_moe": "qwen3_moe",
        "qwen3_vl_moe_text": "qwen3_moe",
        "qwen3_vl_text": "qwen3",
        "refinedweb": "falcon",
        "refinedwebmodel": "falcon",
        "step3_vl": "step3_text",
        "step3p7": "step3p5",
        "step3p7_text": "step3p5",
        "yi": "llama",
    }
)
"""Other names, and the text part of multimodal ones."""

ARCHITECTURES: Mapping[str, str] = MappingProxyType(
    {"Grok1ForCausalLM": "grok1", "Grok1ModelForCausalLM": "grok1", "Grok1MoEForCausalLM": "grok1"}
)
"""Families of files whose ``model_type`` is missing or another model's, by the class they name."""


_CLASS_ENDS = re.compile(r"(For(CausalLM|ConditionalGeneration)|LMHeadModel|Model)$")


def known_types() -> list[str]:
    """All names that an import takes as ``model_type``."""
    return sorted({*FAMILIES, *SAME_AS})


def family_of_class(name: str) -> str | None:
    """``model_type`` that a class name tells: ``Qwen3MoeForCausalLM`` is ``qwen3_moe``."""
    if name in ARCHITECTURES:
        return ARCHITECTURES[name]
    bare = _CLASS_ENDS.sub("", name).lower()
    return next((known for known in known_types() if known.replace("_", "") == bare), None)


def family_of(model_type: str) -> tuple[str, Family] | None:
    """Find a family by ``model_type``; upper case, dashes and dots do not matter."""
    name = model_type.strip().lower().replace("-", "_").replace(".", "_")
    name = SAME_AS.get(name, name)
    found = FAMILIES.get(name)
    return None if found is None else (name, found)
