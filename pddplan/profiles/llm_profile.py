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
from typing import TYPE_CHECKING, Any

from pddplan.domain.llm import (
    Attention,
    CompressedAttention,
    Convention,
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
from pddplan.files import home_path, is_file
from pddplan.performance.parameters import FORMATS
from pddplan.profiles import lookup, yaml_source
from pddplan.profiles.llm_schema import (
    PARTS,
    CompressedBody,
    DenseBody,
    FormatBody,
    GroupedBody,
    LatentBody,
    LayerBody,
    LlmFile,
    MoeBody,
    PublishedBody,
    RecurrentBody,
)
from pddplan.profiles.schema import provenance, read
from pddplan.profiles.yaml_source import SourceDocument

if TYPE_CHECKING:
    from pddplan.profiles.hf_config import Import


def load_llm(name: str | Path) -> Llm:
    """A model by bundled or user id, alias, or path of a YAML profile or Hugging Face ``config.json``.

    Raises:  InputError naming the nearest known id, or every fault of the file.
    """
    text = str(name)
    if text.endswith(".json") or is_file(home_path(text) / "config.json"):
        return _imported(home_path(text))
    organisation, slash, tail = text.partition("/")
    if slash and organisation and "/" not in tail and not text.endswith((".yaml", ".yml")) and not is_file(Path(text)):
        text = name = tail  # as model hubs write it: organisation/model
    config = None if lookup.is_path(text) else _config_in_folders(text)
    if config is not None:
        return _imported(config, model_id=lookup.canonical(text))
    path = lookup.find(lookup.Kind.LLM, name)
    return llm_of(lookup.load(lookup.Kind.LLM, path), llm_id=lookup.canonical(path.stem))


def _imported(path: Path, *, model_id: str | None = None) -> Llm:
    from pddplan.profiles.hf_config import import_config  # only configs need the importer

    return import_config(path, model_id=model_id).llm


def llm_ids() -> tuple[str, ...]:
    """Ids of all model profiles that can be found."""
    return lookup.names(lookup.Kind.LLM)


def _config_in_folders(name: str) -> Path | None:
    """A Hugging Face config in a user's folder: ``NAME.json`` or ``NAME/config.json``."""
    for root in lookup.roots():
        if root == lookup.bundled_root():
            continue
        for path in (root / f"{name}.json", root / name / "config.json", root / "models" / f"{name}.json"):
            if is_file(path):
                return path
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
        published_convention=_convention(file.model.published_parameters),
        published_active_convention=_convention(file.model.published_active_parameters),
        aliases=tuple(file.aliases),
        provenance={key.removeprefix("model."): origin for key, origin in provenance(file).items()},
    )


def _value(number: PublishedBody | None) -> float | None:
    return None if number is None else number.value


def _convention(number: PublishedBody | None) -> Convention | None:
    if number is None or number.counts is None:
        return None
    return Convention(tuple(number.counts), number.rounded_to or 0.0)


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


# -- writing ------------------------------------------------------------

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
        body[key] = {"value": value, "source": "card"} | _counted(llm, key)
    counts = {k: v for k, v in imported.assumed.items() if isinstance(v, int) and not isinstance(v, bool) and v > 0}
    if counts:
        sources["class"] = _source("derived", f"defaults of the {llm.family} configuration class", read_on)
        body["class_defaults"] = {key: {"value": value, "source": "class"} for key, value in sorted(counts.items())}
    data: dict[str, Any] = {"schema": LlmFile.schema_name, "name": llm.name}
    if llm.aliases:
        data["aliases"] = list(llm.aliases)
    data |= {"sources": sources, "model": body}
    return header + yaml_source.dump(data)


def _counted(llm: Llm, key: str) -> dict[str, Any]:
    """What a printed number counts, where the model says so."""
    convention = llm.published_convention if key == "published_parameters" else llm.published_active_convention
    if convention is None:
        return {}
    rounded = {"rounded_to": convention.rounded_to} if convention.rounded_to else {}
    return {"counts": list(convention.counts)} | rounded


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
