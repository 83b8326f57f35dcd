"""Efficiency profiles: what stacks make of chips, in layers.

    schema: efficiency/1
    name: vLLM, 2025 engines
    layer: stack
    based_on: graphs-2025
    applies_to: {engines: [vllm], since: 2025-01}
    sources:
      fit: {kind: calibrated, title: ..., date: ...}
    efficiency:
      step_overhead_s:  {value: 0.0004, source: fit}
      experts_mbu:      {factor: 0.7, source: fit}

Layers are laid over each other in the order of ``LAYERS``; a ``value`` replaces what is inherited, a ``factor``
multiplies it. Stacks name the stack they are based on; chips and vendors are found by the chip's id and vendor.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from pddplan.domain.chip import Chip
from pddplan.domain.provenance import Basis
from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.files import read_text
from pddplan.performance.efficiency import FRACTIONS, HIGHEST_SHARE, NUMBERS, SHARES, Efficiency
from pddplan.profiles import lookup, yaml_source
from pddplan.profiles.schema import Check, NonNegative, Positive, Profile, Sourced, Strict, Text, read
from pddplan.profiles.yaml_source import SourceDocument

LAYERS = ("default", "vendor", "chip", "stack", "overlay")
"""Order in which numbers are inherited, the last wins."""

OPERATORS = "operators"
"""Stack of rows that add up measured operators: no scheduler, no host."""

VALIDATION_FILE = "validation.json"
VALIDATION_BYTES = 100_000

_ENGINES = {
    "vllm": ("vllm",),
    "sglang": ("sglang", "sgl"),
    "trtllm": ("trtllm", "tensorrt-llm", "tensorrt_llm", "tensorrt", "trt-llm", "trt"),
    "compiled": ("distserve", "fastertransformer", "swifttransformer", "turbomind", "lmdeploy"),
    "eager": ("deepspeed", "huggingface", "transformers", "hf-", "tgi"),
}
"""Words in a framework's name that tell the engine."""


class Adjustment(Sourced):
    """One number of a layer: a value, or a factor on what is inherited."""

    value: NonNegative | None = None
    """Replaces what is inherited."""
    factor: Positive | None = None
    """Multiplies what is inherited."""


_SHARE_RANGE, _FACTOR_RANGE, _OTHER_RANGE = (1e-6, 1e3), (1e-3, 1e3), (1e-12, 1e13)
_RANGES = {
    "experts_8bit_rate": (1e-6, 1e3),
    "roofline_sharpness": (1.0, 100.0),
    **dict.fromkeys(FRACTIONS, (0.0, 1.0)),
    "max_sequences": (1.0, 1e6),
    "chunk_tokens": (1.0, 1e8),
}


def _unusual(numbers: dict[str, Adjustment]) -> list[str]:
    """Numbers that no chip or stack can have, and that would overflow in a formula."""
    found = []
    for name, number in numbers.items():
        value, (low, high) = number.factor, _FACTOR_RANGE
        if value is None:
            value = number.value
            low, high = _RANGES.get(name, _SHARE_RANGE if name in SHARES else _OTHER_RANGE)
        zero_is_fine = number.value is not None and name not in SHARES and name not in _RANGES
        if value is not None and not low <= value <= high and not (value == 0 and zero_is_fine):
            found.append(f"{name} must lie between {low:g} and {high:g}, got {value:g}")
    return found


class AppliesTo(Strict):
    """Where a layer counts; nothing given = everywhere."""

    vendors: list[Text] = Field(default_factory=list)
    """Makers of chips."""
    chips: list[Text] = Field(default_factory=list)
    """Ids of chips."""
    engines: list[Text] = Field(default_factory=list)
    """Serving engines: vllm, sglang, trtllm, compiled, eager."""
    since: Text | None = None
    """First month of measurements it describes, e.g. 2025-01."""
    until: Text | None = None
    """First month it no longer describes."""


class EfficiencyFile(Profile):
    """A layer of efficiencies."""

    schema_name: ClassVar[str] = "efficiency/1"
    layer: Literal["default", "vendor", "chip", "stack", "overlay"]
    """Which layer it is."""
    based_on: Text | None = None
    """Stack whose numbers it inherits (stacks only)."""
    aliases: list[Text] = Field(default_factory=list)
    """Other ids by which the stack may be asked for."""
    applies_to: AppliesTo = Field(default_factory=AppliesTo)
    """Chips, vendors, engines and months."""
    efficiency: dict[str, Adjustment]
    """Numbers by name."""

    checks: ClassVar[tuple[Check[Any], ...]] = (
        Check(
            name="known-numbers",
            holds=lambda f: set(f.efficiency) <= set(NUMBERS),
            message=lambda f: (
                "unknown number "
                + ", ".join(repr(k) + did_you_mean(k, NUMBERS) for k in f.efficiency if k not in NUMBERS)
            ),
            fix="use the names printed by 'pddplan export --schema efficiency'",
            key=("efficiency",),
        ),
        Check(
            name="value-or-factor",
            holds=lambda f: all((n.value is None) != (n.factor is None) for n in f.efficiency.values()),
            message=lambda f: "each number needs either a value or a factor",
            fix="write value: to replace, or factor: to multiply what is inherited",
            key=("efficiency",),
        ),
        Check(
            name="usual-size",
            holds=lambda f: not _unusual(f.efficiency),
            message=lambda f: "; ".join(_unusual(f.efficiency)),
            fix="give seconds, bytes, tokens, or shares of the datasheet's number",
            key=("efficiency",),
        ),
    )


