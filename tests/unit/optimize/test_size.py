"""Whole sizings on a small question: limits are kept, objectives agree, relaxing never costs more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.domain.outcome import Outcome
from pddplan.domain.sites import Finance, SiteChip
from pddplan.errors import InfeasibleError, InputError
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize import TOPOLOGIES, Limits, Objective, baseline, one_site, size
from tests.unit.optimize.small_question import LOOSE, classes, line, question, shapes, two_sites, with_promises

COST = Objective("cost")
GAP = 1e-3


def plan(problem: Problem, topology: str = "pdd", objective: Objective = COST, **limits: object) -> Outcome:
    return size(
        problem,
        topology=topology,
        objective=objective,
        limits=Limits(gap=GAP, **limits),  # type: ignore[arg-type]
        shapes=shapes,
        relax=False,
    )


def cost(outcome: Outcome) -> float:
    return outcome.cost.monthly_total


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_plan_keeps_what_it_prints(topology: str) -> None:
    problem = question()
    outcome = plan(problem, topology)
    again = evaluate(problem, outcome.plan)
    assert outcome.keeps_promises
    assert not again.violations
    assert again.cost.monthly_total == pytest.approx(cost(outcome))
    assert outcome.plan.rate_rps == pytest.approx(4.0)
    assert np.allclose(outcome.plan.share.sum(axis=0), 1.0)
    assert outcome.solver is not None
    assert 0 <= outcome.solver.gap <= 0.01
    for load in outcome.pools:
        assert load.utilization <= 0.95 * (1 + 1e-3)
    for pool in outcome.plan.pools:
        assert any(pool.id in (path.prefill, path.relay, path.decode) for path in outcome.plan.paths)


def test_union_of_topologies_never_costs_more() -> None:
    problem = question()
    best = min(cost(plan(problem, name)) for name in TOPOLOGIES if name != "any")
    assert cost(plan(problem, "any")) <= best * (1 + 2 * GAP)


@settings(max_examples=6)
@given(factor=st.floats(0.1, 20.0))
def test_scaled_prices_scale_the_cost(factor: float) -> None:
    base = question()
    scaled = two_sites(
        at_a=SiteChip("fast", price_per_chip_hour=1.9 * factor, roles=("P", "RLD", "MD")),
        at_b=SiteChip("big", price_per_chip_hour=2.35 * factor, roles=("MD",)),
        leased=line(((1, 400 * factor), (10, 2450 * factor), (40, 5240 * factor))),
    )
    assert cost(plan(question(sites=scaled))) == pytest.approx(factor * cost(plan(base)), rel=2 * GAP)


@settings(max_examples=6)
@given(p99=st.floats(3.0, 12.0), more=st.floats(1.0, 3.0))
def test_a_relaxed_promise_never_costs_more(p99: float, more: float) -> None:
    problem = with_promises(question(), ttft_p90_s=None, ttft_p99_s=p99)
    eased = with_promises(question(), ttft_p90_s=None, ttft_p99_s=p99 * more)
    assert cost(plan(eased)) <= cost(plan(problem)) * (1 + 0.011)


def test_best_ratio_is_at_least_that_of_the_whole_rate() -> None:
    problem = question()
    whole = plan(problem)
    free = plan(problem, objective=Objective("bcr"))
    assert free.bcr >= whole.bcr * (1 - 0.011)
    assert free.goodput_rps <= 4.0 * (1 + 1e-9)
    fixed = plan(problem, objective=Objective("bcr", rate_rps=4.0))
    assert cost(fixed) == pytest.approx(cost(whole), rel=GAP)


def test_budget_bounds_cost_and_more_of_it_serves_more() -> None:
    problem = question()
    small = plan(problem, objective=Objective("rps", budget_per_month=60_000))
    large = plan(problem, objective=Objective("rps", budget_per_month=120_000))
    assert cost(small) <= 60_000 * (1 + 1e-6)
    assert large.goodput_rps > small.goodput_rps


def test_most_requests_without_any_limit_is_refused() -> None:
    with pytest.raises(InputError, match="nothing limits the fleet"):
        plan(question(), objective=Objective("rps"))


def test_inventory_is_respected() -> None:
    sites = two_sites(
        at_a=SiteChip("fast", max_chips=16, roles=("P", "MD")), at_b=SiteChip("big", max_chips=16, roles=("MD",))
    )
    outcome = plan(question(sites=sites), "any", Objective("rps"))
    held: dict[str, int] = {}
    for pool in outcome.plan.pools:
        held[pool.site] = held.get(pool.site, 0) + pool.chips
    assert all(chips <= 16 for chips in held.values())


def test_owned_chips_are_free_and_used_first() -> None:
    owned = two_sites(at_a=SiteChip("fast", owned_chips=24, roles=("P", "RLD", "MD")))
    assert cost(plan(question(sites=owned))) < cost(plan(question()))


def test_one_more_instance_per_pool_when_asked() -> None:
    alone = plan(question())
    spare = plan(question(), redundant_instances=1)
    assert cost(spare) > cost(alone)
    assert all(pool.instances >= 2 for pool in spare.plan.pools)


def test_loss_of_a_line_is_survived_by_a_second_one() -> None:
    outcome = plan(question(sites=two_sites(leased=line(max_lines=2))), "cross-dc-drc", survive_line_loss=True)
    assert outcome.plan.lines[0].count == 2
    lost = replace(outcome.plan, lines=(replace(outcome.plan.lines[0], count=1),))
    assert evaluate(question(sites=two_sites(leased=line(max_lines=2))), lost).keeps_promises


def test_power_limit_binds() -> None:
    base = two_sites()
    site = replace(base.sites["a"], power_limit_kw=12.0)
    tight = replace(base, sites={**base.sites, "a": site}, finance=Finance())
    try:
        outcome = plan(question(sites=tight))
    except InfeasibleError:
        return
    assert sum(pool.chips for pool in outcome.plan.pools if pool.site == "a") < sum(
        pool.chips for pool in plan(question()).plan.pools if pool.site == "a"
    )


def test_same_question_same_plan() -> None:
    first, second = plan(question(), "any"), plan(question(), "any")
    assert first.plan.pools == second.plan.pools
    assert np.array_equal(first.plan.share, second.plan.share)


def test_aggregated_baseline_has_the_same_rate() -> None:
    problem = question()
    outcome = plan(problem)
    base = baseline(problem, outcome, shapes=shapes)
    assert base is not None
    assert base.plan.topology == "colocated"
    assert base.plan.rate_rps == pytest.approx(outcome.plan.rate_rps)
    found = plan(problem, "colocated")
    assert base.cost.monthly_total <= found.cost.monthly_total * (1 + 1e-9)


@pytest.mark.parametrize("most", [1, 2, 40])
def test_what_wins_against_the_baseline_wins_against_every_mixture(most: int) -> None:
    problem = question(sites=two_sites(at_a=SiteChip("fast", max_chips=most), at_b=SiteChip("big", max_chips=40)))
    try:
        outcome = plan(problem)
        found = plan(problem, "colocated")
    except InfeasibleError:
        return
    base = baseline(problem, outcome, shapes=shapes)
    assert base is not None
    if outcome.cost.monthly_total < base.cost.monthly_total:
        assert outcome.cost.monthly_total <= found.cost.monthly_total * (1 + 1e-9)


def test_threshold_emerges_where_only_long_prefills_cross() -> None:
    lengths = np.linspace(1_000, 60_000, 12)
    mix = classes([1.0] * 12, lengths, lengths, [500] * 12)
    sites = two_sites(
        at_a=SiteChip("fast", max_chips=16, roles=("P",)), at_b=SiteChip("big", max_chips=40, roles=("P", "MD"))
    )
    problem = question(mix=mix, sites=sites, promises=replace(LOOSE, ttft_p90_s=None, ttft_p99_s=None))
    outcome = plan(problem, "prfaas", Objective("rps"))
    crossing = [row for path, row in zip(outcome.plan.paths, outcome.plan.share, strict=True) if path.line]
    assert crossing
    assert np.all(np.diff(crossing[0]) >= -1e-3), "longer prefills cross at least as much as shorter ones"


@pytest.mark.parametrize(
    ("objective", "limits", "where"),
    [
        (Objective("cheap"), Limits(), "--objective"),
        (Objective("cost", rate_rps=float("nan")), Limits(), "--rps"),
        (Objective("cost", rate_rps=1e300), Limits(), "--rps"),
        (Objective("rps", budget_per_month=-1.0), Limits(), "--budget"),
        (COST, Limits(max_utilization=1.5), "--max-utilization"),
        (COST, Limits(time_limit_s=0.0), "--time-limit"),
        (COST, Limits(gap=2.0), "--gap"),
        (COST, Limits(max_chips=0), "--max-chips"),
    ],
)
def test_settings_that_make_no_sense_are_refused(objective: Objective, limits: Limits, where: str) -> None:
    with pytest.raises(InputError) as caught:
        size(question(), objective=objective, limits=limits, shapes=shapes)
    assert [problem.where for problem in caught.value.problems] == [where]


def test_unknown_topology_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'pdd'"):
        plan(question(), "pddd")


def test_one_site_is_known_to_whoever_pays_for_two() -> None:
    problem = question()
    outcome = plan(problem, "cross-dc-drc")
    alone = one_site(problem, outcome, shapes=shapes)
    assert alone is not None
    assert not alone.plan.lines
    assert alone.plan.rate_rps == pytest.approx(outcome.plan.rate_rps)
