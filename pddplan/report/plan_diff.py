"""What differs between two plan files: results first, then the inputs that explain them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pddplan.report.numbers import percent, plain_text, quantity
from pddplan.report.text_table import Column, Paint, table

_RESULTS = (
    ("rate", ("rate_rps",), "req/s"),
    ("goodput", ("goodput_rps",), "req/s"),
    ("BCR", ("bcr",), "req/s per 1,000 {currency} a month"),
    ("cost", ("cost", "monthly_total"), "{currency} a month"),
    ("chips", ("chips", "total"), ""),
    ("prefill chips", ("chips", "prefill"), ""),
    ("decode chips", ("chips", "decode"), ""),
    ("TTFT P50", ("ttft_s", "p50"), "s"),
    ("TTFT P90", ("ttft_s", "p90"), "s"),
    ("TTFT P99", ("ttft_s", "p99"), "s"),
    ("TPOT", ("tpot_s",), "s"),
    ("relay tokens", ("rld_token_share",), "share"),
    ("WAN", ("wan_gbps",), "Gbit/s"),
)
_SAME = 1e-9
_NOISY = ("pddplan_version", "timings_s")


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs; ``None`` = absent on that side."""

    name: str
    before: Any
    after: Any
    unit: str = ""

    @property
    def relative(self) -> float | None:
        if _is_number(self.before) and _is_number(self.after) and self.before:
            return float(self.after) / float(self.before) - 1
        return None


def plan_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Change]]:
    """Changes of two plan files (``plan_file.read_plan_json``), in groups: results, pools, links, inputs."""
    currency = " to ".join(dict.fromkeys(str(_get(data, ("cost", "currency"))) for data in (before, after)))
    results = [
        Change(name, _get(before, keys), _get(after, keys), unit.format(currency=currency))
        for name, keys, unit in _RESULTS
        if not _same(_get(before, keys), _get(after, keys))
    ]
    inputs = [Change(name, *pair) for name, pair in _pairs(_inputs(before), _inputs(after)) if not _same(*pair)]
    return {
        "results": results,
        "pools": _counts(before, after, "pools", ("site", "role", "chip", "shape"), "instances"),
        "links": _counts(before, after, "links", ("id", "tier_gbps"), "count"),
        "inputs": inputs,
    }


def render_changes(
    changes: Mapping[str, list[Change]], *, width: int, paint: Paint | None = None, most: int = 40
) -> str:
    """The changes as tables; inputs beyond ``most`` lines, and results that read the same, are only counted."""
    paint = paint or Paint()
    columns = [
        Column("", importance=0),
        Column("before", right=True, importance=0),
        Column("after", right=True, importance=0),
        Column("change", right=True, importance=1),
        Column("unit", importance=2),
    ]
    lines: list[str] = []
    alike = [c for c in changes.get("results", ()) if _shown(c.before) == _shown(c.after)]
    for group, every in changes.items():
        found = [c for c in every if c not in alike]
        if not found:
            continue
        rows = [
            [plain_text(c.name), _shown(c.before), _shown(c.after), percent(c.relative, signed=True), c.unit]
            for c in found[:most]
        ]
        lines += [paint.bold(group.upper()), *table(columns, rows, width=width, paint=paint)]
        if len(found) > most:
            lines.append(f"... and {len(found) - most} more (--json shows all)")
        lines.append("")
    if alike:
        names = ", ".join(c.name for c in alike)
        lines.append(f"{'the rest is the same' if lines else 'the same plan'}, but for less than rounding: {names}\n")
    return "\n".join(lines) if lines else "no differences\n"


def changes_json(changes: Mapping[str, list[Change]]) -> dict[str, Any]:
    """Plain data of the changes."""
    return {
        group: [{"name": c.name, "before": c.before, "after": c.after, "unit": c.unit or None} for c in found]
        for group, found in changes.items()
    }


def _counts(
    before: Mapping[str, Any], after: Mapping[str, Any], key: str, names: tuple[str, ...], count: str
) -> list[Change]:
    def counted(data: Mapping[str, Any]) -> dict[str, float]:
        found: dict[str, float] = {}
        for item in data.get(key) or []:
            label = " ".join(str(item.get(name)) for name in names)
            found[label] = found.get(label, 0) + (item.get(count) or 0)
        return found

    first, second = counted(before), counted(after)
    labels = [*first, *(label for label in second if label not in first)]
    return [
        Change(label, first.get(label, 0), second.get(label, 0), count)
        for label in labels
        if first.get(label, 0) != second.get(label, 0)
    ]


def _inputs(data: Mapping[str, Any]) -> dict[str, Any]:
    kept = data.get("record")
    inputs = kept.get("inputs") if isinstance(kept, Mapping) else None
    return dict(_flat(inputs, "")) if isinstance(inputs, Mapping) else {}


def _flat(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _NOISY:
                yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{name}[{index}]")
    else:
        yield name, value


def _pairs(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name in [*first, *(n for n in second if n not in first)]:
        yield name, (first.get(name), second.get(name))


def _get(data: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _same(first: Any, second: Any) -> bool:
    if _is_number(first) and _is_number(second):
        return math.isclose(first, second, rel_tol=_SAME, abs_tol=0.0)
    return bool(first == second)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return quantity(float(value)) if _is_number(value) else plain_text(str(value))
