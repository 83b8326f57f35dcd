"""The longest pass of an aggregated instance, whose ranks prefill side by side."""

from __future__ import annotations

import numpy as np
import pytest

from pddplan.domain.plan import Shape
from pddplan.evaluate.problem import longest_chunk_s
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.instance import FormulaInstance, MeasuredTable, instance_performance
from pddplan.profiles.chip_profile import load_chip
from pddplan.profiles.llm_profile import load_llm

NEW, CACHED = np.array([500.0, 20_000.0]), np.array([8_000.0, 1_000.0])


def instance(shape: Shape) -> FormulaInstance:
    """Every pass stops decoding as long as it takes."""
    plain = Efficiency(prefill_interference=1.0, prefill_mixing=0.0, chunk_tokens=8_192.0)
    return instance_performance(chip=load_chip("h200-sxm"), llm=load_llm("deepseek-v3"), shape=shape, efficiency=plain)


@pytest.mark.parametrize("shape", [Shape(tp=1, dp=8, ep=8), Shape(tp=8, pp=2)])
def test_in_the_longest_pass_every_rank_has_a_chunk(shape: Shape) -> None:
    """What one request's prefill adds is its part; the longest pass holds the parts of all ranks, of one stage."""
    alone, added = longest_chunk_s(instance(shape), shape, new_tokens=NEW, cached_tokens=CACHED)
    assert added == pytest.approx(alone)


def test_a_measured_table_is_the_whole_instance() -> None:
    shape = Shape(tp=1, dp=8, ep=8)
    table = MeasuredTable((1_000.0, 32_000.0), (0.1, 3.2), instance(shape))
    alone, added = longest_chunk_s(table, shape, new_tokens=NEW, cached_tokens=CACHED)
    assert added == pytest.approx(alone)
