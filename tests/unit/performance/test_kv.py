"""KV bytes by hand for each kind of layer, and what must hold for all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.llm import (
    CompressedAttention,
    DenseFeedForward,
    GroupedAttention,
    Indexer,
    KvFormat,
    LatentAttention,
    LayerGroup,
    Llm,
    RecurrentKind,
    RecurrentMixer,
)
from pddplan.errors import InputError
from pddplan.performance.kv import kv_format, kv_size
from pddplan.performance.parameters import FORMATS, uniform_formats

FULL = GroupedAttention(heads=32, kv_heads=8, head_dim=128, v_head_dim=128)
WINDOW = GroupedAttention(heads=32, kv_heads=8, head_dim=128, v_head_dim=128, window=1024)
CHUNK = GroupedAttention(heads=40, kv_heads=8, head_dim=128, v_head_dim=128, chunk=8192)
MLA = LatentAttention(heads=128, kv_lora_rank=512, rope_dim=64, nope_dim=128, v_dim=128, q_lora_rank=1536)
DSA = LatentAttention(heads=128, kv_lora_rank=512, rope_dim=64, nope_dim=128, v_dim=128, indexer=Indexer(64, 128, 2048))
CSA = CompressedAttention(
    heads=128, head_dim=512, rope_dim=64, q_lora_rank=1536, o_lora_rank=1024, o_groups=16, window=128, ratio=4,
    indexer=Indexer(64, 128, 1024),
)  # fmt: skip
KDA = RecurrentMixer(
    RecurrentKind.KDA, heads=32, key_dim=128, value_dim=128, key_heads=32, conv_kernel=4, conv_channels=3 * 4096
)
MIX = KvFormat("fp8", 1.0, 2.0, entry_scale_bytes=16.0, index_value_bytes=1.0, index_scale_bytes=4.0)


def model(*layers: tuple[int, object], formats: tuple[KvFormat, ...] = ()) -> Llm:
    groups = tuple(LayerGroup(n, a, DenseFeedForward(1024)) for n, a in layers)  # type: ignore[arg-type]
    return Llm(
        id="test",
        name="test",
        family="test",
        hidden=1024,
        vocab=32_000,
        tied_embeddings=False,
        layers=groups,
        weights=uniform_formats(FORMATS["bf16"]),
        kv_formats=formats,
    )


kinds = st.sampled_from([FULL, WINDOW, CHUNK, MLA, DSA, CSA, KDA])
models = st.lists(st.tuples(st.integers(1, 60), kinds), min_size=1, max_size=4).map(lambda g: model(*g))
lengths = st.floats(0, 2e6)


def test_grouped_attention_by_hand() -> None:
    size = kv_size(model((32, FULL)), "bf16")
    assert size.growing_bytes_per_token == 2 * 32 * 8 * 128 * 2 == 131_072
    assert size.fixed_bytes == 0
    assert size.sequence_bytes(1000) == 131_072_000


def test_window_stops_growing_and_counts_as_fixed() -> None:
    size = kv_size(model((10, FULL), (52, WINDOW)), "bf16")
    per_layer = 2 * 8 * 128 * 2
    assert size.growing_bytes_per_token == 10 * per_layer
    assert size.fixed_bytes == 52 * per_layer * 1024
    assert size.sequence_bytes(500) == 62 * per_layer * 500
    assert size.sequence_bytes(2048) == per_layer * (10 * 2048 + 52 * 1024)


def test_latent_is_one_head_and_is_copied_on_every_rank() -> None:
    size = kv_size(model((61, MLA)), "bf16")
    assert size.growing_bytes_per_token == 61 * 576 * 2 == 70_272
    assert size.rank_bytes(1000, ranks=8) == size.sequence_bytes(1000)
    grouped = kv_size(model((1, FULL)), "bf16")
    assert grouped.rank_bytes(1000, ranks=4) == grouped.sequence_bytes(1000) / 4
    # sixteen ranks but eight heads: each head is kept twice
    assert grouped.rank_bytes(1000, ranks=16) == grouped.sequence_bytes(1000) / 8


def test_sparse_latent_as_served_and_in_bf16() -> None:
    llm = model((61, DSA), formats=(MIX,))
    assert kv_size(llm, "bf16").growing_bytes_per_token == 61 * (1152 + 256)
    assert kv_size(llm, "fp8").growing_bytes_per_token == 61 * (656 + 132) == 48_068


def test_sparse_reading_stops_at_top_k_but_keys_are_read_in_full() -> None:
    size = kv_size(model((1, DSA)), "bf16")
    assert size.read_bytes(1000) == 1000 * (1152 + 256)
    assert size.read_bytes(10_000) == 2048 * 1152 + 10_000 * 256


def test_compressed_entries_round_up() -> None:
    size = kv_size(model((1, CSA)), "bf16")
    entry, key = 512 * 2, 128 * 2
    assert size.sequence_bytes(4) == 4 * entry + entry + key
    assert size.sequence_bytes(5) == 5 * entry + 2 * (entry + key)
    assert size.fixed_bytes == 128 * entry
    assert size.growing_bytes_per_token == (entry + key) / 4


def test_recurrent_state_does_not_grow_and_is_read_and_written() -> None:
    size = kv_size(model((20, KDA)), "fp8")
    state = 20 * (32 * 128 * 128 * 4 + 3 * 4096 * 3 * 2)
    assert size.sequence_bytes(10) == size.sequence_bytes(1e6) == state == size.fixed_bytes
    assert size.sequence_bytes(0) == 0
    assert size.read_bytes(1e6) == 2 * state


def test_increment_of_a_hybrid_by_hand() -> None:
    size = kv_size(model((7, MLA), (20, KDA)), "bf16")
    got = size.increment_bytes(
        total_tokens=np.array([1000.0, 1000.0, 1000.0]), missing_tokens=np.array([0.0, 100, 1000])
    )
    np.testing.assert_allclose(got, [0, 7 * 1152 * 100 + size.state_bytes, 7 * 1152 * 1000 + size.state_bytes])


def test_shared_cache_is_read_but_not_stored() -> None:
    shared = GroupedAttention(heads=32, kv_heads=8, head_dim=128, v_head_dim=128, shares_kv=True)
    size = kv_size(model((10, FULL), (10, shared)), "bf16")
    assert size.growing_bytes_per_token == 10 * 4096
    assert size.read_bytes(100) == 20 * 4096 * 100


def test_unknown_kv_dtype_names_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        kv_size(model((1, FULL)), "fp9")
    problem = caught.value.problems[0]
    assert "'fp9'" in problem.what
    assert "did you mean 'fp" in problem.what
    assert "bf16" in problem.fix


@given(models, lengths, lengths)
def test_longer_sequences_never_need_less(llm: Llm, first: float, second: float) -> None:
    size = kv_size(llm, "bf16")
    low, high = sorted((first, second))
    assert size.sequence_bytes(low) <= size.sequence_bytes(high)
    assert size.read_bytes(low) <= size.read_bytes(high)


@given(models, lengths, st.floats(0, 1))
def test_an_increment_lies_between_the_fixed_part_and_the_whole(llm: Llm, total: float, share: float) -> None:
    size = kv_size(llm, "bf16")
    got = float(size.increment_bytes(total_tokens=total, missing_tokens=share * total))
    assert 0 <= got <= float(size.sequence_bytes(total)) * (1 + 1e-12)
    if total > 0:
        whole = float(size.increment_bytes(total_tokens=total, missing_tokens=total))
        assert whole == pytest.approx(float(size.sequence_bytes(total)))


@given(models, lengths, st.integers(1, 64))
def test_ranks_together_hold_at_least_the_whole_cache(llm: Llm, length: float, ranks: int) -> None:
    size = kv_size(llm, "bf16")
    assert ranks * size.rank_bytes(length, ranks=ranks) >= size.sequence_bytes(length) * (1 - 1e-12)
    assert size.rank_bytes(length, ranks=1) == pytest.approx(float(size.sequence_bytes(length)))
    assert size.rank_read_bytes(length, ranks=1) == pytest.approx(float(size.read_bytes(length)))


@given(models, st.floats(1e4, 1e6))
def test_slope_and_fixed_part_describe_long_sequences(llm: Llm, length: float) -> None:
    size = kv_size(llm, "bf16")
    line = size.growing_bytes_per_token * length + size.fixed_bytes
    # compressed entries round up by at most one per group
    assert float(size.sequence_bytes(length)) == pytest.approx(line, rel=1e-3)


@given(models)
def test_half_the_bytes_per_value_halves_what_is_made_of_values(llm: Llm) -> None:
    assert kv_size(llm, "fp8").growing_bytes_per_token == pytest.approx(
        kv_size(llm, "bf16").growing_bytes_per_token / 2
    )


def test_arrays_and_floats_give_the_same() -> None:
    size = kv_size(model((3, CSA), (2, WINDOW), (1, KDA)), "bf16")
    tokens = np.array([0.0, 1, 127, 128, 129, 5000])
    np.testing.assert_allclose(size.sequence_bytes(tokens), [float(size.sequence_bytes(t)) for t in tokens])
    np.testing.assert_allclose(size.read_bytes(tokens), [float(size.read_bytes(t)) for t in tokens])


def test_scaled_fp8_is_the_mix_of_models_that_have_one() -> None:
    """Engines call all such layouts alike (fp8_ds_mla)."""
    assert kv_format(model((1, DSA), formats=(MIX,)), "fp8-scaled") == MIX
    with pytest.raises(InputError, match="choose one of bf16, fp4, fp8, int8"):
        kv_format(model((1, MLA)), "fp8-scaled")