@dataclass(frozen=True, slots=True)
class Stack:
    """A serving stack as found for a framework: the profile, and the words it was found by."""

    id: str
    engine: str
    date: str


@dataclass(frozen=True, slots=True)
class Layer:
    """One profile, ready to be laid."""

    id: str
    file: EfficiencyFile


def load_layers() -> dict[str, Layer]:
    """All efficiency profiles that can be found, by id.

    Raises:  InputError with the faults of a file.
    """
    return dict(_layers(lookup.roots()))


@lru_cache(maxsize=8)
def _layers(roots: tuple[Path, ...]) -> tuple[tuple[str, Layer], ...]:
    del roots  # the key of the cache: the folders that are searched
    return tuple(
        (name, efficiency_of(document, layer_id=name)) for name, document in lookup.load_all(lookup.Kind.EFFICIENCY)
    )


def efficiency_of(document: SourceDocument, *, layer_id: str) -> Layer:
    """A layer from a document already read.

    Raises:  InputError with every fault of the file.
    """
    return Layer(layer_id, read(document, EfficiencyFile))


def stack_ids() -> tuple[str, ...]:
    """Ids of all serving stacks that can be found."""
    return tuple(sorted(name for name, layer in load_layers().items() if layer.file.layer == "stack"))


def load_efficiency(stack: str | None, chip: Chip) -> Efficiency:
    """Efficiencies of a chip under a stack, all layers laid.

    ``stack``: id of a stack profile, a framework's name with or without version (``vllm 0.12``), the path of an
    overlay, or None for today's usual engines.

    Raises:  InputError for unknown stacks and faulty files.
    """
    if stack is not None and lookup.is_path(stack):
        path = lookup.find(lookup.Kind.EFFICIENCY, stack)
        layer = efficiency_of(lookup.load(lookup.Kind.EFFICIENCY, path), layer_id=path.stem)
        base = layer.file.based_on
        return lay([layer], efficiency_for(chip, base or resolve_stack("", "").id), name=layer.file.name)
    layers = load_layers()
    if stack is None:
        return efficiency_for(chip, resolve_stack("", "").id)
    wanted = lookup.canonical(stack)
    by_alias = {lookup.canonical(a): name for name, layer in layers.items() for a in layer.file.aliases}
    wanted = by_alias.get(wanted, wanted)
    if wanted in layers and layers[wanted].file.layer == "stack":
        return efficiency_for(chip, wanted)
    if _names_engine(stack):
        return efficiency_for(chip, resolve_stack(stack, "").id)
    known = stack_ids()
    raise InputError(
        Problem(
            what=f"unknown serving stack {stack!r}{did_you_mean(wanted, known)}",
            fix=f"use one of: {', '.join(known)}; or give the path of an efficiency profile",
        )
    )


def efficiency_for(chip: Chip, stack_id: str) -> Efficiency:
    """Lay default, vendor, chip, stack (with those it is based on) and overlay profiles for a chip.

    Raises:  InputError for an unknown stack.
    """
    layers = load_layers()
    chain: list[Layer] = []
    wanted: str | None = stack_id
    while wanted is not None:
        layer = check_stack(wanted)
        if layer in chain:
            raise InputError(
                Problem(what=f"stack {wanted!r} is based on itself", fix="correct based_on", where=layer.id)
            )
        chain.insert(0, layer)
        wanted = layer.file.based_on
    names = {lookup.canonical(name) for name in (chip.id, *chip.aliases)}
    engines = {engine for layer in chain for engine in layer.file.applies_to.engines}

    def matching(kind: str) -> list[Layer]:
        return [
            layer
            for layer in layers.values()
            if layer.file.layer == kind and _applies(layer.file.applies_to, names, chip.vendor, engines)
        ]

    ordered = [*matching("default"), *matching("vendor"), *matching("chip"), *chain, *matching("overlay")]
    return lay(ordered, Efficiency(), name=stack_id)


def lay(layers: Iterable[Layer], base: Efficiency, *, name: str) -> Efficiency:
    """Lay profiles over an efficiency record; the basis is the weakest among the numbers that were laid."""
    numbers = {field: getattr(base, field) for field in NUMBERS}
    sources = dict(base.sources)
    bases: dict[str, Basis] = {}
    for layer in layers:
        for field, number in layer.file.efficiency.items():
            if number.value is not None:
                numbers[field] = number.value
            elif number.factor is not None:
                numbers[field] *= number.factor
            source = layer.file.sources.get(number.source)
            title = source.title if source else number.source
            sources[field] = f"{layer.file.name}: {title}"
            bases[field] = max(bases.get(field, Basis.MEASURED), source.basis if source else Basis.ASSUMED)
    for field in SHARES:
        numbers[field] = min(numbers[field], HIGHEST_SHARE)
    for field in FRACTIONS:
        numbers[field] = min(numbers[field], 1.0)
    basis = max(bases.values(), default=base.basis)
    return replace(base, **numbers, name=name, basis=basis, sources=sources)


