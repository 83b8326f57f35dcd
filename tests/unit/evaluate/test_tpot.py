"""TPOT over requests: a closed form that evaluator and optimiser share."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.plan import Path, PathKind
from pddplan.domain.workload import Array
from pddplan.evaluate.path_result import PathResult
from pddplan.evaluate.tpot import tpot_coverage, tpot_percentiles
from pddplan.paths.latency import LatencySum

OUTPUT = np.array([101.0, 1001.0])


def result(mean_s: Array, spread_s: Array, most_s: float = math.inf) -> PathResult:
    zero = np.zeros_like(mean_s)
    return PathResult(
        path=Path("p", PathKind.AGGREGATED, "x"),
        ttft=LatencySum(zero),
        e2e=LatencySum(zero),
        transfer=None,
        payload_bytes=zero,
        relay_tokens=zero,
        relay_hold_s=zero,
        main_tokens=OUTPUT,
        main_extend_s=zero,
        tpot_s=mean_s,
        worst_gap_s=zero,
        decode_spread_s=spread_s,
        tpot_most_s=zero + most_s,
    )


def test_the_ninetieth_percentile_is_the_ninetieth() -> None:
    """An exponential part of mean s puts P90 at t + s (ln 10 - 1)."""
    one = result(np.array([0.04, 0.04]), np.array([0.5, 5.0]))  # 5 ms a token in both classes
    found = tpot_percentiles([one], np.ones((1, 2)), output_tokens=OUTPUT)
    assert found.p90 == pytest.approx(0.04 + 0.005 * (math.log(10) - 1), rel=1e-6)
    assert found.p99 == pytest.approx(0.04 + 0.005 * (math.log(100) - 1), rel=1e-6)
    assert found.mean == pytest.approx(0.04)


def test_without_spread_a_promise_equal_to_the_step_is_kept() -> None:
    one = result(np.array([0.042, 0.03]), np.zeros(2))
    assert tpot_coverage(one, OUTPUT, limit_s=0.042) == pytest.approx([1.0, 1.0])
    assert tpot_coverage(one, OUTPUT, limit_s=0.0419) == pytest.approx([0.0, 1.0])
    found = tpot_percentiles([one], np.array([[0.2, 0.8]]), output_tokens=OUTPUT)
    assert (found.p50, found.p90) == (pytest.approx(0.03), pytest.approx(0.042))


def test_full_batches_end_the_spread() -> None:
    one = result(np.array([0.04, 0.04]), np.array([0.5, 5.0]), most_s=0.045)
    assert tpot_percentiles([one], np.ones((1, 2)), output_tokens=OUTPUT).p99 == pytest.approx(0.045, rel=1e-6)
    assert tpot_coverage(one, OUTPUT, limit_s=0.045) == pytest.approx([1.0, 1.0])


def test_what_never_ends_is_never_covered() -> None:
    one = result(np.array([0.04, math.inf]), np.zeros(2))
    found = tpot_percentiles([one], np.array([[0.95, 0.05]]), output_tokens=OUTPUT)
    assert found.p90 == pytest.approx(0.04)
    assert math.isinf(found.p99)
    assert tpot_percentiles([one], np.zeros((1, 2)), output_tokens=OUTPUT).p90 == 0.0


@given(
    mean_s=st.floats(1e-3, 0.2),
    spread_s=st.floats(0.0, 20.0),
    quicker=st.floats(0.5, 1.0),
    limit_s=st.floats(1e-3, 0.5),
)
def test_percentiles_and_coverage_agree(mean_s: float, spread_s: float, quicker: float, limit_s: float) -> None:
    """P90 within a promise if and only if the promise covers nine of ten: what the program asks is what is judged."""
    one = result(np.array([mean_s, quicker * mean_s]), np.array([spread_s / 10, spread_s]))
    other = replace(one, tpot_s=1.1 * one.tpot_s)
    flow = np.array([[1.0, 2.0], [0.5, 0.0]])
    found = tpot_percentiles([one, other], flow, output_tokens=OUTPUT)
    rows = [tpot_coverage(r, OUTPUT, limit_s=limit_s) for r in (one, other)]
    covered = float(sum(row @ rate for row, rate in zip(rows, flow, strict=True)) / flow.sum())
    if abs(covered - 0.9) > 1e-6:
        assert (covered > 0.9) == (found.p90 <= limit_s * (1 + 1e-8))
    assert found.p50 <= found.p90 <= found.p99


def test_many_classes_of_any_spread_have_finite_percentiles() -> None:
    """Sums over 64 classes differ in their last digit by how they are added up; that must not read as 'never'."""
    draw = np.random.default_rng(7)
    output = draw.uniform(50.0, 2000.0, 64)
    for _ in range(200):
        mean_s = np.full(64, draw.uniform(0.01, 0.05))
        one = replace(result(np.zeros(64), np.zeros(64)), tpot_s=mean_s, decode_spread_s=draw.uniform(0.0, 20.0, 64))
        found = tpot_percentiles(
            [replace(one, tpot_most_s=np.full(64, math.inf))], draw.random((1, 64)), output_tokens=output
        )
        assert found.p50 <= found.p90 <= found.p99 < math.inf
