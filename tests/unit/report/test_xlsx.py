"""The workbook: its formulas give what the command line says, and follow when inputs change."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from pddplan import api
from pddplan.domain.sites import SiteChip
from pddplan.economics.costs import plan_cost
from pddplan.evaluate.line_loss import LineLoss
from pddplan.report.xlsx import SHEETS, workbook_bytes
from pddplan.sizing import Sizing
from pddplan.studies.serving import plan_token_cost
from tests import samples

OFFICE = shutil.which("soffice") or shutil.which("libreoffice")


def book(sizing: Sizing) -> Any:
    return openpyxl.load_workbook(io.BytesIO(workbook_bytes(sizing)))


def calculator(workbook: Any) -> Callable[[str, str], Any]:
    """Value of a cell by working its formula out: references, products, powers and four functions are used."""

    def value(sheet: str, cell: str) -> Any:
        content = workbook[sheet][cell.replace("$", "")].value
        if not (isinstance(content, str) and content.startswith("=")):
            return content
        text = content[1:]
        texts = re.findall(r'"[^"]*"', text)
        text = re.sub(r"SUM\(([A-Z]+)(\d+):[A-Z]+(\d+)\)", _column_sum, text)
        text = text.replace("SUM(", "total(").replace("IF(", "when(").replace("MIN(", "min(").replace("^", "**")
        text = re.sub(r"(?:(\w+)!)?\$?([A-Z]{1,2})\$?(\d+)", rf"cell('\1' or '{sheet}', '\2\3')", text)
        assert not [t for t in texts if t != '""']
        names = {"cell": value, "total": lambda *v: sum(x or 0 for x in v), "when": lambda c, a, b: a if c else b}
        names |= {"min": min, "PMT": lambda i, n, p, f: -(p + f * (1 + i) ** -n) * i / (1 - (1 + i) ** -n)}
        return eval(text, {"__builtins__": {}}, names)

    return value


def _column_sum(match: re.Match[str]) -> str:
    column, first, last = match.groups()
    return "SUM(" + ",".join(f"{column}{row}" for row in range(int(first), int(last) + 1)) + ")"


def find(workbook: Any, sheet: str, label: str) -> int:
    """Row (from 1) whose first cell starts with a label."""
    rows = [c.row for c in workbook[sheet]["A"] if isinstance(c.value, str) and c.value.startswith(label)]
    assert rows, label
    return int(rows[0])


def test_formulas_give_the_numbers_of_the_plan() -> None:
    sizing = samples.sizing()
    workbook = book(sizing)
    value = calculator(workbook)
    assert value("Comparison", "B3") == pytest.approx(sizing.outcome.cost.monthly_total)
    assert value("Comparison", "B4") == pytest.approx(sizing.outcome.bcr)
    assert value("Comparison", "B5") == 76
    assert sizing.baseline is not None
    assert value("Comparison", "C3") == pytest.approx(sizing.baseline.cost.monthly_total)
    assert value("Comparison", "C6") == pytest.approx(140_160 / 131_340 - 1)
    assert value("Comparison", "C7") == pytest.approx(12 * (140_160 - 131_340))


def test_values_shown_before_recalculation_are_the_same() -> None:
    content = workbook_bytes(samples.sizing())
    formulas = openpyxl.load_workbook(io.BytesIO(content))
    shown = openpyxl.load_workbook(io.BytesIO(content), data_only=True)
    value = calculator(formulas)
    checked = 0
    for sheet in formulas.sheetnames:
        for row in formulas[sheet].iter_rows():
            for cell in row:
                if isinstance(cell.value, str) and cell.value.startswith("="):
                    got = shown[sheet][cell.coordinate].value
                    assert got == pytest.approx(value(sheet, cell.coordinate)), (sheet, cell.coordinate)
                    checked += 1
    assert checked > 25


def _changed(workbook: Any) -> tuple[float, float]:
    """Change price, count, premium and exchange rate; the total and BCR by hand."""
    inputs = workbook["Inputs"]
    inputs.cell(find(workbook, "Inputs", "price of h100"), 2).value = 3.0
    inputs.cell(find(workbook, "Inputs", "premium of h200"), 2).value = 0.5
    inputs.cell(find(workbook, "Inputs", "instances of P"), 2).value = 6
    inputs.cell(find(workbook, "Inputs", "exchange rate"), 2).value = 7.0
    total = 730 * (48 * 3.0 + 4 * 3.0 + 32 * 4.5) + 8_700
    return total, 10 / (total / 1000)


def test_changed_inputs_move_costs_and_bcr() -> None:
    workbook = book(samples.sizing())
    total, bcr = _changed(workbook)
    value = calculator(workbook)
    assert value("Comparison", "B3") == pytest.approx(total)
    assert value("Comparison", "B4") == pytest.approx(bcr)
    assert value("Comparison", "B8") == pytest.approx(7 * total)
    assert value("Comparison", "C3") == pytest.approx(96 * 3.0 * 730)


def test_cost_per_token_is_that_of_the_comparison_and_follows_prices() -> None:
    sizing = samples.sizing()
    workbook = book(sizing)
    value = calculator(workbook)
    tokens = plan_token_cost(api.problem_of(sizing.inputs), sizing.outcome)
    assert value("Per token", "B7") == pytest.approx(tokens.miss_per_mtok)
    assert value("Per token", "B8") == pytest.approx(tokens.cached_per_mtok)
    assert value("Per token", "B9") == pytest.approx(tokens.output_per_mtok)
    assert value("Per token", "B10") == pytest.approx(tokens.all_per_mtok)
    before = value("Per token", "B9")
    inputs = workbook["Inputs"]
    inputs.cell(find(workbook, "Inputs", "premium of h200"), 2).value = 1.0
    assert value("Per token", "B9") > before
    parts = [value("Per token", f"B{row}") * value("Per token", f"B{row - 5}") for row in (7, 8, 9)]
    assert sum(parts) == pytest.approx(value("Comparison", "B3"))


def test_a_count_of_lines_that_is_changed_is_changed_everywhere() -> None:
    workbook = book(samples.sizing())
    workbook["Inputs"].cell(find(workbook, "Inputs", "lines a-b"), 2).value = 3
    value = calculator(workbook)
    assert value("Plan", f"B{find(workbook, 'Plan', 'a-b')}") == 3


def _with_everything_charged(*, rent: float, bought: float, share: float) -> Sizing:
    """Owned, spare and supported chips: rented at a, bought at b."""
    base = samples.sizing()
    sites = samples.sites()
    at_a = replace(sites.sites["a"], chips={"h100": SiteChip("h100", price_per_chip_hour=rent, owned_chips=30)})
    chip_b = SiteChip("h200", purchase_price_per_chip=bought, acquisition="purchase", owned_chips=100)
    at_b = replace(sites.sites["b"], chips={"h200": chip_b})
    finance = replace(sites.finance, support_fraction=share, spare_fraction=0.04, power_price_per_kwh=0.1)
    sites = replace(sites, sites={"a": at_a, "b": at_b}, finance=finance)
    priced = plan_cost(samples.plan(), sites, base.inputs.chips)
    outcome = replace(base.outcome, cost=priced, bcr=10.0 / (priced.monthly_total / 1e3))
    return Sizing(inputs=replace(base.inputs, sites=sites), topology="pdd", outcome=outcome)


def test_one_changed_price_is_changed_for_spare_and_owned_chips_and_support_follows() -> None:
    workbook = book(_with_everything_charged(rent=2.0, bought=30_000.0, share=0.05))
    inputs = workbook["Inputs"]
    for label, new in (
        ("price of h100: rent", 3.0),
        ("purchase price of h200", 40_000.0),
        ("support and operation", 0.08),
    ):
        inputs.cell(find(workbook, "Inputs", label), 2).value = new
    value = calculator(workbook)
    expected = _with_everything_charged(rent=3.0, bought=40_000.0, share=0.08).outcome.cost
    assert value("Comparison", "B3") == pytest.approx(expected.monthly_total)
    for row, item in enumerate(expected.items, start=2):
        assert value("Costs", f"H{row}") == pytest.approx(item.monthly_cost), item.item


def test_no_more_owned_chips_are_credited_than_are_used() -> None:
    workbook = book(_with_everything_charged(rent=2.0, bought=30_000.0, share=0.0))
    value = calculator(workbook)
    row = 1 + next(n for n, cell in enumerate(workbook["Costs"]["C"]) if cell.value == "h200: chips already owned")
    assert value("Costs", f"D{row}") == pytest.approx(-32 * 1.04)
    workbook["Inputs"].cell(find(workbook, "Inputs", "instances of MD"), 2).value = 20
    assert value("Costs", f"D{row}") == -100


@pytest.mark.parametrize("sheet", SHEETS)
def test_every_sheet_prints_as_wide_as_a_page(sheet: str) -> None:
    page = book(samples.sizing())[sheet]
    assert page.page_setup.orientation == "landscape"
    assert page.sheet_properties.pageSetUpPr.fitToPage
    assert page.page_setup.fitToHeight == 0


@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
def test_libreoffice_recalculates_to_the_same(tmp_path: Path) -> None:
    workbook = book(samples.sizing())
    total, bcr = _changed(workbook)
    workbook.save(tmp_path / "plan.xlsx")  # saved without results, so that the program must work them out
    profile = f"-env:UserInstallation=file://{tmp_path / 'profile'}"
    convert = [str(OFFICE), profile, "--headless", "--convert-to", "xlsx:Calc MS Excel 2007 XML"]
    target = tmp_path / "out"
    command = [*convert, "--outdir", str(target), str(tmp_path / "plan.xlsx")]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    done = openpyxl.load_workbook(target / "plan.xlsx", data_only=True)
    assert done["Comparison"]["B3"].value == pytest.approx(total)
    assert done["Comparison"]["B4"].value == pytest.approx(bcr)


def test_text_of_inputs_never_becomes_a_formula() -> None:
    sizing = samples.sizing()
    evil = "=cmd|' /C calc'!A0"
    item = replace(sizing.outcome.cost.items[0], item=evil, source=evil, unit=evil)
    cost = replace(sizing.outcome.cost, items=(item, *sizing.outcome.cost.items[1:]))
    notes = (evil, "@SUM(1)")
    workbook = book(replace(sizing, outcome=replace(sizing.outcome, cost=cost, notes=notes)))
    for sheet in workbook:
        for row in sheet.iter_rows():
            for cell in row:
                if cell.data_type == "f":
                    assert "cmd" not in str(cell.value)


def test_strange_numbers_are_words() -> None:
    sizing = samples.sizing()
    nan, inf = float("nan"), float("inf")
    broken = replace(sizing.outcome, ttft=replace(sizing.outcome.ttft, p99=inf, mean=nan), bcr=0.0, goodput_rps=0.0)
    text = [str(c.value) for row in book(replace(sizing, outcome=broken))["Plan"].iter_rows() for c in row]
    assert "never" in text


def test_workbooks_are_reproducible() -> None:
    assert workbook_bytes(samples.sizing()) == workbook_bytes(samples.sizing())


def test_what_was_proven_and_what_a_lost_line_does_stand_in_the_book() -> None:
    base = samples.sizing()
    lost = LineLoss("a-b", 1, 0.4, True, ("TTFT P90",), ("TTFT P99",), base.outcome.ttft)
    sheet = book(replace(base, line_losses=(lost,)))["Assumptions"]
    said = {row[0].value: row[4].value for row in sheet.iter_rows() if row[0].value in {"proof", "if one line is lost"}}
    assert said["proof"].startswith("HiGHS: proven to be the best plan")
    assert said["if one line is lost"] == "a-b, 1 line left: TTFT P99 breaks; TTFT P90 holds"
