"""Which modules of a checkpoint a quantisation leaves out or stores in a format of their own.

Configs name modules one by one, by patterns, or both. Each part of the model is probed with the module names that
engines use for it; where only some layers are named, the part's bytes are the mean over layers.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pddplan.domain.llm import NumberFormat
from pddplan.profiles.hf_fields import Fields

MOST_PATTERNS = 5_000
LONGEST_PATTERN = 300
MOST_MODULES = 200_000

_NESTED_REPEAT = re.compile(r"\([^()]*[*+{][^()]*\)\s*[*+{]")
"""Patterns such as (a+)+ can take for ever; no checkpoint needs one."""

PROBES: Mapping[str, tuple[str, ...]] = {
    "attention": ("self_attn.q_proj", "self_attn.o_proj"),
    "dense": ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    "shared_experts": ("mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj"),
    "experts": ("mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.0.down_proj"),
}
"""Module names below ``model.layers.N``."""
LATENT_PROBES = ("self_attn.q_b_proj", "self_attn.kv_b_proj", "self_attn.o_proj")
"""Of attention whose cache is a latent."""
BESIDE_PROBES: Mapping[str, tuple[str, ...]] = {"experts": ("experts.0.gate_proj", "experts.0.down_proj")}
"""Where the experts stand beside a dense feed-forward, not inside it (Gemma 4)."""
ROOTS = ("model.layers", "model.language_model.layers", "language_model.model.layers")
HEADS = ("lm_head", "language_model.lm_head", "model.lm_head")

_PARTS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), part)
    for pattern, part in (
        (r"(^|\.)(mtp|visual|vision|audio)", ""),
        (r"lm_head|(^|\.)head$", "head"),
        (r"shared_expert|shared_mlp", "shared_experts"),
        (r"experts|block_sparse_moe\.w", "experts"),
        (r"self_attn|linear_attn|(^|\.)attn|mamba|mixer\.([qkvo]|in|out)_proj", "attention"),
        (r"mlp|ffn|feed_forward|mixer\.(up|down|gate)_proj", "dense"),
    )
)
"""What a module's name says of its part, first match first; drafts and towers are none."""


def module_patterns(fields: Fields, config: Mapping[str, Any]) -> list[str]:
    """Names and patterns of the modules that stay unquantised, under whichever key a method writes them."""
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
        rules = source.get("dynamic")  # GPTQModel: "-:regex" leaves modules out
        found += (
            [f"re:{rule[2:]}" for rule in rules if str(rule).startswith("-:")] if isinstance(rules, Mapping) else []
        )
    if len(found) > MOST_PATTERNS or any(len(p) > LONGEST_PATTERN for p in found):
        fields.fault("quantization_config", "its list of unquantised modules is too long", "use patterns (layers.*)")
        return []
    return found


class Modules:
    """A set of modules, given by names, globs and regular expressions (``re:...``)."""

    def __init__(self, fields: Fields, patterns: Iterable[str]) -> None:
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

    def has(self, module: str) -> bool:
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
        """Share of a part's modules that are in the set, under any of the prefixes that checkpoints use."""
        if not (self.exact or self.regexes or self.globs):
            return 0.0
        probes = PROBES[part]
        if part == "attention" and self.fields.data.get("kv_lora_rank"):
            probes = LATENT_PROBES
        if part in BESIDE_PROBES and self.fields.data.get("enable_moe_block"):
            probes = BESIDE_PROBES[part]
        numbers = sorted({*range(0, layers, max(1, layers // 32)), layers - 1})
        modules = [[f"{root}.{n}.{probe}" for root in ROOTS] for n in numbers for probe in probes]
        inside = [any(self.has(name) for name in names) for names in modules]
        return sum(inside) / len(inside)

    def head(self) -> bool:
        return any(self.has(name) for name in HEADS)


def part_of_module(name: str) -> str:
    """Part of the model that a module's name tells; empty where it tells none that a language model has."""
    return next((part for pattern, part in _PARTS if pattern.search(name)), "")


def formats_by_part(listed: Mapping[str, NumberFormat]) -> dict[str, NumberFormat]:
    """Format of each part of which modules are listed: the commonest dtype, with the mean bytes of its modules."""
    counts: dict[str, Counter[NumberFormat]] = {}
    for name, number_format in listed.items():
        part = part_of_module(name)
        if part:
            counts.setdefault(part, Counter())[number_format] += 1
    found = {}
    for part, seen in counts.items():
        main = seen.most_common(1)[0][0]
        size = sum(fmt.bytes_per_value * count for fmt, count in seen.items()) / seen.total()
        found[part] = main if len(seen) == 1 else NumberFormat(main.dtype, size, main.compute_dtype)
    return found


def mixed_format(quantised: NumberFormat, plain: NumberFormat, kept: float) -> NumberFormat:
    """Format of a part of which a share stays plain."""
    if kept <= 0:
        return quantised
    if kept >= 1:
        return plain
    size = kept * plain.bytes_per_value + (1 - kept) * quantised.bytes_per_value
    main = plain if kept > 1 / 2 else quantised
    return NumberFormat(main.dtype, size, main.compute_dtype)
