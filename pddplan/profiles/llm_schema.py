"""The schema of model profiles: one class per record of ``domain.llm``, with the sentence that documents each key."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from pddplan.profiles.schema import (
    Check,
    Count,
    CountOrZero,
    NonNegative,
    Positive,
    Profile,
    Sourced,
    SourcedCount,
    SourcedPositive,
    Strict,
    Text,
)

PARTS = ("attention", "dense", "shared_experts", "experts", "embedding", "head")


class IndexerBody(Strict):
    """What picks the entries that sparse attention reads."""

    heads: Count
    """Index query heads."""
    head_dim: Count
    """Width of an index key."""
    top_k: Count
    """Entries read per query."""
    computes: bool = True
    """False where the layer reuses the choice of an earlier one."""


class GroupedBody(Strict):
    """Softmax attention with key/value heads (MHA, GQA, MQA)."""

    kind: Literal["grouped"]
    """grouped: softmax attention with key/value heads (MHA, GQA, MQA)."""
    heads: Count
    """Query heads."""
    kv_heads: Count
    """Key/value heads."""
    head_dim: Count
    """Width of queries and keys per head."""
    v_head_dim: Count
    """Width of values per head."""
    window: Count | None = None
    """Sliding window [tokens]; without it all tokens are seen."""
    chunk: Count | None = None
    """Chunked local attention [tokens]."""
    gate_width: CountOrZero = 0
    """Values of an output gate projected from the input."""
    bias: bool = False
    """Bias on the query, key and value projections."""
    shares_kv: bool = False
    """Reads the cache of an earlier layer and keeps none."""
    values_are_keys: bool = False
    """No value projection: values are the keys."""
    indexer: IndexerBody | None = None
    """Sparse selection, if any."""
    query_rank: Count | None = None
    """Width of the vector that queries are made from; without it the hidden state itself."""


class LatentBody(Strict):
    """Multi-head latent attention (MLA)."""

    kind: Literal["latent"]
    """latent: multi-head latent attention (MLA, with an indexer DSA)."""
    heads: Count
    """Query heads."""
    kv_lora_rank: Count
    """Width of the cached latent."""
    rope_dim: CountOrZero
    """Width of the cached rope key."""
    nope_dim: Count
    """Width of queries and keys without rope, per head."""
    v_dim: Count
    """Width of values per head."""
    q_lora_rank: Count | None = None
    """Rank of the query projection; without it queries are projected directly."""
    gate_width: CountOrZero = 0
    """Values of an output gate projected from the input."""
    shares_kv: bool = False
    """Reads the cache of an earlier layer and keeps none."""
    indexer: IndexerBody | None = None
    """Sparse selection (DSA), if any."""


class CompressedBody(Strict):
    """Compressed attention (CSA, HCA) with a window beside it."""

    kind: Literal["compressed"]
    """compressed: shared entries for several tokens (CSA, HCA), beside a window."""
    heads: Count
    """Query heads."""
    head_dim: Count
    """Width of the shared key-and-value entry."""
    rope_dim: CountOrZero
    """Part of it that carries rope."""
    q_lora_rank: Count
    """Rank of the query projection."""
    o_lora_rank: Count
    """Rank of the output projection per group."""
    o_groups: Count
    """Groups of the output projection."""
    window: Count
    """Uncompressed entries kept [tokens]."""
    ratio: CountOrZero = 0
    """Tokens per compressed entry; 0 = window only."""
    indexer: IndexerBody | None = None
    """Selection among compressed entries, if any."""


class RecurrentBody(Strict):
    """Linear attention or state-space layer with a state of fixed size."""

    kind: Literal["kda", "gdn", "lightning", "mamba", "mamba2", "conv"]
    """kda, gdn, lightning, mamba, mamba2, conv: linear attention or state-space layer with a state of fixed size."""
    heads: Count
    """Heads (value heads for gdn; channels for mamba and conv)."""
    key_dim: Count
    """Width of keys, or state size (inputs kept per channel for conv)."""
    value_dim: Count
    """Width of values, or head width; 1 for mamba and conv."""
    key_heads: Count
    """Key heads (groups for mamba2)."""
    conv_kernel: CountOrZero = 0
    """Width of the short convolution; 0 = none."""
    conv_channels: CountOrZero = 0
    """Channels of the short convolution."""
    gate_rank: Count | None = None
    """Rank of the output gate (kda) or of dt (mamba); without it full rank."""
    decay_rank: Count | None = None
    """Rank of the decay gate (kda); without it full rank."""
    state_bytes_per_value: Positive = 4.0
    """Bytes of a state value (4 = fp32)."""
    conv_bytes_per_value: Positive = 2.0
    """Bytes of a value of the convolution tail."""


class DenseBody(Strict):
    """Dense feed-forward."""

    kind: Literal["dense"]
    """dense: one feed-forward for all tokens."""
    width: Count
    """Inner width."""
    gated: bool = True
    """Three matrices (SwiGLU) instead of two."""
    bias: bool = False
    """Bias on its projections."""


class MoeBody(Strict):
    """Mixture of experts."""

    kind: Literal["moe"]
    """moe: mixture of experts."""
    experts: Count
    """Routed experts."""
    top_k: Count
    """Routed experts a token passes."""
    expert_width: Count
    """Inner width of one routed expert."""
    shared_width: CountOrZero = 0
    """Inner width of all shared experts together."""
    gated: bool = True
    """Three matrices (SwiGLU) instead of two."""
    latent_width: Count | None = None
    """Width that routed experts work on, if narrower than the model."""
    shared_gate: bool = False
    """A scalar gate on the shared experts."""
    parallel_dense_width: CountOrZero = 0
    """Inner width of a dense feed-forward beside the experts."""
    bias: bool = False
    """Bias on the experts' projections."""


