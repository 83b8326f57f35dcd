"""Token mixers of each layer, read from a Hugging Face config."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pddplan.domain.llm import (
    Attention,
    CompressedAttention,
    GroupedAttention,
    Indexer,
    LatentAttention,
    RecurrentKind,
    RecurrentMixer,
)
from pddplan.performance.parameters import OVERLAP_BELOW_RATIO
from pddplan.profiles.hf_families import Family
from pddplan.profiles.hf_fields import MOST_LAYERS, Fields
from pddplan.profiles.yaml_source import kind_of

MAMBA_DT_DIVISOR = 16
"""Mamba's dt rank, where left to the class: hidden / 16, rounded up."""

_KIND_WORDS: Mapping[str, str] = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "sparse_attention": "full",
    "minimax_m3_sparse": "full",
    "sliding_attention": "window",
    "local": "window",
    "chunked_attention": "chunk",
    "linear_attention": "linear",
    "mamba": "linear",
    "mamba2": "linear",
    "recurrent": "linear",
}


def layer_count(fields: Fields) -> int:
    """Number of layers, also where only a list of blocks gives it."""
    keys = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    blocks = block_words(fields)
    if blocks is not None:
        stated = fields.count(*keys, default=len(blocks))
        if stated != len(blocks):
            fields.fault(keys[0], f"is {stated}, but the list of blocks has {len(blocks)}", "correct one of them")
        return len(blocks)
    count = fields.count(*keys)
    if count > MOST_LAYERS:
        fields.fault(keys[0], f"must be at most {MOST_LAYERS}, got {count}", "copy the value of the model's config")
        return 1
    return count


def block_words(fields: Fields) -> list[str] | None:
    """Blocks of a Nemotron-H stack as words: mamba, attention, mlp, moe; None for other stacks."""
    if fields.has("hybrid_override_pattern"):
        letters = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
        text = fields.text("hybrid_override_pattern") or ""
        unknown = sorted(set(text) - set(letters))
        if unknown:
            fields.fault(
                "hybrid_override_pattern", f"has unknown letters {''.join(unknown)!r}", "use M, *, - and E only"
            )
            return None
        return [letters[c] for c in text][:MOST_LAYERS]
    words = fields.data.get("layers_block_type")
    if isinstance(words, list) and {"moe", "mlp"} & {str(w) for w in words}:
        fields.used.add("layers_block_type")
        return [str(w) for w in words][:MOST_LAYERS]
    return None


def mixers(fields: Fields, family: Family, layers: int, *, hidden: int) -> list[Attention]:
    """One token mixer per layer."""
    if family.full == "compressed":
        return list(_compressed(fields, layers))
    kinds = layer_kinds(fields, family, layers)
    owners = _own_cache(fields, layers)
    indexers = _indexers(fields, family, layers)
    build: dict[str, Callable[[bool, Indexer | None], Attention]] = {
        "linear": lambda _own, _index: recurrent(fields, family, hidden=hidden),
    }
    full = _latent if family.full == "latent" else _grouped
    cache: dict[tuple[str, bool, Indexer | None], Attention] = {}
    found: list[Attention] = []
    for kind, own, indexer in zip(kinds, owners, indexers, strict=True):
        key = (kind, own, indexer)
        if key not in cache:
            make = build.get(kind)
            cache[key] = (
                make(own, indexer) if make else full(fields, family, kind=kind, hidden=hidden, own=own, indexer=indexer)
            )
        found.append(cache[key])
    return found


# -- which kind each layer is ----------------------------------------------------------------------------------


def layer_kinds(fields: Fields, family: Family, layers: int) -> list[str]:
    """``full``, ``window``, ``chunk`` or ``linear`` per layer."""
    listed = _listed_kinds(fields, layers)
    if listed is None:
        listed = _RULES[family.pattern](fields, layers)
    if "window" in listed and not _window(fields):
        window_needed = family.pattern not in ("every", "afmoe")
        if window_needed or fields.has("layer_types"):
            fields.missing("sliding_window", why="the list of layers has sliding windows")
        return ["full" if k == "window" else k for k in listed]
    if "linear" in listed and family.linear is None:
        fields.fault("layer_types", "has linear layers, which this family has not", "check model_type")
        return ["full"] * layers
    return listed


