"""Explanations: marginal values have the right sign, alternatives are real plans, text says what JSON says."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from pddplan.domain.outcome import Outcome
from pddplan.domain.sites import SiteChip
from pddplan.domain.workload import Promises
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize import TOPOLOGIES, Limits, Objective, size
from pddplan.optimize.alternatives import topologies
from pddplan.optimize.asker import Asker
from pddplan.optimize.explanation import SAME, Explanation, Marginal, chips, cost, explain
from pddplan.optimize.marginals import all_eased, marginals
from pddplan.report.explanation import explanation_csv, explanation_json, render
from pddplan.report.text_table import Paint, Screen
from tests.unit.optimize.small_question import classes, line, question, shapes, two_sites, with_promises


@pytest.fixture(scope="module")
def explained() -> Explanation:
    problem = question()
    plan = size(problem, topology="cross-dc-drc", objective=Objective("cost"), limits=Limits(), shapes=shapes).plan
    return explain(problem, plan, shapes=shapes)


def test_relaxed_promises_never_cost_more_and_more_fleet_never_serves_less(explained: Explanation) -> None:
    for marginal in explained.marginals:
        if marginal.lever.endswith("promise"):
            assert marginal.cost_change is not None
            assert marginal.cost_change <= 0
        if marginal.rate_change_rps is not None:
            assert marginal.rate_change_rps >= 0
    rate = next(m for m in explained.marginals if m.lever == "rate")
    assert rate.cost_change is not None
    assert rate.cost_change >= 0


def test_every_other_topology_is_answered(explained: Explanation) -> None:
    assert {a.name for a in explained.topologies} == set(TOPOLOGIES) - {"cross-dc-drc"}
    for other in explained.topologies:
        assert (other.outcome is None) == (other.why_not is not None)
        if other.outcome is not None:
            assert other.outcome.keeps_promises


def test_runners_up_are_near_and_different(explained: Explanation) -> None:
    fleets = [tuple((p.id, p.instances) for p in a.outcome.plan.pools) for a in explained.runners_up if a.outcome]
    assert len(set(fleets)) == len(fleets)
    assert all(a.cost_ratio is not None and a.cost_ratio <= 0.1 for a in explained.runners_up)


def test_text_and_json_agree(explained: Explanation) -> None:
    text = render(explained, Screen(width=100, paint=Paint(), ascii_only=True))
    record = explanation_json(explained)
    for heading in ("What binds", "What one more would buy", "nearly as good", "Why not another topology"):
        assert heading in text
    assert f"{chips(explained.outcome)} chips" in text
    assert record["monthly_cost"] == pytest.approx(cost(explained.outcome))
    assert len(record["marginals"]) == len(explained.marginals)


def scarce() -> Problem:
    """The cheaper place is full: one more instance there saves money."""
    first = SiteChip("fast", max_chips=24, price_per_chip_hour=1.0, roles=("P", "MD"))
    sites = two_sites(at_a=first, at_b=SiteChip("big", price_per_chip_hour=4.0, roles=("MD",)))
    return question(4.0, sites=sites)


def thin_line() -> Problem:
    """A line of 1 Gbit/s that is nearly full, and the next tier far dearer than chips."""
    mix = classes([1, 2], [64e3, 64e3], [30e3, 2e3], [800, 800])
    return question(1.2, mix=mix, sites=two_sites(leased=line(((1, 400), (10, 200_000)))))


def powered() -> Problem:
    sites = scarce().sites
    place = replace(sites.sites["a"], power_limit_kw=20.0, chips={"fast": SiteChip("fast", price_per_chip_hour=1.0)})
    return replace(scarce(), sites=replace(sites, sites={**sites.sites, "a": place}), memo={})


QUESTIONS: dict[str, tuple[Problem, str, Limits]] = {
    "inventory": (scarce(), "prfaas", Limits()),
    "line": (thin_line(), "cross-dc-drc", Limits()),
    "N+1 and a low ceiling": (question(4.0), "cross-dc-drc", Limits(redundant_instances=1, max_utilization=0.5)),
    "power": (powered(), "prfaas", Limits()),
    "promise": (with_promises(question(4.0), ttft_p99_s=3.0), "cross-dc-drc", Limits()),
}
EXACT = Limits(gap=1e-4, acceptable_gap=1e-4)


def solved(problem: Problem, topology: str, limits: Limits, objective: Objective) -> Outcome:
    exact = replace(limits, gap=EXACT.gap, acceptable_gap=EXACT.acceptable_gap)
    return size(problem, topology=topology, objective=objective, limits=exact, shapes=shapes, relax=False)


def changed(problem: Problem, limits: Limits, marginal: Marginal) -> tuple[Problem, Limits, float] | None:
    """The question with a lever moved by hand: problem, limits and rate; None for levers of the fleet as it is."""
    promises, rate, sites = problem.workload.promises, problem.workload.arrival.rate_rps, problem.sites
    if marginal.lever == "rate":
        return problem, limits, (1.0 + float(marginal.change.strip("+%")) / 100.0) * rate
    if marginal.lever == "all promises":
        return replace(problem, workload=replace(problem.workload, promises=Promises())), limits, rate
    if marginal.lever.endswith(" promise"):
        promise = next(p for p in promises.made() if p.name == marginal.lever.removesuffix(" promise"))
        number, unit = marginal.change.removeprefix("+").split()
        eased = promises.with_limit(promise.kind, promise.limit_s + float(number) / (1e3 if unit == "ms" else 1.0))
        return replace(problem, workload=replace(problem.workload, promises=eased)), limits, rate
    if marginal.lever.startswith("inventory of fast at a"):
        place, more = sites.sites["a"], int(marginal.change.split()[0])
        wider = replace(place.chips["fast"], max_chips=(place.chips["fast"].max_chips or 0) + more)
        places = {**sites.sites, "a": replace(place, chips={**place.chips, "fast": wider})}
        return replace(problem, sites=replace(sites, sites=places)), limits, rate
    if marginal.lever == "power of site a":
        place = replace(sites.sites["a"], power_limit_kw=1.1 * (sites.sites["a"].power_limit_kw or 0.0))
        return replace(problem, sites=replace(sites, sites={**sites.sites, "a": place})), limits, rate
    if marginal.lever == "spare instances per pool":
        return problem, replace(limits, redundant_instances=0), rate
    if marginal.lever == "ceiling of pools":
        return problem, replace(limits, max_utilization=float(marginal.change.split()[-1])), rate
    return None


@cache
def asked(name: str) -> tuple[Outcome, Explanation]:
    """The best plan of a question, and what is said of it."""
    problem, topology, limits = QUESTIONS[name]
    base = solved(problem, topology, limits, Objective("cost", rate_rps=problem.workload.arrival.rate_rps))
    return base, explain(problem, base.plan, shapes=shapes, limits=limits)


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_levers_are_said_to_do_is_what_solving_again_gives(name: str) -> None:
    problem, topology, limits = QUESTIONS[name]
    base, found = asked(name)
    said = {marginal.lever for marginal in found.marginals}
    for marginal in found.marginals:
        if marginal.cost_change is None:
            continue
        moved = changed(problem, limits, marginal)
        assert moved is not None, marginal.lever
        again = solved(moved[0], topology, moved[1], Objective("cost", rate_rps=moved[2]))
        allowed = marginal.uncertain + 1.1 * SAME * cost(base)
        assert abs(cost(again) - cost(base) - marginal.cost_change) <= allowed, marginal
    expected = {"inventory": "inventory of fast at a", "power": "power of site a", "line": "line ab"}
    assert expected.get(name, "rate") in said


def test_a_thicker_line_buys_what_solving_again_gives() -> None:
    problem, topology, limits = QUESTIONS["line"]
    base, found = asked("line")
    said = next(m for m in found.marginals if m.lever == "line ab")
    assert said.rate_change_rps is not None
    held = {pool.site: SiteChip(pool.chip, max_chips=pool.chips, roles=(pool.role.value,)) for pool in base.plan.pools}
    most = {
        gbps: size(
            replace(problem, sites=two_sites(at_a=held["a"], at_b=held["b"], leased=line(((gbps, 400),)))),
            topology=topology,
            limits=replace(limits, time_limit_s=2.0),
            objective=Objective("rps", rate_rps=4 * 1.2),
            shapes=shapes,
        ).goodput_rps
        for gbps in (1, 10)
    }
    assert said.rate_change_rps == pytest.approx(most[10] - most[1], abs=said.uncertain + 2e-2 * most[10])


def test_within_a_budget_levers_buy_requests() -> None:
    few = two_sites(at_a=SiteChip("fast", roles=("P",)), at_b=SiteChip("big", roles=("MD",)))
    problem, money = question(4.0, sites=few), 45_000.0
    most = Objective("rps", budget_per_month=money)
    limits = Limits(max_nodes=30, prove_shapes=False)
    base = size(problem, topology="cross-dc-drc", objective=most, limits=limits, shapes=shapes)
    asker = Asker.of(problem, base.plan, objective=most, limits=Limits(), shapes=shapes)
    found = marginals(asker, base, all_eased(asker, base))
    lever = next(m for m in found.levers if m.lever == "budget")
    more = Objective("rps", budget_per_month=1.1 * money)
    again = size(problem, topology="cross-dc-drc", objective=more, limits=limits, shapes=shapes)
    assert lever.rate_change_rps is not None
    assert again.solver is not None
    gained, left = again.goodput_rps - base.goodput_rps, again.solver.gap * again.goodput_rps
    allowed = lever.uncertain + left + 1.1 * SAME * again.goodput_rps
    assert lever.rate_change_rps == pytest.approx(gained, abs=allowed)
    assert all(m.cost_change is None for m in found.levers)


def test_one_fewer_of_anything_breaks_what_is_said(explained: Explanation) -> None:
    plan, problem = explained.outcome.plan, question()
    assert {one.part for one in explained.needs} >= {f"{pool.site}/{pool.role}" for pool in plan.pools}
    for one in explained.needs:
        assert one.reached > one.allowed or one.breaks == "only one"
        if one.less != "one replica" or one.breaks == "only one":
            continue
        pools = [replace(p, instances=p.instances - (f"{p.site}/{p.role}" == one.part)) for p in plan.pools]
        smaller = evaluate(problem, replace(plan, pools=tuple(pools)))
        loads = [load.utilization for load in smaller.pools]
        assert max(loads) == pytest.approx(one.reached) if one.breaks == "load" else not smaller.keeps_promises


def test_a_topology_without_a_plan_names_the_promise_to_blame() -> None:
    slow = two_sites(at_a=SiteChip("fast", roles=("P", "MD")), at_b=SiteChip("big", roles=("MD",)))
    problem = with_promises(question(4.0, sites=slow), tpot_s=0.0155)
    base = solved(problem, "cross-dc-drc", Limits(), Objective("cost"))
    asker = Asker.of(problem, base.plan, objective=None, limits=Limits(), shapes=shapes)
    found = {other.name: other for other in topologies(asker, base)}
    assert "TPOT P90" in (found["pd"].why_not or "")
    assert found["colocated"].why_not is not None
    assert found["any"].same_plan


def test_csv_has_a_row_for_every_statement(explained: Explanation) -> None:
    rows = explanation_csv(explained).splitlines()
    said = len(explained.needs) + len(explained.marginals) + len(explained.runners_up) + len(explained.topologies)
    assert len(rows) == 1 + said + len(explained.outcome.binding)


def test_a_wider_topology_is_never_dearer(explained: Explanation) -> None:
    wider = {other.name: other for other in explained.topologies}["any"]
    assert wider.cost_ratio is not None
    assert wider.cost_ratio <= 1e-9
