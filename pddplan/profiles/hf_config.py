"""Import of a Hugging Face ``config.json``: a model as the planner sees it, or the list of what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pddplan.domain.llm import (
    CompressedAttention,
    FeedForward,
    KvFormat,
    LatentAttention,
    LayerGroup,
    Llm,
)
from pddplan.domain.provenance import Basis, Provenance
from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.files import home_path, is_file, is_folder
from pddplan.profiles.hf_families import ARCHITECTURES, FAMILIES, Family, family_of, family_of_class, known_types
from pddplan.profiles.hf_feed_forward import feed_forwards
from pddplan.profiles.hf_fields import Fields, read_json
from pddplan.profiles.hf_layers import layer_count, mixers
from pddplan.profiles.hf_quantization import kv_dtype_of, weight_formats_of
from pddplan.profiles.hf_stacks import STACKS
from pddplan.units import MILLION

_GATED_TOWERS = ("gemma4", "glm4v", "pixtral")
NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where multimodal configs keep the language model."""
INHERITED = ("tie_word_embeddings", "torch_dtype", "dtype", "quantization_config", "vocab_size")
"""Keys of a multimodal config that its text part may leave to the outside."""

SPARSE_LATENT_FP8 = KvFormat("fp8", 1.0, 2.0, entry_scale_bytes=16.0, index_value_bytes=1.0, index_scale_bytes=4.0)
"""As served: latent in fp8 with four fp32 scales, rope in bf16; index keys in fp8 with one fp32 scale."""
LATENT_FP8_WITH_SCALES = KvFormat("fp8-scaled", 1.0, 2.0, entry_scale_bytes=16.0)
"""The same entry without an index (FlashMLA's 656-byte layout)."""
COMPRESSED_MIX = KvFormat("fp8", 1.0, 2.0, entry_scale_bytes=8.0, index_value_bytes=0.5, index_scale_bytes=4.0)
"""DeepSeek-V4 as served: entries in fp8 with 8 bytes of scales, rope in bf16; index keys in fp4."""
COMPRESSED_FP8_INDEX = replace(COMPRESSED_MIX, name="fp8-index-fp8", index_value_bytes=1.0)
"""The same where engines keep index keys in fp8, as vLLM does by default and on chips without fp4."""


@dataclass(frozen=True, slots=True)
class Import:
    """A model, and what the file did not say itself."""

    llm: Llm
    assumed: Mapping[str, Any]
    """Class defaults that were taken because the file leaves them out."""
    notes: tuple[str, ...]


def import_config(
    path: str | Path, *, model_id: str | None = None, name: str | None = None, family: str | None = None
) -> Import:
    """Read a config file, or the one in a folder; a ``hf_quant_config.json`` beside it is read, too.

    Raises:  InputError listing everything that is missing or wrong; an unknown architecture is never guessed.
    """
    source = home_path(path)
    if str(path) != "-" and is_folder(source):
        source = source / "config.json"
    stem = source.parent.name if source.name == "config.json" and source.parent.name else source.stem
    ident = model_id or (stem if str(path) != "-" else "model")
    config = read_json("-" if str(path) == "-" else source)
    beside = source.parent / "hf_quant_config.json"
    if str(path) != "-" and "quantization_config" not in config and is_file(beside):
        config["quantization_config"] = {"quant_method": "modelopt", **read_json(beside)}
    shown = "<standard input>" if str(path) == "-" else str(source)
    return config_to_llm(config, source=shown, model_id=ident, name=name, family=family)


