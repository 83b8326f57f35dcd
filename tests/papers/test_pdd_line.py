"""Published figures of the line, the hand-over and the decode-side cache (PDD report, A2)."""

from __future__ import annotations

import numpy as np
import pytest

import pddplan.api as api
from pddplan.evaluate.line_check import UniformKv
from pddplan.paths.handover import id_handover, kv_handover


def test_a_hundred_thousand_tokens_at_fifty_kb_are_five_gb() -> None:
    kv = UniformKv(50_000.0)
    assert kv.sequence_bytes(np.array([100_000.0]))[0] == pytest.approx(5e9)


def test_drc_at_ninety_per_cent_cuts_the_line_tenfold() -> None:
    got = api.check_line("agentic-64k")
    assert got.growing_cut == pytest.approx(10.0, rel=0.05)
    # what no cache saves: windows travel whole with every request
    assert got.fixed_bytes == pytest.approx(4.56e6, rel=0.01)
    assert 8.0 < got.whole_cut < got.growing_cut


def test_eighty_requests_hold_about_27_gb() -> None:
    got = api.check_line("agentic-64k", drc=False)
    per_request = got.growing_bytes_per_token * 65_536 + got.fixed_bytes
    assert 80 * per_request == pytest.approx(26.7e9, rel=0.02)


def test_ids_of_a_hundred_tokens_against_their_kv() -> None:
    got = api.check_line("agentic-64k")
    assert got.handover_ids_bytes == pytest.approx(1.5e3)
    # published: 4,649 KB; ours counts scales and index keys too (5,031 B per token and 4.56 MB of windows)
    assert got.handover_kv_bytes == pytest.approx(4.649e6, rel=0.10)


def test_extend_decode_is_slower_on_average_and_far_steadier() -> None:
    # direct KV: mean 185 ms, worst 512.6 ms, and 24.5 ms into the device; a base of 100 ms explains both
    direct = kv_handover(4.649e6, rate_bytes_per_s=4.649e6 / 0.095, one_way_s=0.005, noise_mean_s=0.085, copy_s=0.0)
    assert direct.mean_s == pytest.approx(0.185, rel=0.01)
    assert direct.worst_s == pytest.approx(0.5126, rel=0.10)
    # ids: mean 305 ms, worst 321.4 ms, standard deviation 4.8 ms
    ids = id_handover(100, token_id_bytes=15, extend_s=0.04, one_way_s=0.005, overhead_s=0.26, jitter_s=0.0048)
    assert ids.mean_s == pytest.approx(0.305, rel=0.01)
    assert ids.worst_s == pytest.approx(0.3214, rel=0.01)
    assert direct.std_s > 10 * ids.std_s
    assert direct.worst_s + 0.0245 > ids.worst_s


def test_without_drc_economical_ethernet_is_too_thin_at_cluster_scale() -> None:
    # "needs > 180 Gbit/s between clusters" at tens of requests per second
    got = api.check_line("agentic-64k", drc=False, rps=70.0)
    assert got.peak_gbps > 180
    assert api.check_line("agentic-64k", rps=70.0).peak_gbps < 25
