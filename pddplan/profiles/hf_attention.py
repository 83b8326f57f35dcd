"""Softmax attention of every kind (grouped, latent, compressed), read from a Hugging Face config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pddplan.domain.llm import CompressedAttention, GroupedAttention, Indexer, LatentAttention
from pddplan.performance.parameters import OVERLAP_BELOW_RATIO
from pddplan.profiles.hf_families import Family
from pddplan.profiles.hf_fields import Fields
from pddplan.profiles.yaml_source import kind_of


def window_tokens(fields: Fields) -> int:
    """Sliding window of the config; 0 = none (some files write -1 for it)."""
    return max(fields.count("sliding_window", "sliding_window_size", default=0, least=-1), 0)


def head_width(fields: Fields, heads: int, *, hidden: int) -> int:
    """Width of a head; hidden / heads where the config gives none."""
    keys = ("head_dim", "attention_head_dim", "kv_channels")
    if fields.raw(*keys) is not None:
        return fields.count(*keys)
    if hidden % heads:
        fields.missing("head_dim", why=f"hidden size {hidden} is no multiple of {heads} heads")
        return 1
    return hidden // heads


def grouped_attention(fields: Fields, family: Family, *, kind: str, hidden: int, own: bool = True) -> GroupedAttention:
    """Attention with key/value heads, from the names that families give its sizes."""
    local = kind == "window"
    other = fields.mapping("attention_other_setting") if local else {}
    heads = fields.count("num_attention_heads", "n_head", "n_heads", "num_heads")
    kv_heads = _kv_heads(fields, family, heads)
    head_dim = head_width(fields, heads, hidden=hidden)
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
    window = window_tokens(fields) if local else None
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
        query_rank=fields.count("share_q_dim", default=0, least=0) or None,
    )


def grouped(
    fields: Fields, family: Family, *, kind: str, hidden: int, own: bool, indexer: Indexer | None
) -> GroupedAttention:
    base = grouped_attention(fields, family, kind=kind, hidden=hidden, own=own)
    return base if indexer is None else replace(base, window=None, chunk=None, indexer=indexer)


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


def latent(
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


def indexers(fields: Fields, family: Family, layers: int) -> list[Indexer | None]:
    """The sparse indexer of each layer, if any."""
    sparse = fields.mapping("sparse_attention_config")
    if sparse and sparse.get("use_sparse_attention", True):
        return _block_indexers(fields, sparse, layers)
    words = fields.data.get("layer_types")
    if isinstance(words, list) and "minimax_m3_sparse" in words:
        return _block_indexers(fields, _flat_blocks(fields, words), layers)
    if family.full != "latent" or fields.raw("index_topk") is None:
        return [None] * layers
    heads, width = fields.count("index_n_heads"), fields.count("index_head_dim")
    top_k = fields.count("index_topk")
    return [Indexer(heads, width, top_k, computes=full) for full in _computes_index(fields, layers)]


def _flat_blocks(fields: Fields, words: list[Any]) -> Mapping[str, Any]:
    """Block-sparse sizes as transformers 5 writes them, under the names of the checkpoint."""
    names = {
        "sparse_num_index_heads": "index_n_heads",
        "sparse_index_dim": "index_head_dim",
        "sparse_block_size": "index_block_size",
        "sparse_topk_blocks": "index_topk_blocks",
        "sparse_local_block": "index_local_blocks",
    }
    found: dict[str, Any] = {old: fields.raw(new) for old, new in names.items()}
    return found | {"sparse_attention_freq": [int(word == "minimax_m3_sparse") for word in words]}


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


def own_cache(fields: Fields, layers: int) -> list[bool]:
    """False for layers that read the cache of an earlier one."""
    shared = fields.count("num_kv_shared_layers", default=0, least=0)
    sources = fields.sequence("kv_source_layers", layers=layers)
    if sources is not None:
        return [source == i for i, source in enumerate(sources)]
    fields.raw("cla_share_factor")  # means nothing while use_cla is off
    if fields.flag("use_cla"):  # cross-layer attention: the first of each run of layers keeps the cache
        run = fields.count("cla_share_factor")
        return [i % run == 0 for i in range(layers)]
    return [i < layers - min(shared, layers) for i in range(layers)]


_RATIO_WORDS: Mapping[str, str] = {
    "compressed_sparse_attention": "compressed_sparse_attention",
    "heavily_compressed_attention": "heavily_compressed_attention",
    "sliding_attention": "",
}


def compressed(fields: Fields, layers: int) -> list[CompressedAttention]:
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