_RULE_KEYS = ("full_attention_interval", "layer_group_size", "attention_chunk_size", "sliding_window_pattern")
"""Say in short what a list of layer types spells out."""


def _listed_kinds(fields: Fields, layers: int) -> list[str] | None:
    found = _read_list(fields, layers)
    if found is not None:
        fields.used.update(_RULE_KEYS)
    return found


def _read_list(fields: Fields, layers: int) -> list[str] | None:
    for key in ("layer_types", "layers_block_type"):
        words = fields.sequence(key, layers=layers) if fields.has(key) else None
        if words is not None:
            unknown = sorted({str(w) for w in words if str(w) not in _KIND_WORDS})
            if unknown:
                fields.fault(key, f"has layer types nobody knows here: {', '.join(unknown[:5])}", "use a profile")
                return ["full"] * layers
            return [_KIND_WORDS[str(w)] for w in words]
    # 1 = window in MiMo's list; 0 = linear, 1 = full in MiniMax's
    for key, meaning in (
        ("hybrid_layer_pattern", {0: "full", 1: "window"}),
        ("attn_type_list", {0: "linear", 1: "full"}),
    ):
        marks = fields.sequence(key, layers=layers) if fields.has(key) else None
        if marks is not None:
            if not all(isinstance(m, int) and m in meaning for m in marks):
                fields.fault(key, "must hold only 0 and 1", "copy the list of the model's config")
                return ["full"] * layers
            return [meaning[m] for m in marks]
    return None


def _window(fields: Fields) -> int:
    return fields.count("sliding_window", "sliding_window_size", default=0, least=0)


def _uniform(fields: Fields, layers: int) -> list[str]:
    # a window that the class knows but that this file switches off
    if _window(fields) and fields.flag("use_sliding_window"):
        return ["window"] * layers
    return ["full"] * layers


def _all_window(fields: Fields, layers: int) -> list[str]:
    window = _window(fields)
    longest = fields.count("max_position_embeddings", default=0, least=0)
    useful = window and (not longest or window < longest)
    return ["window" if useful else "full"] * layers


def _qwen_window(fields: Fields, layers: int) -> list[str]:
    """The first ``max_window_layers`` are full; the rest have windows if they are switched on."""
    if not fields.flag("use_sliding_window"):
        _window(fields)
        return ["full"] * layers
    full = fields.count("max_window_layers", default=layers, least=0)
    return ["full" if i < full else "window" for i in range(layers)]


def _dots(fields: Fields, layers: int) -> list[str]:
    full = fields.count("max_window_layers", default=layers, least=0)
    windows = bool(_window(fields)) and fields.has("sliding_window")
    return ["window" if windows and i >= full else "full" for i in range(layers)]


def _every(fields: Fields, layers: int) -> list[str]:
    """Every p-th layer is full, the others have windows; a pattern may also be spelled out (``LLLG``)."""
    raw = fields.raw("sliding_window_pattern", "_sliding_window_pattern")
    if not _window(fields):
        return ["full"] * layers
    if isinstance(raw, str) and raw and set(raw) <= {"L", "G"}:
        return ["window" if raw[i % len(raw)] == "L" else "full" for i in range(layers)]
    if raw is None:
        fields.missing("layer_types", "sliding_window_pattern", why="which layers have the window")
        return ["full"] * layers
    period = fields.as_count("sliding_window_pattern", raw)
    return ["window" if (i + 1) % period else "full" for i in range(layers)]


def _llama4(fields: Fields, layers: int) -> list[str]:
    chunk = fields.raw("attention_chunk_size")
    marks = fields.sequence("no_rope_layers", layers=layers) if fields.raw("no_rope_layers") else None
    interval = fields.count("no_rope_layer_interval", default=4)
    ropes = [bool(m) for m in marks] if marks else [bool((i + 1) % interval) for i in range(layers)]
    return ["chunk" if rope and chunk else "full" for rope in ropes]


