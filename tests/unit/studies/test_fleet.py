"""Given fleets and several workloads on one fleet."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.domain.sites import Sites
from pddplan.errors import InfeasibleError, InputError, SolverError
from pddplan.evaluate.evaluate import evaluate
from pddplan.report.bcr_fleet import fleet_csv, fleet_json, render
from pddplan.report.text_table import Paint, Screen
from pddplan.studies import fleet as fleet_module
from pddplan.studies import shared_fleet as shared_module
from pddplan.studies.fleet import fleet_outcome, largest_rate, parse_fleet, restricted
from pddplan.studies.shared_fleet import shared_fleet, without
from tests.unit.studies.study_samples import inputs, split_plan

pytestmark = pytest.mark.usefixtures("linear")


def test_parse() -> None:
    got = parse_fleet("pdd a:h100-sxm=43 b:h200-sxm=32")
    assert got.topology == "pdd"
    assert got.chips == {("a", "h100-sxm"): 43, ("b", "h200-sxm"): 32}


@pytest.mark.parametrize(
    "text", ["", "pdd", "nope a:x=1", "pd a=1", "pd a:x=-1", "pd a:x=1 a:x=2", "pd a:x=\u00b2", "pd :x=1", "pd a:x=1e9"]
)
def test_unreadable_fleets_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_fleet(text)


def test_unknown_sites_and_chips_are_named() -> None:
    with pytest.raises(InputError, match="site 'z' is unknown"):
        restricted(inputs().sites, {("z", "h100-sxm"): 1})
    with pytest.raises(InputError, match="did you mean 'h100-sxm'"):
        restricted(inputs().sites, {("a", "h100-sxn"): 1})


def test_idle_chips_are_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Sites] = []

    def optimum(question: object, **_: object) -> Outcome:
        seen.append(question.sites)  # type: ignore[attr-defined]
        return evaluate(api.problem_of(inputs()), split_plan())

    monkeypatch.setattr(fleet_module, "optimum", optimum)
    from pddplan.optimize import Limits

    fleet = parse_fleet("cross-dc-drc a:h100-sxm=100 b:h200-sxm=96")
    got = fleet_outcome(inputs(), fleet, limits=Limits())
    assert seen[0].sites["a"].chips["h100-sxm"].max_chips == 100
    bare = evaluate(api.problem_of(inputs()), split_plan())
    assert got.cost.monthly_total == pytest.approx(bare.cost.monthly_total + 4 * 1.88 * 730)
    assert got.bcr < bare.bcr
    assert got.cost.monthly_total == pytest.approx(math.fsum(item.monthly_cost for item in got.cost.items))


def test_what_a_plan_leaves() -> None:
    sites = inputs().sites
    site = sites.sites["a"]
    owned = replace(site, chips={"h100-sxm": replace(site.chips["h100-sxm"], max_chips=100, owned_chips=90)})
    start = replace(sites, sites={**sites.sites, "a": owned})
    left = without(start, split_plan(prefill=6), inputs())
    assert left.sites["a"].chips["h100-sxm"].max_chips == 4
    assert left.sites["a"].chips["h100-sxm"].owned_chips == 0
    assert left.lines["a-b"].max_lines == sites.lines["a-b"].max_lines - 1
    assert "h100-sxm" not in without(left, split_plan(prefill=6), inputs()).sites["a"].chips


def two_questions(max_chips: int) -> list[object]:
    sites = inputs().sites
    site = sites.sites["a"]
    scarce = replace(site, chips={"h100-sxm": replace(site.chips["h100-sxm"], max_chips=max_chips)})
    asked = replace(inputs(), sites=replace(sites, sites={**sites.sites, "a": scarce}))
    return [replace(asked, workload=replace(asked.workload, name=name)) for name in ("one", "two")]


@pytest.fixture
def greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """An optimiser that wants 6 instances of 16 H100 and knows when they are not there."""

    def optimum(question: object, **_: object) -> Outcome:
        chips = question.sites.sites["a"].chips  # type: ignore[attr-defined]
        if "h100-sxm" not in chips or chips["h100-sxm"].max_chips < 96:
            raise InfeasibleError("not enough h100-sxm")
        return evaluate(question, split_plan())  # type: ignore[arg-type]

    monkeypatch.setattr(shared_module, "optimum", optimum)


@pytest.mark.usefixtures("greedy")
def test_enough_for_both_is_not_scarce() -> None:
    got = shared_fleet(two_questions(192), topology="cross-dc-drc")  # type: ignore[arg-type]
    assert not got.scarce
    assert got.chips() == {("a", "h100-sxm"): 192, ("b", "h200-sxm"): 192}
    assert got.monthly_total == pytest.approx(math.fsum(t.outcome.cost.monthly_total for t in got.tenants))
    data = fleet_json(got)
    assert [w["name"] for w in data["workloads"]] == ["one", "two"]
    assert len(fleet_csv(got).splitlines()) == 1 + 2 * 3
    text = render(got, Screen(100, Paint(), ascii_only=True))
    assert max(len(line) for line in text.splitlines()) <= 100


@pytest.mark.usefixtures("greedy")
def test_what_does_not_fit_together_says_so() -> None:
    with pytest.raises(InfeasibleError, match="do not fit together") as caught:
        shared_fleet(two_questions(100), topology="cross-dc-drc")  # type: ignore[arg-type]
    (more,) = caught.value.relaxations
    assert (more.asked, more.needed, more.hint) == (100, 192, "sites.a.chips.h100-sxm.max_chips: 192")
    enough = shared_fleet(two_questions(int(more.needed)), topology="cross-dc-drc")  # type: ignore[arg-type]
    assert not enough.scarce  # what is printed works when typed


def test_workloads_for_which_time_ran_out_on_the_rest_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def optimum(question: object, **_: object) -> Outcome:
        if question.sites.sites["a"].chips["h100-sxm"].max_chips < 100:  # type: ignore[attr-defined]
            raise SolverError("no plan found within 30 s", fix="raise --time-limit")
        return evaluate(question, split_plan())  # type: ignore[arg-type]

    monkeypatch.setattr(shared_module, "optimum", optimum)
    with pytest.raises(InfeasibleError, match="do not fit together"):
        shared_fleet(two_questions(100), topology="cross-dc-drc")  # type: ignore[arg-type]


def test_each_workload_once() -> None:
    with pytest.raises(InputError, match="give each workload once"):
        shared_fleet([inputs(), inputs()], topology="pd")
    with pytest.raises(InputError, match="no workload"):
        shared_fleet([], topology="pd")


@pytest.mark.parametrize("capacity", [0.3, 4.0, 37.0])
def test_the_largest_rate_is_found_by_asking(capacity: float) -> None:
    def sized(objective: object) -> Outcome:
        rate = objective.rate_rps  # type: ignore[attr-defined]
        if rate > capacity:
            raise InfeasibleError("too much")
        return evaluate(api.problem_of(inputs()), split_plan(rate_rps=rate))

    got = largest_rate(sized, 5.0)
    assert capacity / 1.03 <= got.plan.rate_rps <= capacity


def test_no_rate_at_all_says_why() -> None:
    def sized(objective: object) -> Outcome:
        raise InfeasibleError("never")

    with pytest.raises(InfeasibleError, match="never"):
        largest_rate(sized, 5.0)
