"""Instances: memory, batches, chunks, speculation, tables, and which layouts are offered."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.chip import Chip, Fabric
from pddplan.domain.llm import DenseFeedForward, GroupedAttention, LayerGroup, Llm, MoeFeedForward
from pddplan.domain.plan import Shape
from pddplan.domain.provenance import Basis
from pddplan.errors import DomainError, InputError
from pddplan.performance.decode import speculation_gain
from pddplan.performance.efficiency import Efficiency, overlay
from pddplan.performance.instance import FormulaInstance, MeasuredTable, instance_performance, interpolate
from pddplan.performance.memory import (
    activation_bytes,
    kv_capacity_tokens,
    memory_budget,
    sequences_in_memory,
    stored_weights,
    weights_per_chip_bytes,
)
from pddplan.performance.parameters import FORMATS, mtp_parameters, uniform_formats, weight_bytes, weight_formats
from pddplan.performance.prefill import exposed_transfer_s, prefill_passes
from pddplan.performance.shape import candidate_shapes
from pddplan.profiles.llm_profile import load_llm
from pddplan.units import GIB, GIGA
from tests.fakes import LinearInstance

CHIP = Chip(
    id="test-80", name="80 GB", vendor="test", year=None, peak_flop_per_s={"bf16": 1e15, "fp8": 2e15},
    memory_bytes=80e9, memory_bandwidth_bytes_per_s=3e12, scaleup_bytes_per_s=450e9, scaleup_domain_chips=8,
    fabric=Fabric.SWITCH,
)  # fmt: skip
GQA = GroupedAttention(heads=64, kv_heads=8, head_dim=128, v_head_dim=128)
SEVENTY = Llm(
    id="70b", name="70B", family="test", hidden=8192, vocab=128_256, tied_embeddings=False,
    layers=(LayerGroup(80, GQA, DenseFeedForward(28_672)),), weights=uniform_formats(FORMATS["bf16"]),
)  # fmt: skip
MIXTURE = replace(SEVENTY, id="moe", layers=(LayerGroup(60, GQA, MoeFeedForward(64, 8, 1024)),))


def build(llm: Llm = SEVENTY, shape: Shape | None = None, **changes: float) -> FormulaInstance:
    efficiency = replace(Efficiency(), **changes)  # type: ignore[arg-type]
    return instance_performance(chip=CHIP, llm=llm, shape=shape or Shape(tp=4), efficiency=efficiency)


def test_memory_adds_up_by_hand() -> None:
    e, shape, weights = Efficiency(), Shape(tp=4), weight_bytes(SEVENTY)
    budget = memory_budget(CHIP, SEVENTY, shape=shape, weights=weights, efficiency=e)
    assert budget.usable_bytes == pytest.approx(0.9 * 80 * GIB)
    assert budget.weights_bytes == pytest.approx(70.55e9 * 2 / 4, rel=0.001)
    inner = 8192 * (6 * 8192 + 3 * 28_672 / 4) * 2
    assert activation_bytes(SEVENTY, shape, chunk_tokens=8192) == pytest.approx(inner + 256 * 128_256 * 4 / 4)
    left = budget.usable_bytes - budget.weights_bytes - budget.activation_bytes - budget.reserve_bytes
    assert budget.kv_bytes == pytest.approx(left)
    per_token = 80 * 8 * 256 * 2 / 4
    kv = build().kv
    assert kv_capacity_tokens(budget, kv, shape=shape) == pytest.approx(left / per_token)
    assert sequences_in_memory(budget, kv, shape=shape, tokens=10_000) == math.floor(left / (per_token * 10_000))


def test_attention_ranks_copy_all_but_experts() -> None:
    weights = weight_bytes(MIXTURE)
    outside = weights.resident - weights.experts
    assert weights_per_chip_bytes(weights, Shape(tp=1, dp=8, ep=8)) == pytest.approx(outside + weights.experts / 8)
    assert weights_per_chip_bytes(weights, Shape(tp=8)) == pytest.approx(weights.resident / 8)


def test_copies_of_busy_experts_take_memory_where_ranks_hold_experts() -> None:
    weights = weight_bytes(MIXTURE)
    wide, split = Shape(tp=1, dp=8, ep=8), Shape(tp=8)
    extra = weights_per_chip_bytes(weights, wide, redundant_experts=0.125) - weights_per_chip_bytes(weights, wide)
    assert extra == pytest.approx(weights.experts / 64)
    assert weights_per_chip_bytes(weights, split, redundant_experts=0.125) == weights_per_chip_bytes(weights, split)
    assert build(MIXTURE, wide, redundant_experts=0.125).budget.kv_bytes < build(MIXTURE, wide).budget.kv_bytes


@pytest.mark.parametrize("llm_id", ["deepseek-v3", "deepseek-v4-pro"])
def test_drafting_loads_the_mtp_blocks(llm_id: str) -> None:
    llm = load_llm(llm_id)
    plain, drafting = (stored_weights(llm, "fp8", drafts=drafts).resident for drafts in (False, True))
    assert plain == weight_bytes(llm, "fp8").resident
    values = mtp_parameters(llm)
    least = weight_formats(llm, "fp8").experts.bytes_per_value
    assert least * values * 0.99 <= drafting - plain <= 2 * values
    assert stored_weights(SEVENTY, drafts=True) == weight_bytes(SEVENTY)


def test_weights_of_v4_pro_by_attention_ranks_as_an_engine_reports_them() -> None:
    """SemiAnalysisAI/InferenceX#2128: 125.65 GiB a chip on 8 x H200, in the layout its recipe names (DP8 with EP8)."""
    weights = stored_weights(load_llm("deepseek-v4-pro"), drafts=True)
    assert weights_per_chip_bytes(weights, Shape(dp=8, ep=8)) / GIB == pytest.approx(125.65, rel=0.025)


