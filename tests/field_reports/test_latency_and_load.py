"""Waits, TTFT and promises under load, as users of other planners found them wrong: one test per report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pddplan
from pddplan.domain.plan import LinePlan, Path, PathKind, Plan, Pool, Role, Shape
from pddplan.domain.sites import Line, Site, SiteChip, Sites, Tier
from pddplan.domain.workload import Promises, RequestClasses, Workload
from pddplan.evaluate.derivation import derivation
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.network.rate import effective_rate
from pddplan.paths.transfer import TransferStage, hidden_prefill_s, transfer_latency
from pddplan.questions import load_inputs, problem_of, shapes_of
from pddplan.queueing.erlang import erlang_c
from pddplan.queueing.wait import pool_wait
from pddplan.report.terminal import render
from pddplan.simulate.fifo import multi_server_fifo
from pddplan.sizing import Sizing


def aggregated(problem: Problem, instances: int, *, batch: int | None = None) -> Plan:
    """One aggregated pool at the decode site that takes every request."""
    pool = Pool("all", "b", Role.AGGREGATED, "h200-sxm", Shape(tp=8), instances, batch=batch)
    path = Path("AGG:all", PathKind.AGGREGATED, "all")
    share = np.ones((1, problem.workload.classes.count))
    return Plan("colocated", problem.workload.arrival.rate_rps, (pool,), (), (path,), share)


@pytest.fixture(scope="module")
def question() -> Problem:
    return problem_of(load_inputs("agentic-64k"))


@pytest.fixture(scope="module")
def sizing() -> Sizing:
    return pddplan.size("agentic-64k")


def test_waits_grow_without_bound_towards_full_load() -> None:
    """aiconfigurator PR#1510: a fixed factor on TTFT misses what load does to waits."""
    waits = [
        float(pool_wait(8, 1.0, service_scv=3.0, arrival_rate_rps=8 * rho).quantile_s(0.99))
        for rho in (0.3, 0.6, 0.9, 0.99, 0.999)
    ]
    assert all(waits[i + 1] > 2 * waits[i] for i in (1, 2, 3))
    assert waits[-1] > 100 * max(waits[1], 0.1)
    assert np.isinf(pool_wait(8, 1.0, service_scv=3.0, arrival_rate_rps=8.0).quantile_s(0.99))


def test_waits_follow_the_variance_of_services() -> None:
    """aiconfigurator PR#1510: the same load waits longer when prefills differ more."""
    means = [float(pool_wait(4, 1.0, service_scv=scv, arrival_rate_rps=3.2).mean_s) for scv in (0.0, 1.0, 3.0, 10.0)]
    assert means == sorted(means)
    assert means[-1] > 3 * means[0]


