"""The token mixer of each layer, read from a Hugging Face config: which kind it is, then its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pddplan.domain.llm import Attention, Indexer
from pddplan.profiles.hf_attention import compressed, grouped, indexers, latent, own_cache, window_tokens
from pddplan.profiles.hf_families import Family
from pddplan.profiles.hf_fields import MOST_LAYERS, Fields
from pddplan.profiles.hf_recurrent import recurrent

_KIND_WORDS: Mapping[str, str] = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "sparse_attention": "full",
    "indexed_attention": "full",
    "deepseek_sparse_attention": "full",
    "minimax_m3_sparse": "full",
    "sliding_attention": "window",
    "local": "window",
    "chunked_attention": "chunk",
    "linear_attention": "linear",
    "mamba": "linear",
    "mamba2": "linear",
    "recurrent": "linear",
    "conv": "linear",
}


_RECURRENT_KEYS = ("mamba_d_state", "ssm_state_size", "linear_num_key_heads", "linear_attn_config", "conv_L_cache")


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
        if unknown or not text:
            what = f"has unknown letters {''.join(unknown)!r}" if unknown else "is empty"
            fields.fault("hybrid_override_pattern", what, "use M, *, - and E only")
            return None
        return [letters[c] for c in text][:MOST_LAYERS]
    for key in ("layers_block_type", "layer_types"):
        words = fields.data.get(key)
        if isinstance(words, list) and {"moe", "mlp"} & {str(w) for w in words}:
            fields.used.add(key)
            newer = {"full_attention": "attention", "linear_attention": "mamba"}
            return [newer.get(str(w), str(w)) for w in words][:MOST_LAYERS]
    return None


def mixers(fields: Fields, family: Family, layers: int, *, hidden: int) -> list[Attention]:
    """One token mixer per layer."""
    if family.full == "compressed":
        return list(compressed(fields, layers))
    kinds = layer_kinds(fields, family, layers)
    if "linear" not in kinds:  # a class for hybrids, but this stack has none of these layers
        fields.used.update(_RECURRENT_KEYS)
    owners = own_cache(fields, layers)
    found_indexers = indexers(fields, family, layers)
    build: dict[str, Callable[[bool, Indexer | None], Attention]] = {
        "linear": lambda _own, _index: recurrent(fields, family, hidden=hidden),
    }
    full = latent if family.full == "latent" else grouped
    cache: dict[tuple[str, bool, Indexer | None], Attention] = {}
    found: list[Attention] = []
    for kind, own, indexer in zip(kinds, owners, found_indexers, strict=True):
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
    if "window" in listed and not window_tokens(fields):
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


def _uniform(fields: Fields, layers: int) -> list[str]:
    # a window that the class knows but that this file switches off
    if window_tokens(fields) and fields.flag("use_sliding_window"):
        return ["window"] * layers
    return ["full"] * layers


def _all_window(fields: Fields, layers: int) -> list[str]:
    window = window_tokens(fields)
    longest = fields.count("max_position_embeddings", default=0, least=0)
    useful = window and (not longest or window < longest)
    return ["window" if useful else "full"] * layers


def _qwen_window(fields: Fields, layers: int) -> list[str]:
    """The first ``max_window_layers`` are full; the rest have windows if they are switched on."""
    if not fields.flag("use_sliding_window"):
        window_tokens(fields)
        return ["full"] * layers
    full = fields.count("max_window_layers", default=layers, least=0)
    return ["full" if i < full else "window" for i in range(layers)]


def _dots(fields: Fields, layers: int) -> list[str]:
    full = fields.count("max_window_layers", default=layers, least=0)
    windows = bool(window_tokens(fields)) and fields.has("sliding_window")
    return ["window" if windows and i >= full else "full" for i in range(layers)]


def _every(fields: Fields, layers: int) -> list[str]:
    """Every p-th layer is full, the others have windows; a pattern may also be spelled out (``LLLG``)."""
    raw = fields.raw("sliding_window_pattern", "_sliding_window_pattern")
    if not window_tokens(fields):
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
    places = fields.sequence("attn_layer_indices", "full_attn_idxs")
    if places is None:
        fields.missing("attn_layer_indices", "full_attn_idxs", "layer_types", why="which layers are attention")
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