def test_what_does_not_fit_is_refused_with_numbers() -> None:
    with pytest.raises(InputError, match=r"does not fit on test-80 TP1: weights 141\.\d GB"):
        build(shape=Shape())


def test_batch_is_capped_by_memory_then_by_the_stack() -> None:
    assert build().max_batch(context_tokens=32_000) == (
        sequences_in_memory(build().budget, build().kv, shape=Shape(tp=4), tokens=32_000),
        "memory",
    )
    assert build(max_sequences=16.0).max_batch(context_tokens=100) == (16, "stack")


@given(tokens=st.floats(1, 1e6), more=st.floats(1, 10))
def test_longer_sequences_never_raise_the_batch(tokens: float, more: float) -> None:
    instance = build()
    assert instance.max_batch(context_tokens=tokens * more)[0] <= instance.max_batch(context_tokens=tokens)[0]


def test_chunks_and_tail_add_up() -> None:
    instance = build(chunk_tokens=1000.0)

    def one(new: float, cached: float) -> float:
        return float(instance.prefill_time_s(new_tokens=np.array(new), cached_tokens=np.array(cached)))

    assert one(2500, 700) == pytest.approx(one(1000, 700) + one(1000, 1700) + one(500, 2700))


def test_packing_the_tail_costs_its_share_of_a_full_chunk() -> None:
    def time(packing: float, tokens: float) -> float:
        instance = build(chunk_tokens=1000.0, tail_packing=packing)
        return float(instance.prefill_time_s(new_tokens=np.array(tokens), cached_tokens=np.array(0.0)))

    assert time(1.0, 100) == pytest.approx(0.1 * time(0.0, 1000))
    assert time(0.5, 100) == pytest.approx(0.5 * time(0.0, 100) + 0.5 * time(1.0, 100))
    assert time(1.0, 1000) == pytest.approx(time(0.0, 1000))


def test_too_many_chunks_are_refused() -> None:
    with pytest.raises(DomainError, match="chunks"):
        build(chunk_tokens=1.0).prefill_time_s(new_tokens=np.array(1e5), cached_tokens=np.array(0.0))


