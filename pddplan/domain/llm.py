"""A language model, as far as speed and memory depend on it.

A model is a list of layer groups; a group is ``count`` equal layers, each an attention (any token mixer,
or none) followed by a feed-forward (dense, mixture of experts, or none). The order of layers does not
matter for cost, so equal layers are merged. Sizes are numbers of values; bytes come from the formats.

Attention   what it keeps per sequence                      who has it
GroupedAttention     K and V per KV head, all / window / chunk   MHA, GQA, MQA, sliding, chunked, block-sparse
LatentAttention      one latent and one rope key per token       MLA, and MLA with a sparse indexer (DSA)
CompressedAttention  one shared K=V entry per ``ratio`` tokens   CSA, HCA, and their window-only layers
RecurrentMixer       a state that does not grow                  KDA, GDN, Lightning, Mamba, Mamba-2, convolution
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from pddplan.domain.provenance import Provenance


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How one part of the weights is stored and multiplied."""

    dtype: str
    """Storage: bf16, fp16, fp32, fp8, int8, fp4 (NVFP4), mxfp4, int4."""
    bytes_per_value: float
    """Block scales included, e.g. 0.5625 for NVFP4 with one fp8 scale per 16 values."""
    compute_dtype: str
    """Chip peak that the product may use: equal to ``dtype``, or bf16 for weight-only quantisation."""


@dataclass(frozen=True, slots=True)
class WeightFormats:
    """Formats of the parts of a checkpoint; quantised checkpoints often keep some parts in bf16."""

    attention: NumberFormat
    dense: NumberFormat
    """Dense feed-forward layers."""
    shared_experts: NumberFormat
    experts: NumberFormat
    """Routed experts."""
    embedding: NumberFormat
    head: NumberFormat


@dataclass(frozen=True, slots=True)
class KvFormat:
    """Bytes of a cache entry. ``name`` is what users ask for as KV dtype."""

    name: str
    value_bytes: float
    rope_bytes: float
    """Of the rope part of a latent or compressed entry, often kept in bf16."""
    entry_scale_bytes: float = 0.0
    """Scales per latent or compressed entry."""
    index_value_bytes: float = 2.0
    index_scale_bytes: float = 0.0
    """Per index key."""


@dataclass(frozen=True, slots=True)
class Indexer:
    """Picks the entries that sparse attention reads (DSA, CSA, block-sparse)."""

    heads: int
    head_dim: int
    top_k: int
    """Entries read per query (tokens, or compressed entries); for blocks: blocks x block size."""
    computes: bool = True
    """False where the layer reuses the choice of an earlier layer: no index keys, weights or FLOPs of its own."""


