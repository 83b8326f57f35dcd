"""Costs per request and per token must give back exactly what the plan costs."""

from __future__ import annotations

import numpy as np
import pytest

from pddplan import api
from pddplan.domain.sites import Finance
from pddplan.economics.bathtub import now_point, request_economics
from pddplan.economics.revenue import seconds_per_month
from pddplan.profiles.token_prices import token_price_for
from pddplan.studies.serving import context_share, plan_token_cost, prefill_mix, role_cost, serving_cost
from tests.unit.studies.study_samples import inputs, outcome_of, split_plan

pytestmark = pytest.mark.usefixtures("linear")


@pytest.mark.parametrize("kind", ["split", "aggregated"])
def test_cost_per_request_today_is_the_plans_own(kind: str) -> None:
    outcome, question = outcome_of(kind), api.problem_of(inputs())
    serving = serving_cost(question, outcome)
    price, _ = token_price_for("deepseek-v4-pro")
    classes = inputs().workload.classes
    _, cost, _ = request_economics(
        classes, classes.miss_prefill_tokens, serving=serving, price=price, finance=Finance()
    )
    requests = outcome.plan.rate_rps * seconds_per_month(Finance())
    assert cost[0] * requests == pytest.approx(outcome.cost.monthly_total)


@pytest.mark.parametrize("kind", ["split", "aggregated"])
def test_token_costs_and_role_costs_add_up(kind: str) -> None:
    outcome, question = outcome_of(kind), api.problem_of(inputs())
    assert role_cost(outcome.cost).total == pytest.approx(outcome.cost.monthly_total)
    tokens = plan_token_cost(question, outcome)
    assert tokens.monthly_total == pytest.approx(outcome.cost.monthly_total)
    assert tokens.miss_per_mtok is not None
    assert tokens.cached_per_mtok is not None
    assert 0 < tokens.cached_per_mtok < tokens.miss_per_mtok


def test_more_cached_context_bears_a_share_of_prefill() -> None:
    share = context_share(api.problem_of(inputs()), split_plan())
    assert 0 < share < 1


def test_every_class_is_prefilled_once() -> None:
    mix = prefill_mix(split_plan(), inputs().workload.classes.weight)
    assert [pool.id for pool, _ in mix] == ["P"]
    assert mix[0][1] == pytest.approx(np.ones(inputs().workload.classes.count))


def test_benefit_is_revenue_over_cost() -> None:
    outcome, question = outcome_of(), api.problem_of(inputs())
    price, assumed = token_price_for("deepseek-v4-pro")
    assert not assumed
    hit, benefit = now_point(
        inputs().workload.classes, serving=serving_cost(question, outcome), price=price, finance=Finance()
    )
    assert 0.85 < hit < 0.95
    assert benefit > 0
