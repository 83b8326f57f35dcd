"""Numbers of parameters and bytes of weights, split by the part of the model they belong to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from pddplan.domain.llm import (
    Attention,
    CompressedAttention,
    DenseFeedForward,
    FeedForward,
    GroupedAttention,
    Indexer,
    LatentAttention,
    LayerGroup,
    Llm,
    MoeFeedForward,
    NumberFormat,
    RecurrentKind,
    RecurrentMixer,
    WeightFormats,
)
from pddplan.errors import InputError, Problem, did_you_mean

COMPRESSOR_OVERLAP = 2
"""CSA compresses overlapping spans, so its key/value and gate projections are twice as wide."""
OVERLAP_BELOW_RATIO = 16
"""Ratios below this overlap (CSA: 4); HCA (128) does not."""

NVFP4_BLOCK = 16
MXFP4_BLOCK = 32
INT4_GROUP = 128

FORMATS: dict[str, NumberFormat] = {
    "fp32": NumberFormat("fp32", 4.0, "bf16"),
    "bf16": NumberFormat("bf16", 2.0, "bf16"),
    "fp8": NumberFormat("fp8", 1.0, "fp8"),
    "int8": NumberFormat("int8", 1.0, "int8"),
    "fp4": NumberFormat("fp4", 0.5 + 1 / NVFP4_BLOCK, "fp4"),
    "mxfp4": NumberFormat("mxfp4", 0.5 + 1 / MXFP4_BLOCK, "fp4"),
    "int4": NumberFormat("int4", 0.5 + 2 / INT4_GROUP, "bf16"),
}
"""Usual storage: NVFP4 has one byte of scale per 16 values, MXFP4 per 32, weight-only int4 two bytes per 128."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters by part [values]. Tied models have no head of their own."""

    attention: float = 0.0
    dense: float = 0.0
    shared_experts: float = 0.0
    experts: float = 0.0
    """All routed experts."""
    active_experts: float = 0.0
    """Those one token passes."""
    router: float = 0.0
    norms: float = 0.0
    embedding: float = 0.0
    head: float = 0.0
    tower: float = 0.0
    """Vision or audio towers, which text tokens do not pass."""

    @property
    def total(self) -> float:
        return self.experts + self.outside_experts + self.tower

    @property
    def outside_experts(self) -> float:
        return self.attention + self.dense + self.shared_experts + self.router + self.norms + self.embedding + self.head

    @property
    def active(self) -> float:
        """What a token passes; see active_parameters."""
        return self.active_experts + self.outside_experts - (self.embedding if self.experts and self.head else 0.0)

    def counted(self, parts: Collection[str], *, active: bool) -> float:
        """All layers, or what of them a token passes, with some of the other parts; see counted_parameters."""
        routed = self.active_experts if active else self.experts
        layers = routed + self.outside_experts - self.embedding - self.head
        # a tied head is the token table: it counts when either is asked for
        table = self.embedding if "embedding" in parts or ("head" in parts and not self.head) else 0.0
        head = self.head if "head" in parts else 0.0
        return layers + table + head + (self.tower if "tower" in parts else 0.0)


def grouped_attention_parameters(attention: GroupedAttention, hidden: int) -> float:
    """Parameters of one MHA/GQA/MQA layer.

    Formula:     d h (d_qk + d_v) + d g (d_qk + d_v), plus d w_g for an output gate; queries of rank r: r (d + h d_qk)
                 for d h d_qk; no key and value projections where the layer shares an earlier layer's cache, no value
                 projection where V = K
    Parameters:  attention; hidden d [values]
    Returns:     [values]
    Raises:      nothing
    Holds when:  projections are plain matrices.
    References:  vaswani2017, ainslie2023
    """
    query, value = attention.heads * attention.head_dim, attention.heads * attention.v_head_dim
    kept = 0 if attention.shares_kv else attention.kv_heads
    key_value = kept * attention.head_dim
    key_value += 0 if attention.values_are_keys else kept * attention.v_head_dim
    bias = query + key_value if attention.bias else 0
    rank = attention.query_rank
    asking = hidden * query if rank is None else rank * (hidden + query)
    return float(asking + hidden * (key_value + value + attention.gate_width) + bias) + _indexer_parameters(
        attention.indexer, hidden, query_input=hidden
    )


