"""Parameter counts by hand for each kind of layer, and how weights are stored."""

from __future__ import annotations

from dataclasses import replace

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
from pddplan.errors import InputError
from pddplan.performance.parameters import (
    FORMATS,
    active_parameters,
    attention_parameters,
    counted_parameters,
    feed_forward_parameters,
    main_dtype,
    mtp_parameters,
    parameters,
    total_parameters,
    uniform_formats,
    weight_bytes,
    weight_formats,
)

GQA = GroupedAttention(heads=8, kv_heads=2, head_dim=16, v_head_dim=16)
MLA = LatentAttention(heads=8, kv_lora_rank=32, rope_dim=4, nope_dim=16, v_dim=16, q_lora_rank=24)
D = 64


def llm(
    attention: object = GQA, feed_forward: object = DenseFeedForward(256), *, tied: bool = False, count: int = 3
) -> Llm:
    return Llm(
        id="t",
        name="t",
        family="t",
        hidden=D,
        vocab=1000,
        tied_embeddings=tied,
        layers=(LayerGroup(count, attention, feed_forward),),  # type: ignore[arg-type]
        weights=uniform_formats(FORMATS["bf16"]),
    )


def test_grouped_attention_by_hand() -> None:
    # q and out 64 x 128, k and v 64 x 32
    assert attention_parameters(GQA, D) == 2 * 64 * 128 + 2 * 64 * 32
    assert attention_parameters(replace(GQA, bias=True), D) == 2 * 64 * 128 + 2 * 64 * 32 + 128 + 64
    assert attention_parameters(replace(GQA, gate_width=128), D) == 3 * 64 * 128 + 2 * 64 * 32
    assert attention_parameters(replace(GQA, values_are_keys=True), D) == 2 * 64 * 128 + 64 * 32
    assert attention_parameters(replace(GQA, shares_kv=True), D) == 2 * 64 * 128
    assert attention_parameters(replace(GQA, query_rank=24), D) == 24 * (64 + 128) + 64 * 128 + 2 * 64 * 32


def test_latent_attention_by_hand() -> None:
    query = 64 * 24 + 24 * 8 * 20
    key_value = 64 * 36 + 32 * 8 * 32
    assert attention_parameters(MLA, D) == query + key_value + 8 * 16 * 64
    direct = 64 * 8 * 20
    assert attention_parameters(replace(MLA, q_lora_rank=None), D) == direct + key_value + 8 * 16 * 64
    index = Indexer(heads=4, head_dim=8, top_k=16)
    extra = 24 * 4 * 8 + 64 * (8 + 4)
    assert attention_parameters(replace(MLA, indexer=index), D) == attention_parameters(MLA, D) + extra
    shared = replace(index, computes=False)
    assert attention_parameters(replace(MLA, indexer=shared), D) == attention_parameters(MLA, D)


def test_compressed_attention_by_hand() -> None:
    base = CompressedAttention(
        heads=8, head_dim=16, rope_dim=4, q_lora_rank=24, o_lora_rank=12, o_groups=2, window=8, ratio=128
    )
    plain = 24 * (64 + 128) + 64 * 16 + 128 * 12 + 2 * 12 * 64
    assert attention_parameters(replace(base, ratio=0), D) == plain
    assert attention_parameters(base, D) == plain + 2 * 64 * 16
    index = Indexer(heads=4, head_dim=8, top_k=16)
    overlapping = 2 * 2 * 64 * 16 + 24 * 4 * 8 + 64 * 4 + 2 * 2 * 64 * 8
    assert attention_parameters(replace(base, ratio=4, indexer=index), D) == plain + overlapping


