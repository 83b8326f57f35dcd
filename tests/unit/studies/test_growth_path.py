"""Growth: the smallest fleet of one kind per quarter, and terms of purchase."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pddplan import api
from pddplan.domain.sites import Finance
from pddplan.errors import InputError
from pddplan.evaluate.evaluate import evaluate
from pddplan.report.bcr_growth import growth_csv, growth_json, render
from pddplan.report.text_table import Paint, Screen
from pddplan.sizing import Inputs
from pddplan.studies import growth_path
from pddplan.studies.growth_path import growth_study, smallest, unit_terms
from tests.unit.studies.study_samples import inputs, split_plan

pytestmark = pytest.mark.usefixtures("linear")


def bought(price: float | None = 30_000.0) -> Inputs:
    sites = inputs().sites
    places = {
        key: replace(site, chips={c: replace(own, purchase_price_per_chip=price) for c, own in site.chips.items()})
        for key, site in sites.sites.items()
    }
    finance = replace(Finance(), cost_of_capital_fraction=0.0, residual_fraction=0.0, amortisation_years=4.0)
    return replace(inputs(), sites=replace(sites, sites=places, finance=finance))


def test_smaller_demand_takes_no_more_of_anything() -> None:
    question, plan = api.problem_of(inputs()), split_plan(prefill=16, decode=10, rate_rps=10.0)
    assert evaluate(question, plan).keeps_promises
    counts = []
    for rate in (1.0, 4.0, 10.0):
        outcome = smallest(question, plan, rate)
        assert outcome.keeps_promises
        assert outcome.goodput_rps == rate
        counts.append(tuple(pool.instances for pool in outcome.plan.pools))
        assert outcome.plan.lines[0].gbps <= plan.lines[0].gbps
    assert counts == sorted(counts)
    # One instance less of anything would break a promise.
    outcome = smallest(question, plan, 4.0)
    for index, pool in enumerate(outcome.plan.pools):
        if pool.instances > 1:
            fewer = tuple(replace(p, instances=p.instances - (i == index)) for i, p in enumerate(outcome.plan.pools))
            assert not evaluate(question, replace(outcome.plan, pools=fewer)).keeps_promises


def test_terms_by_hand() -> None:
    pool = split_plan().pools[0]
    terms = unit_terms(bought(), pool)
    assert terms.rent_monthly_cost == pytest.approx(16 * 1.88 * 730)
    assert terms.purchase_price == pytest.approx(16 * 30_000)
    assert (terms.running_monthly_cost, terms.life_months) == (0.0, 48.0)
    assert unit_terms(inputs(), pool).purchase_price is None


def test_study_adds_up_and_strands_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = split_plan(prefill=16, decode=10, rate_rps=10.0)
    monkeypatch.setattr(growth_path, "optimum", lambda question, **_: evaluate(question, plan))
    got = growth_study(bought(20_000.0), [2.0, 6.0, 10.0, 10.0], topology="cross-dc-drc")
    assert got.plan.idle_owned_unit_months == 0
    assert [step.outcome is not None and step.outcome.keeps_promises for step in got.steps] == [True] * 4
    assert got.plan.net_present_cost <= got.at_once_present_cost
    assert got.plan.net_present_cost <= got.rent_only_present_cost + 1e-6
    data = growth_json(got)
    assert math.fsum(row["present_value"] for row in data["months"]) == pytest.approx(data["net_present_cost"])
    assert len(growth_csv(got).splitlines()) == 12 * 3 + 1
    text = render(got, Screen(100, Paint(), ascii_only=True))
    assert max(len(line) for line in text.splitlines()) <= 100


def test_no_demand_at_all_is_refused() -> None:
    with pytest.raises(InputError):
        growth_study(inputs(), [0.0, 0.0], topology="pd")