def latent_attention_parameters(attention: LatentAttention, hidden: int) -> float:
    """Parameters of one MLA layer.

    Formula:     q: d r_q + r_q h (n + r), or d h (n + r); kv: d (r_kv + r) + r_kv h (n + v); out: h v d
    Parameters:  attention with heads h, no-rope n, rope r, value v, ranks r_q, r_kv; hidden d [values]
    Returns:     [values]
    Raises:      nothing
    Holds when:  projections are those of DeepSeek-V2; an output gate adds d w_g.
    References:  deepseek-v2
    """
    width = attention.heads * (attention.nope_dim + attention.rope_dim)
    rank = attention.q_lora_rank
    query = hidden * width if rank is None else rank * (hidden + width)
    down = 0 if attention.shares_kv else hidden * (attention.kv_lora_rank + attention.rope_dim)
    up = latent_expansion_parameters(attention)
    value = attention.heads * attention.v_dim
    return (
        float(query + down + value * hidden + hidden * attention.gate_width)
        + up
        + _indexer_parameters(attention.indexer, hidden, query_input=rank or hidden)
    )


def latent_expansion_parameters(attention: LatentAttention) -> float:
    """Parameters of the matrix that turns a latent into keys and values of all heads.

    Formula:     r_kv h (n + v)
    Parameters:  attention
    Returns:     [values]
    Raises:      nothing
    Holds when:  as latent_attention_parameters.
    References:  deepseek-v2
    """
    return float(attention.kv_lora_rank * attention.heads * (attention.nope_dim + attention.v_dim))


def compressed_attention_parameters(attention: CompressedAttention, hidden: int) -> float:
    """Parameters of one CSA/HCA layer.

    Formula:     q: r_q (d + h e); kv: d e; out: h e r_o + g r_o d; compressor: 2 d e o (values and gates),
                 o = 2 where spans overlap; the index keys have a compressor of the same form
    Parameters:  attention with heads h of width e, ranks r_q, r_o, output groups g; hidden d [values]
    Returns:     [values]
    Raises:      nothing
    Holds when:  projections are those of DeepSeek-V4.
    References:  deepseek-v4
    """
    width = attention.heads * attention.head_dim
    query = attention.q_lora_rank * (hidden + width)
    key_value = hidden * attention.head_dim
    # each output group maps its own heads to o_lora_rank, so the sum over groups is width x rank
    out = width * attention.o_lora_rank + attention.o_groups * attention.o_lora_rank * hidden
    overlap = COMPRESSOR_OVERLAP if 0 < attention.ratio < OVERLAP_BELOW_RATIO else 1
    compressor = 2 * hidden * attention.head_dim * overlap if attention.ratio else 0
    total = float(query + key_value + out + compressor)
    if attention.indexer is not None and attention.indexer.computes:
        index = attention.indexer
        total += attention.q_lora_rank * index.heads * index.head_dim
        total += hidden * index.heads + 2 * hidden * index.head_dim * overlap
    return total


