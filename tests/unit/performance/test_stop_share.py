"""What of a prefill stops decoding on a shared instance: the calibrated numbers of closed loops, used in plans too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pddplan.domain.plan import Shape
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.forward_pass import pass_time
from pddplan.performance.instance import FormulaInstance, MeasuredTable, instance_performance
from pddplan.performance.serving import RunLoad, interrupting_time_s, prefill_run
from pddplan.profiles.chip_profile import load_chip
from pddplan.profiles.efficiency_profile import load_efficiency
from pddplan.profiles.llm_profile import load_llm

NEW = np.array([0.0, 100.0, 1_000.0, 20_000.0])
CACHED = np.array([0.0, 8_000.0, 8_000.0, 0.0])


TENSOR, RANKS = Shape(tp=8), Shape(tp=1, dp=8, ep=8)


def instance(
    efficiency: Efficiency, llm: str = "llama-3.1-70b", shape: Shape = TENSOR, chip: str = "h100-sxm"
) -> FormulaInstance:
    return instance_performance(chip=load_chip(chip), llm=load_llm(llm), shape=shape, efficiency=efficiency)


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


def test_attention_ranks_share_one_stop() -> None:
    """As the closed loops say that the numbers were fitted to: one formula for calibration and plans."""
    chip = load_chip("h200-sxm")
    efficiency = load_efficiency("trtllm-2025", chip)
    got = instance(efficiency, "deepseek-v3", RANKS, "h200-sxm")
    load, passes = prefill_run(got.model, requests=8.0, new_tokens=8_192, cached_tokens=0.0, chunk_tokens=8_192)
    one = [np.array(1.0)] * 4
    run = RunLoad(
        np.array(0.0), load, np.array(passes / 8), load, *one, in_step=np.array(0.0), pass_prompts=np.array(1.0)
    )
    closed_loop = efficiency.prefill_interference * interrupting_time_s(run, pass_time(load, efficiency), efficiency)
    stop = got.prefill_stop_s(new_tokens=np.array([8_192.0]), cached_tokens=np.array([0.0]))
    assert stop == pytest.approx(closed_loop)
    whole = got.prefill_time_s(new_tokens=np.array([8_192.0]), cached_tokens=np.array([0.0]))
    assert stop * RANKS.dp <= whole


def test_tokens_of_measured_loops_with_attention_ranks() -> None:
    """InferenceX, DeepSeek-R1 fp8 on 8 H200, TRT-LLM, 64 in flight, 8,192 in, 1,024 out: 49.1 ms per token."""
    chip = load_chip("h200-sxm")
    efficiency = load_efficiency("trtllm-2025", chip)
    got = instance(efficiency, "deepseek-v3", RANKS, "h200-sxm")
    step = float(got.decode_step_s(batch=np.array([64.0]), context_tokens=np.array([8_704.0]))[0])
    stop = float(got.prefill_stop_s(new_tokens=np.array([8_192.0]), cached_tokens=np.array([0.0]))[0])
    assert step + 63 * stop / 1_024 == pytest.approx(0.0491, rel=0.25)


def test_a_table_of_a_whole_instance_is_not_shared_again() -> None:
    base = instance(Efficiency(prefill_interference=0.9, prefill_mixing=0.9), "deepseek-v3", RANKS, "h200-sxm")
    table = MeasuredTable((1_000.0, 32_000.0), (0.1, 3.2), base)
    new, cached = np.array([4_000.0]), np.array([0.0])
    share = (
        8
        * base.prefill_stop_s(new_tokens=new, cached_tokens=cached)
        / base.prefill_time_s(new_tokens=new, cached_tokens=cached)
    )
    assert table.prefill_stop_s(new_tokens=new, cached_tokens=cached) == pytest.approx(0.4 * share)
