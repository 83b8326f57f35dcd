"""Weight formats of the parts of a checkpoint, from ``quantization_config`` (and dtype) of a Hugging Face config.

What a config leaves unquantised it names by module patterns. Each part of the model is probed with the module
names that engines use for it; where only some layers are left out, the part's bytes are the mean over layers.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pddplan.domain.llm import NumberFormat, WeightFormats
from pddplan.performance.parameters import FORMATS, MXFP4_BLOCK, NVFP4_BLOCK
from pddplan.profiles.hf_fields import Fields
from pddplan.units import BITS_PER_BYTE

MOST_PATTERNS = 5_000
LONGEST_PATTERN = 300
SCALE_BYTES = 2.0
"""Of a group of integer weights (a bf16 scale)."""

_NESTED_REPEAT = re.compile(r"\([^()]*[*+{][^()]*\)\s*[*+{]")
"""Patterns such as (a+)+ can take for ever; no checkpoint needs one."""

PROBES: Mapping[str, tuple[str, ...]] = {
    "attention": ("self_attn.q_proj", "self_attn.o_proj", "self_attn.q_b_proj", "self_attn.kv_b_proj"),
    "dense": ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    "shared_experts": ("mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj"),
    "experts": ("mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.0.down_proj"),
}
"""Module names below ``model.layers.N``."""

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
    "fp8", "fbgemm_fp8", "mxfp4", "compressed-tensors", "modelopt", "modelopt_fp4", "awq", "gptq", "bitsandbytes",
    "quark", "nvfp4", "mxfp8", "int8",
)  # fmt: skip


def weight_formats_of(fields: Fields, *, layers: int) -> WeightFormats:
    """Formats of all parts; a quantisation method that is not known is a fault."""
    plain = _plain(fields)
    quantised, patterns = _quantised(fields, plain)
    experts = _named_expert_format(fields) or quantised
    if experts is None or quantised is None:
        base = quantised or plain
        return WeightFormats(base, base, base, experts or base, plain, plain)
    keeps = _Kept(fields, patterns)
    parts = {
        part: _mixed(experts if part == "experts" else quantised, plain, keeps.share(part, layers)) for part in PROBES
    }
    head = plain if keeps.head() or _head_stays(fields) else quantised
    return WeightFormats(**parts, embedding=plain, head=head)


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


def _quantised(fields: Fields, plain: NumberFormat) -> tuple[NumberFormat | None, list[str]]:
    """Format of quantised linear layers, and the patterns of modules that are left out."""
    config = fields.mapping("quantization_config")
    if not config:
        return None, []
    method = str(config.get("quant_method") or config.get("quant_algo") or "").lower()
    patterns = _patterns(fields, config)
    if method in ("fp8", "fbgemm_fp8", "mxfp8"):
        return FORMATS["fp8"], patterns
    if method == "mxfp4":
        return FORMATS["mxfp4"], patterns
    if method in ("nvfp4", "modelopt_fp4"):
        return FORMATS["fp4"], patterns
    if method == "modelopt":
        return _modelopt(fields, config), patterns
    if method == "compressed-tensors":
        return _compressed_tensors(fields, config), patterns
    if method in ("awq", "gptq"):
        return _integers(fields, _small(config.get("bits"), 4), _small(config.get("group_size"), 128), True), patterns
    if method == "bitsandbytes":
        if config.get("load_in_4bit"):
            return _integers(fields, 4, 64, True), patterns
        return NumberFormat("int8", 1.0, "int8"), patterns
    if method == "quark":
        return _quark(fields, config), patterns
    fields.fault(
        "quantization_config.quant_method",
        f"unknown method {method!r}",
        f"known are {', '.join(_METHODS)}; or remove quantization_config and give --weights-dtype",
    )
    return None, patterns


def _compressed_tensors(fields: Fields, config: Mapping[str, Any]) -> NumberFormat | None:
    groups = config.get("config_groups")
    found: list[NumberFormat] = []
    for group in groups.values() if isinstance(groups, Mapping) else []:
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if not isinstance(weights, Mapping):
            continue
        bits, kind = weights.get("num_bits"), str(weights.get("type"))
        layout = str(group.get("format") or config.get("format") or "")
        weight_only = not isinstance(group.get("input_activations"), Mapping)
        size = _small(weights.get("group_size"), 0)
        if bits == 8 and kind == "float":
            found.append(NumberFormat("fp8", 1.0, "bf16" if weight_only else "fp8"))
        elif bits == 8:
            found.append(NumberFormat("int8", 1.0, "bf16" if weight_only else "int8"))
        elif bits == 4 and "mxfp4" in layout:
            found.append(NumberFormat("mxfp4", 0.5 + 1 / (size or MXFP4_BLOCK), "bf16" if weight_only else "fp4"))
        elif bits == 4 and kind == "float":
            found.append(NumberFormat("fp4", 0.5 + 1 / (size or NVFP4_BLOCK), "bf16" if weight_only else "fp4"))
        elif bits == 4:
            found.append(_integers(fields, 4, size, weight_only))
        else:
            fields.fault("quantization_config.config_groups", f"{bits} bits of {kind} are unknown", "use a profile")
    if not found:
        fields.missing("quantization_config.config_groups", why="with num_bits and type of the weights")
        return None
    return Counter(found).most_common(1)[0][0]


def _modelopt(fields: Fields, config: Mapping[str, Any]) -> NumberFormat | None:
    inner = config.get("quantization")
    source = inner if isinstance(inner, Mapping) else config
    algorithm = str(source.get("quant_algo") or "").upper()
    if algorithm == "MIXED_PRECISION":
        layers = source.get("quantized_layers")
        named = layers.values() if isinstance(layers, Mapping) else []
        words = [str(entry.get("quant_algo")).upper() for entry in named if isinstance(entry, Mapping)]
        algorithm = Counter(words).most_common(1)[0][0] if words else ""
    known = {
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
    if algorithm not in known:
        fields.fault(
            "quantization_config.quant_algo", f"unknown algorithm {algorithm!r}", f"known are {', '.join(known)}"
        )
        return None
    return known[algorithm]


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


def _patterns(fields: Fields, config: Mapping[str, Any]) -> list[str]:
    sources: list[Any] = [config]
    if isinstance(config.get("quantization"), Mapping):
        sources.append(config["quantization"])
    found: list[str] = []
    for source in sources:
        for key in ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "exclude"):
            value = source.get(key)
            if value is None:
                continue
            if not isinstance(value, list):
                fields.fault(f"quantization_config.{key}", "must be a list of module names", "copy it from the config")
                continue
            found += [str(v) for v in value]
    if len(found) > MOST_PATTERNS or any(len(p) > LONGEST_PATTERN for p in found):
        fields.fault("quantization_config", "its list of unquantised modules is too long", "use patterns (layers.*)")
        return []
    return found


class _Kept:
    """Which modules stay unquantised."""

    def __init__(self, fields: Fields, patterns: list[str]) -> None:
        self.fields = fields
        self.exact: set[str] = set()
        self.regexes: list[re.Pattern[str]] = []
        self.globs: list[re.Pattern[str]] = []
        for pattern in patterns:
            self._add(pattern)

    def _add(self, pattern: str) -> None:
        if pattern.startswith("re:"):
            text, kind = pattern[3:], self.regexes
        elif "*" in pattern or "?" in pattern:
            text, kind = fnmatch.translate(pattern), self.globs
        else:
            self.exact.add(pattern)
            return
        try:
            if _NESTED_REPEAT.search(pattern):
                raise re.error("nested repeats")
            kind.append(re.compile(text))
        except (re.error, OverflowError, RecursionError):
            self.fields.fault("quantization_config", f"pattern {pattern!r} cannot be used", "simplify the pattern")

    def keeps(self, module: str) -> bool:
        """A name or glob covers a module and all below it; a plain name also one whose path holds it whole."""
        parts = module.split(".")
        for start in range(len(parts)):
            for end in range(start + 1, len(parts) + 1):
                if ".".join(parts[start:end]) in self.exact:
                    return True
        above = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
        return any(regex.match(module) for regex in self.regexes) or any(
            glob.match(name) for glob in self.globs for name in above
        )

    def share(self, part: str, layers: int) -> float:
        """Share of a part's modules that stay unquantised."""
        if not (self.exact or self.regexes or self.globs):
            return 0.0
        numbers = sorted({*range(0, layers, max(1, layers // 32)), layers - 1})
        modules = [f"{root}.{n}.{probe}" for n in numbers for probe in PROBES[part] for root in self._roots()]
        # a module counts as kept if it is kept under any of the prefixes that checkpoints use
        width = len(self._roots())
        kept = [any(self.keeps(m) for m in modules[i : i + width]) for i in range(0, len(modules), width)]
        return sum(kept) / len(kept)

    def head(self) -> bool:
        return any(self.keeps(m) for m in ("lm_head", "language_model.lm_head", "model.lm_head"))

    @staticmethod
    def _roots() -> tuple[str, ...]:
        return ("model.layers", "model.language_model.layers", "language_model.model.layers")


def _head_stays(fields: Fields) -> bool:
    """Engines never convert the head in these methods, whether it is listed or not."""
    method = str(fields.mapping("quantization_config").get("quant_method") or "").lower()
    return method in ("fp8", "fbgemm_fp8", "mxfp4", "awq", "gptq", "bitsandbytes")


def _mixed(quantised: NumberFormat, plain: NumberFormat, kept: float) -> NumberFormat:
    if kept <= 0:
        return quantised
    if kept >= 1:
        return plain
    size = kept * plain.bytes_per_value + (1 - kept) * quantised.bytes_per_value
    main = plain if kept > 1 / 2 else quantised
    return NumberFormat(main.dtype, size, main.compute_dtype)
