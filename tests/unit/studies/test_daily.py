"""A day's profile: reserved base and on-demand peak."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pddplan.errors import InputError
from pddplan.evaluate.evaluate import evaluate
from pddplan.report.bcr_reserve import render, reserve_csv, reserve_json
from pddplan.report.text_table import Paint, Screen
from pddplan.studies import daily
from pddplan.studies.daily import daily_study
from tests.unit.studies.study_samples import inputs, split_plan

pytestmark = pytest.mark.usefixtures("linear")

PROFILE = [0.2] * 8 + [1.0] * 8 + [1.8] * 8


def test_base_and_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(inputs(), workload=inputs().workload.at_rate(5.0))
    plan = split_plan(prefill=16, decode=10, rate_rps=9.0)
    monkeypatch.setattr(daily, "optimum", lambda question, **_: evaluate(question, plan))
    got = daily_study(asked, topology="cross-dc-drc", profile=PROFILE)
    assert got.rates_rps[0] == pytest.approx(1.0)
    prefill = got.pools[0]
    assert prefill.chips_per_hour[0] < prefill.chips_per_hour[8] < prefill.chips_per_hour[16]
    assert prefill.chips_per_hour[16] == prefill.commitment.peak_chips
    assert got.monthly_cost <= min(got.all_reserved_monthly_cost, got.all_on_demand_monthly_cost)
    data = reserve_json(got)
    assert sum(p["monthly_cost"] for p in data["pools"]) == pytest.approx(data["monthly_cost"])
    assert len(reserve_csv(got).splitlines()) == 24 * 2 + 1
    text = render(got, Screen(100, Paint(), ascii_only=True))
    assert text.isascii()
    assert max(len(line) for line in text.splitlines()) <= 100


def test_on_demand_price_of_the_sites_file_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = inputs().sites
    site = sites.sites["a"]
    cheap = replace(site.chips["h100-sxm"], on_demand_price_per_chip_hour=1.88)
    asked = replace(
        inputs(), sites=replace(sites, sites={**sites.sites, "a": replace(site, chips={"h100-sxm": cheap})})
    )
    plan = split_plan(prefill=16, decode=10, rate_rps=9.0)
    monkeypatch.setattr(daily, "optimum", lambda question, **_: evaluate(question, plan))
    got = daily_study(replace(asked, workload=asked.workload.at_rate(5.0)), topology="cross-dc-drc", profile=PROFILE)
    assert got.pools[0].on_demand_price == 1.88
    assert got.pools[0].commitment.reserved_chips < got.pools[0].commitment.peak_chips


@pytest.mark.parametrize("profile", [[1.0] * 23, [0.0] * 24, [-1.0] * 24, [float("nan")] * 24])
def test_bad_profiles_are_refused(profile: list[float]) -> None:
    with pytest.raises(InputError, match="24 factors"):
        daily_study(inputs(), topology="pd", profile=profile)


def test_a_workload_without_profile_says_what_to_do() -> None:
    with pytest.raises(InputError, match="no daily profile"):
        daily_study(inputs(), topology="pd")
