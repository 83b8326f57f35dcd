"""Classes stand for requests: means, percentiles, limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.traces.cells import bin_of, bin_shares
from pddplan.traces.classes import build_classes, fit_of, marginals_of, weighted_quantile


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


def test_equal_requests_among_few_are_one_class() -> None:
    """Twenty requests of two kinds are two classes, however few they are."""
    columns = {name: np.repeat(values, 10) for name, values in requests(7, 2, 1.0).items()}
    classes = build_classes(**columns)
    assert classes.weight.tolist() == [0.5, 0.5]
    assert sorted(classes.input_tokens) == sorted(set(columns["input_tokens"].tolist()))


def test_how_requests_come_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = requests(5, 5000, 1.0)
    whole = build_classes(**columns)
    monkeypatch.setattr("pddplan.traces.classes.ROWS_AT_ONCE", 777)
    in_pieces = build_classes(**columns)
    for name in ("weight", *columns):
        assert getattr(in_pieces, name).tolist() == getattr(whole, name).tolist()


def awkward() -> dict[str, tuple[np.ndarray, ...]]:
    """Input, hit fraction, transfer over miss, output: shapes that classes have stumbled over."""
    draw, n = np.random.default_rng(7), 6000
    rare, even = draw.random(n) < 0.01, draw.random(n)
    wide = 100 * (1 + draw.pareto(1.1, n))
    turn = draw.geometric(0.08, n)
    half = np.arange(n) < n // 2
    return {
        "two far modes": (np.full(n, 200_000), np.where(rare, 0.2, 0.9999), even, np.where(half, 10, 5000)),
        "modes at the median": (np.full(n, 90_000), np.where(half, 0.2, 0.9999), np.ones(n), np.where(half, 9, 900)),
        "heavy tails": (np.minimum(wide, 1e6), even, even, np.minimum(5 * (1 + draw.pareto(0.9, n)), 1e5)),
        "mostly no miss": (draw.integers(900, 90_000, n), np.where(rare, even, 1.0), even, draw.integers(1, 2000, n)),
        "tiny answers": (draw.integers(900, 90_000, n), even, even, np.where(rare, 9000, 1)),
        "answers follow inputs": (wide, even, even, wide / 10),
        "growing sessions": (6000 + 2000 * turn, 1 - 1 / turn, even, draw.lognormal(5, 1.2, n)),
        "seventy": (wide[:70], even[:70], even[:70], draw.integers(1, 3000, 70)),
    }


@pytest.mark.parametrize("shape", awkward())
def test_awkward_shapes(shape: str) -> None:
    length, hit, carried, output = awkward()[shape]
    length = np.asarray(length).astype(np.int64) + 1
    miss = np.maximum(np.round(length * (1 - hit)).astype(np.int64), 1)
    columns = (length, miss, (miss * carried).astype(np.int64), np.asarray(output).astype(np.int64) + 1)
    names = ("input_tokens", "miss_prefill_tokens", "miss_decode_tokens", "output_tokens")
    classes = build_classes(**dict(zip(names, columns, strict=True)))
    assert classes.count <= 64
    assert fit_of(classes, marginals_of(*columns)).worst_relative_error < 0.01
    for name, column in zip(names, columns, strict=True):  # second moments decide queues
        second = float(np.mean(column.astype(float) ** 2))
        assert classes.mean(getattr(classes, name) ** 2) == pytest.approx(second, rel=0.02)
    place = bin_of((classes.input_tokens - classes.miss_prefill_tokens) / classes.input_tokens)
    shares = np.bincount(place, weights=classes.weight, minlength=7)
    assert shares == pytest.approx(bin_shares((length - miss) / length), abs=0.003)


@pytest.mark.parametrize("most", [1, 2, 15, 16, 30, 64])
def test_fewer_classes_keep_at_least_the_means(most: int) -> None:
    columns = requests(3, 5000, 1.2)
    classes = build_classes(**columns, max_classes=most)
    assert classes.count <= most
    for name, column in columns.items():
        assert classes.mean(getattr(classes, name)) == pytest.approx(column.mean(), rel=1e-3)


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
