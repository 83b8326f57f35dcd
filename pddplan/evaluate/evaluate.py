"""THE one evaluator: what a plan does with the traffic, what it costs, and which promises it keeps."""

from __future__ import annotations

import numpy as np

from pddplan.domain.outcome import Cost, Outcome, Percentiles
from pddplan.domain.plan import Plan
from pddplan.domain.workload import Array
from pddplan.economics.costs import bcr, plan_cost
from pddplan.evaluate.findings import assumptions, bindings, line_loads, notes, pool_loads, violations
from pddplan.evaluate.flows import system
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.tpot import tpot_percentiles
from pddplan.paths.latency import PreparedLatency, stacked
from pddplan.paths.mixture import mixture_percentiles

NOTHING = Percentiles(0.0, 0.0, 0.0, 0.0)
"""Latency of a system that nobody uses."""


def evaluate(problem: Problem, plan: Plan, *, cost: Cost | None = None, detail: bool = True) -> Outcome:
    """Metrics of a plan under its rate: percentiles, utilisations, cost, broken promises.

    ``cost`` given skips pricing; ``detail`` false leaves out percentiles per path and class, which take half of the
    time (for loops over many plans). Closed forms throughout; the optimiser uses the same functions (evaluate.flows,
    evaluate.path_result, evaluate.stages).
    """
    solved = system(problem, plan)
    flow = solved.flow_rps
    ready, mean = stacked([r.ttft for r in solved.results])
    ttft_total = _over_all(ready, mean, flow)
    ended, e2e_mean = stacked([r.e2e for r in solved.results])
    e2e_total = _over_all(ended, e2e_mean, flow)
    by_path = mixture_percentiles(ready, flow, mean_s=mean) if detail else ()
    tpot = tpot_percentiles(solved.results, flow, output_tokens=problem.workload.classes.output_tokens)
    priced = plan_cost(plan, problem.sites, problem.chips) if cost is None else cost
    gap = np.array([r.worst_gap_s for r in solved.results])
    pools, lines = pool_loads(problem, plan, solved), line_loads(plan, solved)
    broken = violations(problem, plan, solved, ttft=ttft_total, e2e=e2e_total, tpot=tpot)
    goodput = 0.0 if broken else plan.rate_rps
    total = float(flow.sum())
    tokens = float((flow * problem.workload.classes.output_tokens).sum())
    relayed = sum(float(np.dot(rate, r.relay_tokens)) for rate, r in zip(flow, solved.results, strict=True))
    return Outcome(
        plan=plan,
        goodput_rps=goodput,
        bcr=bcr(goodput, priced),
        cost=priced,
        ttft=ttft_total,
        tpot_s=tpot.mean,
        tpot=tpot,
        worst_itl_s=float(gap[flow > 0].max()) if (flow > 0).any() else 0.0,
        e2e=e2e_total,
        pools=pools,
        lines=lines,
        path_share={
            path.id: float(rate.sum()) / total if total > 0 else 0.0
            for path, rate in zip(plan.paths, flow, strict=True)
        },
        relay_token_share=relayed / tokens if tokens > 0 else 0.0,
        violations=broken,
        binding=bindings(problem, solved, ttft=ttft_total, tpot=tpot, pools=pools, lines=lines),
        assumptions=assumptions(problem, plan),
        ttft_by_path=dict(zip((path.id for path in plan.paths), by_path, strict=False)),
        ttft_by_class=mixture_percentiles(ready.transposed(), flow.T, mean_s=mean.T) if detail else (),
        e2e_by_class=mixture_percentiles(ended.transposed(), flow.T, mean_s=e2e_mean.T) if detail else (),
        tpot_by_class_s=_class_means(np.array([r.tpot_s for r in solved.results]), flow),
        worst_itl_by_class_s=tuple(np.where(flow > 0, gap, 0.0).max(axis=0).tolist()),
        notes=notes(problem, plan, solved),
    )


def _over_all(ready: PreparedLatency, mean_s: Array, flow: Array) -> Percentiles:
    """Percentiles over all requests of latencies with rows (paths, classes)."""
    used = flow > 0
    if not used.any():
        return NOTHING
    return mixture_percentiles(ready.rows(used), flow[used][None], mean_s=mean_s[used][None])[0]


def _class_means(values: Array, flow: Array) -> tuple[float, ...]:
    """Mean over the paths of each class, by requests; 0 for a class without requests."""
    total = flow.sum(axis=0)
    mean = (flow * np.where(flow > 0, values, 0.0)).sum(axis=0) / np.where(total > 0, total, 1.0)
    return tuple(mean.tolist())
