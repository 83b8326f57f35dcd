"""Replaying traces: rates, routing, and the state of the far cache."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.closed_form_vs_simulation import Case, build, traffic
from pddplan.domain.plan import Path, PathKind
from pddplan.domain.workload import RequestClasses
from pddplan.errors import InputError
from pddplan.simulate.cache_state import BlockLists
from pddplan.simulate.trace_mode import TraceTraffic, nearest_class, simulate_trace

SIZE = 1000


def conversation_trace(turns: int = 40, users: int = 30, gap_s: float = 20.0) -> TraceTraffic:
    """Users who add one block a turn; all start with 5 blocks of their own."""
    rng = np.random.default_rng(0)
    start = rng.uniform(0, gap_s, users)
    rows = sorted(
        (start[user] + turn * gap_s + rng.uniform(0, 1), user, turn) for user in range(users) for turn in range(turns)
    )
    place = {(user, turn): i for i, (_, user, turn) in enumerate(rows)}
    blocks = [[user * 1000 + k for k in range(5 + turn)] for _, user, turn in rows]
    lengths = np.array([len(listed) for listed in blocks])
    total = lengths * SIZE
    miss = np.array([SIZE if turn else 5 * SIZE for _, _, turn in rows])
    return TraceTraffic(
        name="made up",
        arrival_s=np.array([time for time, _, _ in rows]),
        input_tokens=total,
        output_tokens=np.full(len(rows), 100),
        miss_prefill_tokens=miss,
        miss_decode_tokens=miss,
        blocks=BlockLists(np.concatenate(([0], np.cumsum(lengths))), np.concatenate(blocks), SIZE),
        generated_from=np.array([place[user, turn - 1] if turn else -1 for _, user, turn in rows]),
    )


def test_requests_go_to_the_class_they_resemble() -> None:
    classes = traffic("skewed")
    np.testing.assert_array_equal(nearest_class(classes, classes), np.arange(classes.count))
    near = RequestClasses(np.ones(1), *(np.full(1, x) for x in (64_000.0, 300.0, 300.0, 510.0)))
    assert nearest_class(near, classes)[0] == int(np.argmin(classes.miss_prefill_tokens))


def test_with_room_everywhere_the_far_cache_keeps_up() -> None:
    problem, plan = build(Case("skewed", 8, 0.3, 0.2, topology="pdd"))
    trace = conversation_trace()
    result = simulate_trace(problem, plan, trace)
    assert result.unstable == ()
    assert result.measured == trace.count
    assert result.extra["a-b: lagging_requests_fraction"] == 0.0
    # answers of 100 tokens are held too, beyond what the trace's own count says
    assert result.extra["a-b: decode_hit_fraction"] >= result.extra["a-b: decode_hit_fraction_without_lag"]


def test_a_small_far_cache_makes_more_cross() -> None:
    problem, plan = build(Case("skewed", 8, 0.3, 0.2))
    trace = conversation_trace()
    whole = simulate_trace(problem, plan, trace)
    small = simulate_trace(problem, plan, trace, decode_cache_tokens=60 * SIZE)
    assert small.extra["a-b: decode_hit_fraction"] < 0.7 * whole.extra["a-b: decode_hit_fraction"]
    assert small.lines[0].offered > whole.lines[0].offered


def test_what_ends_on_the_relay_never_reaches_the_far_cache() -> None:
    """The report's warning: P-RLD as a general pipeline leaves the decode side ever further behind."""
    problem, plan = build(Case("skewed", 8, 0.3, 0.2, topology="pdd"))
    local = Path("P-RLD", PathKind.P_RLD, "P", "RLD", None, None)
    half = np.full((2, plan.share.shape[1]), 0.5)
    mixed = replace(plan, paths=(plan.paths[0], local), share=half)
    direct = replace(plan, paths=(plan.paths[0], local), share=np.stack([half[0] * 2, half[0] * 0]))
    trace = conversation_trace()
    lagging = simulate_trace(problem, mixed, trace)
    keeping = simulate_trace(problem, direct, trace)
    assert lagging.extra["a-b: lagging_requests_fraction"] > 0.4
    assert keeping.extra["a-b: lagging_requests_fraction"] == 0.0
    # half of the requests cross, yet they carry almost as many bytes as all of them did
    assert lagging.lines[0].offered > 0.75 * keeping.lines[0].offered


def test_small_changes_of_rate_stretch_time_and_large_ones_overlay() -> None:
    trace = conversation_trace()
    slower, faster = trace.at_rate(trace.rate_rps / 2), trace.at_rate(trace.rate_rps * 10)
    assert slower.count == trace.count
    assert slower.rate_rps == pytest.approx(trace.rate_rps / 2)
    assert faster.count == 10 * trace.count
    assert faster.rate_rps == pytest.approx(10 * trace.rate_rps, rel=0.02)
    assert (np.diff(faster.arrival_s) >= 0).all()
    assert faster.generated_from is not None
    known = faster.generated_from >= 0
    assert (faster.generated_from[known] < np.flatnonzero(known)).all()
    # the gap between a turn and the one before stays what it was
    gaps = faster.arrival_s[known] - faster.arrival_s[faster.generated_from[known]]
    assert np.median(gaps) == pytest.approx(20.0, rel=0.1)
    assert "10 copies" in faster.notes[0]


def test_overlaid_copies_hit_as_the_trace_does() -> None:
    problem, plan = build(Case("skewed", 8, 0.3, 0.2))
    trace = conversation_trace()
    result = simulate_trace(problem, plan, trace.at_rate(trace.rate_rps * 4))
    once = simulate_trace(problem, plan, trace)
    assert result.extra["a-b: decode_hit_fraction"] == pytest.approx(once.extra["a-b: decode_hit_fraction"], abs=0.02)


def test_same_seed_same_result() -> None:
    problem, plan = build(Case("skewed", 4, 0.5, 0.5, topology="pdd"))
    trace = conversation_trace(turns=10)
    assert simulate_trace(problem, plan, trace, seed=1).ttft == simulate_trace(problem, plan, trace, seed=1).ttft


def test_traces_without_times_or_with_one_request_are_refused() -> None:
    problem, plan = build(Case("skewed", 4, 0.5, 0.5))
    one = conversation_trace(turns=1, users=1)
    with pytest.raises(InputError, match="at least 2"):
        simulate_trace(problem, plan, one)
    trace = conversation_trace(turns=2, users=2)
    with pytest.raises(InputError, match="same moment"):
        simulate_trace(problem, plan, replace(trace, arrival_s=np.zeros(trace.count)))