def _interval(fields: Fields, layers: int) -> list[str]:
    period = fields.count("full_attention_interval")
    return ["linear" if (i + 1) % period else "full" for i in range(layers)]


def _group(fields: Fields, layers: int) -> list[str]:
    period = fields.count("layer_group_size")
    return ["linear" if (i + 1) % period else "full" for i in range(layers)]


def _group_tail(fields: Fields, layers: int) -> list[str]:
    """As ``_group``, and the layers after the last whole group are full."""
    period = fields.count("layer_group_size")
    whole = layers // period * period
    return ["linear" if (i + 1) % period and i < whole else "full" for i in range(layers)]


def _kimi(fields: Fields, layers: int) -> list[str]:
    """Lists of layer numbers that start at 1."""
    lists = fields.mapping("linear_attn_config")
    full, linear = lists.get("full_attn_layers"), lists.get("kda_layers")
    if not isinstance(full, list) or not isinstance(linear, list):
        fields.missing("linear_attn_config.full_attn_layers", why="and kda_layers: which layers are which")
        return ["full"] * layers
    if any(isinstance(x, bool) or not isinstance(x, int) for x in (*full, *linear)):
        fields.fault("linear_attn_config", "its lists must hold whole numbers", "copy them from the model's config")
        return ["full"] * layers
    numbers = {*range(1, layers + 1)}
    if {*full} | {*linear} != numbers or {*full} & {*linear}:
        fields.fault(
            "linear_attn_config",
            f"full_attn_layers and kda_layers must name each of the layers 1 to {layers} once",
            "copy both lists from the model's config",
        )
        return ["full"] * layers
    return ["full" if i + 1 in {*full} else "linear" for i in range(layers)]


def _jamba(fields: Fields, layers: int) -> list[str]:
    period, offset = fields.count("attn_layer_period"), fields.count("attn_layer_offset", least=0)
    return ["full" if i % period == offset else "linear" for i in range(layers)]


def _attention_indices(fields: Fields, layers: int) -> list[str]:
    places = fields.sequence("attn_layer_indices")
    if places is None:
        fields.missing("attn_layer_indices", why="which layers are attention")
        return ["linear"] * layers
    return ["full" if i in places else "linear" for i in range(layers)]


def _afmoe(fields: Fields, layers: int) -> list[str]:
    period = fields.count("global_attn_every_n_layers")
    return ["window" if (i + 1) % period else "full" for i in range(layers)]


def _must_be_listed(fields: Fields, layers: int) -> list[str]:
    fields.missing("layer_types", why="which layers are of which kind")
    return ["full"] * layers


def _all_linear(fields: Fields, layers: int) -> list[str]:
    return ["linear"] * layers


_RULES: Mapping[str, Callable[[Fields, int], list[str]]] = {
    "uniform": _uniform,
    "all_window": _all_window,
    "qwen_window": _qwen_window,
    "dots": _dots,
    "every": _every,
    "llama4": _llama4,
    "interval": _interval,
    "group": _group,
    "group_tail": _group_tail,
    "kimi": _kimi,
    "jamba": _jamba,
    "attention_indices": _attention_indices,
    "afmoe": _afmoe,
    "listed": _must_be_listed,
    "all_linear": _all_linear,
}


# -- attention -------------------------------------------------------------------------------------------------


