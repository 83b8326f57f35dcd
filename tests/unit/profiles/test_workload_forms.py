"""Parametric traffic: slices keep means, shares and limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.errors import DomainError
from pddplan.profiles.workload_forms import from_hit_bins, from_lognormal, from_uniform, request_classes


def test_two_bins_by_hand() -> None:
    classes = from_hit_bins([0.0, 0.1, 0.2], [1, 3], input_tokens=1000, output_tokens=10, decode_extra_tokens=900)
    assert classes.weight.tolist() == [0.25, 0.75]
    assert classes.miss_prefill_tokens.tolist() == pytest.approx([950, 850])
    assert classes.miss_decode_tokens.tolist() == pytest.approx([50, 0])
    assert classes.label == ("hit 0-10 %", "hit 10-20 %")


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=8), st.floats(1, 1e6))
def test_mean_hit_is_that_of_evenly_filled_bins(shares: list[float], length: float) -> None:
    edges = np.linspace(0, 1, len(shares) + 1)
    classes = from_hit_bins(edges.tolist(), shares, input_tokens=length, output_tokens=5)
    middle = (edges[:-1] + edges[1:]) / 2
    expected = float(np.average(middle, weights=shares))
    assert 1 - classes.mean(classes.miss_prefill_tokens) / length == pytest.approx(expected)
    assert classes.weight.sum() == pytest.approx(1)


@pytest.mark.parametrize("edges", [[0, 0.5], [0, 0.5, 0.5], [-0.1, 0.5, 1], [0, 0.5, 1.1]])
def test_edges_must_increase_within_0_and_1(edges: list[float]) -> None:
    with pytest.raises(DomainError):
        from_hit_bins(edges, [1, 1], input_tokens=10, output_tokens=1)


@given(st.floats(5, 12), st.floats(0.2, 2), st.integers(1, 80))
def test_lognormal_keeps_the_mean_of_the_cut_distribution(mu: float, sigma: float, classes: int) -> None:
    low, high = 100.0, 2e5
    found = from_lognormal(mu, sigma, low_tokens=low, high_tokens=high, output_tokens=7, classes=classes)
    x = np.linspace(math.log(low), math.log(high), 20001)
    density = np.exp(-0.5 * ((x - mu) / sigma) ** 2)
    expected = float((np.exp(x) * density).sum() / density.sum())
    assert found.mean(found.input_tokens) == pytest.approx(expected, rel=1e-3)
    assert (np.diff(found.input_tokens) > 0).all()
    assert found.input_tokens.min() >= low * 0.999
    assert found.input_tokens.max() <= high * 1.001


def test_prfaas_share_of_long_requests() -> None:
    found = from_lognormal(9.9, 1.0, low_tokens=128, high_tokens=131072, output_tokens=1024)
    long = found.input_tokens > 19400
    assert found.mean(found.input_tokens) == pytest.approx(27000, rel=0.03)
    assert found.weight[long].sum() == pytest.approx(0.496, abs=0.01)


@pytest.mark.parametrize(
    ("mu", "sigma", "low", "high"), [(9, 0, 1, 10), (9, 1, 10, 10), (9, 1, 0, 10), (900, 0.1, 1, 10)]
)
def test_lognormal_refuses_nonsense(mu: float, sigma: float, low: float, high: float) -> None:
    with pytest.raises(DomainError):
        from_lognormal(mu, sigma, low_tokens=low, high_tokens=high, output_tokens=1)


def test_uniform_mean_and_hit_rates() -> None:
    classes = from_uniform((100, 300), (10, 10), hit_rate=0.25, decode_hit_rate=0.5)
    assert classes.mean(classes.input_tokens) == pytest.approx(200)
    assert classes.mean(classes.miss_prefill_tokens) == pytest.approx(150)
    assert classes.mean(classes.miss_decode_tokens) == pytest.approx(100)
    assert set(classes.output_tokens.tolist()) == {10.0}


def test_classes_without_weight_are_left_out() -> None:
    column = np.array([1.0, 2.0])
    classes = request_classes(
        weight=np.array([0.0, 4.0]),
        input_tokens=column,
        miss_prefill_tokens=column,
        miss_decode_tokens=column,
        output_tokens=column,
        label=("a", "b"),
    )
    assert (classes.count, classes.label) == (1, ("b",))
