"""Queues whose arrivals come in waves: limits that are known, equations that must hold, and order."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from pddplan.domain.workload import Arrival
from pddplan.queueing.wait import Wait, delay_probability, pool_wait
from pddplan.queueing.waves import (
    Wave,
    _chain,
    modulated_queue,
    passed_swells,
    slow_wave,
    swell_margin,
    thinned,
    wave_growth,
    wave_sizes,
    waved_wait,
)

WEKA = Arrival(10.0, 1.0, dispersion={1.0: 1.12, 10.0: 2.42, 60.0: 11.2})
SERVERS, SERVICE_S = 8, 0.7
few = settings(max_examples=15)


def at_load(load: float, wave: Wave | None, *, noise: float = 2.0) -> Wait:
    calm = pool_wait(SERVERS, SERVICE_S, service_scv=noise - 1.0, arrival_rate_rps=load * SERVERS / SERVICE_S)
    return waved_wait(
        calm,
        wave,
        utilization=load,
        noise_s=SERVICE_S / SERVERS * noise,
        delayed=partial(delay_probability, SERVERS, arrival_scv=1.0, service_scv=noise - 1.0),
    )


@pytest.mark.parametrize("excess", [(0.12, 1.42, 10.2), (12.5, 71.0, 169.0), (0.0, 0.5, 0.2), (0.0, 0.0, 0.0)])
def test_waves_are_the_least_squares_fit_of_the_dispersion(excess: tuple[float, float, float]) -> None:
    windows = (1.0, 10.0, 60.0)
    response = wave_growth(np.array(windows)[:, None] / np.array(windows)[None, :])
    expected, _ = nnls(response, np.array(excess))
    np.testing.assert_allclose([size for _, size in wave_sizes(windows, excess)], expected, rtol=1e-3, atol=1e-4)


def test_no_dispersion_no_wave() -> None:
    assert slow_wave(Arrival(10.0, 1.0)) is None
    assert slow_wave(Arrival(10.0, 4.0, dispersion={1.0: 3.0, 60.0: 0.3})) is None
    assert slow_wave(Arrival(0.0, 1.0, dispersion={60.0: 5.0})) is None


def test_a_wave_spreads_counts_as_measured() -> None:
    wave = slow_wave(WEKA)
    assert wave is not None
    size = 2.0 * WEKA.rate_rps * wave.relaxation_s * wave.rate_cv**2
    assert 1.0 + size * float(wave_growth(60.0 / wave.relaxation_s)) == pytest.approx(11.2, rel=0.02)
    assert float(wave.chance @ wave.level) == pytest.approx(1.0)


def test_levels_spread_and_fade_as_the_wave_does() -> None:
    z, chance, moves = _chain()
    assert float(chance @ z) == pytest.approx(0.0, abs=0.05)
    assert float(chance @ z**2) == pytest.approx(1.0, abs=0.1)
    assert np.sort(np.linalg.eigvalsh(moves))[-2:] == pytest.approx([-1.0, 0.0], abs=1e-9)


@given(load=st.floats(0.2, 0.95), noise=st.floats(1e-3, 10.0))
@few
def test_without_waves_the_queue_is_exponential(load: float, noise: float) -> None:
    theta, part = modulated_queue(np.full(9, load - 1.0), noise, relaxation_s=60.0)
    x = np.array([0.0, 1.0, 3.0]) * noise / (1.0 - load)
    got = (part.sum(axis=0) * np.exp(-theta * x[:, None])).sum(axis=1)
    np.testing.assert_allclose(got, np.exp(-2.0 * (1.0 - load) / noise * x), rtol=1e-6)


@given(load=st.floats(0.3, 0.95), spread=st.floats(0.003, 0.2), noise=st.floats(0.01, 5.0))
@few
def test_the_law_of_the_queue_solves_its_equation(load: float, spread: float, noise: float) -> None:
    """Flow into each level and up to each height balances: s/2 F'' - d F' + Q' F = 0, with nothing below zero."""
    wave = Wave(60.0, spread, (), 1.0)
    drift = load * wave.level - 1.0
    theta, part = modulated_queue(drift, noise, relaxation_s=60.0)
    _, chance, symmetric = _chain()
    root = np.sqrt(chance)
    moves = symmetric * root[:, None] / root[None, :] / 60.0
    np.testing.assert_allclose(part.sum(axis=1), chance, rtol=1e-6)
    left = 0.5 * noise * theta**2 * part + drift[:, None] * theta * part + moves @ part
    scale = np.abs(part) * (noise * theta**2 + np.abs(drift)[:, None] * theta + 1.0 / 60.0) + 1e-9
    assert (np.abs(left) < 1e-6 * scale.max()).all()
    heights = np.linspace(0.0, 20.0, 40) * noise / (1.0 - load)
    survival = (part[None] * np.exp(-theta * heights[:, None, None])).sum(axis=2)
    assert (np.diff(survival, axis=0) <= 1e-9).all()
    assert (survival >= -1e-9).all()


@given(load=st.floats(0.3, 0.95))
@few
def test_faint_waves_leave_the_calm_wait(load: float) -> None:
    calm, faint = at_load(load, None), at_load(load, Wave(60.0, 1.01e-4, (), 1.0))
    assert float(faint.mean_s) == pytest.approx(float(calm.mean_s), rel=0.12)
    assert float(faint.delay_probability) == pytest.approx(float(calm.delay_probability), rel=0.03)


@given(load=st.floats(0.3, 0.85), more=st.floats(0.01, 0.1), spread=st.floats(0.005, 0.1))
@few
def test_waits_grow_with_load_and_waves(load: float, more: float, spread: float) -> None:
    wave, stronger = Wave(60.0, spread, (), 1.0), Wave(60.0, 1.5 * spread, (), 1.0)
    here = at_load(load, wave)
    assert float(at_load(load, None).mean_s) <= float(here.mean_s)
    assert float(here.mean_s) < float(at_load(load + more, wave).mean_s)
    assert float(here.mean_s) <= float(at_load(load, stronger).mean_s) * 1.02
    assert 0.0 < float(here.delay_probability) <= 1.0
    assert 0.0 <= float(here.fast_share) <= 1.0


def test_swells_beyond_capacity_queue_for_longer_than_two_moments_say() -> None:
    """At 85 % load and a rate that swings by 15 % the tail is tens of seconds, not tenths (simulated: 27 s)."""
    wave = slow_wave(Arrival(9.0, 1.0, dispersion={60.0: 11.2}))
    assert 15.0 < float(at_load(0.85, wave, noise=1.9).quantile_s(0.99)) < 45.0


@pytest.mark.parametrize(("before", "here", "expected"), [(0.5, 0.9, (0.9, 1.0)), (0.9, 0.5, (0.0, 0.0))])
def test_a_fuller_station_before_stops_swells(before: float, here: float, expected: tuple[float, float]) -> None:
    wave = slow_wave(WEKA)
    low, high = expected
    assert low <= passed_swells(wave, before=before, here=here) <= high
    assert passed_swells(None, before=before, here=here) == 1.0


@given(share=st.floats(0.0, 1.0))
@few
def test_part_of_the_swells_lies_between_none_and_all(share: float) -> None:
    wave = slow_wave(WEKA)
    calm, waved = at_load(0.8, None), at_load(0.8, wave)
    got = thinned(calm, waved, share)
    assert float(calm.mean_s) * (1 - 1e-9) <= float(got.mean_s) <= float(waved.mean_s) * (1 + 1e-9)
    assert float(got.mean_s) == pytest.approx((1 - share) * float(calm.mean_s) + share * float(waved.mean_s), rel=1e-6)


def test_the_margin_grows_with_the_waves() -> None:
    margins = [swell_margin(Wave(60.0, v, (), 1.0)) for v in (1e-3, 0.03, 1.0)]
    assert margins == sorted(margins)
    assert margins[0] < 0.01
    assert margins[-1] < 0.2


@pytest.mark.parametrize("load", [0.0, 1.0, 1.5])
def test_idle_and_overloaded_stations_are_left_as_they_are(load: float) -> None:
    wave = slow_wave(WEKA)
    calm = Wait(0.0, 0.0) if load == 0.0 else Wait(1.0, np.inf)
    assert waved_wait(calm, wave, utilization=load, noise_s=0.1, delayed=lambda x: x) is calm


@pytest.mark.parametrize("noise_s", [1e-12, 1e-3, 1e6])
@pytest.mark.parametrize("window", [1e-6, 60.0, 1e7])
def test_extreme_time_scales_give_numbers(noise_s: float, window: float) -> None:
    wave = slow_wave(Arrival(5.0, 1.0, dispersion={window: 50.0}))
    got = waved_wait(Wait(0.5, noise_s), wave, utilization=0.7, noise_s=noise_s, delayed=lambda x: x)
    assert np.isfinite([float(got.mean_s), float(got.quantile_s(0.99))]).all()