def recurrent_parameters(mixer: RecurrentMixer, hidden: int) -> float:
    """Parameters of one linear-attention or state-space layer.

    Formula:     KDA: q, k, v, out and decay and output gates; GDN: q, k, v, z, two scalars a head, out;
                 Lightning: q, k, v, gate, out; Mamba-2: x, z, B, C, dt, out; Mamba: x, z, (dt, B, C), A, out;
                 each plus the short convolution; CONV: in and two gates, out, and a kernel per channel
    Parameters:  mixer; hidden d [values]
    Returns:     [values]
    Raises:      nothing
    Holds when:  projections are those of the published implementations.
    References:  kimi-linear, gated-delta-net, minimax-01, mamba2, mamba, lfm2
    """
    key, value = mixer.key_heads * mixer.key_dim, mixer.heads * mixer.value_dim
    conv = mixer.conv_channels * mixer.conv_kernel
    if mixer.kind is RecurrentKind.KDA:
        decay = hidden * key if mixer.decay_rank is None else mixer.decay_rank * (hidden + key)
        gate = hidden * value if mixer.gate_rank is None else mixer.gate_rank * (hidden + value)
        return float(hidden * (2 * key + 2 * value + mixer.heads) + decay + gate + conv)
    if mixer.kind is RecurrentKind.GDN:
        return float(hidden * (2 * key + 3 * value + 2 * mixer.heads) + conv)
    if mixer.kind is RecurrentKind.LIGHTNING:
        return float(hidden * (2 * key + 3 * value) + conv)
    if mixer.kind is RecurrentKind.MAMBA2:
        return float(hidden * (3 * value + 2 * key + mixer.heads) + conv)
    if mixer.kind is RecurrentKind.CONV:
        return float(hidden * 4 * value + value * (mixer.key_dim + 1))
    # Mamba: one state row per channel (heads = channels, value_dim = 1); gate_rank is the rank of dt
    rank = mixer.gate_rank or 0
    return float(hidden * 3 * value + value * (rank + 3 * mixer.key_dim) + rank * value + conv)


def attention_parameters(attention: Attention | None, hidden: int) -> float:
    """Parameters of one token mixer of any kind.

    Formula:     by kind, see the functions above
    Parameters:  attention, or None (0 parameters); hidden [values]
    Returns:     [values]
    Raises:      nothing
    Holds when:  as the function of that kind.
    References:  vaswani2017
    """
    match attention:
        case None:
            return 0.0
        case GroupedAttention():
            return grouped_attention_parameters(attention, hidden)
        case LatentAttention():
            return latent_attention_parameters(attention, hidden)
        case CompressedAttention():
            return compressed_attention_parameters(attention, hidden)
        case RecurrentMixer():
            return recurrent_parameters(attention, hidden)


def feed_forward_parameters(feed_forward: FeedForward | None, hidden: int) -> Parameters:
    """Parameters of one feed-forward, by part.

    Formula:     dense: n d w, n = 3 gated, 2 otherwise; MoE: E n d' w routed, of which k/E active,
                 n d w_s shared, d E router, and 2 d d' where routed experts work on a narrower width d'
    Parameters:  feed_forward, or None (0 parameters); hidden d [values]
    Returns:     Parameters
    Raises:      nothing
    Holds when:  experts are equal.
    References:  shazeer2017, deepseek-v3
    """
    if feed_forward is None:
        return Parameters()
    matrices = 3 if feed_forward.gated else 2
    if isinstance(feed_forward, DenseFeedForward):
        bias = (matrices - 1) * feed_forward.width + hidden if feed_forward.bias else 0
        return Parameters(dense=float(matrices * hidden * feed_forward.width + bias))
    moe: MoeFeedForward = feed_forward
    inner = moe.latent_width or hidden
    bias = (matrices - 1) * moe.expert_width + inner if moe.bias else 0
    one_expert = float(matrices * inner * moe.expert_width + bias)
    dense = matrices * hidden * moe.parallel_dense_width + (2 * hidden * inner if moe.latent_width else 0)
    return Parameters(
        dense=float(dense),
        shared_experts=float(matrices * hidden * moe.shared_width + (hidden if moe.shared_gate else 0)),
        experts=moe.experts * one_expert,
        active_experts=moe.top_k * one_expert,
        router=float(hidden * moe.experts),
    )


def layer_parameters(group: LayerGroup, hidden: int) -> Parameters:
    """Parameters of one layer of a group, by part.

    Formula:     attention + feed-forward + one norm of the hidden width before each
    Parameters:  group; hidden d [values]
    Returns:     Parameters of one layer (not of the whole group)
    Raises:      nothing
    Holds when:  as its parts.
    References:  vaswani2017
    """
    feed = feed_forward_parameters(group.feed_forward, hidden)
    norms = float(hidden * ((group.attention is not None) + (group.feed_forward is not None)))
    return Parameters(
        attention=attention_parameters(group.attention, hidden),
        dense=feed.dense,
        shared_experts=feed.shared_experts,
        experts=feed.experts,
        active_experts=feed.active_experts,
        router=feed.router,
        norms=norms,
    )


