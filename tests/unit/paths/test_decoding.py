"""Operating point of a decoding pool: Little's law, caps and slots."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.workload import Arrival
from pddplan.paths.decoding import (
    BatchCap,
    DecodePoint,
    averaged_sd,
    batch_cap,
    decode_point,
    step_curve,
)
from pddplan.paths.occupancy import Unrest
from pddplan.queueing.flows import burstiness
from pddplan.queueing.waves import slow_wave
from tests.fakes import LinearInstance

INSTANCE = LinearInstance(step_a_s=0.02, step_b_s=1e-4, batch_cap=100)
CURVE = step_curve(INSTANCE, context_tokens=1000.0, largest_batch=100)
CAP = BatchCap(100, "memory", 100, "memory")


def point(rate: float, *, instances: int = 4, tokens: float = 500.0, **more: float) -> DecodePoint:
    return decode_point(CURVE, cap=CAP, instances=instances, request_rate_rps=rate, tokens_per_request=tokens, **more)


def test_batch_is_rate_times_holding_time() -> None:
    got = point(8.0)
    assert got.batch == pytest.approx(8.0 / 4 * got.holding_s)
    assert got.holding_s == pytest.approx(500 * got.token_s)
    assert got.token_s == pytest.approx(0.02 + 1e-4 * (got.batch + 0.25))


def test_utilization_is_rate_over_what_full_batches_serve() -> None:
    assert point(8.0).utilization == pytest.approx(8.0 / (4 * 100 / (500 * 0.03)))


def test_overload_fills_the_batch_and_waits_forever() -> None:
    got = point(40.0)
    assert got.utilization > 1
    assert got.batch == 100
    assert np.isinf(got.wait.tail_mean_s)


def test_an_idle_pool_holds_nothing() -> None:
    got = point(0.0)
    assert (got.batch, got.utilization) == (0.0, 0.0)
    assert got.token_s == pytest.approx(0.0201)


def test_prefill_interrupts_decoding_by_the_published_form() -> None:
    # TPOT = step + b t_prefill / O
    got = point(4.0, prefill_s=0.3)
    assert got.token_s == pytest.approx(0.02 + 1e-4 * (got.batch + 0.25) + got.batch * 0.3 / 500)


def test_caps_by_memory_tpot_and_plan() -> None:
    assert batch_cap(INSTANCE, context_tokens=1000.0).reason == "memory"
    tpot = batch_cap(INSTANCE, CURVE, context_tokens=1000.0, tpot_limit_s=0.025)
    assert (tpot.batch, tpot.reason, tpot.memory_batch) == (50, "TPOT", 100)
    plan = batch_cap(INSTANCE, context_tokens=1000.0, tpot_limit_s=0.025, plan_batch=8)
    assert (plan.batch, plan.reason) == (8, "plan")
    assert batch_cap(INSTANCE, CURVE, context_tokens=1000.0, tpot_limit_s=0.001).batch == 0


def test_a_batch_of_none_serves_nothing() -> None:
    got = decode_point(
        CURVE, cap=BatchCap(0, "TPOT", 100, "memory"), instances=1, request_rate_rps=1.0, tokens_per_request=10.0
    )
    assert np.isinf(got.utilization)


def test_drafts_shorten_the_time_per_token() -> None:
    fast = LinearInstance(speculation_gain=0.5)
    curve = step_curve(fast, context_tokens=10.0, largest_batch=10)
    assert curve.token(1.0) == pytest.approx(curve.step(1.0) / 1.5)


@given(rate=st.floats(0.01, 25.0), instances=st.integers(1, 20), tokens=st.floats(1.0, 3000.0))
def test_the_fixed_point_holds_wherever_the_pool_keeps_up(rate: float, instances: int, tokens: float) -> None:
    got = point(rate, instances=instances, tokens=tokens)
    if got.utilization < 1:
        assert got.batch <= 100
        assert got.batch == pytest.approx(rate / instances * got.holding_s, rel=1e-6)
    else:
        assert got.batch == 100


@given(rate=st.floats(0.1, 20.0))
def test_more_load_never_decodes_faster(rate: float) -> None:
    assert point(rate * 1.2).token_s >= point(rate).token_s - 1e-12


def test_long_answers_average_what_short_ones_see() -> None:
    got = averaged_sd(1.0, np.array([0.0, 1.0, 100.0]), memory_s=1.0)
    assert got[0] == pytest.approx(1.0, rel=1e-3)
    assert got[1] == pytest.approx(np.sqrt(2 * np.exp(-1)))
    assert got[2] == pytest.approx(np.sqrt(2 * 99 / 100**2))


def test_the_time_per_token_spreads_with_the_batch() -> None:
    assert point(8.0).token_sd_s > 0
    assert point(0.0).token_sd_s == 0.0


@pytest.mark.filterwarnings("error")
def test_a_pool_that_is_asked_for_no_tokens_is_idle() -> None:
    got = point(3.0, tokens=0.0)
    assert (got.batch, got.utilization) == (pytest.approx(0.0), 0.0)
    assert float(got.wait.mean_s) == pytest.approx(0.0)


def test_on_aggregated_instances_a_fuller_batch_comes_with_more_prefills() -> None:
    plain, mixed = point(4.0), point(4.0, prefill_s=0.05)
    assert mixed.token_sd_s > 2.0 * plain.token_sd_s
    assert mixed.token_memory_s == pytest.approx(mixed.holding_s)


def test_what_waves_do_lasts_longer() -> None:
    waves = decode_point(
        CURVE,
        cap=CAP,
        instances=4,
        request_rate_rps=8.0,
        tokens_per_request=500.0,
        unrest=Unrest(lambda window_s: np.full_like(window_s, 6.0)),
    )
    assert waves.token_memory_s > 1.5 * waves.holding_s
    assert waves.token_sd_s > point(8.0).token_sd_s


def test_requests_of_a_swell_see_fuller_batches_and_queue_for_slots() -> None:
    arrival = Arrival(8.0, 1.0, dispersion={60.0: 20.0})
    wave = slow_wave(arrival)
    unrest = Unrest(lambda window_s: burstiness(arrival, window_s))
    busy = {"instances": 1, "request_rate_rps": 5.5, "tokens_per_request": 500.0}
    calm = decode_point(CURVE, cap=CAP, **busy)
    waved = decode_point(CURVE, cap=CAP, unrest=unrest, wave=wave, **busy)
    assert calm.token_crowding_s == 0.0
    assert 0.0 < waved.token_crowding_s < waved.token_sd_s
    assert waved.token_s == pytest.approx(calm.token_s)
    assert float(waved.wait.mean_s) > 10.0 * float(waved.calm_wait.mean_s)
    assert float(waved.calm_wait.mean_s) == pytest.approx(float(calm.wait.mean_s))
