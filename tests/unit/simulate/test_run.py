"""Whole plans: reproducible, conserving, and right in cases that can be computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.closed_form_vs_simulation import NO_COST, STRAIGHT, Case, build
from pddplan.domain.plan import LinePlan, Path, PathKind, Plan, Pool, Role, Shape
from pddplan.domain.sites import Line, Site, Sites, Tier
from pddplan.domain.workload import Arrival, Promises, RequestClasses, Workload
from pddplan.errors import InputError
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.settings import Settings
from pddplan.simulate import Draw, simulate
from pddplan.simulate.build import build_scenario
from pddplan.simulate.replay import replay
from pddplan.simulate.scenario import Requests

FEW = Draw(4000)


def test_same_seed_same_result_and_other_seed_other_result() -> None:
    problem, plan = build(Case("skewed", 4, 0.7, 0.5, topology="pdd"))
    first, again = simulate(problem, plan, draw=FEW, seed=3), simulate(problem, plan, draw=FEW, seed=3)
    assert first.ttft == again.ttft
    assert first.pools == again.pools
    assert first.ttft != simulate(problem, plan, draw=FEW, seed=4).ttft


def test_seeds_pool_their_requests() -> None:
    problem, plan = build(Case("flat", 4, 0.6, 0.5))
    one, three = simulate(problem, plan, draw=FEW, seed=0), simulate(problem, plan, draw=FEW, seed=0, seeds=3)
    assert three.seeds == (0, 1, 2)
    assert three.measured > 2.5 * one.measured
    assert three.ttft.mean.half_width < one.ttft.mean.half_width


def test_worker_processes_give_what_one_process_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, plan = build(Case("flat", 4, 0.6, 0.5))
    alone = simulate(problem, plan, draw=FEW, seeds=2)
    monkeypatch.setattr("pddplan.simulate.run._WORTH_A_PROCESS", 0)
    assert simulate(problem, plan, draw=FEW, seeds=2).ttft == alone.ttft


def test_an_overloaded_pool_is_named() -> None:
    problem, plan = build(Case("flat", 4, 1.15, 0.5))
    result = simulate(problem, plan, draw=FEW)
    assert [sentence.split(":")[0] for sentence in result.unstable] == ["P"]
    problem, plan = build(Case("flat", 4, 0.6, 1.3))
    assert [sentence.split(":")[0] for sentence in simulate(problem, plan, draw=FEW).unstable] == ["a-b"]


def test_a_calm_plan_is_not_called_unstable() -> None:
    for seed in range(3):
        problem, plan = build(Case("skewed", 8, 0.7, 0.6, topology="pdd"))
        assert simulate(problem, plan, draw=FEW, seed=seed).unstable == ()


def test_progress_ends_at_one() -> None:
    seen: list[float] = []
    problem, plan = build(Case("flat", 4, 0.6, 0.5))
    simulate(problem, plan, draw=FEW, seeds=2, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def lonely(kind: PathKind, settings: Settings) -> tuple[Problem, Plan]:
    """One request in an empty system: 10,000 tokens, all missing, 200 output tokens; line of 8 Gbit/s."""
    classes = RequestClasses(np.ones(1), *(np.full(1, x) for x in (1e4, 1e4, 1e4, 200.0)))
    line = Line("a-b", "A", "B", (Tier(8.0, 1.0),), rtt_s=0.1, protocol_efficiency=1.0, tcp_window_bytes=1e15)
    sites = Sites("one", {"A": Site("A", {}), "B": Site("B", {})}, {"a-b": line})
    workload = Workload("one", "none", classes, Arrival(1.0), Promises())
    pools = (
        Pool("P", "A", Role.PREFILL, "straight", Shape(), 1),
        Pool("RLD", "A", Role.RELAY, "straight", Shape(), 1, batch=64),
        Pool("MD", "B", Role.DECODE, "straight", Shape(), 1, batch=64),
        Pool("AGG", "A", Role.AGGREGATED, "straight", Shape(), 1, batch=64),
    )
    path = {
        PathKind.P_MD: Path("way", kind, "P", None, "MD", "a-b"),
        PathKind.P_RLD_MD: Path("way", kind, "P", "RLD", "MD", "a-b"),
        PathKind.P_RLD: Path("way", kind, "P", "RLD", None, None),
        PathKind.AGGREGATED: Path("way", kind, "AGG"),
    }[kind]
    problem = Problem(workload, sites, {}, None, lambda pool: STRAIGHT, settings)
    return problem, Plan("one", 1.0, pools, (LinePlan("a-b", 8.0),), (path,), np.ones((1, 1)))


def one_journey(kind: PathKind, **settings: object):  # type: ignore[no-untyped-def]
    problem, plan = lonely(kind, Settings(rdma_bytes_per_s=1e9, rdma_latency_s=0.01, **settings))  # type: ignore[arg-type]
    nothing = np.zeros(1, dtype=np.intp)
    requests = Requests(np.zeros(1), nothing, nothing, nothing, np.full(1, 200.0))
    return replay(build_scenario(problem, plan), requests, rng=np.random.default_rng(0))


PREFILL = 0.1 + 1e-4 * 1e4  # 1.1 s
CROSSING = (5031.0 * 1e4 + 4.56e6) / 1e9  # 0.05487 s
STEP = 0.0201  # one sequence


def test_direct_path_by_hand() -> None:
    journey = one_journey(PathKind.P_MD)
    assert journey.landed_s[0] == pytest.approx(PREFILL + CROSSING + 0.05)
    assert journey.first_token_s[0] == pytest.approx(PREFILL + CROSSING + 0.05 + STEP)
    assert journey.finish_s[0] == pytest.approx(PREFILL + CROSSING + 0.05 + 200 * STEP)


def test_relay_path_by_hand() -> None:
    """KV lands 0.105 s after prefill; the relay starts 0.065 s after it and has made almost two tokens by then."""
    journey = one_journey(PathKind.P_RLD_MD, handover="one-shot", handover_overhead_s=0.2)
    start = PREFILL + CROSSING + 0.01
    landed = PREFILL + CROSSING + 0.05
    made = (landed - start) / STEP
    assert journey.first_token_s[0] == pytest.approx(start + STEP)
    assert journey.relayed_tokens[0] == pytest.approx(made)
    # one round: half a round trip, 0.2 s of the engines, and a step of the decode pool at the plan's rate:
    # 200 tokens per second keep 5 sequences busy (5 >= 200 x 0.0205 s)
    ready = landed + 0.05 + 0.2 + 0.0205
    assert journey.decode_ready_s[0] == pytest.approx(ready)
    assert journey.finish_s[0] == pytest.approx(ready + (200 - made) * STEP)
    assert journey.gap_s[0] == pytest.approx(ready - landed)


def test_local_paths_by_hand() -> None:
    relay = one_journey(PathKind.P_RLD)
    assert relay.finish_s[0] == pytest.approx(PREFILL + CROSSING + 0.01 + 200 * STEP)
    assert relay.relayed_tokens[0] == 200.0
    mixed = one_journey(PathKind.AGGREGATED)
    assert mixed.first_token_s[0] == pytest.approx(PREFILL + STEP)
    assert mixed.finish_s[0] == pytest.approx(PREFILL + 200 * STEP)


def test_layerwise_sending_hides_under_prefill() -> None:
    problem, plan = lonely(PathKind.P_MD, Settings(rdma_bytes_per_s=1e9, overlap="layerwise"))
    scenario = build_scenario(problem, plan)
    way = replace(scenario.ways[0], pipelined_fraction=0.9)
    nothing = np.zeros(1, dtype=np.intp)
    requests = Requests(np.zeros(1), nothing, nothing, nothing, np.full(1, 200.0))
    journey = replay(replace(scenario, ways=(way,)), requests, rng=np.random.default_rng(0))
    assert journey.landed_s[0] == pytest.approx(PREFILL + 0.1 * CROSSING + 0.05)


@pytest.mark.parametrize("topology", ["cross-dc", "pdd"])
def test_every_request_arrives_and_no_stage_runs_backwards(topology: str) -> None:
    problem, plan = build(Case("skewed", 4, 0.8, 0.7, topology=topology))
    scenario = build_scenario(problem, plan)
    rng = np.random.default_rng(1)
    count = 3000
    kind = rng.choice(problem.workload.classes.count, p=problem.workload.classes.weight, size=count)
    way = plan.share.argmax(axis=0)[kind]
    requests = Requests(np.sort(rng.uniform(0, count / plan.rate_rps, count)), kind, kind, way, np.full(count, 500.0))
    journey = replay(scenario, requests, rng=rng)
    assert np.isfinite(journey.finish_s).all()
    assert (journey.prefill_start_s >= requests.arrival_s).all()
    assert (journey.landed_s >= journey.prefill_end_s).all()
    assert (journey.first_token_s > journey.prefill_end_s).all()
    assert (journey.finish_s >= journey.first_token_s).all()
    assert (journey.relayed_tokens <= 500.0).all()
    assert (journey.gap_s >= 0).all()


def test_little_holds_in_every_pool() -> None:
    """Mean number inside = arrival rate x mean stay, each measured in its own way."""
    problem, plan = build(Case("flat", 8, 0.7, 0.5))
    result = simulate(problem, plan, draw=Draw(20_000))
    far = next(pool for pool in result.pools if pool.pool == "MD")
    assert far.batch is not None
    stay_s = result.e2e.mean.value - result.ttft.mean.value + 0.02
    expected = plan.rate_rps * stay_s / plan.pool("MD").instances
    assert far.batch.value == pytest.approx(expected, rel=0.03)


def test_aggregated_plan_agrees_with_its_closed_form_on_the_mean() -> None:
    problem, plan = lonely(PathKind.AGGREGATED, Settings(rdma_bytes_per_s=1e9))
    plan = replace(plan, rate_rps=2.0, pools=(*plan.pools[:3], replace(plan.pools[3], instances=4)))
    result = simulate(problem, plan, draw=Draw(20_000))
    outcome = evaluate(problem, plan, cost=NO_COST)
    assert outcome.ttft.mean == pytest.approx(result.ttft.mean.value, rel=0.1)
    assert outcome.e2e.mean == pytest.approx(result.e2e.mean.value, rel=0.1)


@pytest.mark.parametrize(
    ("draw", "changes", "said"),
    [
        (Draw(5), {}, "--requests"),
        (Draw(10**9), {}, "--requests"),
        (FEW, {"seed": -1}, "--seed"),
        (FEW, {"seeds": 0}, "--seeds"),
        (Draw(4000, mean_batch=0.5), {}, "--bunch"),
        (Draw(4000, mean_batch=1e9), {}, "--bunch"),
        (Draw(4000, output_scv=-1.0), {}, "answers"),
        (Draw(4000, scv=1e308), {}, "variability"),
        (Draw(4000, scv=float("nan")), {}, "variability"),
    ],
)
def test_counts_out_of_range_are_refused(draw: Draw, changes: dict[str, int], said: str) -> None:
    problem, plan = build(Case("flat", 4, 0.6, 0.5))
    with pytest.raises(InputError) as caught:
        simulate(problem, plan, draw=draw, **changes)  # type: ignore[arg-type]
    assert said in caught.value.problems[0].what


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e308, 1e-308, float("nan"), float("inf")])
def test_rates_out_of_range_are_refused(rate: float) -> None:
    problem, plan = build(Case("flat", 4, 0.6, 0.5))
    with pytest.raises(InputError, match="--rps"):
        simulate(problem, replace(plan, rate_rps=rate), draw=FEW)


def test_all_faults_of_a_plan_are_named_at_once() -> None:
    problem, plan = build(Case("flat", 4, 0.6, 0.5))
    path = replace(plan.paths[0], prefill="gone", line="gone")
    broken = replace(plan, paths=(path,), share=np.ones((2, 3)))
    with pytest.raises(InputError) as caught:
        simulate(problem, broken, draw=FEW)
    assert len(caught.value.problems) == 3
    empty = replace(plan, pools=(replace(plan.pools[0], instances=0), plan.pools[1]))
    with pytest.raises(InputError, match="no instance"):
        simulate(problem, empty, draw=FEW)


def test_bunches_and_spread_answers_change_what_they_should() -> None:
    problem, plan = build(Case("flat", 8, 0.6, 0.4))
    calm = simulate(problem, plan, draw=Draw(20_000))
    bunched = simulate(problem, plan, draw=Draw(20_000, mean_batch=8.0))
    spread = simulate(problem, plan, draw=Draw(20_000, output_scv=1.0))
    assert bunched.ttft.p90.value > 1.3 * calm.ttft.p90.value
    assert spread.e2e.p99.value > 1.5 * calm.e2e.p99.value
    assert spread.ttft.mean.value == pytest.approx(calm.ttft.mean.value, rel=0.05)
