"""How sure: ranges, their effect, and the chance that promises hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pddplan import api
from pddplan.domain.chip import Price
from pddplan.economics.costs import plan_cost
from pddplan.errors import InputError
from pddplan.evaluate.evaluate import evaluate
from pddplan.report.bcr_sure import matters, render, sure_csv, sure_json, tornado_bar
from pddplan.report.text_table import Paint, Screen
from pddplan.studies.perturb import at_rate, scale_chip_price, scale_misses, scale_outputs, with_hit_rate
from pddplan.studies.sureness import (
    changed_question,
    from_trace,
    how_sure,
    levers_of,
    score_of,
    scorer,
    sustained_rate,
    with_ranges,
)
from tests.unit.studies.study_samples import inputs, split_plan, with_finance

pytestmark = pytest.mark.usefixtures("linear")


def names() -> list[str]:
    return [lever.factor.name for lever in levers_of(inputs(), split_plan())]


def test_everything_with_a_range_is_a_factor() -> None:
    found = names()
    assert len(found) == len(set(found))
    for wanted in (
        "price of h200-sxm",
        "price of line a-b",
        "rtt_s of a-b",
        "prefill time on h100-sxm",
        "decode time on h200-sxm",
        "missing tokens",
        "demand",
    ):
        assert wanted in found
    assert "price of h100-sxm" not in found  # the sites file gives it without a range: the user's own


def test_a_profile_price_ranges_towards_its_high_end() -> None:
    chips = {**inputs().chips, "h100-sxm": replace(inputs().chips["h100-sxm"], price=Price(2.0, 4.0))}
    site = inputs().sites.sites["a"]
    bare = replace(site, chips={"h100-sxm": replace(site.chips["h100-sxm"], price_per_chip_hour=None)})
    asked = replace(inputs(), chips=chips, sites=replace(inputs().sites, sites={**inputs().sites.sites, "a": bare}))
    factor = next(x.factor for x in levers_of(asked, split_plan()) if x.factor.name == "price of h100-sxm")
    assert (factor.low, factor.value) == (1.0, 1.0)
    assert factor.high == pytest.approx((2 + 0.3 * 2) / 2)


def test_values_in_the_middle_give_the_plan_itself() -> None:
    plan, levers = split_plan(), tuple(levers_of(inputs(), split_plan()))
    outcome = evaluate(api.problem_of(inputs()), plan)
    got = scorer(inputs(), plan, levers)({lever.factor.name: lever.factor.value for lever in levers})
    assert (got.bcr, got.holds) == (pytest.approx(outcome.bcr), outcome.keeps_promises)


def test_a_price_factor_is_the_price() -> None:
    plan, levers = split_plan(), tuple(levers_of(inputs(), split_plan()))
    question, _ = changed_question(inputs(), levers, {"price of h200-sxm": 1.04}, base=api.problem_of(inputs()))
    dear = scale_chip_price(inputs(), "h200-sxm", 1.04)
    assert evaluate(question, plan).cost.monthly_total == pytest.approx(
        plan_cost(plan, dear.sites, dear.chips).monthly_total
    )


def test_slower_chips_and_more_misses_never_help() -> None:
    plan, levers = split_plan(prefill=12), tuple(levers_of(inputs(), split_plan()))
    base = api.problem_of(inputs())
    p99 = {}
    for name, value in (("missing tokens", 1.5), ("prefill time on h100-sxm", 1.25), ("missing tokens", 1.0)):
        question, _ = changed_question(inputs(), levers, {name: value}, base=base)
        p99[name, value] = evaluate(question, plan).ttft.p99
    assert p99["missing tokens", 1.5] > p99["missing tokens", 1.0]
    assert p99["prefill time on h100-sxm", 1.25] > p99["missing tokens", 1.0]


def test_sustained_rate_lies_below_and_keeps_promises() -> None:
    question, plan = api.problem_of(inputs()), split_plan()
    wanted = 40.0
    assert not evaluate(question, at_rate(plan, wanted)).keeps_promises
    carried = sustained_rate(question, plan, wanted)
    assert 0 < carried < wanted
    assert evaluate(question, at_rate(plan, carried)).keeps_promises
    assert score_of(question, plan, wanted).bcr == pytest.approx(
        carried / evaluate(question, plan).cost.monthly_total * 1e3
    )


def test_study_end_to_end_is_seeded_and_rendered() -> None:
    ranges = {name: (1.0, 1.0) for name in names() if name.startswith(("decode", "prefill"))}
    first, again = (how_sure(inputs(), split_plan(), samples=4, seed=2, ranges=ranges) for _ in range(2))
    assert first.spread.bcr_p50 == again.spread.bcr_p50
    assert first.planned.holds
    assert 0 <= first.spread.holds_fraction <= 1
    text = render(first, Screen(100, Paint(), ascii_only=True))
    assert max(len(line) for line in text.splitlines()) <= 100
    data = sure_json(first)
    assert data["samples"] == 4
    assert len(sure_csv(first).splitlines()) == len(first.bars) + 1
    assert len(tornado_bar(first.bars[0], first.planned.bcr, 1.0)) == 25


def test_few_draws_name_no_number_that_moves_nothing_alone() -> None:
    sure = how_sure(inputs(), split_plan(), samples=8)
    idle = {bar.factor.name for bar in sure.bars if not matters(bar, sure)}
    assert idle
    loud = replace(sure, spread=replace(sure.spread, influence=dict.fromkeys(sure.spread.influence, 0.99)))
    screen = Screen(width=200, paint=Paint(), ascii_only=False)
    said = next(block for block in render(loud, screen).split("\n\n") if block.startswith("What moves BCR most"))
    assert not [name for name in idle if name in said]


def test_ranges_are_checked() -> None:
    levers = tuple(levers_of(inputs(), split_plan()))
    with pytest.raises(InputError, match="did you mean 'missing tokens'"):
        with_ranges(levers, {"mising tokens": (0.5, 2.0)})
    with pytest.raises(InputError, match="must contain its value"):
        with_ranges(levers, {"demand": (1.1, 2.0)})
    widened = with_ranges(levers, {"demand": (0.5, 2.0)})
    assert next(x.factor.high for x in widened if x.factor.name == "demand") == 2.0


def test_a_measured_workload_has_narrower_ranges() -> None:
    traced = replace(inputs(), workload=replace(inputs().workload, provenance={"trace": {"sha256": "x"}}))
    assert from_trace(traced)
    assert not from_trace(inputs())
    high = {
        kind: next(x.factor.high for x in levers_of(asked, split_plan()) if x.factor.name == "missing tokens")
        for kind, asked in (("trace", traced), ("assumed", inputs()))
    }
    assert high["trace"] < high["assumed"]


def test_finance_numbers_with_a_range_are_factors() -> None:
    from pddplan.domain.provenance import Basis, Provenance

    asked = with_finance(support_fraction=0.05)
    origins = {"finance.support_fraction": Provenance(Basis.ASSUMED, "x", low=0.02, high=0.1)}
    asked = replace(asked, sites=replace(asked.sites, origins=origins))
    factor = next(x.factor for x in levers_of(asked, split_plan()) if x.factor.name == "support_fraction")
    assert (factor.low, factor.value, factor.high) == (0.02, 0.05, 0.1)


def test_perturbations_stay_within_the_input() -> None:
    classes = scale_misses(inputs().workload, 100.0).classes
    assert np.all(classes.miss_prefill_tokens <= classes.input_tokens)
    assert np.all(scale_outputs(inputs().workload, 0.0).classes.output_tokens >= 1.0)
    cold = with_hit_rate(inputs().workload, 0.0).classes
    assert cold.miss_prefill_tokens == pytest.approx(cold.input_tokens)