def grouped_attention(fields: Fields, family: Family, *, kind: str, hidden: int, own: bool = True) -> GroupedAttention:
    """Attention with key/value heads, from the names that families give its sizes."""
    local = kind == "window"
    other = fields.mapping("attention_other_setting") if local else {}
    heads = fields.count("num_attention_heads", "n_head", "n_heads", "num_heads")
    kv_heads = _kv_heads(fields, family, heads)
    head_dim = _head_dim(fields, heads, hidden)
    v_dim = fields.count("v_head_dim", default=head_dim)
    if local:
        heads = fields.count("swa_num_attention_heads", "num_sliding_attention_heads", default=heads)
        kv_heads = fields.count("swa_num_key_value_heads", default=kv_heads)
        head_dim = fields.count("swa_head_dim", default=head_dim)
        v_dim = fields.count("swa_v_head_dim", default=v_dim)
        heads = fields.as_count("attention_other_setting", other.get("num_attention_heads", heads))
        kv_heads = fields.as_count("attention_other_setting", other.get("num_attention_groups", kv_heads))
    same = False
    if kind == "full" and fields.raw("global_head_dim") is not None:
        head_dim = v_dim = fields.count("global_head_dim")
        same = fields.flag("attention_k_eq_v")
        kv_heads = fields.count("num_global_key_value_heads", default=kv_heads) if same else kv_heads
    if heads % kv_heads:
        fields.fault(
            "num_key_value_heads",
            f"{heads} heads cannot be shared out over {kv_heads} key/value heads",
            "copy both from the model's config",
        )
    gate = fields.flag("attn_output_gate", "use_head_wise_attn_gate", default=family.gate is not None)
    gate_width = (heads if family.gate == "head" else heads * v_dim) if gate else 0
    window = _window(fields) if local else None
    if window is not None and fields.has("sliding_window_size") and not fields.has("sliding_window"):
        window = fields.count("sliding_window_size")
    return GroupedAttention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=v_dim,
        window=window or None,
        chunk=fields.count("attention_chunk_size") if kind == "chunk" else None,
        gate_width=gate_width,
        bias=fields.flag("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias", default=family.qkv_bias),
        shares_kv=not own,
        values_are_keys=same,
    )


def _grouped(
    fields: Fields, family: Family, *, kind: str, hidden: int, own: bool, indexer: Indexer | None
) -> GroupedAttention:
    base = grouped_attention(fields, family, kind=kind, hidden=hidden, own=own)
    if indexer is None:
        return base
    return GroupedAttention(
        heads=base.heads,
        kv_heads=base.kv_heads,
        head_dim=base.head_dim,
        v_head_dim=base.v_head_dim,
        gate_width=base.gate_width,
        bias=base.bias,
        indexer=indexer,
    )


def _kv_heads(fields: Fields, family: Family, heads: int) -> int:
    if fields.flag("multi_query") and not fields.flag("new_decoder_architecture"):
        return 1
    inner = fields.mapping("attn_config")
    if "kv_n_heads" in inner:
        return fields.as_count("attn_config", inner["kv_n_heads"])
    keys = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups")
    if fields.raw(*keys) is None and not family.kv_heads_default:
        fields.missing(keys[0])
        return 1
    return fields.count(*keys, default=heads)


def _head_dim(fields: Fields, heads: int, hidden: int) -> int:
    keys = ("head_dim", "attention_head_dim", "kv_channels")
    if fields.raw(*keys) is not None:
        return fields.count(*keys)
    if hidden % heads:
        fields.missing("head_dim", why=f"hidden size {hidden} is no multiple of {heads} heads")
        return 1
    return hidden // heads


def _latent(
    fields: Fields, family: Family, *, kind: str, hidden: int, own: bool, indexer: Indexer | None
) -> LatentAttention:
    heads = fields.count("num_attention_heads")
    v_dim = fields.count("v_head_dim")
    has_gate = family.gate is not None or fields.flag("mla_use_output_gate")
    fields.raw("num_key_value_heads", "head_dim")  # mean nothing where the cache is a latent
    if kind != "full":
        fields.fault("layer_types", f"latent attention with kind {kind!r} is not known", "use a profile")
    return LatentAttention(
        heads=heads,
        kv_lora_rank=fields.count("kv_lora_rank"),
        rope_dim=fields.count("qk_rope_head_dim", least=0),
        nope_dim=fields.count("qk_nope_head_dim"),
        v_dim=v_dim,
        q_lora_rank=_query_rank(fields),
        gate_width=(heads if family.gate == "head" else heads * v_dim) if has_gate else 0,
        shares_kv=not own,
        indexer=indexer,
    )


def _query_rank(fields: Fields) -> int | None:
    """None is an answer here (queries projected directly), but the key must be there."""
    if "q_lora_rank" not in fields.data and "q_lora_rank" not in fields.defaults:
        fields.missing("q_lora_rank", why="write null if queries have no low-rank projection")
        return None
    return fields.count("q_lora_rank", default=None, least=0) or None


