"""Tolerances of solvers never show: a plan keeps every limit to the last digit, by the evaluator's own numbers."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from pddplan import api
from pddplan.domain.workload import Promises
from pddplan.evaluate.rounding import ROUNDING
from pddplan.optimize import Limits, Objective
from pddplan.report.json_plan import plan_json
from pddplan.sizing import Inputs, Sizing
from tests import samples

WITHIN = 1.0 + ROUNDING


def question(seed: int) -> tuple[Inputs, Objective, Limits]:
    """Traffic, ceilings, inventories, prices and lines drawn over wide ranges; ceilings often bind."""
    draw = random.Random(seed)

    def log(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    inputs = samples.inputs()
    count = draw.randint(1, 4)
    tokens = np.floor([log(100, 2e5) for _ in range(count)])
    missing = np.floor(tokens * [draw.choice([0.01, 0.1, 0.5, 1.0]) for _ in range(count)])
    weight = np.array([draw.random() + 1e-6 for _ in range(count)])
    classes = replace(
        inputs.workload.classes,
        weight=weight / weight.sum(),
        input_tokens=tokens,
        miss_prefill_tokens=missing,
        miss_decode_tokens=np.maximum(missing, np.floor(tokens * draw.choice([0.0, 0.1, 1.0]))),
        output_tokens=np.floor([log(1, 3000) for _ in range(count)]),
        label=(),
    )
    rate = log(0.1, 100)
    workload = replace(
        inputs.workload,
        classes=classes,
        arrival=replace(inputs.workload.arrival, rate_rps=rate),
        promises=Promises(ttft_p99_s=log(20, 300), tpot_s=log(0.03, 0.3)),
    )
    line = inputs.sites.lines["a-b"]
    tiers = tuple(
        replace(line.tiers[0], gbps=gbps, monthly_cost=900 * gbps**0.5) for gbps in (log(0.1, 5), 40.0, 400.0)
    )
    sites = replace(inputs.sites, lines={"a-b": replace(line, tiers=tiers, max_lines=4)})
    limits = Limits(
        max_utilization=round(draw.uniform(0.1, 1.0), 3),
        max_line_utilization=draw.choice([0.01, 0.3, 0.9]),
        redundant_instances=draw.choice([0, 0, 1]),
        max_nodes=5,
        prove_shapes=False,
        time_limit_s=600.0,
    )
    kind = draw.choice(["bcr", "cost", "rps"])
    objective = Objective(
        kind, rate_rps=rate if kind == "cost" else None, budget_per_month=log(1e5, 1e6) if kind == "rps" else None
    )
    return replace(inputs, workload=workload, sites=sites), objective, limits


def keeps_everything(sizing: Sizing, objective: Objective, limits: Limits) -> None:
    """Every limit of the question, held against what the plan file says."""
    data, plan = plan_json(sizing), sizing.outcome.plan
    spare = limits.redundant_instances
    for pool in data["pools"]:
        assert pool["utilization"] * pool["instances"] / (pool["instances"] - spare) <= limits.max_utilization * WITHIN
        assert pool["batch"] is None or pool["batch"] <= pool["batch_cap"] * WITHIN
    for link in data["links"]:
        assert link["utilization"] <= limits.max_line_utilization * WITHIN
    promised = data["promises"]
    assert data["ttft_s"]["p99"] <= promised["ttft_p99_s"]
    assert data["tpot_percentiles_s"]["p90"] <= promised["tpot_s"]
    assert objective.rate_rps in (None, plan.rate_rps)
    assert objective.budget_per_month is None or data["cost"]["monthly_total"] <= objective.budget_per_month
    assert (plan.share.sum(axis=0) == 1.0).all()
    assert not ((plan.share > 0) & (plan.share < 1e-7)).any()
    for site, held in samples.sites().sites.items():
        for chip, offer in held.chips.items():
            used = sum(pool.chips for pool in plan.pools if (pool.site, pool.chip) == (site, chip))
            assert offer.max_chips is None or used <= offer.max_chips


@pytest.mark.parametrize(
    ("seed", "topology"),
    [
        (0, "colocated"),
        (0, "pd-hetero"),
        (2, "pd-hetero"),
        (3, "colocated"),
        (
            3,
            "cross-dc",
        ),  # most requests, far below the most that any fleet could prefill: the line is hardly to be used
        (3, "pdd"),
        (4, "colocated"),
        (5, "cross-dc"),
        (11, "pd-hetero"),
    ],
)
def test_plans_keep_their_limits_exactly(seed: int, topology: str) -> None:
    inputs, objective, limits = question(seed)
    sizing = api.size_inputs(inputs, topology=topology, objective=objective, limits=limits, compare=False)
    keeps_everything(sizing, objective, limits)
