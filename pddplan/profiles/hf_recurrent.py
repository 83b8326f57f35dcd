"""Linear-attention and state-space layers, read from a Hugging Face config."""

from __future__ import annotations

import math

from pddplan.domain.llm import RecurrentKind, RecurrentMixer
from pddplan.profiles.hf_attention import head_width
from pddplan.profiles.hf_families import Family
from pddplan.profiles.hf_fields import Fields

MAMBA_DT_DIVISOR = 16
"""Mamba's dt rank, where left to the class: hidden / 16, rounded up."""

BF16_BYTES = 2.0
_BYTES = {"float32": 4.0, "fp32": 4.0, "float16": 2.0, "bfloat16": 2.0, "bf16": 2.0}


def recurrent(fields: Fields, family: Family, *, hidden: int) -> RecurrentMixer:
    """Linear attention or state-space layer of a family."""
    if family.linear == "kda":
        return _kda(fields, family)
    if family.linear == "gdn":
        return _gdn(fields)
    build = {"conv": _conv, "lightning": _lightning, "mamba": _mamba, "mamba2": _mamba2}[family.linear or "mamba2"]
    return build(fields, hidden)


def _state_bytes(fields: Fields) -> float:
    word = fields.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype") or "float32"
    word = word.removeprefix("torch.")
    if word not in _BYTES:
        fields.fault("mamba_ssm_cache_dtype", f"unknown dtype {word!r}", f"use one of {', '.join(sorted(_BYTES))}")
    return _BYTES.get(word, 4.0)


def _kda(fields: Fields, family: Family) -> RecurrentMixer:
    inner = fields.mapping("linear_attn_config")
    if inner:
        sizes = {}
        for key in ("num_heads", "head_dim", "short_conv_kernel_size"):
            if inner.get(key) is None:
                fields.missing(f"linear_attn_config.{key}")
            sizes[key] = fields.as_count(f"linear_attn_config.{key}", inner.get(key) or 1)
        heads, width, kernel = sizes["num_heads"], sizes["head_dim"], sizes["short_conv_kernel_size"]
        full_rank = inner.get("use_full_rank_gate") is True or family.full_rank_gates
    else:  # flat, as transformers 5 writes it
        heads = fields.count("linear_num_heads", "num_attention_heads")
        width = fields.count("linear_head_dim", "head_dim")
        kernel = fields.count("linear_conv_kernel_dim", "short_conv_kernel_size")
        full_rank = family.full_rank_gates
    return RecurrentMixer(
        kind=RecurrentKind.KDA,
        heads=heads,
        key_dim=width,
        value_dim=width,
        key_heads=heads,
        conv_kernel=kernel,
        conv_channels=3 * heads * width,
        gate_rank=None if full_rank else width,
        decay_rank=None if family.full_rank_gates else width,
    )


def _gdn(fields: Fields) -> RecurrentMixer:
    key_heads, heads = fields.count("linear_num_key_heads"), fields.count("linear_num_value_heads")
    key_dim, value_dim = fields.count("linear_key_head_dim"), fields.count("linear_value_head_dim")
    return RecurrentMixer(
        kind=RecurrentKind.GDN,
        heads=heads,
        key_dim=key_dim,
        value_dim=value_dim,
        key_heads=key_heads,
        conv_kernel=fields.count("linear_conv_kernel_dim"),
        conv_channels=2 * key_heads * key_dim + heads * value_dim,
        state_bytes_per_value=_state_bytes(fields),
    )


def _lightning(fields: Fields, hidden: int) -> RecurrentMixer:
    heads = fields.count("num_attention_heads")
    width = head_width(fields, heads, hidden=hidden)
    return RecurrentMixer(
        kind=RecurrentKind.LIGHTNING,
        heads=heads,
        key_dim=width,
        value_dim=width,
        key_heads=fields.count("num_kv_heads_for_linear_attn", default=heads),
    )


def _conv(fields: Fields, hidden: int) -> RecurrentMixer:
    """Gated short convolution: the state are the inputs that its kernel still needs."""
    return RecurrentMixer(
        kind=RecurrentKind.CONV,
        heads=fields.count("conv_dim", default=hidden),
        key_dim=fields.count("conv_L_cache", least=2) - 1,
        value_dim=1,
        key_heads=1,
        state_bytes_per_value=BF16_BYTES,
    )


def _mamba2(fields: Fields, hidden: int) -> RecurrentMixer:
    heads = fields.count("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads")
    raw = fields.raw(
        "mamba_head_dim", "mamba_d_head", "head_dim" if not fields.has("mamba_n_heads") else "mamba_d_head"
    )
    if raw == "auto" or raw is None:
        inner = fields.count("mamba_expand", "expand") * hidden
        if inner % heads:
            fields.fault("mamba_n_heads", f"must divide the inner width {inner}, got {heads}", "check mamba_expand")
        width = max(inner // heads, 1)
    else:
        width = fields.as_count("mamba_head_dim", raw)
    state = fields.count("ssm_state_size", "mamba_d_state", "state_size")
    groups = fields.count("n_groups", "mamba_n_groups", "mamba_ngroups")
    return RecurrentMixer(
        kind=RecurrentKind.MAMBA2,
        heads=heads,
        key_dim=state,
        value_dim=width,
        key_heads=groups,
        conv_kernel=fields.count("conv_kernel", "mamba_d_conv"),
        conv_channels=heads * width + 2 * groups * state,
        state_bytes_per_value=_state_bytes(fields),
    )


def _mamba(fields: Fields, hidden: int) -> RecurrentMixer:
    inner = fields.count("mamba_expand", "expand") * hidden
    rank = fields.raw("mamba_dt_rank", "time_step_rank")
    return RecurrentMixer(
        kind=RecurrentKind.MAMBA,
        heads=inner,
        key_dim=fields.count("mamba_d_state", "state_size"),
        value_dim=1,
        key_heads=1,
        conv_kernel=fields.count("mamba_d_conv", "conv_kernel"),
        conv_channels=inner,
        gate_rank=(
            math.ceil(hidden / MAMBA_DT_DIVISOR) if rank in (None, "auto") else fields.as_count("mamba_dt_rank", rank)
        ),
        state_bytes_per_value=_state_bytes(fields),
    )
