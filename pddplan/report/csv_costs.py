"""Costs for finance: one line item per row, columns fixed and documented in docs/csv.md.

Cells that a spreadsheet could run as a formula are neutralised with a leading apostrophe; numbers are written in
full, so that totals can be reproduced from the rows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from pddplan.domain.outcome import Outcome
from pddplan.errors import InputError, Problem
from pddplan.sizing import Sizing

COLUMNS = (
    "plan",
    "site",
    "role",
    "item",
    "quantity",
    "unit",
    "unit_price",
    "hours",
    "monthly_cost",
    "currency",
    "source",
    "scenario",
    "month",
)
"""The first eleven are the priced item; ``scenario`` and ``month`` tell rows of several plans or months apart."""

_RISKY_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠")
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class CsvStyle:
    """How numbers and fields are separated; German spreadsheets want ``separator=';'``, ``decimal=','``."""

    separator: str = ","
    decimal: str = "."
    byte_order_mark: bool = False

    def __post_init__(self) -> None:
        if self.separator not in {",", ";", "\t", "|"} or self.decimal not in {".", ","}:
            raise InputError(
                Problem(
                    what=f"cannot write CSV with separator {self.separator!r} and decimal {self.decimal!r}",
                    fix="use separator , ; tab or | and decimal . or ,",
                )
            )


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """One plan of a CSV file."""

    name: str
    outcome: Outcome
    scenario: str = "plan"
    month: str = ""
    """Empty = every month alike."""


def priced_plans(sizing: Sizing, *, comparison: bool = False) -> tuple[PricedPlan, ...]:
    """The plan alone, so that rows add up to its total; or also what it is compared with, as further scenarios."""
    name = sizing.inputs.workload.name
    found = [PricedPlan(f"{name}: {sizing.outcome.plan.topology}", sizing.outcome)]
    for scenario, other in (("baseline", sizing.baseline), ("0 % hit rate", sizing.cold)):
        if comparison and other is not None and other is not sizing.outcome:
            found.append(PricedPlan(f"{name}: {other.plan.topology}", other, scenario=scenario))
    return tuple(found)


def costs_csv(plans: Iterable[PricedPlan], *, style: CsvStyle | None = None) -> str:
    """CSV text with a header row; rows in the order of the cost items, plan after plan."""
    style = style or CsvStyle()
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=style.separator, lineterminator="\n")
    writer.writerow(COLUMNS)
    for plan in plans:
        for item in plan.outcome.cost.items:
            cells: list[str | float] = [
                plan.name,
                item.site,
                item.role,
                item.item,
                item.quantity,
                item.unit,
                item.unit_price,
                item.hours,
                item.monthly_cost,
                item.currency,
                item.source,
                plan.scenario,
                plan.month,
            ]
            writer.writerow([_cell(cell, style) for cell in cells])
    return (_BYTE_ORDER_MARK if style.byte_order_mark else "") + buffer.getvalue()


def safe_text(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    flat = " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
    return f"'{flat}" if flat.lstrip(" \u00a0").startswith(_RISKY_STARTS) or flat.startswith(_RISKY_STARTS) else flat


def _cell(value: str | float, style: CsvStyle) -> str:
    if isinstance(value, str):
        return safe_text(value)
    text = repr(float(value))
    text = text.removesuffix(".0")
    return text.replace(".", style.decimal)
