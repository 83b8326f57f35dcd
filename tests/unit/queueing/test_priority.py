"""Shortest-first order: exact means for one server, and who gains."""

from __future__ import annotations

import numpy as np
import pytest

from pddplan.queueing import mix_moments, pool_wait, shortest_first_wait

SERVICE_S = np.array([1.0, 4.0])


def test_one_server_by_hand() -> None:
    # lambda = 0.1 each: loads 0.1 and 0.4; residual work = (0.1 * 1 + 0.1 * 16) / 2 = 0.85
    rates = np.array([0.1, 0.1])
    scv = mix_moments(rates, SERVICE_S).scv
    got = shortest_first_wait(1, SERVICE_S, class_rate_rps=rates, service_scv=scv)
    assert got.mean_s == pytest.approx([0.85 / 0.9, 0.85 / (0.9 * 0.5)])


def test_equal_classes_wait_as_first_come_first_served() -> None:
    rates = np.array([0.2, 0.3])
    got = shortest_first_wait(1, np.array([1.0, 1.0]), class_rate_rps=rates, service_scv=0.0)
    fifo = pool_wait(1, 1.0, service_scv=0.0, arrival_rate_rps=0.5)
    # ties are one class: both wait like the last of their kind
    assert got.mean_s == pytest.approx(np.full(2, float(fifo.mean_s)))


def test_short_requests_keep_their_time_when_the_pool_is_overloaded() -> None:
    rates = np.array([0.3, 0.3])
    got = shortest_first_wait(1, SERVICE_S, class_rate_rps=rates, service_scv=mix_moments(rates, SERVICE_S).scv)
    assert np.isfinite(got.tail_mean_s[0])
    assert np.isinf(got.tail_mean_s[1])


def test_an_idle_pool_has_no_wait() -> None:
    got = shortest_first_wait(2, SERVICE_S, class_rate_rps=np.zeros(2), service_scv=0.0)
    assert got.mean_s.tolist() == [0.0, 0.0]
