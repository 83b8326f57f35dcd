"""Stacks that are not one rule for all layers: lists of blocks, parallel branches, shortcuts, searched layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from pddplan.domain.llm import Attention, DenseFeedForward, FeedForward, GroupedAttention
from pddplan.profiles.hf_attention import grouped_attention, head_width, latent
from pddplan.profiles.hf_families import Family
from pddplan.profiles.hf_feed_forward import MOST_MULTIPLE, dense_feed_forward, moe_block
from pddplan.profiles.hf_fields import Fields
from pddplan.profiles.hf_layers import block_words
from pddplan.profiles.hf_recurrent import recurrent
from pddplan.profiles.yaml_source import kind_of

GATED_WIDTH_STEP = 256
"""Widths that are given as a multiple m of the hidden width are 2/3 m of it, rounded up to this."""

Pairs: TypeAlias = list[tuple[Attention | None, FeedForward | None]]


def block_pairs(fields: Fields, family: Family, layers: int, *, hidden: int) -> Pairs:
    """A list of single blocks (Nemotron-H), each mixer paired with the feed-forward block that follows it."""
    del layers  # the list itself says how many
    words = block_words(fields)
    if words is None:
        fields.missing("hybrid_override_pattern", "layers_block_type", why="which blocks the stack has")
        return [(None, None)]
    unknown = sorted(set(words) - {"mamba", "attention", "mlp", "moe"})
    if unknown:
        fields.fault("layers_block_type", f"has unknown blocks: {', '.join(unknown[:5])}", "use a profile")
    fields.raw("hybrid_override_pattern", "layers_block_type", "layer_types", "sliding_window")
    parts: dict[str, Any] = {}
    if "mamba" in words:
        parts["mamba"] = recurrent(fields, family, hidden=hidden)
    if "attention" in words:
        parts["attention"] = grouped_attention(fields, family, kind="full", hidden=hidden)
    if "mlp" in words:
        parts["mlp"] = dense_feed_forward(fields, family, hidden=hidden)
    if "moe" in words:
        parts["moe"] = moe_block(fields, family)
    pairs: Pairs = []
    for word in words:
        if word in ("mamba", "attention"):
            pairs.append((parts[word], None))
        elif word in parts and pairs and pairs[-1][1] is None:
            pairs[-1] = (pairs[-1][0], parts[word])
        elif word in parts:
            pairs.append((None, parts[word]))
    return pairs or [(None, None)]


def parallel_pairs(fields: Fields, family: Family, layers: int, *, hidden: int) -> Pairs:
    """Attention and state space side by side in every layer (Falcon-H1): two entries, run one after the other."""
    mixer = recurrent(fields, family, hidden=hidden)
    attention = grouped_attention(fields, family, kind="full", hidden=hidden)
    feed = dense_feed_forward(fields, family, hidden=hidden)
    return [(attention, None), (mixer, feed)] * layers


def shortcut_pairs(fields: Fields, family: Family, layers: int, *, hidden: int) -> Pairs:
    """Two attentions and two dense feed-forwards per layer, with experts beside the second (LongCat-Flash).

    Of the experts that a token chooses, those that do nothing ("zero experts") cost nothing: the mean number of
    real ones counts.
    """
    attention = latent(fields, family, kind="full", hidden=hidden, own=True, indexer=None)
    dense = dense_feed_forward(fields, family, hidden=hidden)
    experts = moe_block(fields, family)
    idle = fields.count("zero_expert_num", default=0, least=0)
    real = max(round(experts.top_k * experts.experts / (experts.experts + idle)), 1)
    beside = replace(experts, top_k=real, parallel_dense_width=dense.width)
    return [(attention, dense), (attention, beside)] * layers


def searched_pairs(fields: Fields, family: Family, layers: int, *, hidden: int) -> Pairs:
    """Layers that a search chose one by one (Nemotron-NAS): attention and feed-forward of own size, or left out."""
    blocks = fields.sequence("block_configs", layers=layers) or []
    heads = fields.count("num_attention_heads")
    head_dim = head_width(fields, heads, hidden=hidden)
    fields.raw("intermediate_size", "num_key_value_heads", "attention_bias")  # null, or said again in each block
    pairs: Pairs = []
    for index, block in enumerate(blocks):
        where = f"block_configs[{index}]"
        parts = [block.get(key) if isinstance(block, Mapping) else None for key in ("attention", "ffn")]
        attention, feed = (part if isinstance(part, Mapping) else {} for part in parts)
        for name, part in (("attention", attention), ("ffn", feed)):
            if part.get("replace_with_linear") or part.get("sparsify"):
                fields.fault(f"{where}.{name}", "is replaced by another kind of layer", "use a profile")
        mixer = width = None
        if not attention.get("no_op"):
            shared = fields.as_count(f"{where}.attention.n_heads_in_group", attention.get("n_heads_in_group"))
            window = attention.get("window_length")
            mixer = GroupedAttention(
                heads=heads,
                kv_heads=max(heads // shared, 1),
                head_dim=head_dim,
                v_head_dim=head_dim,
                window=None if window is None else fields.as_count(f"{where}.attention.window_length", window),
            )
        multiple = feed.get("ffn_mult")
        if not feed.get("no_op"):
            times = 1.0
            if isinstance(multiple, int | float) and not isinstance(multiple, bool) and 0 < multiple < MOST_MULTIPLE:
                times = float(multiple)
            else:
                fields.fault(f"{where}.ffn.ffn_mult", f"must be a number above 0, got {kind_of(multiple)}", "copy it")
            inner = 2 * times * hidden / 3
            width = -(-int(inner) // GATED_WIDTH_STEP) * GATED_WIDTH_STEP
        pairs.append((mixer, None if width is None else DenseFeedForward(width)))
    return pairs or [(None, None)]


STACKS: Mapping[str, Callable[..., Pairs]] = {
    "blocks": block_pairs,
    "parallel": parallel_pairs,
    "searched": searched_pairs,
    "shortcut": shortcut_pairs,
}
"""By ``Family.pattern``."""