AttentionBody = Annotated[GroupedBody | LatentBody | CompressedBody | RecurrentBody, Field(discriminator="kind")]
FeedForwardBody = Annotated[DenseBody | MoeBody, Field(discriminator="kind")]


class LayerBody(Strict):
    """Equal layers."""

    count: Annotated[int, Field(ge=1, le=10_000)]
    """How many of them."""
    attention: AttentionBody | None = None
    """Token mixer; left out in layers that have only a feed-forward."""
    feed_forward: FeedForwardBody | None = None
    """Feed-forward; left out in layers that have only a token mixer."""


class FormatBody(Strict):
    """A storage format that has no name of its own."""

    dtype: Text
    """Storage dtype."""
    bytes_per_value: Positive
    """Bytes per value with scales."""
    compute_dtype: Text
    """Chip peak that products use."""


FormatName = Literal["fp32", "bf16", "fp8", "int8", "fp4", "mxfp4", "int4"]


class WeightsBody(Strict):
    """Format of each part: a name (bf16, fp8, fp4, mxfp4, int8, int4, fp32) or a mapping."""

    attention: FormatName | FormatBody = "bf16"
    """Attention and recurrent layers."""
    dense: FormatName | FormatBody = "bf16"
    """Dense feed-forward layers."""
    shared_experts: FormatName | FormatBody = "bf16"
    """Shared experts."""
    experts: FormatName | FormatBody = "bf16"
    """Routed experts."""
    embedding: FormatName | FormatBody = "bf16"
    """Embedding table."""
    head: FormatName | FormatBody = "bf16"
    """Language-model head."""


class KvFormatBody(Strict):
    """A cache format of its own."""

    name: Text
    """Name by which it is asked for as KV dtype."""
    value_bytes: Positive
    """Bytes per value of an entry."""
    rope_bytes: Positive
    """Bytes per value of the rope part."""
    entry_scale_bytes: NonNegative = 0.0
    """Scales per latent or compressed entry."""
    index_value_bytes: Positive = 2.0
    """Bytes per value of an index key."""
    index_scale_bytes: NonNegative = 0.0
    """Scales per index key."""


