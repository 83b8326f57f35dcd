"""Arrivals: known processes give known numbers, and a coarse clock does not fool anyone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.traces.arrival_pattern import arrival_pattern, dispersion_of_counts, gap_scv, hourly_profile
from pddplan.traces.arrivals import Scaling, clock_grid_s, scaled_arrivals


def poisson(rate: float, count: int, seed: int = 1) -> np.ndarray:
    times = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, count))
    return times - times[0]


def test_poisson_is_one_at_every_scale() -> None:
    pattern = arrival_pattern(poisson(20, 60_000))
    assert pattern is not None
    assert pattern.scv == pytest.approx(1, abs=0.03)
    assert pattern.grid_s is None
    for value in pattern.dispersion.values():
        assert value == pytest.approx(1, abs=0.35)
    assert pattern.trace_rate_rps == pytest.approx(20, rel=0.02)


def test_even_arrivals_do_not_vary() -> None:
    assert gap_scv(np.arange(50.0)) == pytest.approx(0)
    assert dispersion_of_counts(np.arange(5000.0), 10.0) == pytest.approx(0, abs=1e-9)


def test_gaps_by_hand() -> None:
    # gaps 1 and 3: mean 2, variance 1
    assert gap_scv(np.array([0.0, 1.0, 4.0])) == pytest.approx(0.25)


@given(st.sampled_from([0.5, 1.0, 3.0, 60.0]), st.integers(0, 50))
def test_a_coarse_clock_is_found_and_undone(step: float, seed: int) -> None:
    fine = poisson(8 / step, 6000, seed)
    coarse = np.floor(fine / step) * step
    assert clock_grid_s(coarse) == pytest.approx(step, rel=0.01)
    pattern = arrival_pattern(coarse)
    assert pattern is not None
    assert pattern.raw_scv > 3
    assert pattern.scv == pytest.approx(1, abs=0.15)


def test_real_bursts_are_not_mistaken_for_a_clock() -> None:
    draw = np.random.default_rng(4)
    bursts = np.sort(np.repeat(np.cumsum(draw.exponential(5.0, 400)), 6))
    assert clock_grid_s(bursts) is None


class TestScaling:
    def test_more_users_average_bursts_out(self) -> None:
        draw = np.random.default_rng(4)
        gaps = np.where(draw.random(4000) < 0.9, 0.1, 30.0)
        times = np.cumsum(gaps) - gaps[0]
        alone = gap_scv(times)
        together = scaled_arrivals(times, factor=50.0, how=Scaling.USERS)
        assert gap_scv(together) < 0.6 * alone
        assert together.size == pytest.approx(50 * times.size, rel=0.01)

    def test_a_faster_clock_keeps_their_shape(self) -> None:
        times = poisson(3, 500)
        faster = scaled_arrivals(times, factor=4.0, how=Scaling.CLOCK)
        assert gap_scv(faster) == pytest.approx(gap_scv(times))
        assert faster[-1] == pytest.approx(times[-1] / 4)

    def test_fewer_users(self) -> None:
        times = poisson(10, 5000)
        assert scaled_arrivals(times, factor=0.3, how=Scaling.USERS).size == pytest.approx(1500, rel=0.1)

    def test_fractions_of_a_copy(self) -> None:
        times = poisson(10, 5000)
        assert scaled_arrivals(times, factor=1.5, how=Scaling.USERS).size == pytest.approx(7500, rel=0.05)

    def test_very_many_users_do_not_fill_the_memory(self) -> None:
        assert scaled_arrivals(poisson(1, 1000), factor=1e9, how=Scaling.USERS).size <= 1_000_000


def test_daily_profile_follows_the_day() -> None:
    hours = np.repeat(np.arange(48), np.where(np.arange(48) % 24 < 12, 10, 30))
    times = np.sort(hours * 3600.0 + np.random.default_rng(0).uniform(0, 3600, hours.size))
    times = times - times[0]
    profile = hourly_profile(times, clock_start_s=0.0)
    assert profile is not None
    assert np.mean(profile) == pytest.approx(1)
    assert profile[6] == pytest.approx(0.5, abs=0.1)
    assert profile[18] == pytest.approx(1.5, abs=0.1)
    shifted = hourly_profile(times, clock_start_s=6 * 3600.0)
    assert shifted is not None
    assert shifted[12] == pytest.approx(profile[6], abs=0.1)


def test_no_profile_from_less_than_a_day_or_a_handful() -> None:
    assert hourly_profile(poisson(1, 5000)) is None
    assert hourly_profile(np.linspace(0, 10 * 86400, 50)) is None


def test_too_few_requests_say_nothing() -> None:
    assert arrival_pattern(np.array([0.0, 1.0])) is None
    assert arrival_pattern(np.zeros(10)) is None


@pytest.mark.parametrize("piece", [1, 37, 900])
@pytest.mark.parametrize("step", [0.0, 3.0])
@pytest.mark.parametrize("rate", [None, 0.5, 30.0])
def test_times_in_pieces_say_the_same_as_a_whole(piece: int, step: float, rate: float | None) -> None:
    times = poisson(2.0, 1000)
    if step:
        times = np.floor(times / step) * step
    whole = arrival_pattern(times, rate_rps=rate)
    pieces = np.array_split(times, -(-times.size // piece))
    cut = arrival_pattern(lambda: iter(pieces), rate_rps=rate)
    assert whole is not None
    assert cut is not None
    for name in ("scv", "raw_scv", "peak_to_mean", "span_s", "counts"):
        assert getattr(cut, name) == pytest.approx(getattr(whole, name), rel=1e-9), name
    assert cut.grid_s == whole.grid_s
    assert dict(cut.dispersion) == pytest.approx(dict(whole.dispersion))
    assert dict(cut.raw_dispersion) == pytest.approx(dict(whole.raw_dispersion))


@pytest.mark.parametrize(("factor", "how"), [(0.4, Scaling.USERS), (1.5, Scaling.USERS), (3.0, Scaling.CLOCK)])
def test_large_traces_are_scaled_in_pieces(factor: float, how: Scaling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pddplan.traces.arrival_pattern.MOST_SCALED", 1000)
    times = poisson(2.0, 20_000)
    pieces = np.array_split(times, 9)
    pattern = arrival_pattern(lambda: iter(pieces), rate_rps=2.0 * factor, how=how)
    assert pattern is not None
    assert pattern.scv == pytest.approx(1, abs=0.06)
    assert sum(pattern.counts) == pytest.approx(times.size * (factor if how is Scaling.USERS else 1), rel=0.05)
