"""What a line carries and what one transfer gets."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.sites import Line, Tier
from pddplan.errors import DomainError
from pddplan.network import effective_rate, mathis_limit_bytes_per_s, window_limit_bytes_per_s
from pddplan.units import bytes_per_s_to_gbps, gbps_to_bytes_per_s

LINE = Line("a-b", "a", "b", (Tier(100, 1000.0),), rtt_s=0.01, protocol_efficiency=1.0, tcp_flows=32)


def test_default_window_of_linux_gives_five_gbps_at_ten_ms() -> None:
    # reference/README, network facts: 6 MiB per RTT of 10 ms
    one = window_limit_bytes_per_s(1, 6 * 2**20, rtt_s=0.01)
    assert bytes_per_s_to_gbps(one) == pytest.approx(5.03, abs=0.01)


@pytest.mark.parametrize(("mss", "gbps"), [(1460.0, 1.43), (8948.0, 8.77)])
def test_mathis_figures_of_the_reference(mss: float, gbps: float) -> None:
    one = mathis_limit_bytes_per_s(1, mss, rtt_s=0.01, loss_fraction=1e-6)
    assert bytes_per_s_to_gbps(one) == pytest.approx(gbps, abs=0.01)


def test_without_loss_or_delay_nothing_but_the_line_binds() -> None:
    rate = effective_rate(replace(LINE, rtt_s=0.0), 100)
    assert (rate.limit, rate.bytes_per_s) == ("line", gbps_to_bytes_per_s(100))
    assert rate.parallel == 1.0
    assert math.isinf(mathis_limit_bytes_per_s(4, 1460.0, rtt_s=0.01, loss_fraction=0.0))


def test_the_window_binds_one_transfer_and_not_the_line() -> None:
    rate = effective_rate(replace(LINE, tcp_flows=4), 100)
    assert rate.limit == "window"
    assert bytes_per_s_to_gbps(rate.transfer_bytes_per_s) == pytest.approx(4 * 5.03, abs=0.05)
    assert bytes_per_s_to_gbps(rate.bytes_per_s) == pytest.approx(100)
    assert rate.parallel == pytest.approx(100 / 20.1, rel=0.01)


def test_loss_binds_one_transfer() -> None:
    assert effective_rate(replace(LINE, tcp_flows=4, loss_fraction=1e-4), 100).limit == "loss"


def test_background_and_efficiency_take_their_share() -> None:
    rate = effective_rate(replace(LINE, background_fraction=0.25, protocol_efficiency=0.8), 100, count=2)
    assert bytes_per_s_to_gbps(rate.bytes_per_s) == pytest.approx(2 * 60)


def test_no_line_carries_nothing() -> None:
    rate = effective_rate(LINE, 100, count=0)
    assert rate.bytes_per_s == 0.0
    assert rate.parallel == 1.0


@pytest.mark.parametrize("gbps", [0.0, -1.0, math.nan, math.inf])
def test_senseless_rates_are_refused(gbps: float) -> None:
    with pytest.raises(DomainError, match="gbps"):
        effective_rate(LINE, gbps)


def test_a_negative_number_of_lines_is_refused() -> None:
    with pytest.raises(DomainError, match="count"):
        effective_rate(LINE, 10, count=-1)


@given(gbps=st.floats(1, 800), loss=st.floats(0, 1e-2), rtt_s=st.floats(0, 0.2), flows=st.integers(1, 256))
def test_no_transfer_gets_more_than_the_line(gbps: float, loss: float, rtt_s: float, flows: int) -> None:
    rate = effective_rate(replace(LINE, loss_fraction=loss, rtt_s=rtt_s, tcp_flows=flows), gbps)
    assert 0 < rate.transfer_bytes_per_s <= rate.bytes_per_s
