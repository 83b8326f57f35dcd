"""Where the headline numbers of a plan come from: each with its formula, the numbers in it, its unit and its source.

Nothing is computed anew: the states and path results of the evaluator are read out, so the steps of a path add up
to its mean TTFT, and the requests in flight are those of the plan.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Path, PathKind, Plan, Pool, Role
from pddplan.domain.workload import Array
from pddplan.evaluate.flows import System, system
from pddplan.evaluate.path_result import PathResult, rdma_stage, waits_in_a_row
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.stages import prefill_servers
from pddplan.paths.first_token import first_steps
from pddplan.queueing.waves import slow_wave


@dataclass(frozen=True, slots=True)
class Step:
    """One number of a plan and how it came about."""

    about: str
    """Path, pool or line it belongs to; ``plan`` for the whole."""
    name: str
    formula: str
    inputs: tuple[tuple[str, float, str], ...]
    """(symbol, value, unit) of what the formula takes."""
    value: float
    unit: str
    source: str
    """Keys of docs/references.yaml, or what the number rests on."""


def derivation(problem: Problem, plan: Plan, outcome: Outcome) -> tuple[Step, ...]:
    """Steps from the traffic to TTFT, TPOT, loads, requests in flight, cost and BCR of a plan (means over requests)."""
    solved = system(problem, plan)
    steps: list[Step] = []
    for path, flow, result in zip(plan.paths, solved.flow_rps, solved.results, strict=True):
        if flow.sum() > 0:
            steps += _path_steps(problem, plan, path, flow, result=result, solved=solved)
    for pool in plan.pools:
        steps += _pool_steps(problem, plan, pool, solved)
    steps += _line_steps(solved)
    return (*steps, *_plan_steps(problem, plan, outcome))


def _mean(flow: Array, values: Array) -> float:
    return float(np.dot(flow, np.broadcast_to(values, flow.shape)) / flow.sum())


def _path_steps(
    problem: Problem, plan: Plan, path: Path, flow: Array, *, result: PathResult, solved: System
) -> list[Step]:
    classes, about = problem.workload.classes, path.id
    first = solved.states.prefill[path.prefill]
    emits = path.prefill if path.kind is PathKind.AGGREGATED else path.relay or path.decode or ""
    point = solved.states.decode[emits]
    pool = plan.pool(path.prefill)
    row = waits_in_a_row(problem, path, solved.states, point, crossed=path.kind is PathKind.P_MD)
    wave = slow_wave(problem.workload.arrival)
    swells: tuple[tuple[str, float, str], ...] = ()
    if wave is not None:
        swells = (("sd(rate)", wave.rate_cv, "of its mean"), ("lasting", wave.relaxation_s, "s"))
    over, source = (" over all levels of the rate", ", karandikar1995") if wave is not None else ("", "")
    waited = _mean(flow, row.prefill.wait.mean_s)
    service = _mean(flow, first.stage.service_s)
    slot = float(row.slot.mean_s)
    begin = first_steps(path.kind) * point.step_s
    ttft = _mean(flow, result.ttft.mean_s)
    steps = [
        Step(
            about,
            "wait for prefill",
            f"E[W] = p E[W | W > 0]{over}",
            (
                (
                    "p",
                    first.delay_probability
                    if wave is None
                    else _mean(flow, np.asarray(row.prefill.wait.delay_probability)),
                    "",
                ),
                ("c", float(prefill_servers(problem, pool)), "servers"),
                ("rho", first.utilization, ""),
                ("E[S]", first.service.mean, "s"),
                ("cs2", first.service.scv, ""),
                ("ca2", first.arrival_scv, ""),
                *swells,
            ),
            waited,
            "s",
            f"allen1990, whitt1993, burman1983{source}",
        ),
        Step(
            about,
            "prefill",
            "E[t(m, c)] over the requests of the path",
            (
                ("E[m]", _mean(flow, classes.miss_prefill_tokens), "tokens"),
                ("E[c]", _mean(flow, classes.cached_prefill_tokens), "tokens"),
            ),
            service,
            "s",
            f"performance_terms; speed of {pool.chip}: {problem.instance_of(pool).basis.name.lower()}",
        ),
    ]
    if path.kind is not PathKind.AGGREGATED:
        steps.append(_moved(problem, pool, path, flow, moved_s=ttft - waited - service - slot - begin, solved=solved))
    steps += [
        Step(
            about,
            "wait for a slot",
            f"E[W] = P(all slots taken) E[W | W > 0]{over}",
            (
                ("P", float(row.slot.delay_probability), ""),
                ("slots", float(plan.pool(emits).instances * max(point.cap.batch, 0)), ""),
                ("rho", point.utilization, ""),
                *swells,
            ),
            slot,
            "s",
            f"cohen1979, little1961{source}",
        ),
        Step(
            about,
            "first step",
            f"{first_steps(path.kind):g} t_step(b): half a step to join a batch, one to be served",
            (("b", point.batch, "sequences"), ("t_step", point.step_s, "s")),
            begin,
            "s",
            "performance_terms",
        ),
        Step(about, "TTFT, mean", "sum of the above", (), ttft, "s", "pdd-report"),
        Step(
            about,
            "E2E, mean",
            "TTFT + (O - 1) TPOT",
            (
                ("TTFT", ttft, "s"),
                ("E[O]", _mean(flow, classes.output_tokens), "tokens"),
                ("TPOT", _mean(flow, result.tpot_s), "s"),
            ),
            _mean(flow, result.e2e.mean_s),
            "s",
            "definition",
        ),
    ]
    return steps


def _moved(problem: Problem, pool: Pool, path: Path, flow: Array, *, moved_s: float, solved: System) -> Step:
    """The KV transfer that the first token waits for: over the line, or inside the site."""
    if path.kind is PathKind.P_MD and path.line is not None:
        line = solved.states.lines[path.line]
        payload = problem.payload_bytes(pool, decode_cache=path.decode_cache)
        return Step(
            path.id,
            "KV over the line",
            "E[z] / min(r, C) + sharing + RTT/2",
            (
                ("E[z]", _mean(flow, payload), "bytes"),
                ("C", line.rate.bytes_per_s, "bytes/s"),
                ("r", line.rate.transfer_bytes_per_s, "bytes/s"),
                ("rho", line.utilization, ""),
                ("RTT", line.stage.rtt_s, "s"),
            ),
            moved_s,
            "s",
            "lindberger1999, kleinrock1976",
        )
    inside = rdma_stage(problem, pool)
    payload = problem.payload_bytes(pool, decode_cache=path.kind is PathKind.P_MD and path.decode_cache)
    return Step(
        path.id,
        "KV inside the site",
        "E[z] / NICs + latency",
        (
            ("E[z]", _mean(flow, payload), "bytes"),
            ("NICs", float(np.max(inside.rate_bytes_per_s)), "bytes/s"),
            ("latency", 0.5 * inside.rtt_s, "s"),
        ),
        moved_s,
        "s",
        "chip profile, settings rdma_efficiency and rdma_latency_s",
    )


def _pool_steps(problem: Problem, plan: Plan, pool: Pool, solved: System) -> list[Step]:
    steps = [
        Step(
            pool.id,
            "chips",
            "replicas x chips per replica",
            (("replicas", float(pool.instances), ""), ("chips per replica", float(pool.shape.chips), "")),
            float(pool.chips),
            "chips",
            "definition",
        )
    ]
    first, point = solved.states.prefill.get(pool.id), solved.states.decode.get(pool.id)
    if pool.role is Role.PREFILL and first is not None:
        steps.append(
            Step(
                pool.id,
                "utilisation",
                "rho = lambda E[S] / c",
                (
                    ("lambda", first.rate_rps, "req/s"),
                    ("E[S]", first.service.mean, "s"),
                    ("c", float(prefill_servers(problem, pool)), "servers"),
                ),
                first.utilization,
                "",
                "kleinrock1975",
            )
        )
    if pool.role is not Role.PREFILL and point is not None:
        users = solved.flow_rps[[pool.id in (path.prefill, path.relay, path.decode) for path in plan.paths]]
        steps += [
            Step(
                pool.id,
                "batch of an instance",
                "b = lambda / n x time a slot is held",
                (
                    ("lambda", float(users.sum()), "req/s"),
                    ("n", float(pool.instances), "instances"),
                    ("held", point.holding_s, "s"),
                ),
                point.batch,
                "sequences",
                "little1961",
            ),
            _largest_batch(problem, pool, solved),
        ]
    return steps


def _largest_batch(problem: Problem, pool: Pool, solved: System) -> Step:
    cap = solved.states.decode[pool.id].cap
    classes = problem.workload.classes
    longest = float((classes.input_tokens + classes.output_tokens).max())
    kv = problem.instance_of(pool).kv
    return Step(
        pool.id,
        f"largest batch ({cap.reason})",
        "min(KV memory / S(L + O), stack, TPOT, plan)",
        (
            (f"fits by {cap.memory_reason}", float(cap.memory_batch), "sequences"),
            ("S(longest)", float(kv.sequence_bytes(np.asarray(longest))), "bytes"),
        ),
        float(cap.batch),
        "sequences",
        "kwon2023",
    )


def _line_steps(solved: System) -> list[Step]:
    return [
        Step(
            line_id,
            "utilisation",
            "rho = bytes/s / C",
            (("bytes/s", state.mean_bytes_per_s, "bytes/s"), ("C", state.rate.bytes_per_s, "bytes/s")),
            state.utilization,
            "",
            "rfc7323, mathis1997",
        )
        for line_id, state in solved.states.lines.items()
    ]


def _plan_steps(problem: Problem, plan: Plan, outcome: Outcome) -> list[Step]:
    """Users to concurrency to requests per second, and money."""
    think_s = problem.settings.think_s
    return [
        Step(
            "plan",
            "requests in flight",
            "N = lambda E[E2E]",
            (("lambda", plan.rate_rps, "req/s"), ("E[E2E]", outcome.e2e.mean, "s")),
            plan.rate_rps * outcome.e2e.mean,
            "requests",
            "little1961",
        ),
        Step(
            "plan",
            "users at work",
            "U = lambda (E[E2E] + think time)",
            (
                ("lambda", plan.rate_rps, "req/s"),
                ("E[E2E]", outcome.e2e.mean, "s"),
                ("think time", think_s, "s"),
            ),
            plan.rate_rps * (outcome.e2e.mean + think_s),
            "users",
            "little1961; think time is a setting (think_s)",
        ),
        Step(
            "plan",
            "BCR",
            "goodput / (monthly cost / 1000)",
            (
                ("goodput", outcome.goodput_rps, "req/s"),
                ("monthly cost", outcome.cost.monthly_total, outcome.cost.currency),
            ),
            outcome.bcr,
            f"req/s per 1,000 {outcome.cost.currency} a month",
            "pdd-report",
        ),
    ]
