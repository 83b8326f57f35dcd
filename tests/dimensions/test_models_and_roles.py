"""Cache and roofline formulas called with quantities: a mistaken factor of bytes or seconds would show as a unit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pint
import pytest

from pddplan.domain.chip import Chip
from pddplan.domain.llm import Llm
from pddplan.performance.kv import KvComponent, KvSize, kv_size
from pddplan.performance.roles import decode_step_roofline_s, linear_seconds_per_token, prefill_rate
from pddplan.profiles.chip_profile import load_chip
from pddplan.profiles.llm_profile import load_llm

UNITS: Any = pint.UnitRegistry()
BYTE, PER_SECOND = UNITS.byte, 1 / UNITS.second


def with_bytes(size: KvSize) -> KvSize:
    """The same sizes, in bytes as a unit."""
    return replace(
        size,
        components=tuple(replace(c, entry_bytes=c.entry_bytes * BYTE) for c in size.components),
        state_bytes=size.state_bytes * BYTE,
    )


@pytest.mark.parametrize("name", ["llama-3.1-8b", "deepseek-v4-pro", "kimi-linear-48b-a3b", "gemma-3-27b"])
def test_cache_sizes_are_bytes(name: str) -> None:
    plain = kv_size(load_llm(name))
    size = with_bytes(plain)
    tokens = np.array([100.0, 65_536.0])
    for got, want in (
        (size.sequence_bytes(tokens), plain.sequence_bytes(tokens)),
        (size.read_bytes(tokens), plain.read_bytes(tokens)),
        (size.rank_bytes(tokens, ranks=4), plain.rank_bytes(tokens, ranks=4)),
        (size.rank_read_bytes(tokens, ranks=4), plain.rank_read_bytes(tokens, ranks=4)),
        (
            size.increment_bytes(total_tokens=tokens, missing_tokens=50.0),
            plain.increment_bytes(total_tokens=tokens, missing_tokens=50.0),
        ),
    ):
        quantity: Any = got
        assert quantity.check("[]") or quantity.units == BYTE.units
        np.testing.assert_allclose(quantity.to(BYTE).magnitude, want)


def test_an_entry_is_a_component_of_bytes() -> None:
    component = KvComponent(entry_bytes=4.0 * BYTE, tokens_per_entry=4)
    size = KvSize("bf16", (component,), state_bytes=0.0 * BYTE)
    slope: Any = size.growing_bytes_per_token
    assert slope == 1.0 * BYTE


@pytest.fixture(scope="module")
def chip() -> Chip:
    """Peaks and bandwidth per second; FLOP and bytes are counts, so times must come out as seconds."""
    found = load_chip("h200-sxm")
    return replace(
        found,
        peak_flop_per_s={dtype: peak * PER_SECOND for dtype, peak in found.peak_flop_per_s.items()},
        memory_bandwidth_bytes_per_s=found.memory_bandwidth_bytes_per_s * PER_SECOND,
    )


@pytest.fixture(scope="module")
def llm() -> Llm:
    return load_llm("deepseek-v3")


def test_times_are_seconds_and_rates_per_second(chip: Chip, llm: Llm) -> None:
    per_token: Any = linear_seconds_per_token(chip, llm)
    assert per_token.check("[time]")
    rate: Any = prefill_rate(chip, llm, context_tokens=8192.0)[0]
    assert rate.check("1/[time]")
    memory, compute = decode_step_roofline_s(chip, llm, batch=np.array([1.0, 64.0]), context_tokens=8192.0, chips=8)
    for times in (memory, compute):
        quantity: Any = times
        assert quantity.check("[time]")
