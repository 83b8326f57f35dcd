"""Model profiles: layers of a language model and what its maker publishes, as YAML.

    schema: model/1
    name: DeepSeek-V3
    sources:
      config: {kind: published, title: config.json of the release}
    model:
      architecture:
        value: deepseek_v3
        source: config
        hidden: 7168
        vocab: 129280
        layers:
          - count: 58
            attention: {kind: latent, heads: 128, kv_lora_rank: 512, ...}
            feed_forward: {kind: moe, experts: 256, top_k: 8, expert_width: 2048, shared_width: 2048}

Layers are read into the records of ``domain.llm``; a Hugging Face ``config.json`` in a folder of profiles works too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from pddplan.domain.llm import (
    Attention,
    CompressedAttention,
    DenseFeedForward,
    FeedForward,
    GroupedAttention,
    Indexer,
    KvFormat,
    LatentAttention,
    LayerGroup,
    Llm,
    MoeFeedForward,
    NumberFormat,
    RecurrentKind,
    RecurrentMixer,
    WeightFormats,
)
from pddplan.performance.parameters import FORMATS
from pddplan.profiles import lookup, yaml_source
from pddplan.profiles.hf_config import Import, import_config
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
    provenance,
    read,
)
from pddplan.profiles.yaml_source import SourceDocument

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
    """grouped"""
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


class LatentBody(Strict):
    """Multi-head latent attention (MLA)."""

    kind: Literal["latent"]
    """latent"""
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
    """compressed"""
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

    kind: Literal["kda", "gdn", "lightning", "mamba", "mamba2"]
    """Which recurrence: kda, gdn, lightning, mamba or mamba2."""
    heads: Count
    """Heads (value heads for gdn; channels for mamba)."""
    key_dim: Count
    """Width of keys, or state size."""
    value_dim: Count
    """Width of values, or head width; 1 for mamba."""
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
    """dense"""
    width: Count
    """Inner width."""
    gated: bool = True
    """Three matrices (SwiGLU) instead of two."""
    bias: bool = False
    """Bias on its projections."""


class MoeBody(Strict):
    """Mixture of experts."""

    kind: Literal["moe"]
    """moe"""
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


class LlmBody(Strict):
    """A model."""

    architecture: ArchitectureBody
    """Layers and sizes."""
    published_parameters: SourcedPositive | None = None
    """Total parameters as the maker prints them."""
    published_active_parameters: SourcedPositive | None = None
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


# -- reading ---------------------------------------------------------------------------------------------------


def load_llm(name: str | Path) -> Llm:
    """A model by bundled or user id, alias, or path of a YAML profile or Hugging Face ``config.json``.

    Raises:  InputError naming the nearest known id, or every fault of the file.
    """
    text = str(name)
    if text.endswith(".json"):
        return import_config(Path(text).expanduser()).llm
    config = None if lookup.is_path(text) else _config_in_folders(text)
    if config is not None:
        return import_config(config, model_id=lookup.canonical(text)).llm
    path = lookup.find(lookup.Kind.LLM, name)
    return llm_of(lookup.load(lookup.Kind.LLM, path), llm_id=lookup.canonical(path.stem))


def llm_ids() -> tuple[str, ...]:
    """Ids of all model profiles that can be found."""
    return lookup.names(lookup.Kind.LLM)


def _config_in_folders(name: str) -> Path | None:
    """A Hugging Face config in a user's folder: ``NAME.json`` or ``NAME/config.json``."""
    for root in lookup.roots():
        if root == lookup.bundled_root():
            continue
        for path in (root / f"{name}.json", root / name / "config.json", root / "models" / f"{name}.json"):
            try:
                if path.is_file():
                    return path
            except (OSError, ValueError):
                continue
    return None


def llm_of(document: SourceDocument, *, llm_id: str) -> Llm:
    """A model from a document already read.

    Raises:  InputError with every fault of the file.
    """
    file = read(document, LlmFile)
    body = file.model.architecture
    return Llm(
        id=llm_id,
        name=file.name,
        family=body.value,
        hidden=body.hidden,
        vocab=body.vocab,
        tied_embeddings=body.tied_embeddings,
        layers=tuple(_group(layer) for layer in body.layers),
        weights=WeightFormats(**{part: _format(getattr(body.weights, part)) for part in PARTS}),
        kv_dtype=body.kv_dtype,
        kv_formats=tuple(KvFormat(**fmt.model_dump()) for fmt in body.kv_formats),
        mtp=tuple(_group(layer) for layer in body.mtp),
        mtp_depth=body.mtp_depth,
        lookup_parameters=body.lookup_parameters,
        extra_parameters=body.extra_parameters,
        tower_parameters=body.tower_parameters,
        max_context_tokens=body.max_context_tokens,
        published_parameters=_value(file.model.published_parameters),
        published_active_parameters=_value(file.model.published_active_parameters),
        aliases=tuple(file.aliases),
        provenance={key.removeprefix("model."): origin for key, origin in provenance(file).items()},
    )


def _value(number: SourcedPositive | None) -> float | None:
    return None if number is None else number.value


