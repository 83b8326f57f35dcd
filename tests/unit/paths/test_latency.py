"""Sums of waits: closed form against hand computation and against drawing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.paths.latency import LatencySum, stacked
from pddplan.paths.mixture import mixture_percentiles, mixture_quantiles, weighted_percentiles
from pddplan.queueing import NO_WAIT, Wait, pool_wait

ONE = np.zeros(1)


def test_a_constant_is_a_step() -> None:
    fixed = LatencySum(np.array([2.0]))
    assert fixed.cdf(1.99).tolist() == [0.0]
    assert fixed.cdf(2.0).tolist() == [1.0]


def test_one_exponential_by_hand() -> None:
    got = LatencySum(np.array([1.0]), (Wait(0.5, 2.0),))
    assert got.cdf(1.0) == pytest.approx([0.5])
    assert got.cdf(3.0) == pytest.approx([1 - 0.5 * np.exp(-1)])


def test_two_exponentials_are_hypoexponential() -> None:
    got = LatencySum(ONE, (Wait(1.0, 1.0), Wait(1.0, 3.0)))
    assert got.cdf(4.0) == pytest.approx([1 - (3 * np.exp(-4 / 3) - np.exp(-4)) / 2])


def test_equal_means_are_an_erlang_law() -> None:
    got = LatencySum(ONE, (Wait(1.0, 2.0), Wait(1.0, 2.0)))
    assert got.cdf(4.0) == pytest.approx([1 - np.exp(-2) * 3], abs=1e-3)


def test_a_wait_without_end_keeps_its_share_out_for_good() -> None:
    got = LatencySum(ONE, (Wait(0.25, np.inf), Wait(1.0, 1.0)))
    assert got.cdf(1e9) == pytest.approx([0.75])
    assert np.isinf(got.mean_s).all()


def test_negligible_waits_change_nothing() -> None:
    plain = LatencySum(np.array([1.0]), (Wait(0.5, 2.0),))
    more = LatencySum(np.array([1.0]), (Wait(0.5, 2.0), NO_WAIT, Wait(1.0, 0.0), Wait(1e-30, 5.0)))
    assert more.cdf(2.5) == pytest.approx(plain.cdf(2.5))


def test_operating_points_broadcast_against_classes() -> None:
    points = Wait(np.array([[0.2], [0.9]]), np.array([[1.0], [4.0]]))
    got = LatencySum(np.array([1.0, 2.0, 3.0]), (points,))
    assert got.cdf(5.0).shape == (2, 3)
    assert got.mean_s.shape == (2, 3)
    assert (got.cdf(5.0)[0] > got.cdf(5.0)[1]).all()


phases = st.tuples(st.floats(0.0, 1.0), st.floats(0.01, 10.0), st.floats(0.0, 0.9), st.floats(0.01, 5.0))


@given(parts=st.lists(phases, min_size=1, max_size=4), shift=st.floats(0.0, 5.0))
def test_the_sum_is_a_distribution_with_the_right_mean(
    parts: list[tuple[float, float, float, float]], shift: float
) -> None:
    got = LatencySum(np.array([shift]), tuple(Wait(*part) for part in parts))
    times = np.linspace(0, 400, 40_001)
    covered = np.array(got.prepared().cdf(times[:, None]))[:, 0]
    assert (np.diff(covered) >= -1e-6).all()
    assert covered[-1] == pytest.approx(1.0, abs=1e-6)
    integral = float(np.trapezoid(1 - covered, times))
    assert integral == pytest.approx(float(got.mean_s[0]), rel=0.02, abs=0.02)


@given(seed=st.integers(0, 50))
def test_drawing_the_parts_gives_the_same_percentiles(seed: int) -> None:
    draw = np.random.default_rng(seed)
    waits = tuple(
        Wait(draw.uniform(0.2, 1), draw.uniform(0.2, 5), draw.uniform(0, 0.6), draw.uniform(0.05, 1)) for _ in range(3)
    )
    total = np.full(100_000, 1.5)
    for wait in waits:
        fast = draw.random(total.size) < float(wait.fast_share)
        mean = np.where(fast, float(wait.fast_mean_s), float(wait.tail_mean_s))
        total += np.where(draw.random(total.size) < float(wait.delay_probability), draw.exponential(mean), 0.0)
    got = mixture_percentiles(
        LatencySum(np.array([[1.5]]), waits).prepared(), np.ones((1, 1)), mean_s=np.array([[total.mean()]])
    )[0]
    assert [got.p50, got.p90, got.p99] == pytest.approx(np.quantile(total, [0.5, 0.9, 0.99]), rel=0.04)


def test_percentiles_of_a_mixture_by_hand() -> None:
    rows = LatencySum(np.array([[1.0, 5.0]])).prepared()
    got = mixture_quantiles(rows, np.array([[0.9, 0.1]]), quantiles=np.array([0.5, 0.95]))
    assert got[0] == pytest.approx([1.0, 5.0], rel=1e-4)


def test_a_mixture_whose_share_never_arrives_is_endless() -> None:
    rows = LatencySum(np.array([[1.0, 1.0]]), (Wait(np.array([[0.0, 1.0]]), np.array([[0.0, np.inf]])),)).prepared()
    got = mixture_quantiles(rows, np.array([[0.8, 0.2]]), quantiles=np.array([0.5, 0.9]))
    assert got[0][0] == pytest.approx(1.0, rel=1e-4)
    assert np.isinf(got[0][1])


def test_a_group_without_requests_has_no_percentiles() -> None:
    rows = LatencySum(np.ones((1, 2))).prepared()
    assert np.isnan(mixture_quantiles(rows, np.zeros((1, 2)), quantiles=np.array([0.5]))).all()


@given(
    shifts=st.lists(st.floats(0.0, 20.0), min_size=1, max_size=6),
    tau=st.floats(0.01, 5.0),
    chance=st.floats(0.05, 1.0),
)
def test_quantiles_invert_the_mixture(shifts: list[float], tau: float, chance: float) -> None:
    latency = LatencySum(np.array([shifts]), (Wait(chance, tau),)).prepared()
    weight = np.ones((1, len(shifts))) / len(shifts)
    times = mixture_quantiles(latency, weight, quantiles=np.array([0.5, 0.9, 0.99]))[0]
    for quantile, time_s in zip((0.5, 0.9, 0.99), times, strict=True):
        assert float((latency.cdf(time_s * (1 + 1e-4) + 1e-6) * weight).sum()) >= quantile - 1e-4
        assert float((latency.cdf(time_s * (1 - 1e-3) - 1e-6) * weight).sum()) <= quantile + 1e-4


def test_latencies_of_paths_stack_with_different_numbers_of_phases() -> None:
    wait = pool_wait(8, 1.0, service_scv=5.0, arrival_rate_rps=6.0)
    short, long = LatencySum(np.array([1.0, 2.0])), LatencySum(np.array([1.0, 2.0]), (wait, Wait(1.0, 0.3)))
    ready, mean = stacked([short, long])
    assert ready.cdf(2.5)[1] == pytest.approx(long.cdf(2.5))
    assert mean[0] == pytest.approx([1.0, 2.0])
    assert ready.transposed().cdf(2.5) == pytest.approx(ready.cdf(2.5).T)
    assert ready.later(np.array([[1.0, 1.0], [1.0, 1.0]])).cdf(3.5) == pytest.approx(ready.cdf(2.5))
    assert ready.rows(np.array([[True, False], [False, True]])).shift_s.shape == (1, 2)


def test_weighted_percentiles_by_hand() -> None:
    got = weighted_percentiles(np.array([3.0, 1.0, 2.0]), np.array([0.05, 0.6, 0.35]))
    assert (got.p50, got.p90, got.p99) == (1.0, 2.0, 3.0)
    assert got.mean == pytest.approx(1.45)
    assert weighted_percentiles(np.array([3.0]), np.array([0.0])).p99 == 0.0
