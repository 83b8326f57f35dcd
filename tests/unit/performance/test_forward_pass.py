"""Each term of a pass by hand, and what must hold for any pass."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.chip import Chip, Fabric
from pddplan.domain.llm import DenseFeedForward, GroupedAttention, LayerGroup, Llm, MoeFeedForward
from pddplan.domain.plan import Shape
from pddplan.errors import InputError
from pddplan.performance.communication import (
    allreduce_time_s,
    direct_copies,
    exchange_time_s,
    group_of,
    link_bytes_per_s,
)
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.forward_pass import experts_imbalance, fullest_copies, pass_time, soft_max
from pddplan.performance.load import chip_key, expert_coverage, pass_model, stack_loads
from pddplan.performance.parameters import FORMATS, parameters, uniform_formats
from pddplan.profiles.chip_profile import load_chip
from pddplan.profiles.llm_profile import load_llm

CHIP = Chip(
    id="round", name="round numbers", vendor="test", year=None,
    peak_flop_per_s={"bf16": 1e15, "fp8": 2e15}, memory_bytes=100e9, memory_bandwidth_bytes_per_s=1e12,
    scaleup_bytes_per_s=100e9, scaleup_domain_chips=8, fabric=Fabric.SWITCH, nic_bytes_per_s=50e9,
)  # fmt: skip
GQA = GroupedAttention(heads=32, kv_heads=8, head_dim=128, v_head_dim=128)
DENSE = Llm(
    id="dense", name="dense", family="test", hidden=4096, vocab=32_000, tied_embeddings=False,
    layers=(LayerGroup(10, GQA, DenseFeedForward(16_384)),), weights=uniform_formats(FORMATS["bf16"]),
)  # fmt: skip
MOE = replace(DENSE, id="moe", layers=(LayerGroup(10, GQA, MoeFeedForward(experts=64, top_k=4, expert_width=2048)),))
IDEAL = Efficiency(
    gemm_mfu_bf16=1, gemm_mfu_fp8=1, gemm_mfu_fp4=1, gemm_padding_tokens=0, weights_mbu=1, roofline_sharpness=200,
    attention_mfu=1, latent_decode_mfu=1, kv_mbu=1, elementwise_mbu=1, experts_mfu=1, experts_padding_tokens=0,
    experts_mbu=1, experts_visits=0, experts_load_cv=0, gemm_overhead_s=0, attention_overhead_s=0,
    attention_prefill_overhead_s=0, experts_overhead_s=0, elementwise_overhead_s=0, layer_gap_s=0, prefill_gap_s=0,
    step_overhead_s=0, sequence_overhead_s=0, prefill_overhead_s=0, worker_overhead_s=0,
    allreduce_latency_s=0, allreduce_ring_latency_s=0,
    allreduce_efficiency=1, alltoall_latency_s=0, alltoall_efficiency=1, nic_latency_s=0, nic_efficiency=1,
)  # fmt: skip


def load(llm: Llm = DENSE, shape: Shape | None = None, **run: object):  # type: ignore[no-untyped-def]
    model = pass_model(llm, chip_key(CHIP), shape or Shape(), None, None)
    given_run = {"sequences": 1.0, "new_tokens": 1.0, "cached_tokens": 1000.0, "decode": True, **run}
    return model.load(**given_run)  # type: ignore[arg-type]


def test_decode_of_one_sequence_reads_all_weights_and_its_cache_once() -> None:
    time = pass_time(load(), IDEAL)
    count = parameters(DENSE)
    weights = 2 * (count.attention + count.dense) + 2 * (count.norms + count.router)
    assert float(time.gemm) == pytest.approx(weights / 1e12 + 2 * 32_000 * 4096 / 1e12, rel=1e-6)
    # 10 layers x 8 KV heads x (128 + 128) values x 2 bytes x 1000 tokens
    assert float(time.attention) == pytest.approx(10 * 8 * 256 * 2 * 1000 / 1e12, rel=1e-6)
    assert float(time.communication) == 0.0
    assert float(time.experts) == 0.0


def test_prefill_is_bound_by_compute() -> None:
    time = pass_time(load(new_tokens=8192.0, cached_tokens=0.0, decode=False), IDEAL)
    count = parameters(DENSE)
    assert float(time.gemm) == pytest.approx(2 * (count.attention + count.dense) * 8192 / 1e15, rel=0.02)
    pairs = 8192 * 8193 / 2
    # attention also moves its rows: 2 visits of (2 x 32 + 2 x 8) heads of 128 values
    rows = 8192 * 2 * 128 * (2 * 32 + 2 * 8) * 10 * 2 / 1e12
    assert float(time.attention) == pytest.approx(4 * 32 * 128 * pairs * 10 / 1e15 + rows, rel=1e-6)


def test_padding_tells_small_prefills_from_large() -> None:
    padded = replace(IDEAL, gemm_padding_tokens=64.0)
    run = load(new_tokens=4096.0, cached_tokens=0.0, decode=False)
    plain, slower = pass_time(run, IDEAL).gemm, pass_time(run, padded).gemm
    assert float(slower / plain) == pytest.approx(1 + 64 / 4096, rel=1e-2)


def test_tensor_parallel_halves_products_and_pays_two_all_reduces_a_layer() -> None:
    one, two = (pass_time(load(shape=Shape(tp=n), sequences=64.0), IDEAL) for n in (1, 2))
    assert float(two.gemm) == pytest.approx(float(one.gemm) / 2, rel=1e-3)
    message = 64 * 4096 * 2
    assert float(two.communication) == pytest.approx(20 * message / 100e9)


def test_more_tensor_ranks_than_kv_heads_copy_the_cache() -> None:
    eight, sixteen = (pass_time(load(shape=Shape(tp=n)), IDEAL).attention for n in (8, 16))
    assert float(eight) == pytest.approx(float(sixteen))


def test_coverage_is_the_expectation_of_distinct_experts() -> None:
    assert float(expert_coverage(0, experts=64, top_k=4)) == 0.0
    assert float(expert_coverage(1, experts=64, top_k=4)) == pytest.approx(4 / 64)
    assert float(expert_coverage(16, experts=64, top_k=4)) == pytest.approx(1 - (1 - 4 / 64) ** 16)


def test_experts_of_a_small_batch_are_read_in_part() -> None:
    whole = 2 * parameters(MOE).experts / 1e12
    assert float(pass_time(load(MOE), IDEAL).experts) == pytest.approx(whole * 4 / 64, rel=1e-3)
    assert float(pass_time(load(MOE, sequences=512.0), IDEAL).experts) == pytest.approx(whole, rel=1e-3)


def test_all_to_all_only_where_attention_is_data_parallel() -> None:
    inside_tp = pass_time(load(MOE, Shape(tp=8, ep=8), sequences=64.0), IDEAL)
    data_parallel = load(MOE, Shape(dp=8, ep=8), sequences=64.0)
    assert float(load(MOE, Shape(tp=8, ep=8)).exchange_count) == 0.0
    assert float(data_parallel.exchange_count) == 10.0
    assert float(data_parallel.reduce_count) == 0.0
    # 8 tokens a rank, each to 8 (1 - (7/8)^4) ranks on average, 7/8 of them elsewhere; out and back in bf16
    sent = 8 * 8 * (1 - (7 / 8) ** 4) * 4096 * 2
    assert float(pass_time(data_parallel, IDEAL).communication) == pytest.approx(10 * 2 * sent * 7 / 8 / 100e9)
    assert float(inside_tp.communication) > 0


def test_experts_over_nodes_pay_the_nic() -> None:
    inside = pass_time(load(MOE, Shape(dp=8, ep=8), sequences=64.0), IDEAL).communication
    over = pass_time(load(MOE, Shape(dp=16, ep=16), sequences=128.0), IDEAL).communication
    assert float(over) > 1.2 * float(inside)  # half of it crosses at half the rate


def test_imbalance_grows_with_ranks_and_is_bounded_by_all_tokens_on_one() -> None:
    skewed = replace(IDEAL, experts_load_cv=2.0)
    few, many = (float(experts_imbalance(load(MOE, Shape(tp=n, ep=n)), skewed)) for n in (2, 8))
    assert 1.0 < few < many
    hopeless = replace(IDEAL, experts_load_cv=100.0)
    assert float(experts_imbalance(load(MOE, Shape(tp=8, ep=8)), hopeless)) == pytest.approx(8.0)
    assert float(experts_imbalance(load(MOE, Shape(tp=8)), hopeless)) == 1.0


def test_missing_dtype_falls_back_to_a_wider_one() -> None:
    fp8 = pass_model(DENSE, chip_key(CHIP), Shape(), "fp8", None)
    fp4 = pass_model(DENSE, chip_key(CHIP), Shape(), "fp4", None)
    assert fp8.gemm_seconds_per_token[1] > 0
    assert fp4.gemm_seconds_per_token[0] > 0  # widened to bf16: its rate, fewer bytes
    assert fp4.gemm_seconds_per_token[1] == fp4.gemm_seconds_per_token[2] == 0.0
    assert fp4.gemm_bytes < fp8.gemm_bytes


def test_weight_only_quantisation_computes_in_bf16() -> None:
    int4 = pass_model(DENSE, chip_key(CHIP), Shape(), "int4", None)
    assert int4.gemm_seconds_per_token[0] > 0
    assert int4.gemm_seconds_per_token[1] == int4.gemm_seconds_per_token[2] == 0.0


def test_a_chip_without_bf16_is_refused() -> None:
    odd = replace(CHIP, id="odd", peak_flop_per_s={"fp8": 1e15})
    with pytest.raises(InputError, match="no bf16 peak"):
        pass_model(DENSE, chip_key(odd), Shape(), None, None)


def test_experts_must_divide() -> None:
    with pytest.raises(InputError, match="do not divide"):
        pass_model(MOE, chip_key(CHIP), Shape(tp=8, ep=3), None, None)


def test_mesh_and_pcie_links() -> None:
    mesh = replace(CHIP, fabric=Fabric.MESH)
    assert link_bytes_per_s(mesh, 8) == pytest.approx(100e9)
    assert link_bytes_per_s(mesh, 2) == pytest.approx(100e9 / 7)
    pcie = replace(CHIP, fabric=Fabric.PCIE, scaleup_bytes_per_s=0.0)
    assert link_bytes_per_s(pcie, 2) == pytest.approx(50e9)
    assert link_bytes_per_s(pcie, 8) == pytest.approx(50e9 / 4)


def test_all_reduce_takes_the_better_algorithm() -> None:
    e = replace(IDEAL, allreduce_latency_s=4e-6, allreduce_ring_latency_s=20e-6)
    group = group_of(CHIP, 8)
    small, large = allreduce_time_s(np.array([8e3, 8e8]), group, efficiency=e)
    assert small == pytest.approx(4e-6 + 7 * 8e3 / 100e9)
    assert large == pytest.approx(20e-6 + 2 * 7 / 8 * 8e8 / 100e9)
    assert float(allreduce_time_s(np.array(1e6), group_of(CHIP, 1), efficiency=e)) == 0.0
    alone = exchange_time_s(np.array(1e6), group_of(CHIP, 1), inside=0.0, outside=0.0, efficiency=e)
    assert float(alone) == 0.0


def test_all_reduce_over_two_nodes_adds_the_nic() -> None:
    over = float(allreduce_time_s(np.array(8e8), group_of(CHIP, 16), efficiency=IDEAL))
    inside = 2 * 7 / 8 * 8e8 / 100e9
    assert over == pytest.approx(inside + 2 * 1 / 2 * 1e8 / 50e9)


@pytest.mark.parametrize(("nodes", "domain", "top_k"), [(1, 4, 2), (2, 2, 2), (2, 3, 3), (3, 2, 2)])
def test_copies_of_a_token_agree_with_counting_all_choices_of_ranks(nodes: int, domain: int, top_k: int) -> None:
    ranks = nodes * domain
    near, spread, far_ranks, far_nodes = [], [], [], []
    for chosen in itertools.product(range(ranks), repeat=top_k):  # the sender is rank 0 of node 0
        near.append(len({r for r in chosen if 0 < r < domain}))
        # copies for another place than the sender's, in any node, are passed on inside: by the sender or for it
        spread.append(len({r for r in chosen if r % domain}))
        far_ranks.append(sum(r >= domain for r in chosen))
        far_nodes.append(len({r // domain for r in chosen} - {0}))
    inside, outside = direct_copies(ranks, domain, top_k=top_k, decode=False)
    assert (inside, outside) == pytest.approx((np.mean(spread), np.mean(far_nodes)))
    decoding = direct_copies(ranks, domain, top_k=top_k, decode=True)
    assert decoding == pytest.approx((np.mean(near), np.mean(far_ranks)))


def test_engines_that_gather_send_every_token_to_every_chip() -> None:
    def seconds(gather: float, ranks: int) -> float:
        e = replace(IDEAL, exchange_gather=gather)
        inside, outside = direct_copies(ranks, 8, top_k=8, decode=False)
        return float(
            exchange_time_s(np.array(1e8), group_of(CHIP, ranks), inside=inside, outside=outside, efficiency=e)
        )

    assert seconds(1.0, 8) == pytest.approx(7 * 1e8 / 100e9)
    assert seconds(1.0, 32) == pytest.approx(24 * 1e8 / 50e9)  # NICs bind
    assert seconds(0.0, 32) < seconds(0.5, 32) < seconds(1.0, 32)


@given(cv=st.floats(0, 10), ranks=st.sampled_from([8, 16, 32, 64]), decode=st.booleans())
def test_the_fullest_rank_holds_up_an_exchange_but_gets_no_token_twice(cv: float, ranks: int, decode: bool) -> None:
    run = pass_model(MOE, chip_key(CHIP), Shape(dp=ranks, ep=ranks), None, None).load(
        sequences=64.0 * ranks, new_tokens=1.0, cached_tokens=0.0, decode=decode
    )
    e = replace(IDEAL, experts_load_cv=cv)
    inside, outside = (float(copies) for copies in fullest_copies(run, e))
    fullest, nodes = float(experts_imbalance(run, e)), ranks // 8
    assert float(run.copies_inside) <= inside * (1 + 1e-12)
    assert inside <= min(fullest * float(run.copies_inside), 7.0 * (1 if decode else nodes)) * (1 + 1e-12)
    if decode:
        assert outside == pytest.approx(fullest * float(run.copies_outside))
    else:
        assert float(run.copies_outside) <= outside * (1 + 1e-12)
        assert outside <= nodes - 1.0  # a token goes once to each node


@pytest.mark.parametrize(("shape", "doublings"), [(Shape(), 0), (Shape(tp=4), 2), (Shape(tp=4, pp=2), 3)])
def test_a_scheduler_reaches_its_workers_by_doublings(shape: Shape, doublings: int) -> None:
    plain, sending = (
        pass_time(load(shape=shape), replace(IDEAL, worker_overhead_s=seconds)).total for seconds in (0.0, 1e-3)
    )
    assert float(sending - plain) == pytest.approx(1e-3 * doublings)


@given(overlap=st.floats(0, 1), tokens=st.floats(1, 8192), decode=st.booleans())
def test_overlap_hides_no_more_of_an_exchange_than_there_is(overlap: float, tokens: float, decode: bool) -> None:
    model = pass_model(MOE, chip_key(CHIP), Shape(dp=16, ep=16), None, None)
    run = model.load(sequences=16.0, new_tokens=1.0 if decode else tokens, cached_tokens=0.0, decode=decode)
    plain, hidden = (pass_time(run, replace(Efficiency(), exchange_overlap=x)) for x in (0.0, overlap))
    saved, rest = float(plain.total - hidden.total), float(plain.device - plain.communication)
    assert -1e-15 <= saved <= overlap * min(float(plain.communication), rest) * (1 + 1e-9)


def test_two_half_batches_pay_in_large_decoding_batches_only() -> None:
    model = pass_model(MOE, chip_key(CHIP), Shape(dp=16, ep=16), None, None)

    def gain(sequences: float) -> float:
        run = model.load(sequences=sequences, new_tokens=1.0, cached_tokens=2000.0, decode=True)
        plain, split = (pass_time(run, replace(Efficiency(), exchange_overlap=x)).total for x in (0.0, 0.9))
        return float(plain / split)

    assert gain(16.0) == 1.0
    assert gain(16384.0) > 1.05


@given(a=st.floats(0, 1e3), b=st.floats(0, 1e3), p=st.floats(1, 50))
def test_soft_max_lies_between_maximum_and_sum(a: float, b: float, p: float) -> None:
    value = float(soft_max(np.array(a), np.array(b), sharpness=p))
    assert max(a, b) * (1 - 1e-12) <= value <= (a + b) * (1 + 1e-12) + 1e-300


RUNS = st.fixed_dictionaries(
    {
        "sequences": st.floats(1, 512),
        "new_tokens": st.floats(1, 8192),
        "cached_tokens": st.floats(0, 1e5),
        "decode": st.booleans(),
    }
)
SHAPES = st.sampled_from(
    [Shape(), Shape(tp=2), Shape(tp=8), Shape(tp=8, ep=8), Shape(dp=8, ep=8), Shape(tp=2, dp=8, ep=16)]
)


@given(run=RUNS, shape=SHAPES, which=st.sampled_from(["dense", "moe"]), better=st.floats(1.0, 10.0))
def test_a_better_chip_is_never_slower(run: dict[str, object], shape: Shape, which: str, better: float) -> None:
    llm = MOE if which == "moe" else DENSE
    layout = shape if which == "moe" else Shape(tp=shape.tp)
    plain = pass_time(pass_model(llm, chip_key(CHIP), layout, None, None).load(**run), Efficiency()).total  # type: ignore[arg-type]
    for change in (
        {"memory_bandwidth_bytes_per_s": 1e12 * better},
        {"peak_flop_per_s": {"bf16": 1e15 * better, "fp8": 2e15 * better}},
        {"scaleup_bytes_per_s": 100e9 * better},
        {"nic_bytes_per_s": 50e9 * better},
    ):
        faster = replace(CHIP, id=f"faster-{next(iter(change))}-{better}", **change)  # type: ignore[arg-type]
        time = pass_time(pass_model(llm, chip_key(faster), layout, None, None).load(**run), Efficiency()).total
        assert float(time) <= float(plain) * (1 + 1e-9)


@given(run=RUNS, more=st.floats(1.0, 4.0))
def test_more_tokens_are_never_faster_and_no_term_exceeds_the_total(run: dict[str, object], more: float) -> None:
    model = pass_model(MOE, chip_key(CHIP), Shape(tp=8, ep=8), None, None)
    base = pass_time(model.load(**run), Efficiency())  # type: ignore[arg-type]
    for name in ("sequences", "new_tokens", "cached_tokens"):
        bigger = {**run, name: float(run[name]) * more}  # type: ignore[arg-type]
        assert float(pass_time(model.load(**bigger), Efficiency()).total) >= float(base.total) * (1 - 1e-9)  # type: ignore[arg-type]
    assert all(float(part) <= float(base.total) for part in base.main_terms().values())
    assert float(base.device) <= float(base.total)


def test_stacked_passes_equal_single_ones() -> None:
    loads = [load(), load(MOE, Shape(dp=8, ep=8), sequences=40.0), load(new_tokens=500.0, decode=False)]
    together = pass_time(stack_loads(loads), Efficiency()).total
    assert together == pytest.approx([float(pass_time(one, Efficiency()).total) for one in loads])


def test_normalised_queries_and_quantised_activations_cost_kernels_that_only_engines_launch() -> None:
    qwen, llama = load_llm("qwen3-32b"), load_llm("llama-3.1-70b")
    latent = load_llm("deepseek-v3")
    b200 = load_chip("b200-sxm")

    def counts(llm: Llm, weights: str) -> tuple[int, int]:
        model = pass_model(llm, chip_key(b200), Shape(tp=8), weights, "bf16")
        return model.query_norms, model.quantised_products

    assert counts(qwen, "bf16") == (qwen.layer_count, 0)
    assert counts(llama, "fp4") == (0, 4 * llama.layer_count)
    # 4-bit releases keep 16-bit MLA; experts pack their tokens as they gather them, the shared expert does not
    assert counts(latent, "fp4") == (latent.layer_count, 2 * latent.layer_count)
    assert counts(latent, "fp8") == (latent.layer_count, 4 * latent.layer_count)
    e = Efficiency()
    run = pass_model(qwen, chip_key(b200), Shape(tp=8)).load(sequences=4, new_tokens=1, cached_tokens=1000, decode=True)
    plain = pass_time(run, replace(e, query_norm_overhead_s=0.0))
    assert float(pass_time(run, e).device) == pytest.approx(float(plain.device))
    extra = float(pass_time(run, e).overhead - plain.overhead)
    assert extra == pytest.approx(qwen.layer_count * e.query_norm_overhead_s)
