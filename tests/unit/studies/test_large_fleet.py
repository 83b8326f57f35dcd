"""A plan made large: fitted to the promises, never fuller than a plan may be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pddplan import api
from pddplan.errors import InfeasibleError
from pddplan.evaluate.evaluate import evaluate
from pddplan.studies import curve as curve_module
from pddplan.studies.curve import FLEET_SCALE, sized_points
from pddplan.studies.large_fleet import fitted, will_do
from pddplan.studies.perturb import with_hit_rate
from tests.unit.studies.study_samples import inputs, split_plan

pytestmark = pytest.mark.usefixtures("linear")


def test_fitted_keeps_promises_and_costs_no_more_per_request() -> None:
    question, plan = api.problem_of(inputs()), split_plan()
    small = evaluate(question, plan)
    large = fitted(question, plan, 16)
    assert large is not None
    assert will_do(large)
    assert large.goodput_rps == pytest.approx(16 * plan.rate_rps)
    assert large.cost.monthly_total <= 16 * small.cost.monthly_total
    # Prefill runs fuller than in the small plan; a tenth fewer instances would not do.
    pools = large.plan.pools
    assert large.pools[0].utilization > small.pools[0].utilization
    fewer = replace(pools[0], instances=int(pools[0].instances * 0.9))
    assert not will_do(evaluate(question, replace(large.plan, pools=(fewer, *pools[1:]))))


def test_promises_that_no_fleet_keeps() -> None:
    hopeless = replace(inputs().workload.promises, ttft_p90_s=1e-3)
    question = api.problem_of(replace(inputs(), workload=replace(inputs().workload, promises=hopeless)))
    assert fitted(question, split_plan(), 4) is None


def test_fewer_hits_cost_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from pddplan.profiles.token_prices import token_price_for

    monkeypatch.setattr(curve_module, "optimum", lambda question, **_: evaluate(question, split_plan()))
    price, _ = token_price_for("deepseek-v4-pro")
    points = sized_points(inputs(), split_plan(), [0.5, 0.95], price=price)
    assert [point.hit_rate for point in points] == [0.5, 0.95]
    assert points[0].monthly_cost > points[1].monthly_cost
    warm = fitted(
        api.problem_of(replace(inputs(), workload=with_hit_rate(inputs().workload, 0.95))), split_plan(), FLEET_SCALE
    )
    assert warm is not None
    assert points[-1].monthly_cost == pytest.approx(warm.cost.monthly_total / FLEET_SCALE)


def test_hit_rates_without_a_plan_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from pddplan.profiles.token_prices import token_price_for

    def nothing(*_: object, **__: object) -> None:
        raise InfeasibleError("no plan")

    monkeypatch.setattr(curve_module, "optimum", nothing)
    price, _ = token_price_for("deepseek-v4-pro")
    assert sized_points(inputs(), split_plan(), [0.0, 0.5], price=price) == ()
