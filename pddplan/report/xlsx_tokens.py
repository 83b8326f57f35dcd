"""The sheet of a workbook that says what a million tokens cost: missed and cached input, and output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.economics.attribution import input_share
from pddplan.economics.revenue import tokens_per_request
from pddplan.sizing import Sizing
from pddplan.studies.serving import aggregated_prefill_share, context_share, plan_token_cost
from pddplan.units import MILLION, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from pddplan.report.xlsx import Book

KINDS = ("missed input tokens", "cached input tokens", "output tokens")


def per_token(book: Book, sheet: Any, sizing: Sizing, *, shown: Sequence[tuple[str, Outcome]]) -> None:
    """Cost per million tokens of the plan and its rivals under the same traffic; it follows prices and counts.

    Prefill and line are charged to input, relay and main decode to output, aggregated pools by the time they prefill;
    of the input part, cached tokens bear the prefill time that their context adds.
    """
    plans = [(place, name, one) for place, (name, one) in enumerate(shown) if one is not sizing.cold]
    question = api.problem_of(sizing.inputs)
    currency = sizing.outcome.cost.currency
    volume = tokens_per_request(sizing.inputs.workload.classes)
    per_request = (volume.miss_tokens, volume.cached_tokens, volume.output_tokens)
    hours = sizing.inputs.sites.finance.hours_per_month
    month = book.cells.get(("hours", hours), repr(hours))
    sheet.set_column(0, 0, 52)
    sheet.set_column(1, 4, 24)
    for column, title in enumerate(("", *(name for _, name, _ in plans))):
        sheet.write_string(0, column, title, book.number_head if column else book.head)
    names = [
        *(f"million {kind} a month" for kind in KINDS),
        "share of the cost that input causes (prefill, line)",
        "share of that which cached context causes",
        *(f"{currency} per million {kind}" for kind in KINDS),
        f"{currency} per million tokens of all kinds",
    ]
    for row, name in enumerate(names, start=1):
        sheet.write_string(row, 0, name)
    for column, (place, _, one) in enumerate(plans, start=1):
        letter, total = "ABCDE"[column], f"Comparison!{'ABCDE'[place + 1]}3"
        rate = f"Comparison!{'ABCDE'[place + 1]}2"
        tokens = plan_token_cost(question, one)
        amounts = [count * one.goodput_rps * hours * SECONDS_PER_HOUR / MILLION for count in per_request]
        for row, (count, amount) in enumerate(zip(per_request, amounts, strict=True), start=1):
            formula = f"={count!r}*{rate}*{month}*{SECONDS_PER_HOUR}/{MILLION}"
            sheet.write_formula(row, column, formula, book.whole, amount)
        prefilling = aggregated_prefill_share(question, one)
        weights = [input_share(item, aggregated_prefill_share=prefilling) for item in one.cost.items]
        cells = [(f"Costs!H{row}", w) for row, w in zip(book.rows[place], weights, strict=True) if w is not None]
        paid = "+".join(cell for cell, _ in cells) or "0"
        by_input = "+".join(f"{cell}*{weight!r}" for cell, weight in cells) or "0"
        caused = (tokens.miss_monthly_cost + tokens.cached_monthly_cost) / tokens.monthly_total if cells else 0.0
        percent = book.form(num_format="0.0%")
        sheet.write_formula(4, column, f"=({by_input})/({paid})" if cells else "=0", percent, caused)
        sheet.write_number(5, column, context_share(question, one.plan), percent)
        parts = (f"{letter}5*(1-{letter}6)", f"{letter}5*{letter}6", f"(1-{letter}5)")
        costs = (tokens.miss_monthly_cost, tokens.cached_monthly_cost, tokens.output_monthly_cost)
        for row, (part, paid_for, amount) in enumerate(zip(parts, costs, amounts, strict=True), start=6):
            formula = f'=IF({letter}{row - 4}>0,{total}*{part}/{letter}{row - 4},"")'
            sheet.write_formula(row, column, formula, book.price, paid_for / amount if amount > 0 else "")
        everything = f"({letter}2+{letter}3+{letter}4)"
        whole = tokens.monthly_total / sum(amounts) if sum(amounts) > 0 else ""
        sheet.write_formula(9, column, f'=IF({everything}>0,{total}/{everything},"")', book.price, whole)
    note = "prefill and line are charged to input, decode to output, aggregated pools by the time they prefill"
    sheet.write_string(11, 0, note)
