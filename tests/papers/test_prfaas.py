"""PrfaaS (arXiv:2604.15039): one test per figure of Table 6 and of Table 5, and what the derived inputs follow from.

Question, figures and bars are those of ``benchmarks/published_prfaas.py``, from which the page is written.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import published_prfaas as prfaas
from benchmarks.published_figures import Figure
from pddplan.profiles.latency_table import load_table
from pddplan.units import BITS_PER_BYTE, GIGA, MIB

LINE_BUSY_BELOW = 0.2


@pytest.fixture(scope="module")
def found() -> prfaas.Table6:
    return prfaas.table6()


@pytest.mark.parametrize("figure", prfaas.FIGURES, ids=lambda figure: figure.what)
def test_table_6(figure: Figure[prfaas.Table6], found: prfaas.Table6) -> None:
    assert figure.holds(found), figure.row(found)


def test_threshold_emerges_from_comparative_advantage(found: prfaas.Table6) -> None:
    """Nobody tells the optimiser to cut by length; at most one class is split between the two ways."""
    classes, far = prfaas.traffic().classes, found.offload.far_share()
    ordered = far[np.argsort(classes.input_tokens)]
    mixed = (ordered > 1e-6) & (ordered < 1 - 1e-6)
    assert mixed.sum() <= 1, "one class at most is split between the two ways"
    assert np.all(np.diff(np.round(ordered, 6)) >= 0), "long requests go far, short ones stay"
    assert classes.weight @ far == pytest.approx(0.496, rel=0.03)
    assert np.average(classes.input_tokens, weights=classes.weight * far) == pytest.approx(45_000, rel=0.03)


def test_the_line_has_room(found: prfaas.Table6) -> None:
    (line,) = found.offload.outcome.lines
    assert line.utilization < LINE_BUSY_BELOW


def test_latency_table_is_the_quadratic_through_the_published_points() -> None:
    published = {tokens: seconds for tokens, (_, seconds, _) in prfaas.PREFILL_ON_H200.items()}
    tokens, seconds = np.array(load_table("prfaas-1t-on-8-h200").prefill).T
    law = np.polynomial.Polynomial.fit(list(published), list(published.values()), 2)
    assert seconds == pytest.approx(law(tokens), abs=2e-4)
    for length, told in published.items():
        assert law(length) == pytest.approx(told, rel=0.025)


def test_kv_sizes_and_throughput_of_the_papers_model() -> None:
    """Table 5. Sizes within 2 %; throughput within 3.5 %, of which the quadratic between the points takes 2.5 %."""
    for row, (mib, seconds, gbps) in zip(prfaas.kv_throughput(), prfaas.PREFILL_ON_H200.values(), strict=True):
        assert row.kv_mib == pytest.approx(mib, rel=0.02)
        assert row.gbps == pytest.approx(gbps, rel=0.035)
        printed_gbps = mib * MIB * BITS_PER_BYTE / seconds / GIGA
        assert printed_gbps == pytest.approx(gbps, rel=0.02)  # the paper agrees with itself


def test_kv_throughput_of_other_models_keeps_their_order() -> None:
    """No bar: which engine and dtypes were used is not printed. The page shows how far apart we are."""
    ours = {name: gbps for name, gbps in prfaas.kv_throughput_of_other_models().items() if gbps is not None}
    assert set(prfaas.OTHER_MODELS_GBPS) - set(ours) == {"ring-2.5-1t"}  # its bf16 weights exceed 8 H200
    plain, sparing = ("minimax-m2.5", "qwen3-235b-a22b"), ("qwen3.5-397b-a17b", "mimo-v2-flash", "kimi-linear-48b-a3b")
    assert min(ours[name] for name in plain) > 2 * max(ours[name] for name in sparing)


def test_h20_table_follows_from_the_published_throughputs() -> None:
    classes = prfaas.traffic().classes
    tokens, seconds = np.array(load_table("prfaas-1t-on-8-h20").prefill).T
    time_s = np.interp(classes.input_tokens, tokens, seconds)
    short = classes.input_tokens <= prfaas.PUBLISHED_THRESHOLD
    assert classes.mean(time_s) == pytest.approx(9 / 2.11, rel=0.02)  # 9 instances prefill 2.11 req/s of all
    assert np.average(time_s[short], weights=classes.weight[short]) == pytest.approx(1.83, rel=0.03)
