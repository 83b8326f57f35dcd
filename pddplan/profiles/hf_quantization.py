"""Weight formats of the parts of a checkpoint, from ``quantization_config`` (and dtype) of a Hugging Face config.

One format for all quantised modules is the rule; some methods name a format module by module, or by groups of targets.
What stays unquantised is in ``hf_modules``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pddplan.domain.llm import NumberFormat, WeightFormats
from pddplan.performance.parameters import FORMATS, MXFP4_BLOCK, NVFP4_BLOCK
from pddplan.profiles.hf_fields import Fields
from pddplan.profiles.hf_modules import (
    MOST_MODULES,
    PROBES,
    Modules,
    formats_by_part,
    mixed_format,
    module_patterns,
)
from pddplan.units import BITS_PER_BYTE

BNB_BLOCK, BNB_SCALES_BLOCK = 64, 256
"""Values that share a scale in bitsandbytes, and scales that share one when they are quantised again."""
BNB_BYTES = 0.5 + 4 / BNB_BLOCK
BNB_TWICE_BYTES = 0.5 + (1 + 4 / BNB_SCALES_BLOCK) / BNB_BLOCK
SCALE_BYTES = 2.0
"""Of a group of integer weights (a bf16 scale)."""

_PLAIN = {
    "bfloat16": "bf16",
    "float16": "bf16",  # same size and rate
    "half": "bf16",
    "bf16": "bf16",
    "fp16": "bf16",
    "float32": "fp32",
    "float": "fp32",
    "float8_e4m3fn": "fp8",
}
_METHODS = (
    "fp8", "fbgemm_fp8", "mxfp4", "compressed-tensors", "modelopt", "modelopt_fp4", "awq", "gptq", "auto-round",
    "bitsandbytes", "quark", "nvfp4", "mxfp8", "w8a8_fp8", "w8a8_int8", "blockwise_int8", "ptpc_fp8",
)  # fmt: skip


_ALGORITHMS: Mapping[str, NumberFormat] = {
    "FP8": FORMATS["fp8"],
    "FP8_PB_WO": FORMATS["fp8"],
    "FP8_PER_CHANNEL_PER_TOKEN": FORMATS["fp8"],
    "NVFP4": FORMATS["fp4"],
    "NVFP4_AWQ": FORMATS["fp4"],
    "MXFP8": FORMATS["fp8"],
    "W4A8_NVFP4_FP8": NumberFormat("fp4", FORMATS["fp4"].bytes_per_value, "fp8"),
    "W4A16_NVFP4": NumberFormat("fp4", FORMATS["fp4"].bytes_per_value, "bf16"),
    "W4A8_MXFP4_FP8": NumberFormat("mxfp4", FORMATS["mxfp4"].bytes_per_value, "fp8"),
    "W4A16_AWQ": FORMATS["int4"],
    "W4A16": FORMATS["int4"],
    "W4A8_AWQ": NumberFormat("int4", FORMATS["int4"].bytes_per_value, "fp8"),
    "W8A8_SQ_PER_CHANNEL": FORMATS["int8"],
    "INT8_SQ": FORMATS["int8"],
    "W8A16": NumberFormat("int8", 1.0, "bf16"),
}
"""Names of ModelOpt."""
SAMPLED_LAYERS = 64
"""Layers that targets of groups are tried on."""


def weight_formats_of(fields: Fields, *, layers: int) -> WeightFormats:
    """Formats of all parts; a quantisation method that is not known is a fault."""
    plain = _plain(fields)
    quantised, patterns = _quantised(fields)
    experts = _named_expert_format(fields) or quantised
    own = _own_formats(fields)
    if experts is None or quantised is None:
        base = quantised or plain
        formats = WeightFormats(base, base, base, experts or base, plain, plain)
        return replace(formats, **own)
    kept = Modules(fields, patterns)
    parts = {
        part: mixed_format(experts if part == "experts" else quantised, plain, kept.share(part, layers))
        for part in PROBES
    }
    head = plain if kept.head() or _head_stays(fields) else quantised
    if own and _lists_modules(fields):
        # modules that are not on the list stay as they were: plain, or in the format of the method underneath
        rest = plain if _method(fields.mapping("quantization_config")) == "modelopt" else quantised
        parts, head = dict.fromkeys(PROBES, rest), plain
    return replace(WeightFormats(**parts, embedding=plain, head=head), **own)


def kv_dtype_of(fields: Fields) -> str | None:
    """KV dtype that the checkpoint asks for (``kv_cache_scheme``, ``kv_cache_quant_algo``), if any."""
    config = fields.mapping("quantization_config")
    scheme = config.get("kv_cache_scheme")
    if isinstance(scheme, Mapping) and scheme.get("num_bits") == 8:
        return "fp8" if scheme.get("type") == "float" else "int8"
    inner = config.get("quantization")
    source = inner if isinstance(inner, Mapping) else config
    algorithm = str(source.get("kv_cache_quant_algo") or "").upper()
    return {"FP8": "fp8", "INT8": "int8", "NVFP4": "fp4"}.get(algorithm)


def _plain(fields: Fields) -> NumberFormat:
    word = fields.text("torch_dtype", "dtype")
    if word is None:
        fields.assumed["dtype"] = "bfloat16"
        return FORMATS["bf16"]
    known = _PLAIN.get(word.removeprefix("torch."))
    if known is None:
        fields.fault("torch_dtype", f"unknown dtype {word!r}", "use bfloat16, float16 or float32")
        return FORMATS["bf16"]
    return FORMATS[known]


def _named_expert_format(fields: Fields) -> NumberFormat | None:
    """DeepSeek-V4 names the format of its routed experts apart."""
    word = fields.text("expert_dtype")
    if word is None:
        return None
    if word == "fp4":
        return FORMATS["mxfp4"]  # blocks of 32 with power-of-two scales
    if word in FORMATS:
        return FORMATS[word]
    fields.fault("expert_dtype", f"unknown dtype {word!r}", f"use one of {', '.join(sorted(FORMATS))}")
    return None


def _quantised(fields: Fields) -> tuple[NumberFormat | None, list[str]]:
    """Format of quantised linear layers, and the patterns of modules that are left out."""
    config = fields.mapping("quantization_config")
    if not config:
        return None, []
    method = _method(config)
    patterns = module_patterns(fields, config)
    if method in ("w8a8_int8", "blockwise_int8"):
        return FORMATS["int8"], patterns
    if method in ("fp8", "fbgemm_fp8", "mxfp8", "w8a8_fp8", "ptpc_fp8"):
        return FORMATS["fp8"], patterns
    if method == "mxfp4":
        return FORMATS["mxfp4"], patterns
    if method in ("nvfp4", "modelopt_fp4", "petit_nvfp4"):
        return FORMATS["fp4"], patterns
    if method == "modelopt":
        return _modelopt(fields, config), patterns
    if method == "compressed-tensors":
        return _compressed_tensors(fields, config), patterns
    if method in ("awq", "gptq", "auto-round"):
        return _integers(fields, _small(config.get("bits"), 4), _small(config.get("group_size"), 128), True), patterns
    if method == "bitsandbytes":
        if config.get("load_in_4bit"):
            twice = config.get("bnb_4bit_use_double_quant") is True
            return NumberFormat("int4", BNB_TWICE_BYTES if twice else BNB_BYTES, "bf16"), patterns
        return NumberFormat("int8", 1.0, "int8"), patterns
    if method == "quark":
        return _quark(fields, config), patterns
    fields.fault(
        "quantization_config.quant_method",
        f"unknown method {method!r}",
        f"known are {', '.join(_METHODS)}; or remove quantization_config and give --weights-dtype",
    )
    return None, patterns


def _method(config: Mapping[str, Any]) -> str:
    """Name of the method, however it is spelled (``compressed_tensors``, ``gptq_marlin``, ``intel/auto-round``)."""
    word = str(config.get("quant_method") or config.get("quant_algo") or "").lower().rpartition("/")[2]
    word = word.removesuffix("_marlin")
    return {"compressed_tensors": "compressed-tensors", "auto_round": "auto-round", "autoround": "auto-round"}.get(
        word, word
    )


def _lists_modules(fields: Fields) -> bool:
    return bool(_module_list(fields.mapping("quantization_config")))


def _module_list(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """``quantized_layers``: an algorithm for each module by name."""
    inner = config.get("quantization")
    source = inner if isinstance(inner, Mapping) else config
    listed = source.get("quantized_layers")
    return listed if isinstance(listed, Mapping) and len(listed) <= MOST_MODULES else {}


def _own_formats(fields: Fields) -> dict[str, NumberFormat]:
    """Formats of parts that a config names apart from the rest."""
    config = fields.mapping("quantization_config")
    listed = _module_list(config)
    if listed:
        named = {
            str(name): _ALGORITHMS[word]
            for name, entry in listed.items()
            if isinstance(entry, Mapping) and (word := str(entry.get("quant_algo")).upper()) in _ALGORITHMS
        }
        return formats_by_part(named)
    if _method(config) != "compressed-tensors":
        return {}
    groups = _groups(fields, config)
    targeted = [(Modules(fields, names), fmt) for names, fmt in groups if "Linear" not in names]
    if len(groups) < 2 or not targeted:
        return {}
    kept = Modules(fields, module_patterns(fields, config))
    found = {}
    for part in PROBES:
        best = max(targeted, key=lambda pair: pair[0].share(part, SAMPLED_LAYERS))
        if best[0].share(part, SAMPLED_LAYERS) > 1 / 2 and kept.share(part, SAMPLED_LAYERS) <= 1 / 2:
            found[part] = best[1]
    return found


def _compressed_tensors(fields: Fields, config: Mapping[str, Any]) -> NumberFormat | None:
    """Format of the group that means all linear layers, or of the commonest one."""
    groups = _groups(fields, config)
    if not groups:
        fields.missing("quantization_config.config_groups", why="with num_bits and type of the weights")
        return None
    general = [fmt for names, fmt in groups if "Linear" in names]
    return general[0] if general else Counter(fmt for _, fmt in groups).most_common(1)[0][0]


def _groups(fields: Fields, config: Mapping[str, Any]) -> list[tuple[list[str], NumberFormat]]:
    """Targets and format of each group of compressed-tensors."""
    groups = config.get("config_groups")
    found: list[tuple[list[str], NumberFormat]] = []
    for group in groups.values() if isinstance(groups, Mapping) else []:
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if not isinstance(weights, Mapping):
            continue
        targets = group.get("targets")
        names = [str(t) for t in targets] if isinstance(targets, list) else ["Linear"]
        number_format = _group_format(fields, group, weights, layout=str(group.get("format") or config.get("format")))
        if number_format is not None:
            found.append((names, number_format))
    return found


def _group_format(
    fields: Fields, group: Mapping[str, Any], weights: Mapping[str, Any], *, layout: str
) -> NumberFormat | None:
    bits, kind = weights.get("num_bits"), str(weights.get("type"))
    weight_only = not isinstance(group.get("input_activations"), Mapping)
    size = _small(weights.get("group_size"), 0)
    if bits == 8 and kind == "float":
        return NumberFormat("fp8", 1.0, "bf16" if weight_only else "fp8")
    if bits == 8:
        return NumberFormat("int8", 1.0, "bf16" if weight_only else "int8")
    if bits == 4 and "mxfp4" in layout:
        return NumberFormat("mxfp4", 0.5 + 1 / (size or MXFP4_BLOCK), "bf16" if weight_only else "fp4")
    if bits == 4 and kind == "float":
        return NumberFormat("fp4", 0.5 + 1 / (size or NVFP4_BLOCK), "bf16" if weight_only else "fp4")
    if bits == 4:
        return _integers(fields, 4, size, weight_only)
    fields.fault("quantization_config.config_groups", f"{bits} bits of {kind} are unknown", "use a profile")
    return None


def _modelopt(fields: Fields, config: Mapping[str, Any]) -> NumberFormat | None:
    inner = config.get("quantization")
    source = inner if isinstance(inner, Mapping) else config
    algorithm = str(source.get("quant_algo") or "").upper()
    if algorithm == "MIXED_PRECISION":
        named = _module_list(config).values()
        words = [str(entry.get("quant_algo")).upper() for entry in named if isinstance(entry, Mapping)]
        algorithm = Counter(words).most_common(1)[0][0] if words else ""
    if algorithm not in _ALGORITHMS:
        known = ", ".join(_ALGORITHMS)
        fields.fault("quantization_config.quant_algo", f"unknown algorithm {algorithm!r}", f"known are {known}")
        return None
    return _ALGORITHMS[algorithm]


def _quark(fields: Fields, config: Mapping[str, Any]) -> NumberFormat | None:
    whole = config.get("global_quant_config")
    weight = whole.get("weight") if isinstance(whole, Mapping) else None
    weight = weight[0] if isinstance(weight, list) and weight else weight
    dtype = str(weight.get("dtype")) if isinstance(weight, Mapping) else ""
    known = {"fp4": FORMATS["mxfp4"], "fp8_e4m3": FORMATS["fp8"], "int8": FORMATS["int8"], "int4": FORMATS["int4"]}
    if dtype not in known:
        fields.fault(
            "quantization_config.global_quant_config.weight.dtype", f"unknown dtype {dtype!r}", "use a profile"
        )
        return None
    return known[dtype]


def _integers(fields: Fields, bits: int, group: int, weight_only: bool) -> NumberFormat:
    if bits not in (2, 3, 4, 8):
        fields.fault("quantization_config", f"{bits}-bit weights are unknown", "use a profile")
        bits = 8
    scale = SCALE_BYTES / group if group > 0 else 0.0
    size = bits / BITS_PER_BYTE + scale
    dtype = "int8" if bits == BITS_PER_BYTE else "int4"
    return NumberFormat(dtype, size, "bf16" if weight_only or dtype == "int4" else dtype)


def _small(value: Any, default: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 1_000_000:
        return default
    return value


def _head_stays(fields: Fields) -> bool:
    """Engines never convert the head in these methods, whether it is listed or not."""
    method = _method(fields.mapping("quantization_config"))
    return method in (
        "fp8", "fbgemm_fp8", "w8a8_fp8", "ptpc_fp8", "w8a8_int8", "blockwise_int8", "mxfp4", "awq", "gptq",
        "auto-round", "bitsandbytes",
    )  # fmt: skip