@pytest.mark.parametrize(
    ("mixer", "by_hand"),
    [
        (
            RecurrentMixer(
                RecurrentKind.KDA, heads=4, key_dim=8, value_dim=8, key_heads=4, conv_kernel=4, conv_channels=96,
                gate_rank=8, decay_rank=8,
            ),
            # q, k, v, out; beta; decay and gate through rank 8; convolution
            4 * 64 * 32 + 64 * 4 + 2 * 8 * (64 + 32) + 96 * 4,
        ),
        (
            RecurrentMixer(
                RecurrentKind.GDN, heads=8, key_dim=8, value_dim=8, key_heads=4, conv_kernel=4, conv_channels=128
            ),
            # q, k (32 each), v, z, out (64 each), two scalars a head
            64 * (2 * 32 + 3 * 64 + 2 * 8) + 128 * 4,
        ),
        (RecurrentMixer(RecurrentKind.LIGHTNING, heads=4, key_dim=16, value_dim=16, key_heads=4), 5 * 64 * 64),
        (
            RecurrentMixer(
                RecurrentKind.MAMBA2, heads=4, key_dim=16, value_dim=32, key_heads=2, conv_kernel=4, conv_channels=192
            ),
            # x, z, out of width 128, B and C of 2 x 16, dt a head
            64 * (3 * 128 + 2 * 32 + 4) + 192 * 4,
        ),
        (
            RecurrentMixer(
                RecurrentKind.MAMBA, heads=128, key_dim=16, value_dim=1, key_heads=1, conv_kernel=4, conv_channels=128,
                gate_rank=4,
            ),
            # x, z, out; dt rank, B, C; A; dt; convolution
            3 * 64 * 128 + 128 * (4 + 32) + 128 * 16 + 4 * 128 + 128 * 4,
        ),
    ],
)  # fmt: skip
def test_recurrent_layers_by_hand(mixer: RecurrentMixer, by_hand: int) -> None:
    assert attention_parameters(mixer, D) == by_hand


def test_feed_forwards_by_hand() -> None:
    assert feed_forward_parameters(DenseFeedForward(256), D).dense == 3 * 64 * 256
    assert feed_forward_parameters(DenseFeedForward(256, gated=False, bias=True), D).dense == 2 * 64 * 256 + 256 + 64
    moe = MoeFeedForward(experts=8, top_k=2, expert_width=32, shared_width=48, shared_gate=True)
    count = feed_forward_parameters(moe, D)
    assert count.experts == 8 * 3 * 64 * 32
    assert count.active_experts == 2 * 3 * 64 * 32
    assert count.shared_experts == 3 * 64 * 48 + 64
    assert count.router == 64 * 8
    narrow = feed_forward_parameters(replace(moe, latent_width=16), D)
    assert narrow.experts == 8 * 3 * 16 * 32
    assert narrow.dense == 2 * 64 * 16
    assert attention_parameters(None, D) == 0
    assert feed_forward_parameters(None, D).total == 0


def test_a_whole_model_by_hand() -> None:
    layer = 2 * 64 * 128 + 2 * 64 * 32 + 3 * 64 * 256 + 2 * 64
    assert total_parameters(llm()) == 3 * layer + 64 + 2 * 64 * 1000
    assert total_parameters(llm(tied=True)) == 3 * layer + 64 + 64 * 1000


def test_active_counts_head_but_not_an_untied_table() -> None:
    moe = MoeFeedForward(experts=8, top_k=2, expert_width=32)
    count = parameters(llm(feed_forward=moe))
    assert active_parameters(llm(feed_forward=moe)) == count.total - 6 * 3 * 3 * 64 * 32 - 64 * 1000
    tied = parameters(llm(feed_forward=moe, tied=True))
    assert active_parameters(llm(feed_forward=moe, tied=True)) == tied.total - 6 * 3 * 3 * 64 * 32
    assert active_parameters(llm()) == total_parameters(llm())


def test_a_tower_is_stored_but_not_passed() -> None:
    with_tower = replace(llm(), tower_parameters=1000)
    assert total_parameters(with_tower) == total_parameters(llm()) + 1000
    assert active_parameters(with_tower) == active_parameters(llm())
    assert weight_bytes(with_tower).resident == weight_bytes(llm()).resident + 2000


def test_weights_in_bf16_are_two_bytes_each() -> None:
    assert weight_bytes(llm()).resident == 2 * total_parameters(llm())
    assert weight_bytes(llm(tied=True)).resident == 2 * total_parameters(llm(tied=True))
    # the head of a tied model is read although it is not stored twice
    assert weight_bytes(llm(tied=True)).read_always == 2 * total_parameters(llm(tied=True))


def test_fp8_keeps_embeddings_head_norms_and_router() -> None:
    moe = MoeFeedForward(experts=8, top_k=2, expert_width=32)
    count, size = parameters(llm(feed_forward=moe)), weight_bytes(llm(feed_forward=moe), "fp8")
    kept = count.embedding + count.head + count.norms + count.router
    assert size.resident == 2 * kept + (count.total - kept)