def _format(value: str | FormatBody) -> NumberFormat:
    if isinstance(value, str):
        return FORMATS[value]
    return NumberFormat(value.dtype, value.bytes_per_value, value.compute_dtype)


def _group(layer: LayerBody) -> LayerGroup:
    return LayerGroup(layer.count, _attention(layer.attention), _feed_forward(layer.feed_forward))


def _attention(body: GroupedBody | LatentBody | CompressedBody | RecurrentBody | None) -> Attention | None:
    if body is None:
        return None
    values = {name: getattr(body, name) for name in type(body).model_fields if name != "kind"}
    if isinstance(body, RecurrentBody):
        return RecurrentMixer(kind=RecurrentKind(body.kind), **values)
    values["indexer"] = None if body.indexer is None else Indexer(**body.indexer.model_dump())
    if isinstance(body, GroupedBody):
        return GroupedAttention(**values)
    return LatentAttention(**values) if isinstance(body, LatentBody) else CompressedAttention(**values)


def _feed_forward(body: DenseBody | MoeBody | None) -> FeedForward | None:
    if body is None:
        return None
    values = {name: getattr(body, name) for name in type(body).model_fields if name != "kind"}
    return DenseFeedForward(**values) if isinstance(body, DenseBody) else MoeFeedForward(**values)


# -- writing ---------------------------------------------------------------------------------------------------

_KINDS: Mapping[type, str] = {
    GroupedAttention: "grouped",
    LatentAttention: "latent",
    CompressedAttention: "compressed",
    DenseFeedForward: "dense",
    MoeFeedForward: "moe",
}


def dump_llm(
    imported: Import,
    *,
    source_title: str,
    read_on: str | None = None,
    published: Mapping[str, tuple[float, str]] | None = None,
    header: str = "",
) -> str:
    """YAML text of an imported model, which reads back as the same record.

    ``published`` gives ``published_parameters`` and ``published_active_parameters`` as (value, source title).
    """
    llm = imported.llm
    sources: dict[str, Any] = {"config": _source("published", source_title, read_on)}
    body: dict[str, Any] = {"architecture": _architecture(llm, notes=imported.notes)}
    for key, (value, title) in (published or {}).items():
        sources["card"] = _source("published", title, read_on)
        body[key] = {"value": value, "source": "card"}
    counts = {k: v for k, v in imported.assumed.items() if isinstance(v, int) and not isinstance(v, bool) and v > 0}
    if counts:
        sources["class"] = _source("derived", f"defaults of the {llm.family} configuration class", read_on)
        body["class_defaults"] = {key: {"value": value, "source": "class"} for key, value in sorted(counts.items())}
    data: dict[str, Any] = {"schema": LlmFile.schema_name, "name": llm.name}
    if llm.aliases:
        data["aliases"] = list(llm.aliases)
    data |= {"sources": sources, "model": body}
    return header + yaml_source.dump(data)


def _source(kind: str, title: str, read_on: str | None) -> dict[str, str]:
    return {"kind": kind, "title": title} | ({"read_on": read_on} if read_on else {})


def _architecture(llm: Llm, *, notes: tuple[str, ...]) -> dict[str, Any]:
    body: dict[str, Any] = {"value": llm.family, "source": "config"}
    if notes:
        body["note"] = "; ".join(notes)
    body |= {"hidden": llm.hidden, "vocab": llm.vocab, "tied_embeddings": llm.tied_embeddings}
    body["layers"] = [_layer(group) for group in llm.layers]
    if llm.mtp:
        body["mtp"] = [_layer(group) for group in llm.mtp]
    named = {fmt: name for name, fmt in FORMATS.items()}
    body["weights"] = {
        part: named.get(fmt) or dataclasses.asdict(fmt)
        for part, fmt in ((part, getattr(llm.weights, part)) for part in PARTS)
    }
    body["kv_dtype"] = llm.kv_dtype
    if llm.kv_formats:
        body["kv_formats"] = [dataclasses.asdict(fmt) for fmt in llm.kv_formats]
    for key in ("mtp_depth", "lookup_parameters", "extra_parameters", "tower_parameters", "max_context_tokens"):
        if getattr(llm, key):
            body[key] = getattr(llm, key)
    return body


def _layer(group: LayerGroup) -> dict[str, Any]:
    parts: dict[str, Any] = {"count": group.count}
    if group.attention is not None:
        parts["attention"] = _record(group.attention)
    if group.feed_forward is not None:
        parts["feed_forward"] = _record(group.feed_forward)
    return parts


def _record(value: Attention | FeedForward) -> dict[str, Any]:
    """Fields of a record that differ from their defaults, with its kind in front."""
    kind = value.kind.value if isinstance(value, RecurrentMixer) else _KINDS[type(value)]
    found: dict[str, Any] = {"kind": kind}
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        if field.name == "kind" or content == field.default:
            continue
        found[field.name] = _indexer(content) if isinstance(content, Indexer) else content
    return found


def _indexer(indexer: Indexer) -> dict[str, Any]:
    shown: dict[str, Any] = {"heads": indexer.heads, "head_dim": indexer.head_dim, "top_k": indexer.top_k}
    return shown if indexer.computes else shown | {"computes": False}