def _indexers(fields: Fields, family: Family, layers: int) -> list[Indexer | None]:
    """The sparse indexer of each layer, if any."""
    sparse = fields.mapping("sparse_attention_config")
    if sparse and sparse.get("use_sparse_attention", True):
        return _block_indexers(fields, sparse, layers)
    if family.full != "latent" or fields.raw("index_topk") is None:
        return [None] * layers
    heads, width = fields.count("index_n_heads"), fields.count("index_head_dim")
    top_k = fields.count("index_topk")
    return [Indexer(heads, width, top_k, computes=full) for full in _computes_index(fields, layers)]


def _computes_index(fields: Fields, layers: int) -> list[bool]:
    """Which layers run the indexer; the others reuse the choice of the last that did."""
    listed = fields.sequence("indexer_types", layers=layers)
    if listed is not None:
        return [word == "full" for word in listed]
    letters = fields.text("index_topk_pattern")
    if letters:
        if len(letters) < layers or set(letters) - {"F", "S"}:
            fields.fault("index_topk_pattern", f"must have {layers} letters F or S", "copy it from the model's config")
            return [True] * layers
        return [c == "F" for c in letters[:layers]]
    period = fields.count("index_topk_freq", default=1)
    offset = fields.count("index_skip_topk_offset", default=2, least=0)
    return [max(i - offset + 1, 0) % period == 0 for i in range(layers)]


def _block_indexers(fields: Fields, sparse: Mapping[str, Any], layers: int) -> list[Indexer | None]:
    """Block-sparse attention: an index key per token, whole blocks chosen."""
    sizes: dict[str, int] = {}
    for key in ("sparse_num_index_heads", "sparse_index_dim", "sparse_block_size", "sparse_topk_blocks"):
        if sparse.get(key) is None:
            fields.missing(f"sparse_attention_config.{key}")
        sizes[key] = fields.as_count(f"sparse_attention_config.{key}", sparse.get(key) or 1)
    local = fields.as_count(
        "sparse_attention_config.sparse_local_block", sparse.get("sparse_local_block") or 0, least=0
    )
    first = fields.as_count("sparse_attention_config.sparse_init_block", sparse.get("sparse_init_block") or 0, least=0)
    blocks = sizes["sparse_topk_blocks"] + local + first
    indexer = Indexer(sizes["sparse_num_index_heads"], sizes["sparse_index_dim"], blocks * sizes["sparse_block_size"])
    marks = sparse.get("sparse_attention_freq", [1] * layers)
    if not isinstance(marks, list) or len(marks) < layers:
        fields.fault(
            "sparse_attention_config.sparse_attention_freq",
            f"must be a list with one mark for each of {layers} layers, got {kind_of(marks)}",
            "copy it from the model's config",
        )
        return [None] * layers
    return [indexer if mark else None for mark in marks[:layers]]


def _own_cache(fields: Fields, layers: int) -> list[bool]:
    """False for layers that read the cache of an earlier one."""
    shared = fields.count("num_kv_shared_layers", default=0, least=0)
    sources = fields.sequence("kv_source_layers", layers=layers)
    if sources is not None:
        return [source == i for i, source in enumerate(sources)]
    return [i < layers - min(shared, layers) for i in range(layers)]


_RATIO_WORDS: Mapping[str, str] = {
    "compressed_sparse_attention": "compressed_sparse_attention",
    "heavily_compressed_attention": "heavily_compressed_attention",
    "sliding_attention": "",
}


