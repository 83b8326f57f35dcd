"""Shared transfers: exact means, limits and the effect of the feeding pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.network import idle_transfer_s, shared_delay_probability, sharing_tail_ratio
from pddplan.network.feed import NO_EFFECT, Feed, FeedEffect, feed_effect, feed_margin, tail_factor

FEED = Feed(
    servers=4,
    utilization=0.85,
    delay_probability=0.7,
    rate_rps=10.0,
    service_scv=3.0,
    payload_service_s=2.0,
    sent_work_fraction=1.0,
    payload_spread=0.0,
    payload_square=1.0,
)


def effect(feed: Feed, *, utilization: float = 0.8) -> FeedEffect:
    return feed_effect([feed], large_transfer_s=0.5, utilization=utilization)


def test_processor_sharing_has_the_mean_of_theory() -> None:
    # E[T | z] = z / (C (1 - rho)): z/C and three times as much again at rho = 0.75
    assert sharing_tail_ratio(0.75) == pytest.approx(3.0)


def test_a_cap_per_transfer_makes_many_servers_of_the_line() -> None:
    # M/M/2: C(2, 0.5) = 1/3, extra per second of the whole line 1/3 / 0.5
    assert sharing_tail_ratio(0.5, parallel=2.0) == pytest.approx(2 / 3)
    assert sharing_tail_ratio(0.5, parallel=0.3) == pytest.approx(1.0)


def test_a_full_line_never_ends() -> None:
    assert np.isinf(sharing_tail_ratio(np.array([1.0, 1.3]))).all()


def test_bursts_lengthen_the_tail_less_when_sizes_vary() -> None:
    even, varied = (sharing_tail_ratio(0.5, arrival_scv=3.0, size_scv=scv) for scv in (0.0, 9.0))
    assert (even, varied) == (pytest.approx(3.0), pytest.approx(1.2))


def test_idle_time_is_size_over_rate_and_nothing_takes_no_time() -> None:
    assert idle_transfer_s(np.array([0.0, 100.0]), 50.0).tolist() == [0.0, 2.0]
    assert np.isinf(idle_transfer_s(np.array([1.0]), 0.0)).all()


@given(rho=st.floats(0.05, 0.95), size=st.floats(0.0, 20.0), parallel=st.floats(0.1, 30.0))
def test_the_chance_of_being_slowed_is_one_and_grows_with_size(rho: float, size: float, parallel: float) -> None:
    small = float(shared_delay_probability(rho, relative_size=size, parallel=parallel))
    large = float(shared_delay_probability(rho, relative_size=size + 1, parallel=parallel))
    assert 0 < small <= large <= 1


def test_a_small_busy_pool_smooths_large_transfers_and_clumps_small_ones() -> None:
    got = effect(FEED)
    assert 0 < got.smoothing < 1
    assert got.clumping > 0
    small, large = tail_factor(np.array([0.0, 5.0]), got)
    assert large < 1 < small


@pytest.mark.parametrize(
    "less",
    [
        {"delay_probability": 0.1},
        {"sent_work_fraction": 0.3},
        {"payload_spread": 0.5},
        {"payload_service_s": 20.0},
    ],
)
def test_what_ties_bytes_less_to_the_pool_smooths_less(less: dict[str, float]) -> None:
    assert effect(replace(FEED, **less)).smoothing < effect(FEED).smoothing


def test_without_feed_or_load_nothing_changes() -> None:
    assert feed_effect([], large_transfer_s=1.0, utilization=0.5) == NO_EFFECT
    assert effect(FEED, utilization=0.0) == NO_EFFECT
    assert effect(FEED, utilization=1.2) == NO_EFFECT
    assert tail_factor(np.array([0.1, 3.0]), NO_EFFECT).tolist() == [1.0, 1.0]


@given(
    rho=st.floats(0.01, 0.99),
    chance=st.floats(0.0, 1.0),
    rate=st.floats(0.01, 1e3),
    scv=st.floats(0.0, 20.0),
    line=st.floats(0.01, 0.99),
)
def test_the_tail_stays_positive(rho: float, chance: float, rate: float, scv: float, line: float) -> None:
    feed = replace(FEED, utilization=rho, delay_probability=chance, rate_rps=rate, service_scv=scv)
    assert (tail_factor(np.array([0.0, 0.5, 9.0]), effect(feed, utilization=line)) >= 0).all()


def test_a_margin_is_kept_only_where_a_small_pool_feeds_a_nearly_full_line() -> None:
    assert feed_margin(2, 0.85, pool_utilization=0.9) == 0.0
    assert feed_margin(2, 0.9, pool_utilization=0.8) == pytest.approx(0.1)
    assert feed_margin(40, 0.94, pool_utilization=0.94) < 0.011
    assert feed_margin(1, 7.0, pool_utilization=3.0) == pytest.approx(0.75)
    raised, plain = FeedEffect(0.2, 0.1, 0.1), FeedEffect(0.2, 0.1)
    assert tail_factor(np.array([0.5]), raised) == pytest.approx(1.1 * tail_factor(np.array([0.5]), plain))
