"""Where a plan's numbers come from: formula, numbers, unit, source, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from pddplan.evaluate.derivation import Step
from pddplan.report.numbers import quantity, seconds, short
from pddplan.report.text_table import Screen, paragraph
from pddplan.units import GIGA, MEGA, bytes_per_s_to_gbps

NOTHING = 1e-12
"""Chances and counts below this are shown as none."""


def render_derivation(steps: Sequence[Step], screen: Screen) -> str:
    """Steps grouped by what they are about; the value first, then how it came about."""
    lines = [screen.paint.bold("Where the numbers come from")]
    for about, group in groupby(steps, key=lambda step: step.about):
        lines += ["", f"  {about}"]
        for step in group:
            numbers = ", ".join(f"{symbol} = {shown(value, unit)}" for symbol, value, unit in step.inputs)
            what = f"{step.name}: {shown(step.value, step.unit)} = {step.formula}"
            what += f"; {numbers}" if numbers else ""
            lines += paragraph(f"{what} [{step.source}]", width=screen.width, indent="      ", first="    ")
    return "\n".join(lines) + "\n"


def shown(value: float, unit: str) -> str:
    """A number in the unit people read it in."""
    if abs(value) < NOTHING:
        value = 0.0
    if unit == "s":
        return seconds(value)
    if unit == "bytes":
        return f"{short(value / GIGA)} GB" if abs(value) >= GIGA else f"{short(value / MEGA)} MB"
    if unit == "bytes/s":
        return f"{short(bytes_per_s_to_gbps(value))} Gbit/s"
    return f"{quantity(value)} {unit}".strip()


def derivation_json(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The same in base units."""
    return [
        {
            "about": step.about,
            "name": step.name,
            "formula": step.formula,
            "inputs": [
                {"symbol": symbol, "value": _number(value), "unit": unit} for symbol, value, unit in step.inputs
            ],
            "value": _number(step.value),
            "unit": step.unit,
            "source": step.source,
        }
        for step in steps
    ]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
