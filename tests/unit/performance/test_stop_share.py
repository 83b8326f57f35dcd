"""What of a prefill stops decoding on a shared instance: the calibrated numbers of closed loops, used in plans too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pddplan.domain.plan import Shape
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.instance import FormulaInstance, MeasuredTable, instance_performance
from pddplan.profiles.chip_profile import load_chip
from pddplan.profiles.llm_profile import load_llm

NEW = np.array([0.0, 100.0, 1_000.0, 20_000.0])
CACHED = np.array([0.0, 8_000.0, 8_000.0, 0.0])


def instance(efficiency: Efficiency) -> FormulaInstance:
    return instance_performance(
        chip=load_chip("h100-sxm"), llm=load_llm("llama-3.1-70b"), shape=Shape(tp=8), efficiency=efficiency
    )


def test_a_pass_of_its_own_stops_decoding_as_long_as_it_takes() -> None:
    got = instance(Efficiency(prefill_interference=1.0, prefill_mixing=0.0))
    whole = got.prefill_time_s(new_tokens=NEW, cached_tokens=CACHED)
    assert got.prefill_stop_s(new_tokens=NEW, cached_tokens=CACHED) == pytest.approx(whole)


def test_mixing_saves_the_fixed_part_which_is_most_of_a_short_prefill() -> None:
    base = Efficiency(prefill_interference=0.9, prefill_mixing=0.9)
    got = instance(base)
    share = (
        got.prefill_stop_s(new_tokens=NEW, cached_tokens=CACHED)[1:]
        / got.prefill_time_s(new_tokens=NEW, cached_tokens=CACHED)[1:]
    )
    assert share[0] < share[1] < share[2] < 0.9
    assert share[0] < 0.6
    more = instance(replace(base, prefill_mixing=0.95)).prefill_stop_s(new_tokens=NEW, cached_tokens=CACHED)
    assert (more <= got.prefill_stop_s(new_tokens=NEW, cached_tokens=CACHED)).all()


def test_nothing_prefilled_stops_nothing_and_never_more_than_the_prefill() -> None:
    got = instance(Efficiency(prefill_interference=2.0, prefill_mixing=0.0))
    stop = got.prefill_stop_s(new_tokens=NEW, cached_tokens=CACHED)
    assert stop[0] == 0.0
    assert (stop <= got.prefill_time_s(new_tokens=NEW, cached_tokens=CACHED) * (1 + 1e-12)).all()


def test_a_measured_table_keeps_its_time_and_takes_the_share_of_the_formula() -> None:
    base = instance(Efficiency(prefill_interference=0.9, prefill_mixing=0.9))
    table = MeasuredTable((1_000.0, 32_000.0), (0.1, 3.2), base)
    share = (
        base.prefill_stop_s(new_tokens=NEW, cached_tokens=CACHED)[3]
        / base.prefill_time_s(new_tokens=NEW, cached_tokens=CACHED)[3]
    )
    assert table.prefill_stop_s(new_tokens=NEW, cached_tokens=CACHED)[3] == pytest.approx(2.0 * share)
