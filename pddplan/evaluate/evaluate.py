"""THE one evaluator: what a plan does with the traffic, what it costs, and which promises it keeps."""

from __future__ import annotations

import numpy as np

from pddplan.domain.outcome import Cost, Latencies, Outcome, Percentiles
from pddplan.domain.plan import Plan
from pddplan.domain.workload import Array
from pddplan.economics.costs import bcr, plan_cost
from pddplan.evaluate.findings import assumptions, bindings, line_loads, notes, pool_loads, violations
from pddplan.evaluate.flows import System, system
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
    latencies, mean_s = stacked([r.ttft for r in solved.results] + [r.e2e for r in solved.results])
    ttft_total, e2e_total = _over_all(latencies, mean_s, flow)
    by_path, by_class = _in_detail(latencies, mean_s, flow, total=ttft_total) if detail else ((), ())
    tpot = tpot_percentiles(solved.results, flow, output_tokens=problem.workload.classes.output_tokens)
    priced = plan_cost(plan, problem.sites, problem.chips) if cost is None else cost
    gap = np.array([r.worst_gap_s for r in solved.results])
    pools, lines = pool_loads(problem, plan, solved), line_loads(plan, solved)
    by_group = _by_group(problem, solved, latencies, mean_s)
    reached = {"": Latencies(ttft_total, tpot, e2e_total), **by_group}
    broken = violations(problem, plan, solved, reached)
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
        binding=bindings(problem, reached, pools=pools, lines=lines),
        assumptions=assumptions(problem, plan),
        ttft_by_path={path.id: ttft for path, ttft, rate in zip(plan.paths, by_path, flow, strict=False) if rate.any()},
        ttft_by_class=by_class[: flow.shape[1]],
        e2e_by_class=by_class[flow.shape[1] :],
        tpot_by_class_s=_class_means(np.array([r.tpot_s for r in solved.results]), flow),
        worst_itl_by_class_s=tuple(np.where(flow > 0, gap, 0.0).max(axis=0).tolist()),
        by_class=by_group,
        notes=notes(problem, plan, solved),
    )


def _over_all(latencies: PreparedLatency, mean_s: Array, flow: Array) -> tuple[Percentiles, Percentiles]:
    """Percentiles over all requests of TTFT and E2E; rows are TTFT of all paths, then E2E of all paths."""
    used = np.concatenate([flow, flow]) > 0
    if not used.any():
        return NOTHING, NOTHING
    weight = flow[flow > 0]
    chosen = latencies.rows(used, groups=2)
    ttft, e2e = mixture_percentiles(chosen, np.stack([weight, weight]), mean_s=mean_s[used].reshape(2, -1))
    return ttft, e2e


def _by_group(problem: Problem, solved: System, latencies: PreparedLatency, mean_s: Array) -> dict[str, Latencies]:
    """Percentiles of each traffic class that the workload tells apart; rows as for _over_all."""
    classes, found = problem.workload.classes, {}
    for group in classes.groups:
        mine = solved.flow_rps * classes.members(group)
        ttft, e2e = _over_all(latencies, mean_s, mine)
        tpot = tpot_percentiles(solved.results, mine, output_tokens=classes.output_tokens)
        found[group] = Latencies(ttft, tpot, e2e)
    return found


def _in_detail(
    latencies: PreparedLatency, mean_s: Array, flow: Array, *, total: Percentiles
) -> tuple[tuple[Percentiles, ...], tuple[Percentiles, ...]]:
    """TTFT of each path; TTFT of each class, then E2E of each class. Rows as for _over_all."""
    paths = len(flow)
    first = PreparedLatency(latencies.shift_s[:paths], latencies.coefficient[:paths], latencies.rate_per_s[:paths])
    by_path = (total,) if paths == 1 and flow.any() else mixture_percentiles(first, flow, mean_s=mean_s[:paths])
    by_class = mixture_percentiles(
        latencies.transposed(groups=2),
        np.concatenate([flow.T, flow.T]),
        mean_s=np.concatenate([mean_s[:paths].T, mean_s[paths:].T]),
    )
    return by_path, by_class


def _class_means(values: Array, flow: Array) -> tuple[float, ...]:
    """Mean over the paths of each class, by requests; 0 for a class without requests."""
    total = flow.sum(axis=0)
    mean = (flow * np.where(flow > 0, values, 0.0)).sum(axis=0) / np.where(total > 0, total, 1.0)
    return tuple(mean.tolist())
