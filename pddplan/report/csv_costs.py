"""Costs for finance: one line item per row, columns fixed and documented in docs/csv.md.

Cells that a spreadsheet could run as a formula are neutralised with a leading apostrophe; numbers are written in
full, so that totals can be reproduced from the rows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.economics.attribution import per_million
from pddplan.economics.revenue import TokenVolume, monthly_tokens
from pddplan.errors import InputError, Problem
from pddplan.report.numbers import exported
from pddplan.sizing import Inputs, Sizing

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
    "cost_per_mtok",
    "cost_per_mtok_output",
)
"""The first eleven are the priced item; ``scenario`` and ``month`` tell rows of several plans or months apart; the
last two are the row's cost per million tokens of input and answer together, and of answer alone."""

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
    tokens: TokenVolume | None = None
    """Served in a month; None = not known."""


def priced_plans(sizing: Sizing, *, comparison: bool = False) -> tuple[PricedPlan, ...]:
    """The plan alone, so that rows add up to its total; or also what it is compared with, as further scenarios."""
    found = [priced(sizing.inputs, sizing.outcome)]
    for scenario, other in (("baseline", sizing.baseline), ("0 % hit rate", sizing.cold)):
        if comparison and other is not None and other is not sizing.outcome:
            found.append(replace(priced(sizing.inputs, other), scenario=scenario))
    return tuple(found)


def priced(inputs: Inputs, outcome: Outcome) -> PricedPlan:
    """One plan under the name of its workload, with the tokens that it serves in a month."""
    workload, finance = inputs.workload, inputs.sites.finance
    tokens = monthly_tokens(workload.classes, outcome.plan.rate_rps, finance=finance)
    return PricedPlan(f"{workload.name}: {outcome.plan.topology}", outcome, tokens=tokens)


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
                *_per_mtok(item.monthly_cost, plan.tokens),
            ]
            writer.writerow([_cell(cell, style) for cell in cells])
    return (_BYTE_ORDER_MARK if style.byte_order_mark else "") + buffer.getvalue()


def _per_mtok(monthly_cost: float, tokens: TokenVolume | None) -> tuple[str | float, str | float]:
    counts = (tokens.total_tokens, tokens.output_tokens) if tokens is not None else (0.0, 0.0)
    of_all, of_output = (per_million(monthly_cost, count) for count in counts)
    return "" if of_all is None else of_all, "" if of_output is None else of_output


def safe_text(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    flat = " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
    return f"'{flat}" if flat.lstrip(" \u00a0").startswith(_RISKY_STARTS) or flat.startswith(_RISKY_STARTS) else flat


def _cell(value: str | float, style: CsvStyle) -> str:
    if isinstance(value, str):
        return safe_text(value)
    text = repr(exported(value))
    text = text.removesuffix(".0")
    return text.replace(".", style.decimal)
