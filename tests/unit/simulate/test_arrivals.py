"""Arrival times: order, bunches, refusals (moments are checked in tests/oracles)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.errors import DomainError
from pddplan.simulate.arrivals import batch_arrivals_s, modulated_arrivals_s, renewal_arrivals_s


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 200), st.floats(1e-3, 1e3), st.floats(0, 20), st.integers(0, 9))
def test_times_ascend_and_are_reproducible(count: int, rate: float, scv: float, seed: int) -> None:
    times = renewal_arrivals_s(count, rate, scv=scv, rng=np.random.default_rng(seed))
    assert times.shape == (count,)
    assert (np.diff(times) >= 0).all()
    np.testing.assert_array_equal(times, renewal_arrivals_s(count, rate, scv=scv, rng=np.random.default_rng(seed)))


@pytest.mark.parametrize("scv", [5e-324, 1e-300, 1e-13])
def test_vanishing_variability_is_a_metronome(scv: float) -> None:
    np.testing.assert_allclose(renewal_arrivals_s(3, 4.0, scv=scv, rng=np.random.default_rng(0)), [0.25, 0.5, 0.75])


def test_a_metronome_has_equal_gaps() -> None:
    np.testing.assert_allclose(renewal_arrivals_s(3, 4.0, scv=0.0, rng=np.random.default_rng(0)), [0.25, 0.5, 0.75])


def test_bunches_share_an_instant() -> None:
    times = batch_arrivals_s(1000, 10.0, mean_batch=5.0, rng=np.random.default_rng(0))
    assert times.shape == (1000,)
    assert np.unique(times).size == pytest.approx(200, rel=0.2)


@pytest.mark.parametrize("rate", [0.0, -1.0, np.nan, np.inf])
def test_a_rate_must_be_positive(rate: float) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(DomainError, match="rate_rps"):
        renewal_arrivals_s(10, rate, scv=1.0, rng=rng)
    with pytest.raises(DomainError, match="rate_rps"):
        batch_arrivals_s(10, rate, mean_batch=2.0, rng=rng)


def test_variability_and_bunches_are_checked() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(DomainError, match="scv"):
        renewal_arrivals_s(10, 1.0, scv=-1.0, rng=rng)
    with pytest.raises(DomainError, match="mean_batch"):
        batch_arrivals_s(10, 1.0, mean_batch=0.5, rng=rng)
    with pytest.raises(DomainError, match="requests"):
        renewal_arrivals_s(0, 1.0, scv=1.0, rng=rng)


def test_without_excess_dispersion_there_are_no_waves() -> None:
    calm = renewal_arrivals_s(50, 2.0, scv=1.0, rng=np.random.default_rng(0))
    for dispersion in ({}, {10.0: 1.0}, {10.0: 0.5}):
        times = modulated_arrivals_s(50, 2.0, scv=1.0, dispersion=dispersion, rng=np.random.default_rng(0))
        np.testing.assert_allclose(times, calm)


def test_waves_leave_order_and_count() -> None:
    times = modulated_arrivals_s(500, 2.0, scv=1.0, dispersion={10.0: 20.0, 60.0: 50.0}, rng=np.random.default_rng(0))
    assert times.shape == (500,)
    assert (np.diff(times) >= 0).all()


@pytest.mark.parametrize("dispersion", [{0.0: 2.0}, {-1.0: 2.0}, {10.0: -1.0}, {10.0: np.nan}])
def test_dispersion_is_checked(dispersion: dict[float, float]) -> None:
    with pytest.raises(DomainError, match="dispersion"):
        modulated_arrivals_s(10, 1.0, scv=1.0, dispersion=dispersion, rng=np.random.default_rng(0))
