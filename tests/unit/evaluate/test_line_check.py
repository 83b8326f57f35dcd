"""``wan check``: bytes and rates by hand, tiers, one line down, hit rates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pddplan.domain.sites import Line, Tier
from pddplan.domain.workload import Workload
from pddplan.errors import DomainError
from pddplan.evaluate.line_check import LineCheck, UniformKv, check_line, peak_factor
from pddplan.evaluate.settings import SETTING_SOURCES, Settings

KV = UniformKv(10_000.0, 1e6)
LINE = Line("a-b", "A", "B", (Tier(1.0, 500.0), Tier(10.0, 1_000.0), Tier(100.0, 6_000.0)), rtt_s=0.01)
keep_fixtures = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def checked(workload: Workload, **more: object) -> LineCheck:
    return check_line(workload, KV, LINE, **more)  # type: ignore[arg-type]


def test_rates_by_hand(workload: Workload) -> None:
    got = checked(workload)
    payload = 1e6 + 1e4 * np.array([40_000, 8_000, 800])
    mean = float(payload @ [0.1, 0.2, 0.7])
    assert got.payload_mean_bytes == pytest.approx(mean)
    assert got.mean_gbps == pytest.approx(4.0 * mean * 8 / 1e9)
    assert got.growing_cut == pytest.approx(60_000 / 6_160)
    assert got.whole_cut == pytest.approx((60_000 * 1e4 + 1e6) / mean)
    assert got.peak_gbps_without_drc == pytest.approx(4.0 * (60_000 * 1e4 + 1e6) * 8 / 1e9)


def test_the_smallest_tier_that_carries_the_peak_is_chosen(workload: Workload) -> None:
    got = checked(workload)
    assert [tier.feasible for tier in got.tiers] == [False, True, True]
    assert got.chosen is not None
    assert got.chosen.gbps == 10.0
    assert got.chosen.largest_rps == pytest.approx(4.0 * 0.8 / got.chosen.peak_utilization)


def test_a_full_tier_never_ends(workload: Workload) -> None:
    got = checked(workload, gbps=1.0)
    assert got.chosen is not None
    assert got.chosen.peak_utilization > 1
    assert np.isinf(got.chosen.transfer.p50)


def test_a_rate_off_the_ladder_has_no_price(workload: Workload) -> None:
    got = checked(workload, gbps=40.0)
    assert got.chosen is not None
    assert got.chosen.gbps == 40.0
    assert np.isnan(got.chosen.monthly_cost)
    assert len(got.tiers) == 4


def test_one_line_down_leaves_the_rest(workload: Workload) -> None:
    two = checked(workload, gbps=10.0, count=2).chosen
    one = checked(workload, gbps=10.0).chosen
    assert two is not None
    assert one is not None
    assert two.one_down_utilization == pytest.approx(one.peak_utilization)
    assert two.monthly_cost == 2_000.0
    assert np.isinf(one.one_down_utilization)


def test_the_peak_sizes_the_line(workload: Workload) -> None:
    busy = replace(workload, arrival=replace(workload.arrival, peak_to_mean=2.0))
    assert peak_factor(busy) == 2.0
    assert checked(busy).peak_gbps == pytest.approx(2 * checked(workload).mean_gbps)
    by_hour = replace(workload, arrival=replace(workload.arrival, hourly_profile=(3.0,) + (21 / 23,) * 23))
    assert peak_factor(by_hour) == 3.0


def test_without_cache_everything_crosses(workload: Workload) -> None:
    got = checked(workload, drc=False)
    assert got.sent_tokens.tolist() == workload.classes.input_tokens.tolist()
    assert got.peak_gbps == pytest.approx(got.peak_gbps_without_drc)


def test_nothing_missing_nothing_sent(workload: Workload) -> None:
    nothing = replace(workload, classes=replace(workload.classes, miss_decode_tokens=np.zeros(3)))
    got = checked(nothing)
    assert got.mean_gbps == 0.0
    assert np.isinf(got.growing_cut)
    assert got.chosen is not None
    assert np.isinf(got.chosen.largest_rps)
    assert got.chosen.transfer.p99 == 0.0


def test_a_line_without_tiers_says_so(workload: Workload) -> None:
    got = check_line(workload, KV, replace(LINE, tiers=()))
    assert got.chosen is None
    assert got.hit_rates == ()


@keep_fixtures
@given(factor=st.floats(1.1, 20.0))
def test_more_traffic_never_fits_better(workload: Workload, factor: float) -> None:
    calm = checked(workload)
    busy = checked(workload.at_rate(4.0 * factor))
    for less, more in zip(calm.tiers, busy.tiers, strict=True):
        assert more.peak_utilization >= less.peak_utilization
        assert more.transfer.p99 >= less.transfer.p99 * (1 - 1e-6)
        assert more.largest_rps == pytest.approx(less.largest_rps)


def test_higher_hit_rates_send_less(workload: Workload) -> None:
    rates = [row.peak_gbps for row in checked(workload).hit_rates]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize(
    "wrong", [{"overlap": "maybe"}, {"handover": "never"}, {"rdma_latency_s": -1.0}, {"rdma_efficiency": float("nan")}]
)
def test_settings_refuse_nonsense(wrong: dict[str, object]) -> None:
    with pytest.raises(DomainError, match=next(iter(wrong))):
        Settings(**wrong)  # type: ignore[arg-type]


def test_every_setting_with_a_source_exists() -> None:
    assert {item.name for item in Settings().assumptions()} == set(SETTING_SOURCES)
