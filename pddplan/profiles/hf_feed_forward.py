"""Feed-forward of each layer, read from a Hugging Face config: dense, or mixture of experts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pddplan.domain.llm import DenseFeedForward, FeedForward, MoeFeedForward
from pddplan.profiles.hf_families import Family
from pddplan.profiles.hf_fields import Fields

_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
_TOP_K = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_topk",
    "moe_k",
    "top_k_experts",
    "moe_top_k",
)
_EXPERT_WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size")
_SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
_SHARED_TOTAL = (
    "shared_expert_intermediate_size",
    "share_expert_dim",
    "share_expert_dims",
    "shared_intermediate_size",
)
"""Keys that give the width of all shared experts together."""
_SHARED_EACH = ("moe_shared_expert_intermediate_size",)
_DENSE_WIDTH = (
    "block_ff_dim",
    "dense_intermediate_size",
    "intermediate_size_mlp",
    "intermediate_size",
    "n_inner",
    "ffn_hidden_size",
    "ffn_dim",
)
_STEP = ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", "moe_layer_frequency")


MOST_MULTIPLE = 1000.0


def feed_forwards(fields: Fields, family: Family, layers: int, *, hidden: int) -> list[FeedForward]:
    """One feed-forward per layer."""
    experts = _per_layer(fields, _EXPERTS, layers) if _has_experts(fields) else None
    if experts is None or max(experts) <= 1:
        for key in (*_TOP_K, *_SHARED_COUNT, *_SHARED_TOTAL, *_EXPERT_WIDTH):
            fields.used.add(key)
        dense: list[FeedForward] = [dense_feed_forward(fields, family, hidden=hidden)] * layers
        return _double_wide(fields, dense, layers)
    sparse = sparse_layers(fields, layers)
    found: list[FeedForward] = []
    top_k, width = _top_k(fields, layers), _expert_widths(fields, family, layers)
    shared = _shared_widths(fields, family, layers, width=width)
    plain = dense_feed_forward(fields, family, hidden=hidden) if not all(sparse) else None
    # a dense feed-forward beside the experts: Gemma 4, Grok 2; Arctic's is as wide as the stream
    both = fields.flag("enable_moe_block", "residual_moe")
    beside = hidden if fields.flag("parallel_attn_mlp_res") else _dense_width(fields, hidden, family) if both else 0
    latent = fields.count("moe_latent_size", "routed_expert_hidden_size", default=0, least=0) or None
    bias = family.qkv_bias and not family.narrow_experts  # gpt-oss: experts have biases too
    for i in range(layers):
        if not sparse[i] and plain is not None:
            found.append(plain)
            continue
        if top_k[i] > experts[i]:
            fields.fault(
                _key_in(fields, _TOP_K), f"{top_k[i]} of {experts[i]} experts cannot be active", "check both numbers"
            )
            top_k[i] = experts[i]
        found.append(
            MoeFeedForward(
                experts=experts[i],
                top_k=top_k[i],
                expert_width=width[i],
                shared_width=shared[i],
                gated=family.gated,
                latent_width=latent,
                shared_gate=family.shared_gate and shared[i] > 0,
                parallel_dense_width=beside,
                bias=bias,
            )
        )
    return found


def moe_block(fields: Fields, family: Family) -> MoeFeedForward:
    """The expert layer of a stack that is given as a list of blocks."""
    width = _expert_widths(fields, family, 1)
    return MoeFeedForward(
        experts=_per_layer(fields, _EXPERTS, 1)[0],
        top_k=_top_k(fields, 1)[0],
        expert_width=width[0],
        shared_width=_shared_widths(fields, family, 1, width=width)[0],
        gated=family.gated,
        latent_width=fields.count("moe_latent_size", default=0, least=0) or None,
    )


def dense_feed_forward(fields: Fields, family: Family, *, hidden: int) -> DenseFeedForward:
    """The dense feed-forward; GPT-style ones have biases."""
    width = _adjusted(fields, _dense_width(fields, hidden, family))
    if family.both_halves:
        width = max(width // 2, 1)
    return DenseFeedForward(width=width, gated=family.gated, bias=not family.gated and family.qkv_bias)


def _adjusted(fields: Fields, width: int) -> int:
    """LFM2 states the width of two matrices and takes two thirds of it for three, rounded up."""
    if not fields.flag("block_auto_adjust_ff_dim"):
        return width
    step, multiplier = fields.count("block_multiple_of", default=1), fields.raw("block_ffn_dim_multiplier")
    times = float(multiplier) if isinstance(multiplier, int | float) and 0 < multiplier < MOST_MULTIPLE else 1.0
    return -(-int(times * (2 * width // 3)) // step) * step


def sparse_layers(fields: Fields, layers: int) -> list[bool]:
    """Which layers have experts, by whichever key the config uses."""
    words = fields.sequence("mlp_layer_types", layers=layers)
    if words is not None:
        return [str(word) not in ("dense", "mlp") for word in words]
    freq = fields.raw("moe_layer_freq")
    if isinstance(freq, list):
        marks = fields.sequence("moe_layer_freq", layers=layers) or [1] * layers
        fields.raw("first_k_dense_replace")  # says the same
        return [bool(mark) for mark in marks]
    if fields.has("moe_layers_enum"):
        return _enumerated(fields, layers)
    chosen = fields.sequence("moe_layers")
    if chosen:
        return [i in chosen for i in range(layers)]
    every = fields.as_count("moe_layer_freq", freq) if freq is not None else 1
    first = fields.count("first_k_dense_replace", "num_dense_layers", "moe_layer_num_skipped", default=0, least=0)
    step = fields.count(*_STEP, default=1)
    begin = fields.raw("moe_layer_start_index")
    start = 0 if begin is None else fields.as_count("moe_layer_start_index", _one(begin), least=0)
    end = fields.raw("moe_layer_end_index")
    last = layers - 1 if _one(end) in (None, -1) else fields.as_count("moe_layer_end_index", _one(end), least=0)
    plain = {int(i) for i in fields.sequence("mlp_only_layers") or [] if isinstance(i, int)}
    period = fields.count("expert_layer_period", default=1)
    offset = fields.count("expert_layer_offset", default=0, least=0)
    return [
        i >= first
        and i % every == 0
        and (i + 1) % step == 0
        and start <= i <= last
        and i not in plain
        and i % period == offset % period
        for i in range(layers)
    ]


def _enumerated(fields: Fields, layers: int) -> list[bool]:
    text = fields.text("moe_layers_enum") or ""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() and len(part) < 6 for part in parts):
        fields.fault("moe_layers_enum", "must be layer numbers separated by commas", "copy it from the model's config")
        return [True] * layers
    chosen = {int(part) for part in parts}
    return [i in chosen for i in range(layers)]


def _has_experts(fields: Fields) -> bool:
    inner = fields.mapping("ffn_config")
    if "moe_num_experts" in inner:
        return True
    return fields.raw(*_EXPERTS) is not None


def _per_layer(fields: Fields, keys: tuple[str, ...], layers: int, *, default: int | None = None) -> list[int]:
    """A number, or a list with one per layer."""
    value = fields.raw(*keys)
    if value is None:
        value = _inner(fields, keys)
    if value is None:
        if default is None:
            fields.missing(*keys[:3])
        return [1 if default is None else default] * layers
    key = _key_in(fields, keys)
    if isinstance(value, list):
        if len(value) < layers:
            # models for text and images list one number for each; the first is for text
            return [fields.as_count(key, value[0] if value else None, least=0)] * layers
        return [fields.as_count(key, v, least=0) for v in value[:layers]]
    return [fields.as_count(key, value, least=0)] * layers


def _inner(fields: Fields, keys: tuple[str, ...]) -> Any:
    """DBRX keeps its sizes in a mapping of their own."""
    inner = fields.mapping("ffn_config")
    return next((inner[key] for key in keys if key in inner), None)


def _one(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _key_in(fields: Fields, keys: tuple[str, ...]) -> str:
    return next((key for key in keys if fields.has(key)), keys[0])


def _top_k(fields: Fields, layers: int) -> list[int]:
    return [max(k, 1) for k in _per_layer(fields, _TOP_K, layers)]


def _expert_widths(fields: Fields, family: Family, layers: int) -> list[int]:
    keys = _EXPERT_WIDTH if family.narrow_experts else (*_EXPERT_WIDTH, "intermediate_size", "ffn_hidden_size")
    if fields.mapping("ffn_config"):
        keys = (*keys, "ffn_hidden_size")
    return [max(w, 1) for w in _per_layer(fields, keys, layers)]


def _shared_widths(fields: Fields, family: Family, layers: int, *, width: list[int]) -> list[int]:
    """Width of all shared experts of a layer together."""
    if family.shared_expert == "always":
        return list(width)
    fields.raw("use_mixed_mlp_moe")
    if fields.raw(*_SHARED_TOTAL) is not None:
        fields.raw(*_SHARED_COUNT)
        return _per_layer(fields, _SHARED_TOTAL, layers, default=0)
    counts = _per_layer(fields, _SHARED_COUNT, layers, default=0)
    each = _per_layer(fields, _SHARED_EACH, layers, default=0)
    return [count * (own or routed) for count, own, routed in zip(counts, each, width, strict=True)]


def _dense_width(fields: Fields, hidden: int, family: Family) -> int:
    if family.ffn_ratio is not None:
        return fields.count(*_DENSE_WIDTH, default=family.ffn_ratio * hidden)
    known = [key for key in _DENSE_WIDTH if fields.data.get(key) is not None or key in fields.defaults]
    return fields.count(*(known[:1] or ["intermediate_size"]))


def _double_wide(fields: Fields, dense: list[FeedForward], layers: int) -> list[FeedForward]:
    """Layers without their own cache may have a feed-forward of twice the width (Gemma 4)."""
    shared = min(fields.count("num_kv_shared_layers", default=0, least=0), layers)
    if not (shared and fields.flag("use_double_wide_mlp")):
        return dense
    wide: list[FeedForward] = []
    for i, one in enumerate(dense):
        if i >= layers - shared and isinstance(one, DenseFeedForward):
            one = replace(one, width=2 * one.width)
        wide.append(one)
    return wide
