"""Comparison: contenders, baseline, break-evens and their reports."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from pddplan import api
from pddplan.domain.outcome import Outcome, SolverReport
from pddplan.economics.costs import plan_cost
from pddplan.errors import InfeasibleError, InputError
from pddplan.evaluate.evaluate import evaluate
from pddplan.optimize import Objective
from pddplan.optimize.settle import better
from pddplan.profiles.token_prices import token_price_for
from pddplan.report.bcr_compare import comparison_csv, comparison_json, render, verdict
from pddplan.report.text_table import Paint, Screen
from pddplan.studies import compare as compare_module
from pddplan.studies.break_evens import break_evens
from pddplan.studies.compare import BcrComparison, compare_topologies
from pddplan.studies.perturb import for_classes, scale_chip_price, scale_line_prices
from tests.unit.studies.study_samples import aggregated_plan, inputs, outcome_of, split_plan

pytestmark = pytest.mark.usefixtures("linear")

PRICE, _ = token_price_for("deepseek-v4-pro")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> BcrComparison:
    """Two topologies with hand-made optima, one without a plan, and a fixed plan."""

    def optimum(question: object, *, topology: str, **_: object) -> Outcome:
        if topology == "pd":
            raise InfeasibleError("no plan keeps every promise")
        return outcome_of("split" if topology == "cross-dc-drc" else "aggregated")

    monkeypatch.setattr(compare_module, "optimum", optimum)
    return compare_topologies(
        inputs(), ["cross-dc-drc", "pd"], baseline="colocated", fixed={"mine": split_plan(prefill=8)}, price=PRICE
    )


def test_contenders_and_gains(found: BcrComparison) -> None:
    by_name = {entry.name: entry for entry in found.entries}
    assert list(by_name) == ["cross-dc-drc", "pd", "colocated", "mine"]
    split, base = by_name["cross-dc-drc"].outcome, by_name["colocated"].outcome
    assert split is not None
    assert base is not None
    assert by_name["cross-dc-drc"].bcr_gain == pytest.approx(split.bcr / base.bcr - 1)
    assert by_name["colocated"].bcr_gain == 0
    assert by_name["pd"].outcome is None
    assert by_name["pd"].why_not == "no plan keeps every promise"
    assert by_name["mine"].fixed
    assert found.best is not None


def test_reports_agree(found: BcrComparison) -> None:
    rows = list(csv.DictReader(io.StringIO(comparison_csv(found))))
    data = comparison_json(found)
    for row, entry in zip(rows, data["contenders"], strict=True):
        assert row["contender"] == entry["name"]
        if entry["status"] != "no plan":
            assert float(row["monthly_cost"]) == pytest.approx(entry["monthly_cost"])
    text = render(found, Screen(110, Paint(), ascii_only=True))
    assert max(len(line) for line in text.splitlines()) <= 110
    assert verdict(found) in " ".join(text.split())
    assert "pd: no plan" in text


def test_bcr_is_equal_at_the_break_even_prices() -> None:
    question = api.problem_of(inputs())
    best, base = outcome_of("split"), outcome_of("aggregated")
    got = break_evens(inputs(), question, best=best, base=base)

    def ratio(outcome: Outcome, changed: object) -> float:
        cost = plan_cost(outcome.plan, changed.sites, changed.chips)  # type: ignore[attr-defined]
        return outcome.goodput_rps / cost.monthly_total

    assert got.decode_chip == "h200-sxm"
    assert got.price_premium_now == pytest.approx(0.25)
    if got.price_premium is not None:
        changed = scale_chip_price(inputs(), "h200-sxm", (1 + got.price_premium) / 1.25)
        assert ratio(best, changed) == pytest.approx(ratio(base, changed))
    if got.line_price_factor is not None:
        changed = replace(inputs(), sites=scale_line_prices(inputs().sites, got.line_price_factor))
        assert ratio(best, changed) == pytest.approx(ratio(base, changed))
    assert got.price_premium is not None or got.line_price_factor is not None


def test_a_topology_is_never_dearer_than_one_whose_plan_it_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    cheap, dear = outcome_of("split"), outcome_of("aggregated")
    cost = Objective(kind="cost", rate_rps=1.0)
    if not better(cheap, dear, cost):
        cheap, dear = dear, cheap
    report = SolverReport("HiGHS", "optimal", 0.1, 1.0)
    known: dict[str, object] = {}

    def optimum(question: object, *, topology: str, **asked: object) -> Outcome:
        known[topology] = asked["known"]
        return replace(cheap if topology == "cross-dc-drc" else dear, solver=report)

    monkeypatch.setattr(compare_module, "optimum", optimum)
    monkeypatch.setattr(compare_module, "_allows", lambda *_: True)
    got = compare_topologies(inputs(), ["pdd", "any", "cross-dc-drc"], baseline="cross-dc-drc", objective=cost)
    costs = {entry.name: entry.outcome.cost.monthly_total for entry in got.entries if entry.outcome is not None}
    assert costs["pdd"] == costs["any"] == costs["cross-dc-drc"] == cheap.cost.monthly_total
    assert known["pdd"] is cheap.plan  # its only part was searched: the search starts there
    wide = next(entry.outcome for entry in got.entries if entry.name == "any")
    assert wide is not None
    assert wide.plan.topology == "any"
    assert wide.solver is not None
    assert wide.solver.status != "optimal"  # that search ended with another plan


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'pd'"):
        compare_topologies(inputs(), ["pdx"])
    with pytest.raises(InputError, match="baseline 'nothing'"):
        compare_topologies(inputs(), ["pd"], baseline="nothing")


def test_a_fixed_plan_can_be_the_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_module, "optimum", lambda *_, **__: outcome_of("split"))
    got = compare_topologies(inputs(), ["cross-dc-drc"], baseline="old", fixed={"old": aggregated_plan()})
    assert got.baseline_entry is not None
    assert got.baseline_entry.outcome is not None
    expected = evaluate(api.problem_of(inputs()), aggregated_plan())
    assert got.baseline_entry.outcome.bcr == pytest.approx(expected.bcr)


def test_a_plan_that_treats_all_classes_alike_fits_any_traffic() -> None:
    plan = split_plan()
    other = for_classes(plan, 3)
    assert other.share.tolist() == [[1.0, 1.0, 1.0]]
    assert for_classes(plan, plan.share.shape[1]) is plan
    told_apart = replace(plan, share=np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert for_classes(told_apart, 3) is told_apart
