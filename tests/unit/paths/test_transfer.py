"""Transfers on a shared line, hidden under prefill or not, and the TTFT of each path."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.plan import PathKind
from pddplan.paths.first_token import DecodeStage, PrefillStage, first_token
from pddplan.paths.latency import LatencySum
from pddplan.paths.transfer import TransferStage, hidden_prefill_s, transfer_latency
from pddplan.performance.prefill import exposed_transfer_s
from pddplan.queueing import Wait

SHARED = TransferStage(10.0, utilization=0.5, tail_ratio=1.0)


def test_an_idle_line_takes_size_over_rate_and_half_a_round_trip() -> None:
    got = transfer_latency(TransferStage(10.0, rtt_s=0.2), np.array([0.0, 50.0]))
    assert got.mean_s == pytest.approx([0.0, 5.1])
    assert got.cdf(5.1).tolist() == [1.0, 1.0]


def test_a_shared_line_has_the_mean_of_processor_sharing() -> None:
    # rho = 0.5: z/C / (1 - rho)
    assert transfer_latency(SHARED, np.array([50.0])).mean_s == pytest.approx([10.0])


def test_one_transfer_cannot_use_the_whole_line() -> None:
    capped = TransferStage(10.0, utilization=0.0, transfer_bytes_per_s=2.0)
    assert transfer_latency(capped, np.array([50.0])).mean_s == pytest.approx([25.0])


def test_noise_meets_only_those_who_send() -> None:
    got = transfer_latency(TransferStage(10.0, noise_mean_s=3.0), np.array([0.0, 10.0]))
    assert got.mean_s == pytest.approx([0.0, 4.0])


def test_what_overlaps_prefill_is_hidden_and_the_tail_keeps_its_law() -> None:
    plain = transfer_latency(SHARED, np.array([50.0]))
    hidden = transfer_latency(SHARED, np.array([50.0]), hidden_s=3.0)
    assert hidden.cdf(4.0) == pytest.approx(plain.cdf(7.0))
    wholly = transfer_latency(SHARED, np.array([50.0]), hidden_s=8.0)
    assert wholly.cdf(2.0) == pytest.approx(plain.cdf(10.0))
    assert wholly.cdf(0.0)[0] > 0


def test_the_last_layer_cannot_hide_as_predict_says_too() -> None:
    idle, payload = TransferStage(10.0), np.array([5.0, 50.0, 5000.0])
    prefill = np.full(3, 6.0)
    got = transfer_latency(
        idle, payload, hidden_s=hidden_prefill_s(prefill, layers=60, overlap="layerwise"), last_fraction=1 / 60
    )
    alone = exposed_transfer_s(prefill_s=prefill, transfer_s=payload / 10.0, layers=60, overlap="layerwise")
    assert got.mean_s == pytest.approx(alone)
    assert got.mean_s[0] == pytest.approx(0.5 / 60)


def test_layers_hide_all_but_the_last() -> None:
    assert hidden_prefill_s(np.array([6.0]), layers=60, overlap="layerwise") == pytest.approx([5.9])
    assert hidden_prefill_s(np.array([6.0]), layers=60, overlap="none").tolist() == [0.0]


@given(
    rate=st.floats(1.0, 1e3),
    more=st.floats(1.01, 10.0),
    load=st.floats(0.1, 0.95),
    payload=st.floats(1.0, 1e4),
    limit=st.floats(0.1, 100.0),
)
def test_more_bandwidth_never_delays(rate: float, more: float, load: float, payload: float, limit: float) -> None:
    from pddplan.network import sharing_tail_ratio

    def time_s(line: float, utilization: float) -> float:
        parallel = max(line / limit, 1.0)
        stage = TransferStage(
            line,
            utilization=utilization,
            tail_ratio=sharing_tail_ratio(utilization, parallel=parallel),
            transfer_bytes_per_s=min(limit, line),
        )
        return float(transfer_latency(stage, np.array([payload])).mean_s[0])

    assert time_s(rate * more, load / more) <= time_s(rate, load) * (1 + 1e-6)


PREFILL = PrefillStage(np.array([2.0, 4.0]), Wait(0.5, 1.0))
DECODE = DecodeStage(0.1, Wait(0.2, 1.0))
MOVED = LatencySum(np.array([0.3, 0.5]), (Wait(1.0, 0.25),))


def test_ttft_is_the_sum_of_its_parts() -> None:
    got = first_token(PathKind.P_MD, PREFILL, transfer=MOVED, decode=DECODE)
    assert got.mean_s == pytest.approx(np.array([2.0, 4.0]) + 0.5 + 0.15 + 0.2 + np.array([0.55, 0.75]))


def test_an_aggregated_instance_moves_nothing() -> None:
    """Its own step follows its prefill at once."""
    got = first_token(PathKind.AGGREGATED, PREFILL, transfer=MOVED, decode=DECODE)
    assert got.mean_s == pytest.approx([2.0 + 0.5 + 0.1 + 0.2, 4.8])