def config_to_llm(
    config: Mapping[str, Any], *, source: str, model_id: str, name: str | None = None, family: str | None = None
) -> Import:
    """Turn a parsed config into a model; see ``import_config``."""
    data, word, nested = _text_part(config, source, family)
    known = family_of(word)
    if known is None:
        raise InputError(_unknown_family(word, source))
    family_name, rules = known
    defaults = {**rules.nested_defaults, **rules.defaults} if nested else rules.defaults
    fields = Fields(data=data, defaults=defaults, name=source)
    if data.get("use_mla") is False:  # a class that could do both: sizes of the other kind mean nothing
        fields.used.update(("kv_lora_rank", "q_lora_rank"))
    if fields.flag("is_encoder_decoder"):
        fields.fault("is_encoder_decoder", "encoder-decoder models are not supported", "give a decoder-only model")
    hidden = fields.count("hidden_size", "n_embd", "n_embed", "d_model")
    narrow = fields.count("word_embed_proj_dim", default=hidden)
    if narrow != hidden:
        fields.fault(
            "word_embed_proj_dim",
            f"is {narrow}, not the hidden size {hidden}: such models are unknown",
            "use a profile",
        )
    layers = layer_count(fields)
    groups = _groups(fields, rules, layers, hidden=hidden)
    vocab = fields.count("vocab_size", "padded_vocab_size")
    tied = fields.flag("tie_word_embeddings", default=rules.tied)
    weights = weight_formats_of(fields, layers=layers)
    per_layer_width = fields.count("hidden_size_per_layer_input", default=0, least=0)
    lookup = _positions(fields, rules, hidden) + _per_layer_table(fields, per_layer_width, layers)
    mtp, depth = _mtp(fields, groups)
    kv_formats, served = _kv_formats(groups)
    tower, tower_note = _tower(config)
    fields.unread()
    fields.problems.raise_if_any()
    notes = [n for n in (tower_note,) if n]
    stated = config.get("model_type")
    if family is None and isinstance(stated, str) and family_of(stated) is None and family_of(word) is not None:
        notes.append(
            f"model_type {stated[:80]!r} is unknown; read as {word}, which the class it names or its text part is"
        )
    if "_provenance" in config:
        notes.append(f"the file says of itself: {str(config['_provenance'])[:500]}")
    llm = Llm(
        id=model_id,
        name=name or model_id,
        family=family_name,
        hidden=hidden,
        vocab=vocab,
        tied_embeddings=tied,
        layers=groups,
        weights=weights,
        kv_dtype=kv_dtype_of(fields) or served,
        kv_formats=kv_formats,
        mtp=mtp,
        mtp_depth=depth,
        lookup_parameters=lookup,
        extra_parameters=_per_layer_projections(per_layer_width, layers, hidden=hidden),
        tower_parameters=tower,
        max_context_tokens=fields.count("max_position_embeddings", "model_max_length", "n_positions", default=None)
        or None,
        provenance=_provenance(source, fields.assumed),
    )
    return Import(llm=llm, assumed=dict(fields.assumed), notes=tuple(notes))


def _text_part(config: Mapping[str, Any], source: str, family: str | None) -> tuple[dict[str, Any], str, bool]:
    """The language model inside a config, its ``model_type``, and whether it was nested."""
    outer_type = config.get("model_type")
    for key in NESTED:
        inner = config.get(key)
        if not isinstance(inner, Mapping):
            continue
        if key == "thinker_config" and isinstance(inner.get("text_config"), Mapping):
            inner = inner["text_config"]
        data = dict(inner)
        for shared in INHERITED:
            if data.get(shared) is None and config.get(shared) is not None:
                data[shared] = config[shared]
        word = family or inner.get("model_type") or outer_type
        # a text part named after a family that is not known may still be known by the outer name
        if not family and isinstance(word, str) and family_of(word) is None and isinstance(outer_type, str):
            word = outer_type if family_of(outer_type) else word
        return data, _as_type(word, source), True
    named = config.get("architectures")
    # some files carry the model_type of another model or one of their own, but name their class
    by_class = str(named[0]) if isinstance(named, list) and named else ""
    own = ARCHITECTURES.get(by_class)
    if own is None and (not isinstance(outer_type, str) or family_of(outer_type) is None):
        own = family_of_class(by_class)
    return dict(config), _as_type(family or own or outer_type, source), False


def _as_type(word: Any, source: str) -> str:
    if isinstance(word, str) and word.strip():
        return word
    raise InputError(
        Problem(
            what="model_type is missing, so the architecture is not known",
            fix="give the model's own config.json, or say --family (for example --family llama)",
            where=f"{source}: model_type",
        )
    )


def _unknown_family(word: str, source: str) -> Problem:
    return Problem(
        what=f"unknown architecture {word[:80]!r}{did_you_mean(word.lower(), known_types())}",
        fix=(
            "describe its layers in a profile (docs/profiles.md), or, if it has the layers of a known family, "
            f"say --family with one of: {', '.join(FAMILIES)}"
        ),
        where=f"{source}: model_type",
    )


