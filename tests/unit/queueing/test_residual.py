"""The first server to become free: residual service times of a mix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.queueing import first_free, mix_moments, pool_wait


def test_one_server_has_the_residual_of_renewal_theory() -> None:
    weight, service = np.array([0.9, 0.1]), np.array([1.0, 10.0])
    got = first_free(1, service, weight=weight)
    # E[S^2] / 2 E[S] = 10.9 / 3.8, E[S^3] / 3 E[S] = 100.9 / 5.7
    assert got.mean_s == pytest.approx(10.9 / 3.8, rel=2e-3)
    assert got.second_s2 == pytest.approx(100.9 / 5.7, rel=5e-3)


def test_equal_services_by_hand() -> None:
    # least of c uniform times on (0, s): s / (c + 1)
    assert first_free(4, np.array([2.0]), weight=np.array([3.0])).mean_s == pytest.approx(0.4, rel=2e-3)


def test_nothing_served_nothing_to_wait_for() -> None:
    assert first_free(3, np.array([1.0]), weight=np.array([0.0])).mean_s == 0.0


@given(servers=st.integers(1, 60), long=st.floats(1.0, 100.0), rare=st.floats(0.001, 0.5))
def test_more_servers_become_free_sooner(servers: int, long: float, rare: float) -> None:
    weight, service = np.array([1 - rare, rare]), np.array([1.0, long])
    fewer, more = (first_free(c, service, weight=weight) for c in (servers, servers + 1))
    assert more.mean_s <= fewer.mean_s * (1 + 1e-9)
    assert more.second_s2 >= more.mean_s**2 * (1 - 1e-3)


@given(servers=st.integers(1, 40), rho=st.floats(0.05, 0.97), long=st.floats(1.0, 80.0), rare=st.floats(0.005, 0.3))
def test_the_wait_lies_between_light_and_heavy_traffic(servers: int, rho: float, long: float, rare: float) -> None:
    weight, service = np.array([1 - rare, rare]), np.array([1.0, long])
    moments = mix_moments(weight, service)
    light = first_free(servers, service, weight=weight)
    got = pool_wait(
        servers,
        moments.mean,
        service_scv=moments.scv,
        arrival_rate_rps=rho * servers / moments.mean,
        light=light,
    )
    idle = light.mean_s / (1 - rho)
    heavy = moments.mean * (1 + moments.scv) / (2 * servers * (1 - rho))
    low, high = min(idle, heavy), max(idle, heavy)
    mean = float(got.conditional_mean_s)
    if float(got.fast_share) > 0:
        assert low * (1 - 1e-6) <= mean <= high * (1 + 1e-6)
    assert 0 <= float(got.fast_share) < 1
    assert mean > 0
