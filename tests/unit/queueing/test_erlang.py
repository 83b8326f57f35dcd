"""Erlang's formulas against hand-computed values and known limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.errors import DomainError
from pddplan.queueing import erlang_b, erlang_c, erlang_c_real


def test_one_server_is_busy_with_chance_rho() -> None:
    assert erlang_c(1, 0.7) == pytest.approx(0.7)


def test_two_servers_by_hand() -> None:
    # a = 1: B = (1/2) / (1 + 1 + 1/2) = 0.2; C = 0.2 / (1 - 0.5 * 0.8) = 1/3
    assert erlang_b(2, 1.0) == pytest.approx(0.2)
    assert erlang_c(2, 0.5) == pytest.approx(1 / 3)


def test_published_table_value() -> None:
    # ten servers, seven erlang: the textbook's C(10, 7) = 0.222
    assert erlang_c(10, 0.7) == pytest.approx(0.2217, abs=5e-4)


def test_a_full_pool_always_delays_and_an_idle_one_never_does() -> None:
    assert erlang_c(4, np.array([0.0, 1.0, 1.7])).tolist() == [0.0, 1.0, 1.0]


def test_thousands_of_servers_do_not_overflow() -> None:
    chances = erlang_c(5000, np.array([0.01, 0.9, 0.999]))
    assert np.isfinite(chances).all()
    assert (np.diff(chances) >= 0).all()


@pytest.mark.parametrize(("servers", "load"), [(0, 1.0), (2, -1.0), (2, float("nan"))])
def test_senseless_arguments_are_refused(servers: int, load: float) -> None:
    with pytest.raises(DomainError):
        erlang_b(servers, load)


def test_real_servers_need_a_positive_number() -> None:
    with pytest.raises(DomainError, match="servers"):
        erlang_c_real(0.0, 0.5)


@given(servers=st.integers(1, 60), rho=st.floats(0.01, 0.99))
def test_more_servers_at_the_same_load_delay_less(servers: int, rho: float) -> None:
    assert erlang_c(servers + 1, rho) <= erlang_c(servers, rho) + 1e-12


@given(servers=st.integers(1, 30), part=st.floats(0.0, 1.0), rho=st.floats(0.05, 0.95))
def test_real_servers_lie_between_whole_ones(servers: int, part: float, rho: float) -> None:
    low, high = float(erlang_c(servers + 1, rho)), float(erlang_c(servers, rho))
    assert low - 1e-3 <= float(erlang_c_real(servers + part, rho)) <= high + 1e-3


def test_less_than_one_server_is_one_shared_line() -> None:
    assert erlang_c_real(0.4, 0.6) == pytest.approx(0.6)