@lru_cache(maxsize=512)
def parameters(llm: Llm) -> Parameters:
    """Parameters of a model, by part.

    Formula:     sum over layers, plus V d for the embedding, V d for an untied head, one last norm,
                 and other lookup tables; MTP blocks are not counted
    Parameters:  llm
    Returns:     Parameters
    Raises:      nothing
    Holds when:  the profile's layers are those of the checkpoint.
    References:  deepseek-v3
    """
    sums = dict.fromkeys(("attention", "dense", "shared_experts", "experts", "active_experts", "router", "norms"), 0.0)
    for group in llm.layers:
        layer = layer_parameters(group, llm.hidden)
        for part in sums:
            sums[part] += group.count * getattr(layer, part)
    sums["norms"] += llm.hidden
    sums["dense"] += llm.extra_parameters
    table = float(llm.vocab * llm.hidden)
    return Parameters(
        **sums,
        embedding=table + llm.lookup_parameters,
        head=0.0 if llm.tied_embeddings else table,
        tower=float(llm.tower_parameters),
    )


def total_parameters(llm: Llm) -> float:
    """Parameters that must be stored, MTP blocks apart.

    Formula:     sum of all parts
    Parameters:  llm
    Returns:     [values]
    Raises:      nothing
    Holds when:  as parameters().
    References:  deepseek-v3
    """
    return parameters(llm).total


def active_parameters(llm: Llm) -> float:
    """Parameters one token passes, as most model cards of mixtures of experts count them.

    Formula:     total - routed experts not chosen - an untied embedding table (a token reads one row of it);
                 for dense models the total, towers apart
    Parameters:  llm
    Returns:     [values]
    Raises:      nothing
    Holds when:  as parameters(). Some makers count the table too, or leave out the head.
    References:  deepseek-v3, gpt-oss
    """
    return parameters(llm).active


def counted_parameters(llm: Llm, parts: Collection[str], *, active: bool) -> float:
    """Parameters as one of the makers' conventions counts them.

    Formula:     layers (routed experts: all, or the k of a token) + chosen of V d table, V d head, tower, MTP blocks
    Parameters:  llm; parts: any of embedding, head, tower, mtp; active: of a token instead of all
    Returns:     [values]
    Raises:      nothing
    Holds when:  as parameters(). Which parts a maker counts stands in the model's profile, where it is known.
    References:  deepseek-v3, gpt-oss, glm-4.5
    """
    draft = mtp_parameters(llm, active=active) if "mtp" in parts else 0.0
    return parameters(llm).counted(parts, active=active) + draft


