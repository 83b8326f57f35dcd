"""Write fitted efficiencies as profiles: default, vendor, chip and stack layers (called by fit_efficiency.py)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pddplan.files import write_atomically
from pddplan.performance.calibration import ENGINE_NUMBERS, Fit
from pddplan.performance.efficiency import FRACTIONS, HIGHEST_SHARE, NUMBERS, SHARES

DIGITS = 4
FITTED_ON = "2026-11"
UNCHANGED = 0.005
"""A factor this close to one is left out."""
TOLD_SHARE = 0.5
"""Below it a number is what publications say rather than what the measurements do."""
TITLES: dict[str, tuple[str, str]] = {
    "fit": ("calibrated", "robust fit to public measurements (docs/validation.md)"),
    "known": ("published", "publications named in benchmarks/fit_efficiency.py; the measurements say less about it"),
    "start": ("assumption", "start of the fit (public findings, round numbers); the measurements say less about it"),
    "rule": ("assumption", "usual engine settings"),
    "scheduler": (
        "published",
        "SGLang's server arguments: prompts join decoding passes only with --enable-mixed-chunk",
    ),
}
"""Kind and title of each source."""

ASSUMED: dict[str, tuple[float, float]] = {
    "host_overhead_s": (0.02, 0.145),
    "memory_utilization": (0.85, 0.95),
    "memory_reserve_bytes": (0.5e9, 4e9),
    "max_sequences": (256, 4096),
    "chunk_tokens": (2048, 16384),
    "tail_packing": (0, 1),
    "exchange_overlap": (0, 1),
    "redundant_experts": (0, 0.25),
    "prefills_first": (0, 1),
    "speculation_acceptance": (0.4, 0.9),
}
"""Numbers no measurement here tells, with their plausible range."""

SCHEDULERS: dict[str, dict[str, tuple[str, float, str]]] = {
    "sglang-2025": {"prefills_first": ("value", 1.0, "scheduler")},
}
"""What an engine does by its own description, whatever the fit says."""

CHIPS: dict[str, tuple[str, ...]] = {
    "a100-80g": ("a100-80g", "a100-40g", "a800-80g"),
    "h100-sxm": ("h100-sxm", "h800-sxm"),
    "h200-sxm": ("h200-sxm",),
    "b200-sxm": ("b200-sxm",),
    "gb200-nvl72": ("gb200-nvl72",),
    "mi300x": ("mi300x",),
}
STACKS: dict[str, tuple[str, str | None, str]] = {
    "eager-2023": ("engines without captured graphs", None, "{until: 2024-01}"),
    "graphs-2024": ("engines of 2024", None, "{since: 2024-01, until: 2025-01}"),
    "graphs-2025": ("engines since 2025", None, "{since: 2025-01}"),
    "operators": ("sums of operator times", None, "{}"),
    "eager-vllm": ("vLLM before mid 2024", "eager-2023", "{engines: [vllm], until: 2024-06}"),
    "eager-generic": ("DeepSpeed and other interpreted engines", "eager-2023", "{engines: [eager]}"),
    "eager-compiled": (
        "DistServe, FasterTransformer and other compiled engines without graphs",
        "eager-2023",
        "{engines: [compiled], until: 2025-01}",
    ),
    "vllm-2024": ("vLLM of 2024", "graphs-2024", "{engines: [vllm], since: 2024-06, until: 2025-01}"),
    "vllm-2025": ("vLLM since 2025", "graphs-2025", "{engines: [vllm], since: 2025-01}"),
    "sglang-2025": ("SGLang since 2025", "graphs-2025", "{engines: [sglang], since: 2025-01}"),
    "trtllm-2024": ("TensorRT-LLM before 2025", "graphs-2024", "{engines: [trtllm], until: 2025-01}"),
    "trtllm-2025": ("TensorRT-LLM since 2025", "graphs-2025", "{engines: [trtllm], since: 2025-01}"),
    "operators-trtllm": ("sums of TensorRT-LLM operator times", "operators", "{engines: [trtllm]}"),
    "operators-vllm": ("sums of vLLM operator times", "operators", "{engines: [vllm]}"),
    "operators-sglang": ("sums of SGLang operator times", "operators", "{engines: [sglang]}"),
}


def write_layers(result: Fit, folder: Path) -> None:
    """One file per layer; the level of the fit ``vendor`` is folded into the default where most data come from."""
    runs = {p.name: result.factor(p.name, "measure", "runs") for p in result.parameters}
    default, ranges = {}, dict(ASSUMED)
    for name in NUMBERS:
        fitted = name in runs
        value = result.value(name) * runs[name] if fitted else getattr(result.base, name)
        default[name] = ("value", value, "rule" if name in ASSUMED else _basis(result, name, otherwise="start"))
        if fitted and name not in ASSUMED:
            low, high = result.interval(name)
            ceiling = HIGHEST_SHARE if name in SHARES else np.inf
            ranges[name] = (low * runs[name], min(high * runs[name], ceiling))
            if name in FRACTIONS:
                ranges[name] = (0.0, 1.0)
    _write(folder / "default.yaml", "any chip under any engine", "default", numbers=default, ranges=ranges)
    for vendor, file in (("NVIDIA", "vendor-nvidia"), ("AMD", "vendor-amd")):
        numbers = _level(result, "vendor", vendor)
        applies = f"{{vendors: [{vendor}]}}"
        _write(folder / f"{file}.yaml", f"{vendor} chips", "vendor", applies=applies, numbers=numbers)
    for chip, members in CHIPS.items():
        applies = f"{{chips: [{', '.join(members)}]}}"
        numbers = _level(result, "chip", chip)
        _write(folder / f"chip-{chip}.yaml", " ".join(members), "chip", applies=applies, numbers=numbers)
    for stack, (title, parent, applies) in STACKS.items():
        factors = {}
        engine = next((e for e in ("vllm", "sglang", "trtllm", "compiled") if e in stack), "")
        for p in result.parameters:
            factor = result.factor(p.name, "stack", stack)
            factor *= result.factor(p.name, "engine", engine) if engine else 1.0
            factor *= result.factor(p.name, "compiled", engine) if engine else 1.0
            if parent is None:
                factor *= result.factor(p.name, "era", stack) * result.factor(p.name, "kernels", stack)
            if stack == "operators":
                factor *= result.factor(p.name, "measure", "operators") / runs[p.name]
            factors[p.name] = factor
        numbers = _kept(factors)
        if stack.startswith("operators"):
            numbers = {k: v for k, v in numbers.items() if k not in ENGINE_NUMBERS}
        if stack == "operators":
            numbers |= dict.fromkeys(ENGINE_NUMBERS, ("value", 0.0, "fit"))
        numbers |= SCHEDULERS.get(stack, {})
        _write(folder / f"{stack}.yaml", title, "stack", parent=parent, applies=applies, numbers=numbers)


def _basis(result: Fit, name: str, level: str = "", key: str = "", *, otherwise: str = "known") -> str:
    """``fit`` where the measurements tell a number, another source where its prior does."""
    slot = result.slots.get((name, level, key))
    return "fit" if slot is None or result.told[slot] >= TOLD_SHARE else otherwise


def _level(result: Fit, level: str, key: str) -> dict[str, tuple[str, float, str]]:
    """Factors of one chip or vendor, each with where it comes from."""
    factors = {p.name: result.factor(p.name, level, key) for p in result.parameters}
    kept = _kept(factors)
    return {name: (how, value, _basis(result, name, level, key)) for name, (how, value, _) in kept.items()}


def _kept(factors: dict[str, float]) -> dict[str, tuple[str, float, str]]:
    return {name: ("factor", f, "fit") for name, f in factors.items() if abs(f - 1.0) > UNCHANGED}


def _write(
    path: Path,
    title: str,
    layer: str,
    *,
    numbers: dict[str, tuple[str, float, str]],
    parent: str | None = None,
    applies: str = "{}",
    ranges: Mapping[str, tuple[float, float]] = ASSUMED,
) -> None:
    used = {source for _, _, source in numbers.values()}
    lines = [
        "# Written by benchmarks/fit_efficiency.py; a measured overlay of your own (pddplan calibrate) wins over it.",
        "schema: efficiency/1",
        f"name: {title}",
        f"layer: {layer}",
    ]
    if parent:
        lines.append(f"based_on: {parent}")
    lines.append(f"applies_to: {applies}")
    if used:
        lines.append("sources:")
    for source, (kind, words) in TITLES.items():
        if source in used:
            lines.append(f"  {source}: {{kind: {kind}, title: {words!r}, date: {FITTED_ON}}}")
    lines.append("efficiency:" if numbers else "efficiency: {}")
    for name, (how, value, source) in numbers.items():
        low_high = ""
        if TITLES[source][0] == "assumption":
            low, high = ranges[name]
            low_high = f", low: {low:g}, high: {high:g}"
        lines.append(f"  {name}: {{{how}: {value:.{DIGITS}g}, source: {source}{low_high}}}")
    write_atomically(path, "\n".join(lines) + "\n")