@given(new=st.floats(1, 2e5), cached=st.floats(0, 2e5), hit=st.floats(0, 1))
def test_more_cache_hits_never_cost_time(new: float, cached: float, hit: float) -> None:
    instance = build()
    moved = hit * (new - 1)
    cold = instance.prefill_time_s(new_tokens=np.array(new), cached_tokens=np.array(cached))
    warm = instance.prefill_time_s(new_tokens=np.array(new - moved), cached_tokens=np.array(cached + moved))
    # where chunks begin moves with the hit, so that a tail may come out a little dearer
    assert float(warm) <= float(cold) * 1.05 + 0.02


def test_parts_of_prefill_sum_to_its_time() -> None:
    instance = build()
    passes = prefill_passes(
        instance.model,
        new_tokens=np.array([100.0, 20_000.0]),
        cached_tokens=np.zeros(2),
        efficiency=instance.efficiency,
    )
    assert sum(passes.main_terms().values()) == pytest.approx(passes.total)


def test_layerwise_streaming_hides_all_but_the_last_layer() -> None:
    hidden = exposed_transfer_s(prefill_s=np.array(10.0), transfer_s=np.array(2.0), layers=80, overlap="layerwise")
    assert float(hidden) == pytest.approx(2.0 / 80)
    long = exposed_transfer_s(prefill_s=np.array(1.0), transfer_s=np.array(5.0), layers=80, overlap="layerwise")
    assert float(long) == pytest.approx(5.0 - 79 / 80)
    assert float(exposed_transfer_s(prefill_s=1.0, transfer_s=5.0, layers=80, overlap="none")) == 5.0
    with pytest.raises(DomainError, match="overlap"):
        exposed_transfer_s(prefill_s=1.0, transfer_s=1.0, layers=1, overlap="magic")


def test_attention_ranks_and_stages_prefill_side_by_side() -> None:
    assert build(MIXTURE, Shape(tp=2, dp=4, ep=8)).prefill_servers == 4
    assert build(shape=Shape(tp=4, pp=2)).prefill_servers == 2


def test_a_pipeline_decodes_micro_batches() -> None:
    flat, deep = (build(shape=Shape(tp=4, pp=pp), worker_overhead_s=0.0) for pp in (1, 2))
    assert float(deep.decode_step_s(batch=np.array(128.0), context_tokens=np.array(1000.0))) == pytest.approx(
        float(flat.decode_step_s(batch=np.array(64.0), context_tokens=np.array(1000.0)))
    )


@given(batch=st.floats(1, 1000), context=st.floats(0, 1e5), more=st.floats(1, 5))
def test_steps_grow_with_batch_context_and_tokens(batch: float, context: float, more: float) -> None:
    instance = build()
    base = float(instance.decode_step_s(batch=np.array(batch), context_tokens=np.array(context)))
    assert float(instance.decode_step_s(batch=np.array(batch * more), context_tokens=np.array(context))) >= base
    assert float(instance.decode_step_s(batch=np.array(batch), context_tokens=np.array(context * more))) >= base
    extended = instance.decode_step_s(
        batch=np.array(batch), context_tokens=np.array(context), tokens_per_sequence=np.array(more)
    )
    assert float(extended) >= base


def test_speculation_gains_less_as_the_batch_grows_and_never_loses() -> None:
    llm = replace(SEVENTY, mtp_depth=3)
    instance = instance_performance(chip=CHIP, llm=llm, shape=Shape(tp=4), efficiency=Efficiency(), speculation_depth=3)
    gains = [instance.tokens_per_step(batch=b) for b in (1.0, 16.0, 64.0, 256.0, 1024.0, 4096.0)]
    assert gains[0] > 1.5
    assert all(late <= early + 1e-9 for early, late in pairwise(gains))
    assert min(gains) >= 1.0
    assert build().tokens_per_step(batch=1.0) == 1.0


def test_speculation_gain_by_hand() -> None:
    # 1 + 0.5 + 0.25 tokens for a verify of 1.2 steps and two drafts of 0.05
    assert float(speculation_gain(1.0, 1.2, depth=2, acceptance=0.5, draft_share=0.05)) == pytest.approx(1.75 / 1.3)
    assert float(speculation_gain(1.0, 9.0, depth=2, acceptance=0.5, draft_share=0.05)) == 1.0


