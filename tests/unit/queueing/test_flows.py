"""Moments of mixes, and variability of flows that are split, merged, or leave a pool."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.workload import Arrival
from pddplan.queueing import burstiness, departure_scv, mix_moments, split_scv, superposed_scv


def test_moments_of_a_mix_by_hand() -> None:
    got = mix_moments(np.array([0.75, 0.25]), np.array([1.0, 5.0]))
    assert got.mean == pytest.approx(2.0)
    assert got.second == pytest.approx(7.0)
    assert got.scv == pytest.approx(0.75)


def test_moments_do_not_depend_on_the_scale_of_weights() -> None:
    values = np.array([1.0, 2.0, 9.0])
    assert mix_moments(np.array([2.0, 4.0, 6.0]), values) == mix_moments(np.array([1.0, 2.0, 3.0]), values)


def test_an_empty_mix_is_zero() -> None:
    assert mix_moments(np.zeros(2), np.ones(2)).mean == 0.0
    assert mix_moments(np.ones(2), np.zeros(2)).scv == 0.0


def test_poisson_in_exponential_service_is_poisson_out() -> None:
    assert departure_scv(servers=5, utilization=0.8, arrival_scv=1.0, service_scv=1.0) == pytest.approx(1.0)


def test_a_busy_pool_of_one_leaves_like_its_services() -> None:
    assert departure_scv(servers=1, utilization=1.0, arrival_scv=1.0, service_scv=4.0) == pytest.approx(4.0)


def test_keeping_few_members_makes_any_flow_poisson() -> None:
    assert split_scv(np.array([0.0, 0.5, 1.0]), scv=3.0).tolist() == [1.0, 2.0, 3.0]


def test_one_flow_merged_is_itself_and_nothing_merged_is_poisson() -> None:
    assert superposed_scv(np.array([2.0]), scvs=np.array([3.0]), utilization=0.5) == pytest.approx(3.0)
    assert superposed_scv(np.array([0.0]), scvs=np.array([3.0]), utilization=0.5) == 1.0


@given(count=st.integers(2, 40), scv=st.floats(0.0, 5.0), rho=st.floats(0.1, 0.9))
def test_merging_brings_flows_towards_poisson(count: int, scv: float, rho: float) -> None:
    merged = superposed_scv(np.ones(count), scvs=np.full(count, scv), utilization=rho)
    assert abs(merged - 1.0) <= abs(scv - 1.0) + 1e-12


def test_waves_still_rising_at_the_last_window_rise_on_and_level_off() -> None:
    rising = Arrival(rate_rps=10.0, scv=1.0, dispersion={1.0: 1.1, 60.0: 11.0})
    levelled = Arrival(rate_rps=10.0, scv=1.0, dispersion={1.0: 11.0, 60.0: 11.0})
    assert 15.0 < burstiness(rising, 600.0) < burstiness(rising, 6000.0) < 30.0
    assert burstiness(levelled, 1e6) == pytest.approx(11.0, rel=0.03)


def test_burstiness_follows_the_measured_windows() -> None:
    arrival = Arrival(rate_rps=10.0, scv=1.0, dispersion={10.0: 2.1, 60.0: 2.9})
    assert burstiness(arrival, 0.01) == pytest.approx(1.0)
    assert burstiness(arrival, 10.0) == pytest.approx(2.1)
    assert 2.1 < burstiness(arrival, 30.0) < 2.9
    assert burstiness(arrival, 60.0) == pytest.approx(2.9)
    assert burstiness(arrival, 61.0) == pytest.approx(2.9, rel=1e-2)
    assert burstiness(Arrival(rate_rps=10.0, scv=1.7), 30.0) == 1.7


@pytest.mark.parametrize("last", [0.3, 1.0, 2.9, 40.0])
def test_burstiness_does_not_jump_at_the_last_window(last: float) -> None:
    arrival = Arrival(rate_rps=10.0, scv=1.0, dispersion={10.0: 2.0, 60.0: last})
    before, after = burstiness(arrival, np.array([60.0, 60.0 * (1 + 1e-9)]))
    assert after == pytest.approx(before, rel=1e-6)
    assert burstiness(arrival, 1e9) >= before