def _groups(fields: Fields, family: Family, layers: int, *, hidden: int) -> tuple[LayerGroup, ...]:
    """Equal layers merged, in the order in which they first appear."""
    stack = STACKS.get(family.pattern)
    if stack is not None:
        pairs = stack(fields, family, layers, hidden=hidden)
    else:
        mixed = mixers(fields, family, layers, hidden=hidden)
        feeds: list[FeedForward] | list[None]
        if family.pattern == "all_linear":
            feeds = [None] * layers
        else:
            feeds = feed_forwards(fields, family, layers, hidden=hidden)
        pairs = list(zip(mixed, feeds, strict=True))
    counted = Counter(pairs)
    return tuple(LayerGroup(count, mixer, feed) for (mixer, feed), count in counted.items())


def _mtp(fields: Fields, groups: tuple[LayerGroup, ...]) -> tuple[tuple[LayerGroup, ...], int]:
    """Draft blocks: as many as the config says, each like the last layer of the stack."""
    keys = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "num_mtp_modules")
    depth = fields.count(*keys, default=0, least=0)
    if fields.data.get("use_mtp") is False:
        depth = 0
    if not depth or not groups:
        return (), 0
    last = next((g for g in reversed(groups) if g.attention is not None), groups[-1])
    return (LayerGroup(depth, last.attention, last.feed_forward),), depth


def _positions(fields: Fields, family: Family, hidden: int) -> int:
    if not family.learned_positions:
        return 0
    return (fields.count("max_position_embeddings", "n_positions") + family.position_offset) * hidden


def _per_layer_table(fields: Fields, width: int, layers: int) -> int:
    """A second embedding table with a row per token and layer (Gemma 3n and 4)."""
    return fields.count("vocab_size_per_layer_input") * width * layers if width else 0


def _per_layer_projections(width: int, layers: int, *, hidden: int) -> int:
    """Per layer: gate and projection between hidden and the narrow width; once: hidden to all layers."""
    return 3 * hidden * width * layers


def _kv_formats(groups: tuple[LayerGroup, ...]) -> tuple[tuple[KvFormat, ...], str]:
    """Cache mixes as engines serve them, and the usual one."""
    mixers_found = [g.attention for g in groups]
    if any(isinstance(m, CompressedAttention) for m in mixers_found):
        return (COMPRESSED_MIX, COMPRESSED_FP8_INDEX), "fp8"
    latent = [m for m in mixers_found if isinstance(m, LatentAttention)]
    if any(m.indexer for m in latent):
        return (SPARSE_LATENT_FP8,), "fp8"
    return ((LATENT_FP8_WITH_SCALES,) if latent else ()), "bf16"


def _tower(config: Mapping[str, Any]) -> tuple[int, str | None]:
    """Parameters of a vision tower by the usual transformer count; 0 where its sizes are not given."""
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping):
        return 0, None

    def size(*keys: str) -> int:
        for key in keys:
            value = vision.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**6:
                return value
        return 0

    layers = size("num_hidden_layers", "depth", "vt_num_hidden_layers", "layers")
    hidden = size("hidden_size", "embed_dim", "vt_hidden_size", "width")
    inner = size("intermediate_size", "vt_intermediate_size") or 4 * hidden
    word = str(vision.get("model_type") or config.get("model_type"))
    merger, outer = 0, size("out_hidden_size")
    if "glm4v" in word and outer:
        # its intermediate_size is that of the merger behind the layers: a projection and three gated matrices, on
        # patches that were joined two by two in both directions
        merger = outer * (3 * inner + outer + 4 * hidden)
        inner = outer
    if not (layers and hidden):
        return 0, "the vision tower is left out: its config does not give layers and width"
    # towers with SiLU (Qwen), and these, have gated feed-forwards
    gated = vision.get("hidden_act") == "silu" or any(name in word for name in _GATED_TOWERS)
    matrices = 3 if gated else 2
    count = layers * (4 * hidden * hidden + matrices * hidden * inner) + merger
    return count, f"the vision tower is counted as {count / MILLION:,.0f} million parameters, in bf16"


def _provenance(source: str, assumed: Mapping[str, Any]) -> dict[str, Provenance]:
    origin = {"layers": Provenance(Basis.PUBLISHED, f"Hugging Face config {Path(source).name}")}
    for key, value in assumed.items():
        origin[key] = Provenance(Basis.ASSUMED, f"default of the configuration class, as the file leaves out {key}")
        del value
    return origin