def _compressed(fields: Fields, layers: int) -> list[CompressedAttention]:
    """CSA (small ratio, with indexer), HCA (large ratio) and window-only layers of DeepSeek-V4."""
    ratios = _ratios(fields, layers)
    heads, head_dim = fields.count("num_attention_heads"), fields.count("head_dim")
    rope = fields.count("qk_rope_head_dim")
    if rope > head_dim:
        fields.fault("qk_rope_head_dim", f"must not be larger than head_dim {head_dim}, got {rope}", "check both")
        rope = head_dim
    indexer = Indexer(fields.count("index_n_heads"), fields.count("index_head_dim"), fields.count("index_topk"))
    fields.raw("num_key_value_heads")
    return [
        CompressedAttention(
            heads=heads,
            head_dim=head_dim,
            rope_dim=rope,
            q_lora_rank=fields.count("q_lora_rank"),
            o_lora_rank=fields.count("o_lora_rank"),
            o_groups=fields.count("o_groups"),
            window=fields.count("sliding_window"),
            ratio=ratio,
            # fine compression leaves too many entries to read them all
            indexer=indexer if 0 < ratio < OVERLAP_BELOW_RATIO else None,
        )
        for ratio in ratios
    ]


def _ratios(fields: Fields, layers: int) -> list[int]:
    listed = fields.sequence("compress_ratios", layers=layers)
    if listed is not None:
        return [fields.as_count("compress_ratios", r, least=0) for r in listed]
    words = fields.sequence("layer_types", layers=layers)
    rates = fields.mapping("compress_rates")
    if words is None or not rates:
        fields.missing("compress_ratios", why="tokens per compressed entry of each layer")
        return [0] * layers
    unknown = sorted({str(w) for w in words if str(w) not in _RATIO_WORDS})
    if unknown:
        fields.fault("layer_types", f"has layer types nobody knows here: {', '.join(unknown[:5])}", "use a profile")
        return [0] * layers
    return [
        fields.as_count("compress_rates", rates.get(_RATIO_WORDS[str(w)], 0), least=0) if _RATIO_WORDS[str(w)] else 0
        for w in words
    ]


# -- recurrent layers ------------------------------------------------------------------------------------------

_BYTES = {"float32": 4.0, "fp32": 4.0, "float16": 2.0, "bfloat16": 2.0, "bf16": 2.0}


def recurrent(fields: Fields, family: Family, *, hidden: int) -> RecurrentMixer:
    """Linear attention or state-space layer of a family."""
    return {
        "kda": _kda,
        "gdn": _gdn,
        "lightning": _lightning,
        "mamba2": _mamba2,
        "mamba": _mamba,
    }[family.linear or "mamba2"](fields, hidden)


def _state_bytes(fields: Fields) -> float:
    word = fields.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype") or "float32"
    word = word.removeprefix("torch.")
    if word not in _BYTES:
        fields.fault("mamba_ssm_cache_dtype", f"unknown dtype {word!r}", f"use one of {', '.join(sorted(_BYTES))}")
    return _BYTES.get(word, 4.0)


def _kda(fields: Fields, hidden: int) -> RecurrentMixer:
    inner = fields.mapping("linear_attn_config")
    if inner:
        sizes = {}
        for key in ("num_heads", "head_dim", "short_conv_kernel_size"):
            if inner.get(key) is None:
                fields.missing(f"linear_attn_config.{key}")
            sizes[key] = fields.as_count(f"linear_attn_config.{key}", inner.get(key) or 1)
        heads, width, kernel = sizes["num_heads"], sizes["head_dim"], sizes["short_conv_kernel_size"]
        full_rank = inner.get("use_full_rank_gate") is True
        decay: int | None = width
    else:
        heads, width = fields.count("num_attention_heads"), fields.count("head_dim")
        kernel, full_rank, decay = fields.count("short_conv_kernel_size"), True, None
    return RecurrentMixer(
        kind=RecurrentKind.KDA,
        heads=heads,
        key_dim=width,
        value_dim=width,
        key_heads=heads,
        conv_kernel=kernel,
        conv_channels=3 * heads * width,
        gate_rank=None if full_rank else width,
        decay_rank=decay,
    )


def _gdn(fields: Fields, hidden: int) -> RecurrentMixer:
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
    width = _head_dim(fields, heads, hidden)
    return RecurrentMixer(
        kind=RecurrentKind.LIGHTNING,
        heads=heads,
        key_dim=width,
        value_dim=width,
        key_heads=fields.count("num_kv_heads_for_linear_attn", default=heads),
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
