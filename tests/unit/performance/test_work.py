"""FLOPs by hand and by counting pairs one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.llm import (
    CompressedAttention,
    DenseFeedForward,
    GroupedAttention,
    Indexer,
    LatentAttention,
    LayerGroup,
    Llm,
    MoeFeedForward,
    RecurrentKind,
    RecurrentMixer,
)
from pddplan.performance.parameters import FORMATS, parameters, uniform_formats
from pddplan.performance.work import (
    attention_flops,
    causal_pairs,
    chunked_pairs,
    forward_flops,
    linear_flops_per_token,
)

GQA = GroupedAttention(heads=8, kv_heads=2, head_dim=16, v_head_dim=16)
MLA = LatentAttention(heads=8, kv_lora_rank=32, rope_dim=4, nope_dim=16, v_dim=16, q_lora_rank=24)
CSA = CompressedAttention(
    heads=8, head_dim=16, rope_dim=4, q_lora_rank=24, o_lora_rank=12, o_groups=2, window=8, ratio=4,
    indexer=Indexer(4, 8, 16),
)  # fmt: skip
GDN = RecurrentMixer(RecurrentKind.GDN, heads=8, key_dim=8, value_dim=8, key_heads=4, conv_kernel=4, conv_channels=128)

counts = st.integers(0, 300)


def llm(attention: object, count: int = 1, feed_forward: object = DenseFeedForward(256)) -> Llm:
    return Llm(
        id="t",
        name="t",
        family="t",
        hidden=64,
        vocab=1000,
        tied_embeddings=False,
        layers=(LayerGroup(count, attention, feed_forward),),  # type: ignore[arg-type]
        weights=uniform_formats(FORMATS["bf16"]),
    )


@given(counts, counts, st.integers(1, 400))
def test_causal_pairs_equal_counting_them(new: int, cached: int, limit: int) -> None:
    assert causal_pairs(new, cached) == sum(cached + i for i in range(1, new + 1))
    assert causal_pairs(new, cached, limit=limit) == sum(min(cached + i, limit) for i in range(1, new + 1))


@given(counts, counts, st.integers(1, 100))
def test_chunked_pairs_equal_counting_them(new: int, cached: int, chunk: int) -> None:
    assert chunked_pairs(new, cached, chunk=chunk) == sum((cached + i) % chunk + 1 for i in range(new))


@given(counts, counts, counts)
def test_two_passes_cost_as_much_as_one(first: int, second: int, cached: int) -> None:
    for mixer in (GQA, replace(GQA, window=50), replace(GQA, chunk=32), CSA):
        whole = attention_flops(llm(mixer), new_tokens=first + second, cached_tokens=cached)
        parts = attention_flops(llm(mixer), new_tokens=first, cached_tokens=cached) + attention_flops(
            llm(mixer), new_tokens=second, cached_tokens=cached + first
        )
        assert float(whole) == pytest.approx(float(parts))


def test_grouped_attention_by_hand() -> None:
    # 3 new tokens over 10: 11 + 12 + 13 pairs; 8 heads, 16 + 16 wide, twice
    assert attention_flops(llm(GQA, 5), new_tokens=3, cached_tokens=10) == 5 * 36 * 2 * 8 * 32
    assert attention_flops(llm(replace(GQA, window=4)), new_tokens=3, cached_tokens=10) == 12 * 2 * 8 * 32


def test_latent_attention_expands_in_prefill_and_works_on_latents_in_decode() -> None:
    expansion = 2 * 32 * 8 * (16 + 16) * 10
    assert attention_flops(llm(MLA), new_tokens=3, cached_tokens=10) == 36 * 2 * 8 * (16 + 4 + 16) + expansion
    assert attention_flops(llm(MLA), new_tokens=1, cached_tokens=10, absorbed=True) == 11 * 2 * 8 * (32 + 4 + 32)
    assert attention_flops(llm(MLA), new_tokens=0, cached_tokens=10) == 0


def test_sparse_attention_is_bounded_but_its_index_is_not() -> None:
    sparse = replace(MLA, indexer=Indexer(heads=4, head_dim=8, top_k=6))
    got = attention_flops(llm(sparse), new_tokens=1, cached_tokens=99)
    assert got == 6 * 2 * 8 * (32 + 4 + 32) + 100 * 2 * 4 * 8
    reuse = replace(MLA, indexer=Indexer(heads=4, head_dim=8, top_k=6, computes=False))
    assert attention_flops(llm(reuse), new_tokens=1, cached_tokens=99) == 6 * 2 * 8 * (32 + 4 + 32)


def test_compressed_attention_by_hand() -> None:
    # window 8; entries 100 / 4 = 25, of which 16 are read; every entry is scored by the index
    got = attention_flops(llm(CSA), new_tokens=1, cached_tokens=99)
    assert got == 4 * 8 * 16 * (8 + 16) + 25 * 2 * 4 * 8


def test_linear_work_is_two_flops_per_parameter_passed() -> None:
    moe = MoeFeedForward(experts=8, top_k=2, expert_width=32, shared_width=16)
    model = llm(GQA, 3, moe)
    flops, count = linear_flops_per_token(model), parameters(model)
    assert flops.experts == 2 * count.active_experts == 2 * 3 * 2 * 3 * 64 * 32
    assert flops.total == 2 * (count.active - count.norms)
    assert flops.head == 2 * 64 * 1000
    assert flops.layers == flops.total - flops.head


def test_recurrent_state_work_by_hand() -> None:
    assert linear_flops_per_token(llm(GDN, 2)).recurrent == 2 * 6 * 8 * 8 * 8
    assert attention_flops(llm(GDN), new_tokens=10, cached_tokens=1000) == 0


def test_prefill_needs_the_head_once() -> None:
    model = llm(GQA)
    per_token = linear_flops_per_token(model)
    got = forward_flops(model, new_tokens=np.array([0.0, 10.0]), cached_tokens=0)
    scores = attention_flops(model, new_tokens=10, cached_tokens=0)
    np.testing.assert_allclose(got, [0, 10 * per_token.layers + float(scores) + per_token.head])


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.integers(1, 1000))
def test_more_context_is_never_less_work(new: int, cached: int, more: int) -> None:
    for mixer in (GQA, replace(GQA, window=50), MLA, CSA, GDN):
        less = float(attention_flops(llm(mixer), new_tokens=new, cached_tokens=cached))
        assert less <= float(attention_flops(llm(mixer), new_tokens=new, cached_tokens=cached + more))
        assert less <= float(attention_flops(llm(mixer), new_tokens=new + more, cached_tokens=cached))
