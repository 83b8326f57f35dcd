"""The bathtub curve: the published analytic form, notches where chunks say so, and what the reading finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.domain.sites import Finance
from pddplan.domain.token_price import TokenPrice
from pddplan.domain.workload import Array, RequestClasses
from pddplan.economics.bathtub import BathtubCurve, ServingCost, bathtub_curve, fixed_fleet_rate, now_point
from pddplan.economics.bathtub_reading import chunk_boundaries, predicted_notches, read_curve
from pddplan.economics.hit_rate import Spread
from pddplan.errors import DomainError

LENGTH = 65_536.0


def one_class(miss: float = 6_554.0, *, output: float = 0.0) -> RequestClasses:
    return RequestClasses(
        weight=np.ones(1),
        input_tokens=np.array([LENGTH]),
        miss_prefill_tokens=np.array([miss]),
        miss_decode_tokens=np.array([miss]),
        output_tokens=np.array([output]),
    )


def attention_only(new: Array, cached: Array) -> Array:
    """Pairs of the new tokens with everything before them, continuous form: L^2 - c^2 over 2."""
    return new * (cached + new / 2) * 1e-9


def chunked(chunk: float, *, packing: float = 0.0, overhead_s: float = 0.05) -> ServingCost:
    def seconds(new: Array, cached: Array) -> Array:
        full = np.floor(new / chunk)
        tail = new - full * chunk
        linear = new * 2e-5
        tail_overhead = np.where(tail > 1e-6, (1 - packing) * overhead_s + packing * overhead_s * tail / chunk, 0.0)
        return linear + full * overhead_s + tail_overhead

    return ServingCost(prefill_time_s=seconds, prefill_cost_per_s=1.0, decode_cost_per_request=0.0)


def prices(k: float, *, output: float = 0.0) -> TokenPrice:
    return TokenPrice("test", miss_per_mtok=1.0, cached_per_mtok=k, output_per_mtok=output)


def curve(
    serving: ServingCost, k: float = 0.1, points: int = 401, classes: RequestClasses | None = None
) -> BathtubCurve:
    return bathtub_curve(
        classes or one_class(), np.linspace(0, 1, points), serving=serving, price=prices(k), finance=Finance()
    )


ATTENTION = ServingCost(attention_only, prefill_cost_per_s=1.0, decode_cost_per_request=0.0)


@pytest.mark.parametrize(("hit_rate", "benefit"), [(0.0, 1.00), (0.5, 0.733), (0.7, 0.725), (0.9, 1.00), (0.95, 1.49)])
def test_published_form_when_only_attention_counts(hit_rate: float, benefit: float) -> None:
    got = curve(ATTENTION, k=0.1)
    assert np.interp(hit_rate, got.hit_rate, got.relative) == pytest.approx(benefit, abs=0.006)


@settings(max_examples=25, deadline=None)
@given(k=st.floats(0, 1), spread=st.sampled_from(list(Spread)))
def test_analytic_form_for_any_price_ratio(k: float, spread: Spread) -> None:
    rates = np.linspace(0, 0.99, 34)
    got = bathtub_curve(one_class(), rates, serving=ATTENTION, price=prices(k), finance=Finance(), spread=spread)
    assert got.relative == pytest.approx((1 - (1 - k) * rates) / (1 - rates**2), rel=1e-6)


def test_valley_and_break_even_of_the_analytic_form() -> None:
    # (1-0.9h)/(1-h^2) is least where 0.9h^2 - 2h + 0.9 = 0, and 1 again where h = 1 - k
    got = read_curve(curve(ATTENTION, points=2001), now_hit_rate=0.9, now_benefit=1.0)
    assert got.valley_hit_rate == pytest.approx((2 - np.sqrt(4 - 4 * 0.81)) / 1.8, abs=0.001)
    assert got.break_even_hit_rate == pytest.approx(0.9, abs=0.001)
    assert got.notches == ()


def test_a_dear_cached_token_has_no_valley() -> None:
    got = read_curve(curve(ATTENTION, k=1.0), now_hit_rate=0.5, now_benefit=1.0)
    assert (got.valley_relative, got.break_even_hit_rate) == (1.0, None)


def test_notches_stand_where_chunk_and_length_put_them() -> None:
    chunk = 0.2 * LENGTH  # boundaries at 80, 60, 40, 20 and 0 %
    assert chunk_boundaries(LENGTH, chunk) == pytest.approx([0.8, 0.6, 0.4, 0.2, 0.0])
    got = curve(chunked(chunk, overhead_s=0.3))
    boundaries = predicted_notches(one_class(), got.hit_rate, chunk_tokens=chunk)
    assert sorted(b.hit_rate for b in boundaries) == pytest.approx([0.2, 0.4, 0.6, 0.8], abs=1e-6)
    notches = read_curve(got, now_hit_rate=0.5, now_benefit=1.0, boundaries=boundaries, chunk_tokens=chunk).notches
    assert [n.full_chunks for n in notches] == [4, 3, 2, 1]
    assert [n.predicted_hit_rate for n in notches] == pytest.approx([0.2, 0.4, 0.6, 0.8], abs=1e-6)
    for notch in notches:
        assert notch.predicted_hit_rate is not None
        assert 0 <= notch.predicted_hit_rate - notch.hit_rate <= 2 / 400
        assert "full chunk" in notch.explanation


def test_packed_tails_leave_no_notches() -> None:
    got = read_curve(curve(chunked(0.2 * LENGTH, packing=1.0, overhead_s=0.3)), now_hit_rate=0.5, now_benefit=1.0)
    assert got.notches == ()


def test_every_class_of_a_mix_brings_its_own_notches() -> None:
    mix = RequestClasses(
        weight=np.array([0.3, 0.7]),
        input_tokens=np.array([40_000.0, 80_000.0]),
        miss_prefill_tokens=np.array([4_000.0, 8_000.0]),
        miss_decode_tokens=np.array([4_000.0, 8_000.0]),
        output_tokens=np.zeros(2),
    )
    got = predicted_notches(mix, np.linspace(0, 1, 401), chunk_tokens=16_000.0)
    assert [(b.class_index, b.full_chunks, round(b.hit_rate, 4)) for b in got] == [
        (1, 4, 0.2),
        (1, 3, 0.4),
        (1, 2, 0.6),
        (1, 1, 0.8),
        (0, 2, 0.2),
        (0, 1, 0.6),
    ]


def test_decode_and_line_costs_fill_the_tub() -> None:
    bare = curve(ATTENTION).relative.min()
    # The same prefill, but decode costs five times as much as a whole prefill: hits hardly save anything.
    whole = float(attention_only(np.array(LENGTH), np.array(0.0)))
    with_decode = ServingCost(attention_only, 1.0, decode_cost_per_request=5 * whole)
    assert curve(with_decode).relative[-1] < bare
    line = ServingCost(attention_only, 1.0, decode_cost_per_request=0.0, line_cost_per_token=1.0)
    # A line that dwarfs prefill makes cost proportional to misses: (1-(1-k)h)/(1-h)
    assert curve(line).relative[200] == pytest.approx((1 - 0.9 * 0.5) / 0.5, rel=0.01)


def test_the_workload_lies_on_its_own_curve() -> None:
    skewed = RequestClasses(
        weight=np.array([0.7, 0.3]),
        input_tokens=np.array([LENGTH, LENGTH]),
        miss_prefill_tokens=np.array([655.0, 30_000.0]),
        miss_decode_tokens=np.array([655.0, 30_000.0]),
        output_tokens=np.array([1_000.0, 1_000.0]),
    )
    hit_rate, benefit = now_point(skewed, serving=ATTENTION, price=prices(0.1), finance=Finance())
    got = curve(ATTENTION, points=2001, classes=skewed)
    assert np.interp(hit_rate, got.hit_rate, got.benefit) == pytest.approx(benefit, rel=1e-3)


def test_fixed_fleet_is_bound_by_its_smallest_stage() -> None:
    rates = np.array([0.0, 0.5, 0.9, 1.0])
    got = fixed_fleet_rate(
        one_class(),
        rates,
        prefill_time_s=lambda new, cached: new * 1e-4,
        prefill_busy_instances=10.0,
        decode_rate_rps=8.0,
        line_tokens_per_s=LENGTH * 2,
    )
    # prefill 10/6.55 = 1.53, 3.05, 15.3; line 2, 4, 20; decode 8
    assert got == pytest.approx([10 / 6.5536, 10 / 3.2768, 8.0, 8.0])


def test_a_grid_that_does_not_rise_from_zero_is_refused() -> None:
    with pytest.raises(DomainError):
        bathtub_curve(one_class(), np.array([0.5, 0.6]), serving=ATTENTION, price=prices(0.1), finance=Finance())