@pytest.mark.parametrize(
    ("attention", "moe", "dtype", "stays"),
    [(GQA, False, "fp4", False), (MLA, True, "fp4", True), (GQA, True, "fp4", False), (GQA, True, "mxfp4", True)],
)
def test_four_bit_checkpoints_keep_attention_where_releases_do(
    attention: object, moe: bool, dtype: str, stays: bool
) -> None:
    feed = MoeFeedForward(experts=8, top_k=2, expert_width=32) if moe else DenseFeedForward(256)
    formats = weight_formats(llm(attention, feed), dtype)
    assert (formats.attention.dtype == "bf16") is stays
    assert formats.experts.dtype == dtype
    assert formats.head.dtype == "bf16"


def test_scales_of_four_bit_formats_are_counted() -> None:
    assert FORMATS["fp4"].bytes_per_value == 0.5625
    assert FORMATS["mxfp4"].bytes_per_value == 0.53125


def test_the_checkpoints_own_dtype_is_taken_as_it_stands() -> None:
    mixed = replace(llm(), weights=replace(uniform_formats(FORMATS["fp8"]), attention=FORMATS["bf16"]))
    assert main_dtype(mixed) == "fp8"
    assert weight_formats(mixed, "fp8") is mixed.weights
    assert weight_formats(mixed) is mixed.weights
    assert weight_formats(mixed, "bf16").dense.dtype == "bf16"


def test_unknown_weights_dtype() -> None:
    with pytest.raises(InputError, match="unknown weights dtype 'int5'; did you mean 'int"):
        weight_formats(llm(), "int5")


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 512), st.integers(0, 512), st.integers(1, 80))
def test_parts_add_up_and_active_is_never_more_than_total(
    experts: int, top_k: int, width: int, shared: int, layers: int
) -> None:
    moe = MoeFeedForward(experts=experts, top_k=min(top_k, experts), expert_width=width, shared_width=shared)
    count = parameters(llm(feed_forward=moe, count=layers))
    parts = (
        count.attention + count.dense + count.shared_experts + count.experts + count.router + count.norms
        + count.embedding + count.head
    )  # fmt: skip
    assert count.total == parts
    assert 0 < count.active <= count.total


def test_mtp_blocks_are_counted_apart() -> None:
    block = LayerGroup(2, GQA, DenseFeedForward(256))
    drafting = replace(llm(), mtp=(block,), mtp_depth=2)
    layer = 2 * 64 * 128 + 2 * 64 * 32 + 3 * 64 * 256 + 2 * 64
    assert mtp_parameters(drafting) == 2 * (layer + 2 * 64 * 64)
    assert total_parameters(drafting) == total_parameters(llm())
    assert mtp_parameters(llm()) == 0


def test_counts_of_makers_by_hand() -> None:
    """Layers plus what is asked for; a tied head and the table are one; draft blocks and towers only when named."""
    moe = MoeFeedForward(experts=8, top_k=2, expert_width=32)
    layer = 4 * 64 * 80 + 64 * 8 + 2 * 64  # q, out, k, v; router; norms
    expert = 3 * 64 * 32
    model = llm(feed_forward=moe, count=2)
    assert counted_parameters(model, (), active=False) == 2 * (layer + 8 * expert) + 64
    assert counted_parameters(model, (), active=True) == 2 * (layer + 2 * expert) + 64
    assert counted_parameters(model, ("head",), active=True) == active_parameters(model)
    assert counted_parameters(model, ("embedding", "head"), active=False) == total_parameters(model)
    tied = replace(model, tied_embeddings=True, tower_parameters=500)
    for parts in (("head",), ("embedding",), ("embedding", "head")):
        assert counted_parameters(tied, parts, active=True) == 2 * (layer + 2 * expert) + 64 + 64_000
    assert counted_parameters(tied, ("embedding", "tower"), active=False) == total_parameters(tied)
    drafting = replace(model, mtp=(LayerGroup(1, GQA, moe),))  # type: ignore[arg-type]
    more = layer + 2 * expert + 2 * 64 * 64
    assert counted_parameters(drafting, ("mtp",), active=True) - counted_parameters(drafting, (), active=True) == more