@dataclass(frozen=True, slots=True)
class GroupedAttention:
    """Softmax attention with ``kv_heads`` key/value heads (MHA: equal to heads; MQA: 1)."""

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int | None = None
    """Tokens a query sees, itself included; None = all."""
    chunk: int | None = None
    """Chunked local attention: a query sees its own chunk of this many tokens, from the chunk's start."""
    gate_width: int = 0
    """Values of an output gate projected from the input: heads x v_head_dim, or one a head; 0 = none."""
    bias: bool = False
    """Bias on the q, k and v projections (and nothing else that matters for size)."""
    shares_kv: bool = False
    """Reads the cache of an earlier layer: stores nothing, has no key/value projections."""
    values_are_keys: bool = False
    """Values are the (normalised) keys: no value projection; the cache still holds both."""
    indexer: Indexer | None = None
    query_rank: int | None = None
    """Queries come from a vector of this width that all heads share; None = directly."""


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA): the cache holds one latent and one rope key per token."""

    heads: int
    kv_lora_rank: int
    rope_dim: int
    nope_dim: int
    v_dim: int
    q_lora_rank: int | None = None
    """None = queries are projected directly."""
    gate_width: int = 0
    """As in GroupedAttention."""
    shares_kv: bool = False
    """As in GroupedAttention."""
    indexer: Indexer | None = None


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """Shared K=V entries, one per ``ratio`` tokens, beside a window of uncompressed entries (CSA, HCA)."""

    heads: int
    head_dim: int
    rope_dim: int
    """Of ``head_dim``."""
    q_lora_rank: int
    o_lora_rank: int
    o_groups: int
    window: int
    ratio: int = 0
    """Tokens per entry; 0 = window only."""
    indexer: Indexer | None = None


class RecurrentKind(StrEnum):
    KDA = "kda"
    GDN = "gdn"
    LIGHTNING = "lightning"
    MAMBA = "mamba"
    MAMBA2 = "mamba2"
    CONV = "conv"


@dataclass(frozen=True, slots=True)
class RecurrentMixer:
    """Linear attention or state-space layer: a state of ``heads * key_dim * value_dim`` values per sequence.

    For Mamba-2 ``heads`` are its heads, ``key_dim`` the state size and ``value_dim`` the head width,
    ``key_heads`` its groups. For GDN ``key_heads`` are the (fewer) key heads. A gated short convolution (LFM2) keeps
    the last ``key_dim`` inputs of each of its ``heads`` channels.
    """

    kind: RecurrentKind
    heads: int
    key_dim: int
    value_dim: int
    key_heads: int
    conv_kernel: int = 0
    """Width of the short convolution; 0 = none. The cache keeps ``conv_kernel - 1`` columns."""
    conv_channels: int = 0
    gate_rank: int | None = None
    """Rank of the output gate (KDA), or of dt (Mamba); None = full rank."""
    decay_rank: int | None = None
    """Rank of the decay gate (KDA); None = full rank."""
    state_bytes_per_value: float = 4.0
    conv_bytes_per_value: float = 2.0


Attention: TypeAlias = GroupedAttention | LatentAttention | CompressedAttention | RecurrentMixer


@dataclass(frozen=True, slots=True)
class DenseFeedForward:
    width: int
    gated: bool = True
    """Three matrices (SwiGLU and kin) instead of two."""
    bias: bool = False


@dataclass(frozen=True, slots=True)
class MoeFeedForward:
    """Mixture of experts; ``shared_width`` is the total width of the experts every token passes."""

    experts: int
    top_k: int
    expert_width: int
    shared_width: int = 0
    gated: bool = True
    latent_width: int | None = None
    """Routed experts work on this narrower width, with projections down and up; None = the hidden width."""
    shared_gate: bool = False
    """A scalar gate on the shared experts."""
    parallel_dense_width: int = 0
    """A dense feed-forward that runs beside the experts."""
    bias: bool = False


FeedForward: TypeAlias = DenseFeedForward | MoeFeedForward


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """``count`` equal layers. Hybrid stacks may have layers with only one of the two."""

    count: int
    attention: Attention | None
    feed_forward: FeedForward | None


@dataclass(frozen=True, slots=True)
class Convention:
    """What a printed number of parameters counts: makers differ."""

    counts: tuple[str, ...]
    """Parts beside the layers: ``embedding`` (token table), ``head``, ``mtp``, ``tower``."""
    rounded_to: float = 0.0
    """Unit of the last printed digit."""


@dataclass(frozen=True, slots=True)
class Llm:
    """One checkpoint. Hashable, so results may be cached per model."""

    id: str
    name: str
    family: str
    """``model_type`` of its configuration."""
    hidden: int
    vocab: int
    tied_embeddings: bool
    layers: tuple[LayerGroup, ...]
    weights: WeightFormats
    """As the checkpoint stores them; ``performance.parameters.weight_formats`` gives other choices."""
    kv_dtype: str = "bf16"
    """As usually served."""
    kv_formats: tuple[KvFormat, ...] = ()
    """Mixes that differ from plain values of one dtype, by name."""
    mtp: tuple[LayerGroup, ...] = ()
    """Layers of the multi-token-prediction blocks; not in the totals."""
    mtp_depth: int = 0
    """Draft tokens that the checkpoint's own blocks can give (0 = no MTP)."""
    lookup_parameters: int = 0
    """Values of tables beside the token embedding of which a token reads single rows (learned positions,
    per-layer embeddings)."""
    extra_parameters: int = 0
    """Dense parameters outside these formulas that every token passes (stated by a profile, never guessed)."""
    tower_parameters: int = 0
    """Vision or audio towers: resident in bf16, but text tokens do not pass them."""
    max_context_tokens: int | None = None
    published_parameters: float | None = None
    published_active_parameters: float | None = None
    published_convention: Convention | None = None
    """What the printed total counts; None = not known."""
    published_active_convention: Convention | None = None
    aliases: tuple[str, ...] = ()
    provenance: Mapping[str, Provenance] = field(default_factory=dict, compare=False, hash=False)

    @property
    def layer_count(self) -> int:
        return sum(group.count for group in self.layers)

    @property
    def attention_layer_count(self) -> int:
        return sum(group.count for group in self.layers if group.attention is not None)

    @property
    def moe(self) -> tuple[LayerGroup, ...]:
        """The groups with routed experts."""
        return tuple(g for g in self.layers if isinstance(g.feed_forward, MoeFeedForward))

    @property
    def is_moe(self) -> bool:
        return bool(self.moe)