def validated_error(*, moe: bool) -> float:
    """Mean error of modelled times on chips, models and files left out of the fit, as a share.

    It is written by the fit that writes the bundled profiles; the worst way of leaving out counts.

    Raises:  InputError when the file of the package is damaged.
    """
    path = lookup.bundled_root() / lookup.Kind.EFFICIENCY.folder / VALIDATION_FILE
    try:
        error = float(json.loads(read_text(path, limit=VALIDATION_BYTES))["moe" if moe else "dense"])
    except (ValueError, KeyError, TypeError):
        error = math.nan
    if not 0 < error < 1:
        raise InputError(
            Problem(what="no error of dense and moe models between 0 and 1", fix="install again", where=str(path))
        )
    return error


def dump_overlay(
    numbers: Mapping[str, tuple[float, float, float]],
    *,
    title: str,
    chip: str,
    stack: str,
    engine: str,
    date: str,
) -> str:
    """An overlay profile of measured numbers (value, low, high) for a chip under a stack, as YAML."""
    applies: dict[str, Any] = {"chips": [chip]}
    if engine:
        applies["engines"] = [engine]
    return yaml_source.dump(
        {
            "schema": EfficiencyFile.schema_name,
            "name": f"{chip} under {stack}, calibrated",
            "layer": "overlay",
            "based_on": stack,
            "applies_to": applies,
            "sources": {"runs": {"kind": "measured", "title": title, "date": date}},
            "efficiency": {
                name: {"value": value, "source": "runs", "low": low, "high": high}
                for name, (value, low, high) in numbers.items()
            },
        }
    )


def engine_of(stack: str) -> str:
    """Engine that a stack's name tells, or nothing."""
    return _engine_of(stack)


def check_stack(stack_id: str) -> Layer:
    """The layer of a serving stack.

    Raises:  InputError naming the nearest known one.
    """
    layers = load_layers()
    layer = layers.get(stack_id)
    if layer is None or layer.file.layer != "stack":
        raise InputError(
            Problem(
                what=f"unknown serving stack {stack_id!r}{did_you_mean(stack_id, layers)}",
                fix=f"use one of: {', '.join(stack_ids())}",
            )
        )
    return layer


def resolve_stack(framework: str, date: str, *, operators: bool = False) -> Stack:
    """The stack profile that describes an engine at a time.

    The engine is told by words in the framework's name; the time by the date, or today's engines without one.
    Unknown engines get the general stack of their time. ``operators``: sums of operator times, whatever the engine.
    """
    engine = _engine_of(framework)
    month = _month_of(framework, date)
    layers = [layer for layer in load_layers().values() if layer.file.layer == "stack"]
    if operators:
        own = [x for x in layers if x.id.startswith(OPERATORS) and engine and engine in x.file.applies_to.engines]
        return Stack((own[0].id if own else OPERATORS), engine, month)

    def covers(layer: Layer) -> bool:
        a = layer.file.applies_to
        return (a.since is None or month >= a.since) and (a.until is None or month < a.until)

    usable = [x for x in layers if not x.id.startswith(OPERATORS) and covers(x)]
    own = [x for x in usable if engine and engine in x.file.applies_to.engines]
    general = [x for x in usable if not x.file.applies_to.engines]
    chosen = own or general
    if not chosen:
        raise InputError(
            Problem(
                what=f"no stack profile covers {framework or 'the default engine'} in {month}",
                fix="add an efficiency profile with layer: stack",
            )
        )
    return Stack(chosen[0].id, engine, month)


def _engine_of(framework: str) -> str:
    text = framework.lower()
    for engine, words in _ENGINES.items():
        if any(word in text for word in words):
            return engine
    return ""


def _names_engine(stack: str) -> bool:
    """Whether a text typed for a stack holds the name of an engine as a word of its own."""
    words = (word.strip("-") for known in _ENGINES.values() for word in known)
    return any(re.search(rf"(?<![a-z]){re.escape(word)}(?![a-z])", stack.lower()) for word in words)


def _month_of(framework: str, date: str) -> str:
    """Month of a measurement; a year in brackets in the framework's name (``vllm (2023)``) beats the date."""
    year = re.search(r"\((20\d\d)\)", framework)
    if year:
        return f"{year.group(1)}-06"
    found = re.match(r"\s*(20\d\d)(?:-(\d\d))?", date)
    if found:
        return f"{found.group(1)}-{found.group(2) or '06'}"
    return "9999-12"


def _applies(rule: AppliesTo, names: set[str], vendor: str, engines: set[str]) -> bool:
    if rule.chips and not names & {lookup.canonical(c) for c in rule.chips}:
        return False
    if rule.vendors and vendor.lower() not in {v.lower() for v in rule.vendors}:
        return False
    return not rule.engines or bool(engines & set(rule.engines))
