"""Longer answers fill memory sooner: engines then admit fewer sequences; a plan does not break by its own limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pddplan import api
from pddplan.domain.plan import Plan
from pddplan.evaluate.evaluate import evaluate
from pddplan.sizing import Sizing
from pddplan.studies.perturb import scale_outputs
from pddplan.studies.sureness import admitted, score_of


@pytest.fixture(scope="module")
def sizing() -> Sizing:
    return api.size(topology="cross-dc-drc", link_gbps=10, compare=False)


def generous(sizing: Sizing) -> Plan:
    """The plan with decode pools that may admit all that memory holds."""
    pools = tuple(replace(p, batch=1_000_000) if p.batch is not None else p for p in sizing.outcome.plan.pools)
    boundless = replace(sizing.outcome.plan, pools=pools)
    return admitted(boundless, evaluate(api.problem_of(sizing.inputs), boundless))


def test_a_plan_that_fits_stays_as_it_is(sizing: Sizing) -> None:
    plan = generous(sizing)
    assert max(pool.batch or 0 for pool in plan.pools) < 1_000_000
    assert admitted(plan, evaluate(api.problem_of(sizing.inputs), plan)) is plan


def test_longer_answers_cost_sequences_and_not_the_plan(sizing: Sizing) -> None:
    plan = generous(sizing)
    longer = replace(sizing.inputs, workload=scale_outputs(sizing.inputs.workload, 1.3))
    question = api.problem_of(longer)
    outcome = evaluate(question, plan)
    assert any("memory batch" in violation.limit for violation in outcome.violations)
    fitting = admitted(plan, outcome)
    assert [pool.chips for pool in fitting.pools] == [pool.chips for pool in plan.pools]
    after = evaluate(question, fitting)
    assert not [violation for violation in after.violations if "memory batch" in violation.limit]
    assert score_of(question, plan, plan.rate_rps).holds == after.keeps_promises
    assert score_of(question, plan, 0.5 * plan.rate_rps).bcr > 0