@pytest.mark.parametrize(("rho", "sampling_error"), [(0.5, 0.1), (0.8, 0.1), (0.95, 0.25)])
def test_waits_agree_with_an_independent_simulation(rho: float, sampling_error: float) -> None:
    """inference-sim#330: waits 28-71 % optimistic at load; M/M/4 by closed form and by replay."""
    rng = np.random.default_rng(7)
    count = 200_000
    service = rng.exponential(1.0, count)
    arrival = np.cumsum(rng.exponential(1.0 / (4 * rho), count))
    start = multi_server_fifo(arrival, service, servers=4)
    waited = (start - arrival)[count // 10 :]
    closed = pool_wait(4, 1.0, service_scv=1.0, arrival_rate_rps=4 * rho)
    for q in (0.9, 0.99):
        assert float(closed.quantile_s(q)) == pytest.approx(float(np.quantile(waited, q)), rel=sampling_error, abs=0.02)


@pytest.mark.parametrize(("servers", "rho"), [(1, 0.5), (2, 0.75), (5, 0.9)])
def test_exponential_services_give_the_textbook_queue(servers: int, rho: float) -> None:
    """inference-sim#319: M/M/k, mean wait C(k, rho) / (k mu - lambda)."""
    got = pool_wait(servers, 2.0, service_scv=1.0, arrival_rate_rps=servers * rho / 2.0)
    assert float(got.mean_s) == pytest.approx(float(erlang_c(servers, rho)) * 2.0 / (servers * (1 - rho)))


def test_near_full_load_is_said(question: Problem) -> None:
    """inference-sim#480: a capacity 22 % too high turns 0.9 into more than one: warn, and ask for a margin."""
    for instances in range(8, 14):
        outcome = evaluate(question, aggregated(question, instances), detail=False)
        load = outcome.pools[0].utilization
        warned = any("margin" in note for note in outcome.notes)
        assert warned == (question.settings.warn_utilization < load < 1.0)
        if load >= 1.0:
            assert outcome.goodput_rps == 0.0
            assert any("capacity of pool" in v.limit for v in outcome.violations)


def test_service_and_wait_are_told_apart(question: Problem) -> None:
    """aiconfigurator#1205 and llm-d-benchmark#400: parts of TTFT with formula, numbers, unit and source."""
    plan = aggregated(question, 11)
    steps = {s.name: s for s in derivation(question, plan, evaluate(question, plan)) if s.about == "AGG:all"}
    assert steps["wait for prefill"].value > 0
    assert steps["prefill"].value > 0
    assert all(s.formula and s.source for s in steps.values())


def test_ttft_is_defined_and_holds_transfer_and_first_step(sizing: Sizing) -> None:
    """aisimulate#288, inference-sim#930/#931: what TTFT spans is printed; the transfer and first step are inside."""
    outcome = sizing.outcome
    note = next(n for n in outcome.notes if n.startswith("TTFT counts from arrival"))
    for path in outcome.plan.paths:
        assert str(path.kind) in note
        if path.kind is PathKind.P_MD:
            assert "KV transfer" in note
            assert "first step" in note
    transfer = next((line.transfer.mean for line in outcome.lines), 0.0)
    assert outcome.ttft.mean > transfer


def test_no_plan_that_is_called_feasible_breaks_a_promise(sizing: Sizing) -> None:
    """aiconfigurator#725: the TPOT bound was not applied in the search."""
    for outcome in (sizing.outcome, sizing.baseline, sizing.cold):
        if outcome is None or not outcome.goodput_rps:
            continue
        promises = sizing.inputs.workload.promises
        assert not outcome.violations
        assert outcome.tpot is not None
        assert outcome.tpot.p90 <= (promises.tpot_s or np.inf) * (1 + 1e-9)
        for limit, got in ((promises.ttft_p90_s, outcome.ttft.p90), (promises.ttft_p99_s, outcome.ttft.p99)):
            assert limit is None or got <= limit * (1 + 1e-9)


def test_the_aggregated_baseline_is_the_cheapest_of_its_kind(sizing: Sizing) -> None:
    """sglang#7141: splitting is compared with the best aggregated plan, found here by trying every shape and count."""
    assert sizing.baseline is not None
    inputs = sizing.inputs
    question, shapes = problem_of(inputs), shapes_of(inputs)
    best = np.inf
    share = np.ones((1, inputs.workload.classes.count))
    for site in inputs.sites.sites.values():
        for chip_id in site.chips:
            for shape in shapes(chip_id, Role.AGGREGATED):
                for instances in range(1, 112 // shape.chips + 1):
                    pool = Pool("all", site.id, Role.AGGREGATED, chip_id, shape, instances)
                    plan = Plan("colocated", sizing.outcome.plan.rate_rps, (pool,), (), (_AGG,), share)
                    outcome = evaluate(question, plan, detail=False)
                    if outcome.keeps_promises:
                        best = min(best, outcome.cost.monthly_total)
                        break
    assert sizing.baseline.cost.monthly_total <= best * 1.001


_AGG = Path("AGG:all", PathKind.AGGREGATED, "all")


def test_a_few_long_prompts_raise_the_tail(question: Problem) -> None:
    """vllm#21495: one 128K prompt blocks short ones; P99 of a mixture is far above that of its mean length."""
    tokens = np.array([2_000.0, 128_000.0])
    weight = np.array([0.97, 0.03])
    mixture = _traffic(question.workload, weight, tokens)
    mean = _traffic(question.workload, np.ones(1), np.array([float(weight @ tokens)]))
    ttft = [evaluate(replace(question, workload=w, memo={}), _split(w), detail=False).ttft for w in (mixture, mean)]
    assert np.isfinite(ttft[0].p99)
    assert ttft[0].p99 > 3 * ttft[1].p99


def _traffic(workload: Workload, weight: np.ndarray, tokens: np.ndarray) -> Workload:
    classes = RequestClasses(weight, tokens, tokens, tokens, np.full_like(tokens, 200.0))
    return replace(workload, classes=classes, promises=Promises()).at_rate(2.0)


def _split(workload: Workload) -> Plan:
    pools = (
        Pool("P", "b", Role.PREFILL, "h200-sxm", Shape(tp=8), 2),
        Pool("MD", "b", Role.DECODE, "h200-sxm", Shape(tp=8), 4, batch=32),
    )
    path = Path("P-MD", PathKind.P_MD, "P", decode="MD")
    return Plan("pd", workload.arrival.rate_rps, pools, (), (path,), np.ones((1, workload.classes.count)))


def test_overlap_is_an_input() -> None:
    """TensorRT-LLM#9212: without layer overlap the whole transfer is added to prefill; with it only the rest is."""
    prefill, payload = np.array([2.0]), np.array([1e9])
    stage = TransferStage(1e9, transfer_bytes_per_s=1e9)
    none = transfer_latency(stage, payload, hidden_s=hidden_prefill_s(prefill, layers=50, overlap="none"))
    layered = transfer_latency(stage, payload, hidden_s=hidden_prefill_s(prefill, layers=50, overlap="layerwise"))
    assert float(none.mean_s[0]) == pytest.approx(1.0)
    assert float(layered.mean_s[0]) < 0.1


def test_the_link_is_a_resource_with_a_name() -> None:
    """dynamo#10863: the bottleneck between pools is named, with its utilisation."""
    line = Line("thin", "a", "b", (Tier(1.0, 100.0),), rtt_s=0.01)
    inputs = load_inputs("agentic-64k")
    places = Sites("x", {"a": Site("a", {"h100-sxm": SiteChip("h100-sxm")}), "b": inputs.sites.sites["b"]}, {})
    question = problem_of(replace(inputs, sites=replace(places, lines={"thin": line}, finance=inputs.sites.finance)))
    pools = (
        Pool("P", "a", Role.PREFILL, "h100-sxm", Shape(tp=8, pp=2), 4),
        Pool("MD", "b", Role.DECODE, "h200-sxm", Shape(tp=8), 12, batch=60),
    )
    path = Path("P-MD", PathKind.P_MD, "P", decode="MD", line="thin")
    share = np.ones((1, inputs.workload.classes.count))
    taken = (LinePlan("thin", 1.0),)
    outcome = evaluate(question, Plan("cross-dc-drc", 11.5, pools, taken, (path,), share), detail=False)
    assert outcome.lines[0].utilization > 1
    assert "capacity of line thin" in [v.limit for v in outcome.violations]
    assert effective_rate(line, 1.0).bytes_per_s < 1.25e8


def test_what_the_far_side_has_does_not_cross() -> None:
    """dynamo#10911: the hit rate of the decode side reduces the bytes on the link."""
    question = problem_of(load_inputs("agentic-64k"))
    pool = Pool("P", "a", Role.PREFILL, "h100-sxm", Shape(tp=8, pp=2), 1)
    weight = question.workload.classes.weight
    cached = float(weight @ question.payload_bytes(pool, decode_cache=True))
    whole = float(weight @ question.payload_bytes(pool, decode_cache=False))
    assert 5 < whole / cached < 10  # ten times fewer growing bytes; windows cross all the same


def test_every_latency_names_its_quantile(sizing: Sizing) -> None:
    """InferenceX#764: a median was compared with a P99."""
    text = render(sizing, width=100)
    for row in text.splitlines():
        if row.startswith(("TTFT ", "TPOT ")) and "counts" not in row:
            assert any(word in row for word in ("P50", "P90", "P99", "mean")), row
