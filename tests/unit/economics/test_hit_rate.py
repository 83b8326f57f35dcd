"""The same traffic at other hit rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.domain.workload import RequestClasses
from pddplan.economics.hit_rate import Spread, at_hit_rate, miss_tokens_at, token_hit_rate
from pddplan.errors import DomainError


def classes(miss: tuple[float, ...] = (500.0, 20_000.0), length: float = 64_000.0) -> RequestClasses:
    count = len(miss)
    missed = np.array(miss)
    return RequestClasses(
        weight=np.full(count, 1 / count),
        input_tokens=np.full(count, length),
        miss_prefill_tokens=missed,
        miss_decode_tokens=2 * missed,
        output_tokens=np.full(count, 1_000.0),
    )


def test_even_spread_by_hand() -> None:
    got = miss_tokens_at(classes(), np.array([0.0, 0.25, 1.0]), spread=Spread.EVEN)
    assert got.tolist() == [[64_000] * 2, [48_000] * 2, [0, 0]]


def test_as_now_keeps_the_skew_and_passes_through_today() -> None:
    now = token_hit_rate(classes())
    got = miss_tokens_at(classes(), np.array([0.0, now, 1.0]))
    assert got[0].tolist() == [64_000, 64_000]
    assert got[1] == pytest.approx([500, 20_000])
    assert got[2].tolist() == [0, 0]


def test_decode_side_keeps_its_ratio_and_its_bound() -> None:
    better = at_hit_rate(classes(), 0.95)
    assert better.miss_decode_tokens == pytest.approx(2 * better.miss_prefill_tokens)
    worst = at_hit_rate(classes(), 0.0)
    assert worst.miss_decode_tokens == pytest.approx(worst.input_tokens)


@settings(max_examples=40, deadline=None)
@given(
    miss=st.lists(st.floats(0, 64_000), min_size=1, max_size=5),
    rate=st.floats(0, 1),
    spread=st.sampled_from(list(Spread)),
)
def test_the_hit_rate_asked_for_is_the_one_got(miss: list[float], rate: float, spread: Spread) -> None:
    got = at_hit_rate(classes(tuple(miss)), rate, spread=spread)
    assert token_hit_rate(got) == pytest.approx(rate, abs=1e-6)
    assert np.all(got.miss_prefill_tokens <= got.input_tokens)


def test_more_hits_miss_less_in_every_class() -> None:
    missed = miss_tokens_at(classes((0.0, 10.0, 30_000.0)), np.linspace(0, 1, 50))
    assert np.all(np.diff(missed, axis=0) <= 1e-6)


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan])
def test_hit_rates_outside_are_refused(bad: float) -> None:
    with pytest.raises(DomainError):
        miss_tokens_at(classes(), np.array([bad]))