def test_candidate_shapes_fit_and_grow() -> None:
    shapes = candidate_shapes(CHIP, SEVENTY, min_sequences=4)
    assert shapes[0] == Shape(tp=4)  # two chips hold the weights but only two sequences
    assert all(s.dp == 1 and s.ep == 1 for s in shapes)
    chips = [s.chips for s in shapes]
    assert chips == sorted(chips)
    for shape in shapes:
        assert build(shape=shape).max_batch(context_tokens=8192)[0] >= 4


def test_mixtures_may_split_attention_and_experts() -> None:
    shapes = candidate_shapes(CHIP, MIXTURE, max_chips=32)
    assert any(s.dp > 1 and s.ep == s.chips for s in shapes)
    assert any(s.dp == 1 and s.ep == s.tp > 1 for s in shapes)
    assert all(64 % s.ep == 0 and s.chips <= 32 for s in shapes)


def test_a_table_is_read_between_and_along_its_points() -> None:
    x = interpolate(np.array([0.0, 1500.0, 4000.0]), np.array([1000.0, 2000.0]), np.array([0.1, 0.3]))
    assert x == pytest.approx([0.0, 0.2, 0.7])


def test_a_measured_table_stands_in_for_prefill() -> None:
    table = MeasuredTable(
        prefill_tokens=(1000.0, 2000.0), prefill_s=(0.2, 0.3), base=LinearInstance(), table_basis=Basis.PUBLISHED
    )
    whole = table.prefill_time_s(new_tokens=np.array([1000.0]), cached_tokens=np.array([0.0]))
    warm = table.prefill_time_s(new_tokens=np.array([1000.0]), cached_tokens=np.array([1000.0]))
    assert whole == pytest.approx([0.2])
    assert warm == pytest.approx([0.1 + 0.1])  # what is left of the table plus its fixed part
    assert table.basis is Basis.ASSUMED
    assert table.decode_step_s(batch=np.array([3.0]), context_tokens=np.array([0.0])) == pytest.approx([0.0103])


def test_a_table_with_decoding_and_cap() -> None:
    table = MeasuredTable(
        prefill_tokens=(1.0, 2.0), prefill_s=(0.1, 0.2), base=LinearInstance(), decode_batch=(1.0, 11.0),
        decode_s=(0.01, 0.02), batch_cap=7,
    )  # fmt: skip
    assert table.decode_step_s(batch=np.array([6.0]), context_tokens=np.array([9.0])) == pytest.approx([0.015])
    assert table.max_batch(context_tokens=1e6) == (7, "stack")
    assert table.basis is Basis.MEASURED


@pytest.mark.parametrize("tokens", [(), (1.0,), (2.0, 1.0), (1.0, math.nan)])
def test_faulty_tables_are_refused(tokens: tuple[float, ...]) -> None:
    with pytest.raises(DomainError, match="prefill table"):
        MeasuredTable(prefill_tokens=tokens, prefill_s=tuple(0.1 for _ in tokens), base=LinearInstance())


def test_overlay_keeps_sources_and_refuses_nonsense() -> None:
    laid = overlay(Efficiency(), {"kv_mbu": 0.7}, source="bench", basis=Basis.MEASURED)
    assert (laid.kv_mbu, laid.sources["kv_mbu"], laid.weights_mbu) == (0.7, "bench", Efficiency().weights_mbu)
    for name, value in (("kv_mbuu", 0.5), ("kv_mbu", 0.0), ("kv_mbu", math.nan), ("layer_gap_s", -1.0)):
        with pytest.raises(DomainError):
            overlay(Efficiency(), {name: value}, source="x", basis=Basis.MEASURED)


def test_memory_is_binary() -> None:
    budget = memory_budget(CHIP, SEVENTY, shape=Shape(tp=4), weights=weight_bytes(SEVENTY), efficiency=Efficiency())
    assert budget.usable_bytes / 0.9 == pytest.approx(80 * GIGA * GIB / GIGA)
