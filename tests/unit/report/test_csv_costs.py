"""Costs for finance: rows add up, formulas stay text."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.errors import InputError
from pddplan.report.csv_costs import COLUMNS, CsvStyle, PricedPlan, costs_csv, priced_plans, safe_text
from tests import samples


def test_rows_add_up_to_the_total_of_the_plan() -> None:
    sizing = samples.sizing()
    rows = list(csv.DictReader(io.StringIO(costs_csv(priced_plans(sizing)))))
    assert tuple(rows[0]) == COLUMNS
    assert sum(float(r["monthly_cost"]) for r in rows) == pytest.approx(sizing.outcome.cost.monthly_total)
    for row in rows:
        product = float(row["quantity"]) * float(row["unit_price"]) * float(row["hours"])
        assert float(row["monthly_cost"]) == pytest.approx(product)
    assert {r["currency"] for r in rows} == {"USD"}


def test_cost_per_million_tokens_adds_up_over_the_rows() -> None:
    sizing = samples.sizing()
    classes, rate = sizing.inputs.workload.classes, sizing.outcome.plan.rate_rps
    seconds = sizing.inputs.sites.finance.hours_per_month * 3600
    answer = rate * seconds * classes.mean(classes.output_tokens)
    tokens = answer + rate * seconds * classes.mean(classes.input_tokens)
    rows = list(csv.DictReader(io.StringIO(costs_csv(priced_plans(sizing)))))
    total = sizing.outcome.cost.monthly_total
    assert sum(float(r["cost_per_mtok"]) for r in rows) == pytest.approx(1e6 * total / tokens)
    assert sum(float(r["cost_per_mtok_output"]) for r in rows) == pytest.approx(1e6 * total / answer)
    unknown = next(csv.DictReader(io.StringIO(costs_csv([PricedPlan("by hand", sizing.outcome)]))))
    assert unknown["cost_per_mtok"] == ""


def test_comparison_rows_are_scenarios_of_their_own() -> None:
    rows = list(csv.DictReader(io.StringIO(costs_csv(priced_plans(samples.sizing(), comparison=True)))))
    assert [r["scenario"] for r in rows] == ["plan"] * 4 + ["baseline", "0 % hit rate"]


def test_separators_decimals_and_mark() -> None:
    text = costs_csv(priced_plans(samples.sizing()), style=CsvStyle(";", ",", byte_order_mark=True))
    assert text.startswith("\ufeffplan;site;")
    assert ";2,5;" in text
    with pytest.raises(InputError):
        CsvStyle(separator="x")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "|calc", "=1\n=2"])
def test_formulas_are_neutralised(text: str) -> None:
    item = replace(samples.cost().items[0], item=text, source=text)
    outcome = replace(samples.outcome(), cost=replace(samples.cost(), items=(item,)))
    row = next(csv.DictReader(io.StringIO(costs_csv([PricedPlan(text, outcome)]))))
    for name in ("plan", "item", "source"):
        assert row[name].startswith("'")


@given(st.text())
def test_no_text_starts_a_formula(text: str) -> None:
    assert not safe_text(text).startswith(("=", "+", "-", "@", "\t", "\r"))
