"""Roofline rates by hand, and what must hold when chips get better or dearer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.chip import Chip, Fabric, Price
from pddplan.domain.llm import Llm
from pddplan.errors import DomainError, InputError
from pddplan.performance.kv import kv_size
from pddplan.performance.parameters import weight_bytes
from pddplan.performance.roles import (
    USABLE_FRACTION,
    WEIGHTS_FRACTION,
    advice,
    decode_step_roofline_s,
    linear_seconds_per_token,
    prefill_rate,
    role_rates,
)
from pddplan.performance.work import attention_flops, linear_flops_per_token
from pddplan.profiles.llm_profile import load_llm

CHIP = Chip(
    id="c",
    name="C",
    vendor="V",
    year=2024,
    peak_flop_per_s={"bf16": 1e15, "fp8": 2e15},
    memory_bytes=80e9,
    memory_bandwidth_bytes_per_s=3e12,
    scaleup_bytes_per_s=450e9,
    scaleup_domain_chips=8,
    fabric=Fabric.SWITCH,
    price=Price(2.0, 3.0),
)


@pytest.fixture(scope="module")
def llama() -> Llm:
    return load_llm("llama-3.1-70b")


@pytest.fixture(scope="module")
def deepseek() -> Llm:
    return load_llm("deepseek-v3")


def test_prefill_by_hand(llama: Llm) -> None:
    flops = (
        linear_flops_per_token(llama).layers + float(attention_flops(llama, new_tokens=8192, cached_tokens=0)) / 8192
    )
    rate, bound = prefill_rate(CHIP, llama, context_tokens=8192)
    assert rate == pytest.approx(1e15 / flops)
    assert bound == "compute"


def test_each_part_runs_at_the_peak_of_its_dtype(deepseek: Llm) -> None:
    flops = linear_flops_per_token(deepseek)
    by_hand = (flops.attention + flops.dense + flops.shared_experts + flops.experts) / 2e15
    by_hand += (flops.router + flops.head) / 1e15
    assert linear_seconds_per_token(CHIP, deepseek) == pytest.approx(by_hand)


def test_decoding_by_hand(llama: Llm) -> None:
    memory_s, compute_s = decode_step_roofline_s(
        CHIP, llama, batch=np.array([1.0, 10.0]), context_tokens=10_000, chips=4
    )
    weights, cache = weight_bytes(llama).read_always, float(kv_size(llama).read_bytes(10_000))
    np.testing.assert_allclose(memory_s, [(weights + b * cache) / 12e12 for b in (1, 10)])
    assert (compute_s < memory_s).all()


def test_the_group_holds_weights_twice_and_the_batch_fits(llama: Llm) -> None:
    rates = role_rates(CHIP, llama, context_tokens=65_536, tpot_s=0.05)
    usable = rates.chips * 80e9 * 2**30 / 1e9 * USABLE_FRACTION
    weights = weight_bytes(llama).resident
    assert weights <= usable * WEIGHTS_FRACTION
    assert weights > usable * WEIGHTS_FRACTION / 2
    assert rates.batch * float(kv_size(llama).sequence_bytes(65_536)) <= usable - weights
    assert rates.decode_tokens_per_s == pytest.approx(rates.batch / rates.step_s / rates.chips)
    assert rates.step_s <= 0.05
    assert rates.decode_tokens_per_money == pytest.approx(rates.decode_tokens_per_s * 3600 / 2.0)


def test_a_tight_promise_limits_the_batch(deepseek: Llm) -> None:
    loose = role_rates(CHIP, deepseek, context_tokens=4096, tpot_s=0.2)
    tight = role_rates(CHIP, deepseek, context_tokens=4096, tpot_s=0.01)
    assert tight.batch < loose.batch
    assert tight.batch_limit == "TPOT"
    assert role_rates(CHIP, deepseek, context_tokens=4096, tpot_s=1e-9).decode_tokens_per_s == 0


def test_cheap_bandwidth_suits_decode_and_cheap_compute_prefill(llama: Llm) -> None:
    def said(chip: Chip) -> str:
        base = role_rates(CHIP, llama, context_tokens=65_536, tpot_s=0.05)
        rates = role_rates(chip, llama, context_tokens=65_536, tpot_s=0.05)
        return advice(chip, rates, reference=CHIP, reference_rates=base).role

    assert said(replace(CHIP, memory_bandwidth_bytes_per_s=6e12)) == "decode"
    assert said(replace(CHIP, peak_flop_per_s={"bf16": 3e15, "fp8": 6e15})) == "prefill"
    assert said(replace(CHIP, price=Price(1.0, 1.0))) == "either"


def test_without_a_price_or_in_another_currency_chips_are_compared_apiece(llama: Llm) -> None:
    base = role_rates(CHIP, llama, context_tokens=65_536, tpot_s=0.05)
    for price in (None, Price(2.0, 2.0, currency="CNY")):
        chip = replace(CHIP, price=price)
        rates = role_rates(chip, llama, context_tokens=65_536, tpot_s=0.05)
        found = advice(chip, rates, reference=CHIP, reference_rates=base)
        assert found.basis == "chip"
        assert found.prefill_ratio == found.decode_ratio == 1


def test_a_chip_without_a_peak_is_refused(llama: Llm) -> None:
    with pytest.raises(InputError, match="no bf16 peak"):
        role_rates(replace(CHIP, peak_flop_per_s={"fp4": 1e15}), llama, context_tokens=1000, tpot_s=0.05)


@pytest.mark.parametrize(("context", "tpot"), [(0.0, 0.05), (-1.0, 0.05), (1000.0, 0.0), (1000.0, float("nan"))])
def test_outside_the_range(llama: Llm, context: float, tpot: float) -> None:
    with pytest.raises(DomainError):
        role_rates(CHIP, llama, context_tokens=context, tpot_s=tpot)


@given(st.floats(1, 4), st.floats(1, 4), st.sampled_from([4096.0, 65_536.0]))
def test_a_better_chip_is_never_slower(compute: float, bandwidth: float, context: float) -> None:
    llm = load_llm("llama-3.1-8b")
    better = replace(
        CHIP,
        peak_flop_per_s={d: compute * p for d, p in CHIP.peak_flop_per_s.items()},
        memory_bandwidth_bytes_per_s=bandwidth * CHIP.memory_bandwidth_bytes_per_s,
    )
    old = role_rates(CHIP, llm, context_tokens=context, tpot_s=0.05)
    new = role_rates(better, llm, context_tokens=context, tpot_s=0.05)
    assert new.prefill_tokens_per_s >= old.prefill_tokens_per_s
    assert new.decode_tokens_per_s >= old.decode_tokens_per_s * (1 - 1e-12)
