"""A plan as a workbook with live formulas: change a price, a count, the premium or the exchange rate on the first
sheet, and costs, totals and BCR follow. How prices hang together stands in ``xlsx_prices``.

Sheets: Inputs, Plan, Costs, Comparison, Per token, Assumptions. Goodput is what the evaluator said for these counts; a
workbook cannot know how latency moves, so it says so beside the number. All text is written as text: no cell of an
input file can become a formula.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pddplan.domain.outcome import Outcome
from pddplan.report.assumptions import of_plan, of_sites
from pddplan.report.cautions import asked_limits, cautions
from pddplan.report.line_loss import said as said_of_lost_lines
from pddplan.report.proof import searched
from pddplan.report.verdict import chips_in, compare, shown_plans, unproven_baseline
from pddplan.report.xlsx_prices import drivers, price_key, price_rows, quantity_formula
from pddplan.report.xlsx_tokens import per_token
from pddplan.sizing import Sizing
from pddplan.units import MONTHS_PER_YEAR

WRITTEN = datetime(2026, 1, 1)  # noqa: DTZ001 - workbooks know no time zone; a fixed date keeps files reproducible
SHEETS = ("Inputs", "Plan", "Costs", "Comparison", "Per token", "Assumptions")
_A4 = 9
"""What workbooks call that size of paper."""


@dataclass(slots=True)
class Book:
    """The workbook being written, and where its inputs stand."""

    workbook: Any
    formats: dict[str, Any] = field(default_factory=dict)
    cells: dict[object, str] = field(default_factory=dict)
    """Input key -> absolute cell such as ``Inputs!$B$5``."""

    rows: dict[int, list[int]] = field(default_factory=dict)
    """Position of a shown plan -> rows of its cost items on the sheet of costs (from 1)."""

    def form(self, **settings: Any) -> Any:
        key = repr(sorted(settings.items()))
        if key not in self.formats:
            self.formats[key] = self.workbook.add_format(settings)
        return self.formats[key]

    @property
    def head(self) -> Any:
        return self.form(bold=True, bottom=1)

    @property
    def number_head(self) -> Any:
        return self.form(bold=True, bottom=1, align="right")

    @property
    def words(self) -> Any:
        """Text right of a number, a little away from it."""
        return self.form(indent=1)

    @property
    def money(self) -> Any:
        return self.form(num_format="#,##0.00")

    @property
    def whole(self) -> Any:
        """Amounts of a month, to the unit."""
        return self.form(num_format="#,##0")

    @property
    def price(self) -> Any:
        return self.form(num_format="#,##0.0000")

    def input_row(self, sheet: Any, row: int, key: object, label: str, value: float, source: str) -> int:
        """A number that may be changed, with where it comes from; the next free row."""
        sheet.write_string(row, 0, label)
        number(sheet, row, 1, value, self.form(num_format="#,##0.00####", bg_color="#FFF4CC", border=1))
        sheet.write_string(row, 2, source)
        self.cells[key] = f"Inputs!$B${row + 1}"
        return row + 1


def workbook_bytes(sizing: Sizing) -> bytes:
    """The content of an .xlsx file."""
    import xlsxwriter

    buffer = io.BytesIO()
    workbook = xlsxwriter.Workbook(buffer, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False})
    title = f"{sizing.inputs.workload.name}: {sizing.topology}"
    workbook.set_properties({"title": title, "comments": "made by pddplan", "created": WRITTEN})
    book = Book(workbook)
    sheets = {name: workbook.add_worksheet(name) for name in SHEETS}
    for sheet in sheets.values():  # as wide as one printed page
        sheet.set_landscape()
        sheet.set_paper(_A4)
        sheet.fit_to_pages(1, 0)
    outcome = sizing.outcome
    _inputs(book, sheets["Inputs"], sizing)
    _plan(book, sheets["Plan"], outcome)
    totals = _costs(book, sheets["Costs"], sizing)
    shown = shown_plans(sizing)
    _comparison(book, sheets["Comparison"], sizing, totals)
    per_token(book, sheets["Per token"], sizing, shown=shown)
    _assumptions(book, sheets["Assumptions"], sizing)
    workbook.close()
    return buffer.getvalue()


# -- sheets ---------------------------------------------------------------------------------------------------------


def _inputs(book: Book, sheet: Any, sizing: Sizing) -> None:
    outcome = sizing.outcome
    sheet.set_column(0, 0, 60)
    sheet.set_column(1, 1, 16)
    sheet.set_column(2, 2, 100, book.words)
    row = header(book, sheet, 0, ("input (yellow cells may be changed)", "value", "source"), numbers=(1,))
    row = book.input_row(
        sheet, row, "goodput", "goodput within all promises [req/s]", outcome.goodput_rps, _GOODPUT_NOTE
    )
    row = book.input_row(
        sheet, row, "rate", "exchange rate into the reporting currency", 1.0, "1 = currency of the sites"
    )
    row += 1
    for index, pool in enumerate(outcome.plan.pools):
        label = f"instances of {pool.role} on {pool.chip} {pool.shape} at {pool.site}"
        row = book.input_row(sheet, row, ("count", index), label, pool.instances, "plan")
    for index, line in enumerate(outcome.plan.lines):
        row = book.input_row(
            sheet, row, ("lines", index), f"lines {line.line} of {line.gbps:g} Gbit/s", line.count, "plan"
        )
    row += 1
    items = [item for _, one in shown_plans(sizing) for item in one.cost.items]
    row = price_rows(book, sheet, row, items=items, sizing=sizing)
    hours = sorted({item.hours for item in items if item.hours != 1})
    for value in hours:
        row = book.input_row(sheet, row, ("hours", value), "hours per month", value, "sites file, finance")


_PRICE_NOTE = "at other prices another plan may be the best: after changing them much, run pddplan again"
_GOODPUT_NOTE = "from the evaluator for the planned counts; after changing counts, run pddplan again"


def _plan(book: Book, sheet: Any, outcome: Outcome) -> None:
    sheet.set_column(0, 0, 18)
    sheet.set_column(1, 2, 14)
    sheet.set_column(3, 5, 18)
    sheet.set_column(6, 9, 14)
    one_decimal = book.form(num_format="#,##0.0")
    loads = {load.pool: load for load in outcome.pools}
    titles = (
        "site",
        "role",
        "chip",
        "shape",
        "replicas",
        "chips per replica",
        "chips",
        "busy",
        "batch",
        "largest batch",
    )
    row = header(book, sheet, 0, titles, numbers=range(4, 10))
    first = row
    for index, pool in enumerate(outcome.plan.pools):
        for column, text in enumerate((pool.site, str(pool.role), pool.chip, str(pool.shape))):
            sheet.write_string(row, column, text)
        sheet.write_formula(row, 4, f"={book.cells['count', index]}", None, pool.instances)
        sheet.write_number(row, 5, pool.shape.chips)
        sheet.write_formula(row, 6, f"=E{row + 1}*F{row + 1}", None, pool.chips)
        book.cells["chips", index] = f"Plan!$G${row + 1}"
        load = loads.get(pool.id)
        if load is not None:
            sheet.write_number(row, 7, load.utilization, book.form(num_format="0.0%"))
            if load.batch is not None:
                sheet.write_number(row, 8, load.batch, one_decimal)
            if load.batch_cap is not None:
                number(sheet, row, 9, load.batch_cap, one_decimal)
        row += 1
    sheet.write_string(row, 0, "all chips", book.head)
    sheet.write_formula(row, 6, f"=SUM(G{first + 1}:G{row})", book.head, chips_in(outcome))
    of_lines = ("line", "lines", "Gbit/s each", "mean [Gbit/s]", "busy")
    row = header(book, sheet, row + 2, of_lines, numbers=range(1, 5))
    counted = {line.line: index for index, line in enumerate(outcome.plan.lines)}
    for line in outcome.lines:
        sheet.write_string(row, 0, line.line)
        cell = book.cells.get(("lines", counted.get(line.line)))
        if cell is None:
            sheet.write_number(row, 1, line.count)
        else:
            sheet.write_formula(row, 1, f"={cell}", None, line.count)
        sheet.write_number(row, 2, line.gbps)
        sheet.write_number(row, 3, line.mean_gbps, book.form(num_format="0.00"))
        sheet.write_number(row, 4, line.utilization, book.form(num_format="0.0%"))
        row += 1
    row = header(book, sheet, row + 1, ("latency [s]", "P50", "P90", "P99", "mean"), numbers=range(1, 5))
    seconds = book.form(num_format="0.000")
    for name, values in (("TTFT", outcome.ttft), ("E2E", outcome.e2e), ("TPOT", outcome.tpot)):
        sheet.write_string(row, 0, name)
        if values is None:
            number(sheet, row, 4, outcome.tpot_s, seconds)
        else:
            for column, value in enumerate((values.p50, values.p90, values.p99, values.mean), start=1):
                number(sheet, row, column, value, seconds)
        row += 1
    sheet.write_string(
        row + 1, 0, "busy, batch and latency belong to the planned counts: after changing counts, run pddplan again"
    )


def _costs(book: Book, sheet: Any, sizing: Sizing) -> list[str]:
    """Line items of the plan and of what it is compared with, all from the same prices; the cells of the totals."""
    sheet.set_column(0, 0, 32)
    sheet.set_column(1, 1, 8)
    sheet.set_column(2, 2, 36)
    sheet.set_column(3, 7, 13)
    sheet.set_column(4, 4, 8, book.words)
    sheet.set_column(8, 8, 90, book.words)
    row = 0
    totals: list[str] = []
    for name, outcome in shown_plans(sizing):
        currency = outcome.cost.currency
        paid = ("quantity", "unit", f"price [{currency}]", "hours", f"{currency} a month")
        titles = (f"{name}: site", "role", "item", *paid, "source")
        row = header(book, sheet, row, titles, numbers=(3, 5, 6, 7))
        book.rows[len(totals)] = list(range(row + 1, row + 1 + len(outcome.cost.items)))
        driven = drivers(outcome) if outcome is sizing.outcome else [None] * len(outcome.cost.items)
        row, cell = _cost_block(book, sheet, row, outcome, driven)
        totals.append(cell)
    return totals


def _cost_block(
    book: Book, sheet: Any, row: int, outcome: Outcome, driven: Sequence[tuple[object, float] | None]
) -> tuple[int, str]:
    first = row
    items = outcome.cost.items
    for place, (item, driver) in enumerate(zip(items, driven, strict=True)):
        for column, text in ((0, item.site), (1, item.role), (2, item.item), (4, item.unit), (8, item.source)):
            sheet.write_string(row, column, text)
        hanging = quantity_formula(book, items, place, first=first + 1)
        if hanging is not None:
            sheet.write_formula(row, 3, hanging, None, item.quantity)
        elif driver is None:
            sheet.write_number(row, 3, item.quantity)
        else:
            cell, per_unit = book.cells[driver[0]], driver[1]
            sheet.write_formula(row, 3, f"={cell}*{per_unit!r}", None, item.quantity)
        sheet.write_formula(row, 5, f"={book.cells['price', price_key(item)]}", book.money, item.unit_price)
        hours = book.cells.get(("hours", item.hours))
        if hours:
            sheet.write_formula(row, 6, f"={hours}", None, item.hours)
        else:
            sheet.write_number(row, 6, item.hours)
        sheet.write_formula(row, 7, f"=D{row + 1}*F{row + 1}*G{row + 1}", book.whole, item.monthly_cost)
        row += 1
    sheet.write_string(row, 0, f"total per month [{outcome.cost.currency}]", book.head)
    total = f"=SUM(H{first + 1}:H{row})" if row > first else "=0"
    bold = book.form(bold=True, top=1, num_format="#,##0")
    sheet.write_formula(row, 7, total, bold, outcome.cost.monthly_total)
    return row + 2, f"Costs!$H${row + 1}"


def _comparison(book: Book, sheet: Any, sizing: Sizing, totals: Sequence[str]) -> None:
    sheet.set_column(0, 0, 48)
    sheet.set_column(1, 4, 24)
    plan = sizing.outcome
    currency, rate = plan.cost.currency, book.cells["rate"]
    shown = shown_plans(sizing)
    header(book, sheet, 0, ("", *(name for name, _ in shown)), numbers=range(1, 1 + len(shown)))
    for row, name in enumerate(
        (
            "goodput [req/s]",
            f"cost per month [{currency}]",
            f"BCR [req/s per 1,000 {currency} a month]",
            "chips",
            "BCR of the plan over this one",
            f"saved a year by the plan, at its rate [{currency}]",
            "cost per month in the reporting currency",
            "cost per year in the reporting currency",
        ),
        start=1,
    ):
        sheet.write_string(row, 0, name)
    chips = ",".join(cell for key, cell in book.cells.items() if isinstance(key, tuple) and key[0] == "chips")
    percent = book.form(num_format="+0.0%;-0.0%")
    for column, ((_, one), total) in enumerate(zip(shown, totals, strict=True), start=1):
        letter = "ABCDEFG"[column]
        if column == 1:
            sheet.write_formula(1, 1, f"={book.cells['goodput']}", None, one.goodput_rps)
            sheet.write_formula(4, 1, f"=SUM({chips})" if chips else "=0", None, chips_in(one))
        else:
            number(sheet, 1, column, one.goodput_rps)
            sheet.write_number(4, column, chips_in(one))
            difference = compare(plan, one)
            gain, saving = (difference.bcr_gain, difference.yearly_saving) if difference else ("", "")
            sheet.write_formula(5, column, f'=IF({letter}2*B2>0,B4/{letter}4-1,"")', percent, gain)
            scaled = f"{MONTHS_PER_YEAR}*({letter}3*B2/{letter}2-B3)"
            sheet.write_formula(6, column, f'=IF({letter}2*B2>0,{scaled},"")', book.whole, saving)
        sheet.write_formula(2, column, f"={total}", book.whole, one.cost.monthly_total)
        ratio = f'=IF({letter}3>0,{letter}2/({letter}3/1000),"")'
        free = one.bcr in (float("inf"), float("-inf"))
        sheet.write_formula(3, column, ratio, book.form(num_format="0.0000"), "" if free else one.bcr)
        monthly = one.cost.monthly_total
        sheet.write_formula(7, column, f"={letter}3*{rate}", book.whole, monthly)
        sheet.write_formula(8, column, f"={letter}8*{MONTHS_PER_YEAR}", book.whole, monthly * MONTHS_PER_YEAR)
    sheet.write_string(10, 0, _PRICE_NOTE)


def _assumptions(book: Book, sheet: Any, sizing: Sizing) -> None:
    sheet.set_column(0, 0, 44)
    sheet.set_column(1, 3, 22)
    sheet.set_column(4, 4, 110, book.words)
    row = header(book, sheet, 0, ("number", "value", "range", "basis", "source"))
    for item in (*of_plan(sizing), *of_sites(sizing)):
        for column, text in enumerate((item.name, item.value, item.range, item.basis, item.source)):
            sheet.write_string(row, column, text)
        row += 1
    solver = sizing.outcome.solver
    proven = [("proof", searched(solver))] if solver is not None else []
    lost = [("if one line is lost", sentence) for sentence in said_of_lost_lines(sizing)]
    said = filter(None, (asked_limits(sizing), unproven_baseline(sizing)))
    remarks = [("remark", text) for text in (*cautions(sizing), *said, *sizing.outcome.notes, *sizing.remarks)]
    for about, text in (*proven, *lost, *remarks):
        sheet.write_string(row, 0, about)
        sheet.write_string(row, 4, text)
        row += 1


# -- helpers --------------------------------------------------------------------------------------------------------


def header(book: Book, sheet: Any, row: int, titles: Sequence[str], *, numbers: Collection[int] = ()) -> int:
    """A line of titles, those over numbers to the right; the first of a sheet stays in view and is printed anew."""
    for column, title in enumerate(titles):
        sheet.write_string(row, column, title, book.number_head if column in numbers else book.head)
    if row == 0:
        sheet.freeze_panes(1, 0)
        sheet.repeat_rows(0)
    return row + 1


def number(sheet: Any, row: int, column: int, value: float, form: Any = None) -> None:
    """A number, or the word for one that a workbook cannot hold."""
    if value != value or value in (float("inf"), float("-inf")):
        sheet.write_string(row, column, "never" if value > 0 else "-")
    else:
        sheet.write_number(row, column, value, form)
