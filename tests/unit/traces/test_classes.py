"""Classes stand for requests: means, percentiles, limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.traces.classes import bin_shares, build_classes, fit_of, marginals_of, weighted_quantile


def requests(seed: int, count: int, tail: float) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    length = np.exp(draw.normal(9, tail, count)).astype(np.int64) + 1
    hit = np.minimum(draw.beta(4, 0.5, count), 1.0)
    miss = np.maximum((length * (1 - hit)).astype(np.int64), 1)
    transfer = (miss * draw.uniform(0, 1, count)).astype(np.int64)
    output = np.exp(draw.normal(5, 1, count)).astype(np.int64) + 1
    return {
        "input_tokens": length,
        "miss_prefill_tokens": miss,
        "miss_decode_tokens": transfer,
        "output_tokens": output,
    }


@given(st.integers(0, 10**6), st.integers(65, 4000), st.floats(0.1, 1.5))
def test_means_and_percentiles_within_two_percent(seed: int, count: int, tail: float) -> None:
    columns = requests(seed, count, tail)
    classes = build_classes(**columns)
    assert classes.count <= 64
    assert classes.weight.sum() == pytest.approx(1)
    assert fit_of(classes, marginals_of(*columns.values())).worst_relative_error < 0.02
    assert (classes.miss_prefill_tokens <= classes.input_tokens * (1 + 1e-12)).all()
    assert (classes.miss_decode_tokens <= classes.input_tokens * (1 + 1e-12)).all()
    assert (classes.miss_prefill_tokens >= 0).all()


@given(st.integers(0, 10**6), st.integers(1, 64))
def test_a_few_requests_are_their_own_classes(seed: int, count: int) -> None:
    columns = requests(seed, count, 1.0)
    classes = build_classes(**columns)
    assert classes.count == count
    assert sorted(classes.output_tokens.tolist()) == sorted(columns["output_tokens"].tolist())
    assert sorted(classes.input_tokens.tolist()) == sorted(columns["input_tokens"].tolist())


def test_equal_requests_are_one_class() -> None:
    same = np.full(1000, 7)
    classes = build_classes(input_tokens=same, miss_prefill_tokens=same, miss_decode_tokens=same, output_tokens=same)
    assert classes.count == 1
    assert classes.weight.tolist() == [1.0]


def test_how_requests_come_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = requests(5, 5000, 1.0)
    whole = build_classes(**columns)
    monkeypatch.setattr("pddplan.traces.classes.ROWS_AT_ONCE", 777)
    in_pieces = build_classes(**columns)
    for name in ("weight", *columns):
        assert getattr(in_pieces, name).tolist() == getattr(whole, name).tolist()


def test_a_rare_tail_keeps_its_mean() -> None:
    miss = np.concatenate([np.full(9990, 100), np.full(10, 900_000)])
    other = np.full(10_000, 50)
    classes = build_classes(
        input_tokens=np.full(10_000, 10**6), miss_prefill_tokens=miss, miss_decode_tokens=miss, output_tokens=other
    )
    assert classes.mean(classes.miss_prefill_tokens) == pytest.approx(miss.mean())
    assert classes.miss_prefill_tokens.max() == pytest.approx(900_000)


def test_weighted_quantile_by_hand() -> None:
    values, weight = np.array([30.0, 10.0, 20.0]), np.array([0.2, 0.5, 0.3])
    assert [weighted_quantile(values, weight, q) for q in (0.1, 0.5, 0.51, 0.8, 0.81, 1.0)] == [10, 10, 20, 20, 30, 30]


def test_last_bin_includes_a_full_hit() -> None:
    assert bin_shares(np.array([0.0, 0.5, 0.95, 1.0]), (0.0, 0.5, 1.0)).tolist() == [0.25, 0.75]
