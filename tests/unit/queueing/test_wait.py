"""Waits of G/G/c: exact cases, limits, and what must never happen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.errors import DomainError
from pddplan.queueing import NO_WAIT, Wait, delay_probability, erlang_c, pool_wait
from pddplan.queueing.residual import FirstFree, first_free
from pddplan.queueing.wait import SERVICE_SPREAD_EFFECT, light_traffic_factor, multi_server_factor

rates = st.floats(0.05, 0.98)
scvs = st.floats(0.0, 8.0)
servers_ = st.integers(1, 64)


def wait(servers: int, rho: float, *, service_scv: float = 1.0, arrival_scv: float = 1.0) -> Wait:
    return pool_wait(
        servers, 2.0, service_scv=service_scv, arrival_rate_rps=rho * servers / 2.0, arrival_scv=arrival_scv
    )


def test_mm1_is_exact() -> None:
    got = wait(1, 0.8)
    assert got.delay_probability == pytest.approx(0.8)
    assert got.conditional_mean_s == pytest.approx(2.0 / (1 - 0.8))
    assert got.quantile_s(0.99) == pytest.approx(np.log(0.8 / 0.01) * 10.0)


def test_mmc_is_exact() -> None:
    got = wait(2, 0.5)
    assert got.mean_s == pytest.approx(1 / 3 * 2.0 / (2 * 0.5))
    assert got.fast_share == pytest.approx(0.0)


def test_mg1_mean_is_pollaczek_khinchine() -> None:
    assert wait(1, 0.6, service_scv=4.0).mean_s == pytest.approx(0.6 * 2.0 / 0.4 * (1 + 4) / 2)


def test_a_skewed_mix_has_many_short_and_few_long_waits() -> None:
    got = wait(8, 0.7, service_scv=5.0)
    assert 0 < got.fast_share < 1
    assert got.fast_mean_s < got.tail_mean_s
    assert got.tail_mean_s == pytest.approx(2.0 / (8 * 0.3) * 3.0)


def test_a_full_pool_waits_forever() -> None:
    got = wait(3, 1.0)
    assert got.delay_probability == 1.0
    assert np.isinf(got.tail_mean_s)
    assert np.isinf(got.quantile_s(0.5))


def test_an_idle_pool_does_not_wait() -> None:
    assert wait(3, 0.0).mean_s == 0.0
    assert NO_WAIT.quantile_s(0.99) == 0.0


@pytest.mark.parametrize("name", ["service_scv", "arrival_scv"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_senseless_variability_is_refused(name: str, value: float) -> None:
    arguments = {"service_scv": 1.0, "arrival_scv": 1.0, name: value}
    with pytest.raises(DomainError, match=name):
        pool_wait(2, 1.0, arrival_rate_rps=1.0, **arguments)


def test_factors_are_one_where_the_formula_is_exact() -> None:
    assert multi_server_factor(1, 0.5, service_scv=6.0) == pytest.approx(1.0)
    assert multi_server_factor(9, 0.5, service_scv=1.0) == pytest.approx(1.0)
    assert light_traffic_factor(0.5, arrival_scv=1.0, service_scv=2.0) == 1.0
    assert light_traffic_factor(0.5, arrival_scv=0.2, service_scv=1.0) < 1.0


@given(servers=servers_, rho=rates, service_scv=scvs)
def test_the_quantile_inverts_the_distribution(servers: int, rho: float, service_scv: float) -> None:
    got = wait(servers, rho, service_scv=service_scv)
    for quantile in (0.5, 0.9, 0.99):
        time_s = float(got.quantile_s(quantile))
        if time_s > 0:
            assert float(got.beyond(time_s)) == pytest.approx(1 - quantile, rel=1e-4)


@pytest.mark.filterwarnings("error")
def test_a_quantile_out_of_reach_of_floats_is_found_in_silence() -> None:
    """With two phases of very different length the search starts where nothing is left to fall."""
    steep = Wait(np.array([0.5, 1.0, 1e-300]), np.array([1e-9, 1e300, 5.0]), np.array([0.5, 0.5, 0.3]), 1e-12)
    assert np.isfinite(steep.quantile_s(np.array([[0.5], [0.9], [0.99]]))).all()


@given(servers=servers_, rho=st.floats(0.05, 0.9), service_scv=scvs, arrival_scv=scvs)
def test_more_load_never_waits_less(servers: int, rho: float, service_scv: float, arrival_scv: float) -> None:
    low = wait(servers, rho, service_scv=service_scv, arrival_scv=arrival_scv)
    high = wait(servers, rho * 1.05, service_scv=service_scv, arrival_scv=arrival_scv)
    assert float(high.mean_s) >= float(low.mean_s) - 1e-12


@given(servers=servers_, rho=rates, service_scv=scvs)
def test_the_wait_is_a_distribution(servers: int, rho: float, service_scv: float) -> None:
    got = wait(servers, rho, service_scv=service_scv)
    assert 0 <= float(got.fast_share) < 1
    assert 0 <= float(got.delay_probability) <= 1
    assert float(got.conditional_mean_s) <= 2.0 / (servers * (1 - rho)) * max((1 + service_scv) / 2, 1.0) * 1.13


def test_arrays_of_operating_points_equal_single_ones() -> None:
    many = pool_wait(4, 2.0, service_scv=3.0, arrival_rate_rps=np.array([0.5, 1.0, 1.9]))
    for k, rate in enumerate((0.5, 1.0, 1.9)):
        one = pool_wait(4, 2.0, service_scv=3.0, arrival_rate_rps=rate)
        assert np.asarray(many.quantile_s(0.99))[k] == pytest.approx(float(one.quantile_s(0.99)))


@given(servers=servers_, rho=rates, service_scv=scvs)
def test_bursts_make_more_requests_wait_and_regular_arrivals_fewer(
    servers: int, rho: float, service_scv: float
) -> None:
    regular, poisson, bursty = (
        float(delay_probability(servers, rho, arrival_scv=scv, service_scv=service_scv)) for scv in (0.2, 1.0, 4.0)
    )
    assert regular <= poisson + 1e-12
    assert poisson <= bursty + 1e-12
    assert bursty <= 1.0
    # Erlang's formula is exact for exponential services and for one server, and nearly right for the rest
    assert poisson == pytest.approx(float(erlang_c(servers, rho)), rel=SERVICE_SPREAD_EFFECT)
    assert float(delay_probability(1, rho, arrival_scv=1.0, service_scv=service_scv)) == pytest.approx(rho)
    assert float(delay_probability(servers, rho, arrival_scv=1.0, service_scv=1.0)) == pytest.approx(
        float(erlang_c(servers, rho))
    )


def test_services_that_vary_more_make_more_requests_wait() -> None:
    even, exponential, skewed = (
        float(delay_probability(8, 0.7, arrival_scv=1.0, service_scv=scv)) for scv in (0.0, 1.0, 10.0)
    )
    assert even < exponential < skewed
    # simulated: 4 million requests, lognormal with cs^2 = 9.97, 0.2926
    assert skewed == pytest.approx(0.2926, rel=0.02)


def test_rare_long_services_lengthen_the_tail_of_a_busy_pool() -> None:
    service, weight = np.array([1.0, 40.0]), np.array([0.99, 0.01])
    mean = float(service @ weight)
    scv = float(service**2 @ weight) / mean**2 - 1.0
    free = first_free(4, service, weight=weight)
    got = pool_wait(4, mean, service_scv=scv, arrival_rate_rps=0.9 * 4 / mean, light=free)
    short = FirstFree(free.mean_s, free.second_s2, free.second_s2)
    without = pool_wait(4, mean, service_scv=scv, arrival_rate_rps=0.9 * 4 / mean, light=short)
    assert float(got.mean_s) == pytest.approx(float(without.mean_s))
    assert float(got.quantile_s(0.99)) > float(without.quantile_s(0.99))


def test_a_full_pool_delays_all_whatever_arrives() -> None:
    assert delay_probability(3, np.array([1.0, 2.0]), arrival_scv=3.0, service_scv=1.0).tolist() == [1.0, 1.0]