class ArchitectureBody(Sourced):
    """Layers and sizes; ``value`` is the model_type of the configuration."""

    value: Text
    """model_type of the configuration (for information)."""
    hidden: Count
    """Hidden width."""
    vocab: Count
    """Rows of the embedding table."""
    tied_embeddings: bool = False
    """The head is the embedding table."""
    layers: Annotated[list[LayerBody], Field(min_length=1, max_length=2000)]
    """Layer groups; their order does not matter."""
    mtp: list[LayerBody] = Field(default_factory=list)
    """Layers of the multi-token-prediction blocks."""
    mtp_depth: Annotated[int, Field(ge=0, le=64)] = 0
    """Draft tokens of the checkpoint's own MTP blocks."""
    weights: WeightsBody = WeightsBody()
    """Formats of the checkpoint."""
    kv_dtype: Text = "bf16"
    """KV dtype as usually served."""
    kv_formats: list[KvFormatBody] = Field(default_factory=list)
    """Cache formats of its own."""
    lookup_parameters: CountOrZero = 0
    """Values of further lookup tables (learned positions, per-layer embeddings)."""
    extra_parameters: Annotated[int, Field(ge=0, le=10**13)] = 0
    """Dense parameters outside the formulas."""
    tower_parameters: Annotated[int, Field(ge=0, le=10**12)] = 0
    """Vision or audio towers."""
    max_context_tokens: Count | None = None
    """Longest context the model is made for."""


class PublishedBody(SourcedPositive):
    """A number of parameters as the maker prints it."""

    counts: list[Literal["embedding", "head", "mtp", "tower"]] | None = None
    """Parts it counts beside the layers; left out where nobody knows. Say in the note who says so."""
    rounded_to: Positive | None = None
    """Unit of its last digit, e.g. 1e9 where whole billions are printed."""


class LlmBody(Strict):
    """A model."""

    architecture: ArchitectureBody
    """Layers and sizes."""
    published_parameters: PublishedBody | None = None
    """Total parameters as the maker prints them."""
    published_active_parameters: PublishedBody | None = None
    """Active parameters as the maker prints them."""
    class_defaults: dict[str, SourcedCount] = Field(default_factory=dict)
    """Fields that the imported config left to its class, with the value taken."""


def _attentions(file: LlmFile) -> list[Any]:
    return [layer.attention for layer in file.model.architecture.layers if layer.attention is not None]


def _moes(file: LlmFile) -> list[MoeBody]:
    feeds = [layer.feed_forward for layer in file.model.architecture.layers]
    return [feed for feed in feeds if isinstance(feed, MoeBody)]


class LlmFile(Profile):
    """A model profile file."""

    schema_name: ClassVar[str] = "model/1"
    aliases: list[Text] = Field(default_factory=list)
    """Other ids by which the model may be asked for."""
    model: LlmBody
    """The model."""

    checks: ClassVar[tuple[Check[LlmFile], ...]] = (
        Check(
            name="heads-shared-evenly",
            holds=lambda f: all(a.heads % a.kv_heads == 0 for a in _attentions(f) if isinstance(a, GroupedBody)),
            message=lambda f: "heads must be a multiple of kv_heads in every layer",
            fix="correct heads or kv_heads",
            key=("model", "architecture", "layers"),
        ),
        Check(
            name="window-or-chunk",
            holds=lambda f: not any(a.window and a.chunk for a in _attentions(f) if isinstance(a, GroupedBody)),
            message=lambda f: "a layer has a window and a chunk at once",
            fix="keep one of them",
            key=("model", "architecture", "layers"),
        ),
        Check(
            name="rope-inside-entry",
            holds=lambda f: all(a.rope_dim <= a.head_dim for a in _attentions(f) if isinstance(a, CompressedBody)),
            message=lambda f: "rope_dim must not be larger than head_dim",
            fix="correct one of them",
            key=("model", "architecture", "layers"),
        ),
        Check(
            name="top-k-of-experts",
            holds=lambda f: all(m.top_k <= m.experts for m in _moes(f)),
            message=lambda f: "top_k must not be larger than experts",
            fix="correct one of them",
            key=("model", "architecture", "layers"),
        ),
    )