def mtp_parameters(llm: Llm, *, active: bool = False) -> float:
    """Parameters of the multi-token-prediction blocks, which no total includes.

    Formula:     sum over blocks of (layer + 2 d d for joining the hidden state with the next embedding)
    Parameters:  llm (width d); active: only what a token passes
    Returns:     [values]
    Raises:      nothing
    Holds when:  embeddings and head are those of the model.
    References:  deepseek-v3
    """
    join = float(2 * llm.hidden * llm.hidden)
    return sum(
        group.count * (layer_parameters(group, llm.hidden).counted((), active=active) + join) for group in llm.mtp
    )


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Bytes of weights by part; ``head`` of a tied model is the table read again, and not resident twice."""

    attention: float
    dense: float
    """Dense feed-forward, norms and router."""
    shared_experts: float
    experts: float
    embedding: float
    head: float
    tower: float
    tied: bool

    @property
    def resident(self) -> float:
        """What must fit in memory."""
        own_head = 0.0 if self.tied else self.head
        outside = self.attention + self.dense + self.shared_experts + self.embedding + own_head + self.tower
        return self.experts + outside

    @property
    def read_always(self) -> float:
        """Read in every forward pass: all but routed experts and the embedding table (of which rows are read)."""
        return self.attention + self.dense + self.shared_experts + self.head


def weight_bytes(llm: Llm, weights_dtype: str | None = None) -> WeightBytes:
    """Bytes of weights by part, each in its own format.

    Formula:     sum over parts of parameters * bytes per value; norms and router in bf16
    Parameters:  llm; weights_dtype: None = as the checkpoint is stored, else see weight_formats
    Returns:     WeightBytes [bytes]
    Raises:      InputError on an unknown dtype.
    Holds when:  scales are those of the format.
    References:  ocp-mx, nvfp4
    """
    formats, count = weight_formats(llm, weights_dtype), parameters(llm)
    plain = FORMATS["bf16"].bytes_per_value
    table = llm.vocab * llm.hidden
    return WeightBytes(
        attention=count.attention * formats.attention.bytes_per_value,
        dense=count.dense * formats.dense.bytes_per_value + (count.norms + count.router) * plain,
        shared_experts=count.shared_experts * formats.shared_experts.bytes_per_value,
        experts=count.experts * formats.experts.bytes_per_value,
        embedding=count.embedding * formats.embedding.bytes_per_value,
        head=table * formats.head.bytes_per_value,
        tower=count.tower * plain,
        tied=llm.tied_embeddings,
    )


def main_dtype(llm: Llm) -> str:
    """Name the dtype that most weights of a checkpoint have: that of its experts, or of its dense layers.

    Formula:     dtype of routed experts where there are any, else of dense layers
    Parameters:  llm
    Returns:     dtype name
    Raises:      nothing
    Holds when:  always.
    References:  ocp-mx
    """
    return llm.weights.experts.dtype if llm.is_moe else llm.weights.dense.dtype


def uniform_formats(linear: NumberFormat, *, attention: NumberFormat | None = None) -> WeightFormats:
    """Formats of a checkpoint with all linear layers alike; embeddings and head stay bf16.

    Formula:     every linear part = ``linear``
    Parameters:  linear; attention where it differs
    Returns:     WeightFormats
    Raises:      nothing
    Holds when:  always.
    References:  ocp-mx
    """
    plain = FORMATS["bf16"]
    return WeightFormats(
        attention=attention or linear, dense=linear, shared_experts=linear, experts=linear, embedding=plain, head=plain
    )


def weight_formats(llm: Llm, weights_dtype: str | None = None) -> WeightFormats:
    """Formats of all parts when a model is served in a dtype other than its checkpoint's.

    Formula:     the checkpoint's own formats if the dtype is its own; else linear layers in the dtype, embeddings
                 and head in bf16. 4-bit floats leave MLA attention in bf16, and mxfp4 all attention of a MoE
    Parameters:  llm; weights_dtype: None or a name in FORMATS
    Returns:     WeightFormats
    Raises:      InputError on an unknown dtype.
    Holds when:  the quantised release follows the published ones of NVIDIA, AMD and OpenAI.
    References:  nvfp4, ocp-mx
    """
    four_bit_float = ("fp4", "mxfp4")
    own = main_dtype(llm)
    if weights_dtype is None or weights_dtype == own or (own in four_bit_float and weights_dtype in four_bit_float):
        return llm.weights
    if weights_dtype not in FORMATS:
        raise InputError(
            Problem(
                what=f"unknown weights dtype {weights_dtype!r}{did_you_mean(weights_dtype, FORMATS)}",
                fix=f"choose one of {', '.join(sorted(FORMATS))}",
            )
        )
    linear = FORMATS[weights_dtype]
    has_latent = any(isinstance(g.attention, LatentAttention | CompressedAttention) for g in llm.layers)
    keeps_attention = (weights_dtype == "fp4" and has_latent) or (weights_dtype == "mxfp4" and llm.is_moe)
    return uniform_formats(linear, attention=FORMATS["bf16"] if keeps_attention else None)


def _indexer_parameters(indexer: Indexer | None, hidden: int, *, query_input: int) -> float:
    """Index queries from the query latent, one key and one weight a head from the hidden state."""
    if indexer is None or not indexer.computes:
        return 0.0
    return float(query_input * indexer.heads * indexer.head_dim + hidden * (indexer.head_dim + indexer.heads))
