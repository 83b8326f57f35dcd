"""The bathtub of a real plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pddplan.economics.bathtub_reading import chunk_boundaries
from pddplan.economics.hit_rate import Spread
from pddplan.profiles.token_prices import token_price_for
from pddplan.report.bcr_curve import curve_csv, curve_json, render, verdict
from pddplan.report.json_plan import dump_json
from pddplan.report.text_table import Paint, Screen
from pddplan.studies import curve as curve_module
from pddplan.studies.curve import PACKED, BathtubStudy, SizedPoint, bathtub_study, trace_copies
from tests.unit.studies.study_samples import inputs, outcome_of

PRICE, _ = token_price_for("deepseek-v4-pro")


def study(**options: object) -> BathtubStudy:
    return bathtub_study(inputs(), outcome_of(), price=PRICE, **options)  # type: ignore[arg-type]


def test_ends_and_direction() -> None:
    got = study()
    assert got.curve.relative[0] == 1.0
    assert np.all(np.diff(got.curve.prefill_s) <= 1e-9)
    assert np.all(np.diff(got.curve.revenue) <= 1e-15)
    assert np.all(np.diff(got.fleet_rate_rps) >= -1e-9)
    at_now = np.interp(got.reading.now_hit_rate, got.curve.hit_rate, got.fleet_rate_rps)
    assert at_now >= outcome_of().plan.rate_rps * 0.99


def test_dearer_cached_tokens_lift_the_curve() -> None:
    low, high = (study(cached_over_miss=k).curve.relative for k in (0.02, 0.25))
    assert np.all(high[1:] >= low[1:])
    assert study(cached_over_miss=1.0).reading.break_even_hit_rate is None


def test_notches_stand_just_below_whole_chunks() -> None:
    got = study(spread=Spread.EVEN, cached_over_miss=0.1)
    assert got.chunk_tokens is not None
    length = float(inputs().workload.classes.input_tokens[0])
    expected = chunk_boundaries(length, got.chunk_tokens)
    assert len(got.reading.notches) >= 3
    for notch in got.reading.notches:
        assert notch.predicted_hit_rate is not None
        assert np.min(np.abs(expected - notch.predicted_hit_rate)) < 1e-6
        assert -0.003 <= notch.predicted_hit_rate - notch.hit_rate <= 0.02


def test_packing_is_never_worse_than_not_packing() -> None:
    moves = {move.name: move for move in study().shallower}
    assert moves[PACKED].benefit >= moves["no tails packed"].benefit
    assert moves[PACKED].gain_fraction >= 0


def test_more_cache_needs_a_curve_and_uses_it() -> None:
    assert study().cache == ()
    assert any("cache curve" in remark for remark in study().remarks)
    curve = [(1e9, 0.5), (4e9, 0.8), (2e10, 0.95)]
    free = study(cache_curve=curve, memory_price_per_gb_month=0.0)
    dear = study(cache_curve=curve, memory_price_per_gb_month=5.0)
    assert [move.capacity_tokens for move in free.cache] == [1e9, 4e9, 2e10]
    assert free.cache[-1].benefit > dear.cache[-1].benefit
    assert free.cache[0].hit_rate < free.cache[-1].hit_rate
    own = bathtub_study(
        replace(inputs(), workload=replace(inputs().workload, cache_curve=tuple(curve))), outcome_of(), price=PRICE
    )
    assert [move.hit_rate for move in own.cache] == pytest.approx([move.hit_rate for move in free.cache])


@pytest.mark.parametrize("width", [60, 100, 160])
def test_report_fits_and_says_where_we_stand(width: int) -> None:
    got = study(cached_over_miss=0.1)
    text = render(got, Screen(width, Paint(), ascii_only=True))
    assert max(len(line) for line in text.splitlines()) <= width
    assert text.isascii()
    assert "90 % token hits" in " ".join(text.split())
    assert verdict(got).split(".")[0] in " ".join(text.split())


def test_json_and_csv_carry_the_same_curve() -> None:
    got = study(points=21)
    data = curve_json(got)
    assert len(data["curve"]) == 21
    assert len(curve_csv(got).splitlines()) == 22
    assert dump_json(data)


def test_the_curve_runs_through_the_points_sized_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large fleets that cost half as much as the plan's utilisation says lift the curve to twice the benefit."""
    bare = study()

    def points(*_: object, **__: object) -> tuple[SizedPoint, ...]:
        return tuple(
            SizedPoint(rate, 1.0, 1.0, 2.0 * float(np.interp(rate, bare.curve.hit_rate, bare.curve.benefit)))
            for rate in (0.0, 0.5, 1.0)
            if np.isfinite(np.interp(rate, bare.curve.hit_rate, bare.curve.benefit))
        )

    monkeypatch.setattr(curve_module, "sized_points", points)
    lifted = study(sized_at=(0.0, 0.5))
    finite = np.isfinite(bare.curve.benefit)
    assert lifted.curve.benefit[finite] == pytest.approx(2 * bare.curve.benefit[finite])
    assert lifted.plan_benefit == pytest.approx(bare.plan_benefit)
    assert lifted.now_benefit == pytest.approx(2 * bare.plan_benefit)
    assert lifted.reading.valley_hit_rate == bare.reading.valley_hit_rate
    text = render(lifted, Screen(100, Paint(), ascii_only=True))
    assert "FITTED ANEW" in text
    assert "-50 % against a large fleet" in " ".join(text.split())


def test_a_trace_is_repeated_for_more_users() -> None:
    assert trace_copies(inputs()) == 1.0
    record = {"trace": {"rows": 1_000, "span_s": 500.0}}
    traced = replace(inputs(), workload=replace(inputs().workload.at_rate(10.0), provenance=record))
    assert trace_copies(traced) == pytest.approx(5.0)
    curve = ((1e9, 0.5), (4e9, 0.95))
    got = bathtub_study(traced, outcome_of(), price=PRICE, cache_curve=curve)
    assert [move.capacity_tokens for move in got.cache] == pytest.approx([5e9, 2e10])
    assert any("5 times" in remark for remark in got.remarks)
