"""KV cache of one sequence as a function of its length: growing entries, windows, and fixed recurrent state."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pddplan.domain.llm import (
    Attention,
    CompressedAttention,
    GroupedAttention,
    Indexer,
    KvFormat,
    LatentAttention,
    Llm,
    RecurrentMixer,
)
from pddplan.errors import InputError, Problem, did_you_mean

Array = NDArray[np.float64]

PLAIN_KV_FORMATS: dict[str, KvFormat] = {
    "bf16": KvFormat("bf16", 2.0, 2.0, index_value_bytes=2.0),
    "fp8": KvFormat("fp8", 1.0, 1.0, index_value_bytes=1.0),
    "int8": KvFormat("int8", 1.0, 1.0, index_value_bytes=1.0),
    # NVFP4: half a byte and one byte of scale per 16 values
    "fp4": KvFormat("fp4", 0.5625, 0.5625, index_value_bytes=0.5625),
}
"""Every value in one dtype; a profile's own mixes come first."""


@dataclass(frozen=True, slots=True)
class KvComponent:
    """Entries that grow and are read alike, summed over the layers that have them."""

    entry_bytes: float
    tokens_per_entry: int = 1
    window: int | None = None
    """Only the last so many tokens are kept."""
    read_limit: int | None = None
    """A decoding step reads at most so many entries (sparse attention)."""
    stored: bool = True
    """False where layers read entries that other layers keep."""
    ranks: int = 1
    """Tensor-parallel ranks that can share the entries out; more ranks keep copies."""

    def entries(self, tokens: ArrayLike) -> Array:
        """Entries kept of a sequence of so many tokens."""
        length = np.asarray(tokens, dtype=np.float64)
        if self.window is not None:
            return np.minimum(length, float(self.window))
        if self.tokens_per_entry > 1:
            return np.ceil(length / self.tokens_per_entry)
        return length

    def entries_read(self, tokens: ArrayLike) -> Array:
        """Entries that one new token reads at this context length."""
        kept = self.entries(tokens)
        return kept if self.read_limit is None else np.minimum(kept, float(self.read_limit))


@dataclass(frozen=True, slots=True)
class KvSize:
    """KV bytes of a sequence in one format. All methods take floats or arrays of tokens."""

    kv_dtype: str
    components: tuple[KvComponent, ...]
    state_bytes: float
    """Recurrent state and convolution tails, of any length."""
    state_ranks: int = 1

    @property
    def growing_bytes_per_token(self) -> float:
        """Slope of S(x) once windows are full [bytes/token]."""
        return sum(c.entry_bytes / c.tokens_per_entry for c in self.components if c.stored and c.window is None)

    @property
    def window_bytes(self) -> float:
        """Windows, once full [bytes]."""
        return sum(c.entry_bytes * c.window for c in self.components if c.stored and c.window is not None)

    @property
    def fixed_bytes(self) -> float:
        """What does not grow with length: full windows and recurrent state [bytes]."""
        return self.window_bytes + self.state_bytes

    def sequence_bytes(self, tokens: ArrayLike) -> Array:
        """KV bytes of a whole sequence.

        Formula:     S(x) = sum of entry bytes * entries(x) + state; entries are x, min(x, w) or ceil(x / r)
        Parameters:  tokens x >= 0, any shape [tokens]
        Returns:     same shape [bytes]; 0 at x = 0
        Raises:      nothing
        Holds when:  no paging waste and no copies on tensor-parallel ranks; see rank_bytes.
        References:  models-md
        """
        length = np.asarray(tokens, dtype=np.float64)
        total: Array = np.where(length > 0, self.state_bytes, 0.0)
        for component in self.components:
            if component.stored:
                total = total + component.entry_bytes * component.entries(length)
        return total

    def increment_bytes(self, *, total_tokens: ArrayLike, missing_tokens: ArrayLike) -> Array:
        """Bytes to send when the last ``missing_tokens`` of a sequence are not at the other side.

        Formula:     growing part of S(L) - S(L - s), plus windows and state as they stand at L; 0 where s = 0
        Parameters:  total_tokens L, missing_tokens s <= L, shapes that broadcast [tokens]
        Returns:     broadcast shape [bytes]
        Raises:      nothing
        Holds when:  the other side has no window or state of the shorter prefix that could be brought forward.
        References:  pdd-report, prfaas
        """
        length = np.asarray(total_tokens, dtype=np.float64)
        missing = np.minimum(np.asarray(missing_tokens, dtype=np.float64), length)
        before = length - missing
        total: Array = np.zeros(np.broadcast(length, missing).shape)
        for component in self.components:
            if not component.stored:
                continue
            entries = component.entries(length)
            if component.window is None:
                entries = entries - component.entries(before)
            total = total + component.entry_bytes * entries
        return np.where(missing > 0, total + self.state_bytes, 0.0)

    def read_bytes(self, context_tokens: ArrayLike) -> Array:
        """Cache bytes that one decoding step moves for one sequence.

        Formula:     sum of entry bytes * min(entries(c), top-k); recurrent state is read and written once each
        Parameters:  context_tokens c, any shape [tokens]
        Returns:     same shape [bytes]
        Raises:      nothing
        Holds when:  one new token a step; index keys are read in full.
        References:  deepseek-v32, models-md
        """
        context = np.asarray(context_tokens, dtype=np.float64)
        total: Array = np.ones(context.shape) * 2.0 * self.state_bytes
        for component in self.components:
            total = total + component.entry_bytes * component.entries_read(context)
        return total

    def rank_bytes(self, tokens: ArrayLike, *, ranks: int) -> Array:
        """KV bytes of a sequence on one tensor-parallel rank, copies included.

        Formula:     each component / min(ranks, its KV heads); latents have one head and are copied whole
        Parameters:  tokens, any shape [tokens]; ranks >= 1
        Returns:     same shape [bytes]
        Raises:      nothing
        Holds when:  heads are shared out evenly.
        References:  deepseek-v2
        """
        length = np.asarray(tokens, dtype=np.float64)
        total: Array = np.where(length > 0, self.state_bytes / min(ranks, self.state_ranks), 0.0)
        for component in self.components:
            if component.stored:
                total = total + component.entry_bytes * component.entries(length) / min(ranks, component.ranks)
        return total

    def rank_read_bytes(self, context_tokens: ArrayLike, *, ranks: int) -> Array:
        """Cache bytes that one decoding step moves for one sequence on one tensor-parallel rank.

        Formula:     read_bytes with each component / min(ranks, its KV heads)
        Parameters:  context_tokens, any shape [tokens]; ranks >= 1
        Returns:     same shape [bytes]
        Raises:      nothing
        Holds when:  as read_bytes and rank_bytes.
        References:  deepseek-v2
        """
        context = np.asarray(context_tokens, dtype=np.float64)
        total: Array = np.ones(context.shape) * 2.0 * self.state_bytes / min(ranks, self.state_ranks)
        for component in self.components:
            total = total + component.entry_bytes * component.entries_read(context) / min(ranks, component.ranks)
        return total


def kv_format(llm: Llm, kv_dtype: str | None = None) -> KvFormat:
    """Find the format in which a model's cache is kept.

    Formula:     the profile's mix of that name, else plain values of that dtype; None = as usually served;
                 fp8-scaled is fp8 where the profile has a mix of that name
    Parameters:  llm; kv_dtype: None or a name
    Returns:     KvFormat
    Raises:      InputError on a name that neither the profile nor the plain formats know.
    Holds when:  always.
    References:  models-md
    """
    wanted = kv_dtype or llm.kv_dtype
    mixes = {own.name: own for own in llm.kv_formats}
    if "fp8" in mixes:  # engines have one name for all layouts with scales (fp8_ds_mla)
        mixes.setdefault("fp8-scaled", mixes["fp8"])
    if wanted in mixes:
        return mixes[wanted]
    if wanted in PLAIN_KV_FORMATS:
        return PLAIN_KV_FORMATS[wanted]
    known = sorted({*PLAIN_KV_FORMATS, *mixes})
    raise InputError(
        Problem(
            what=f"unknown KV dtype {wanted!r} for {llm.id}{did_you_mean(wanted, known)}",
            fix=f"choose one of {', '.join(known)}",
        )
    )


@lru_cache(maxsize=512)
def kv_size(llm: Llm, kv_dtype: str | None = None) -> KvSize:
    """KV bytes of a model as a function of length.

    Formula:     K and V of a KV head: (d_qk + d_v) b; MLA: r_kv b + r b_rope + scales; CSA/HCA: one entry per ratio
                 tokens and a window; index keys one per entry; recurrent: heads d_k d_v and convolution tails
    Parameters:  llm; kv_dtype: None = as usually served
    Returns:     KvSize
    Raises:      InputError on an unknown KV dtype.
    Holds when:  MTP layers keep no cache of their own (each would add about one layer).
    References:  models-md, deepseek-v2, deepseek-v32, deepseek-v4
    """
    fmt = kv_format(llm, kv_dtype)
    merged: dict[tuple[int, int | None, int | None, bool, int], float] = defaultdict(float)
    state_bytes, state_ranks = 0.0, 0
    for group in llm.layers:
        mixer = group.attention
        if isinstance(mixer, RecurrentMixer):
            state_bytes += group.count * recurrent_state_bytes(mixer)
            state_ranks = min(state_ranks or mixer.heads, mixer.heads)
        for part in layer_entries(mixer, fmt):
            key = (part.tokens_per_entry, part.window, part.read_limit, part.stored, part.ranks)
            merged[key] += group.count * part.entry_bytes
    components = tuple(KvComponent(size, *key) for key, size in merged.items())
    return KvSize(fmt.name, components, state_bytes, max(state_ranks, 1))


def recurrent_state_bytes(mixer: RecurrentMixer) -> float:
    """Bytes one recurrent layer keeps per sequence.

    Formula:     heads d_k d_v b_state + channels (kernel - 1) b_conv
    Parameters:  mixer
    Returns:     [bytes]
    Raises:      nothing
    Holds when:  the state is kept once per sequence (engines that snapshot states keep more).
    References:  models-md, mamba2
    """
    state = mixer.heads * mixer.key_dim * mixer.value_dim * mixer.state_bytes_per_value
    tail = mixer.conv_channels * max(mixer.conv_kernel - 1, 0) * mixer.conv_bytes_per_value
    return state + tail


def layer_entries(attention: Attention | None, fmt: KvFormat) -> tuple[KvComponent, ...]:
    """Cache entries of one layer.

    Formula:     see kv_size
    Parameters:  attention, or None; fmt
    Returns:     components of one layer (none for recurrent layers)
    Raises:      nothing
    Holds when:  see kv_size.
    References:  models-md
    """
    match attention:
        case GroupedAttention():
            main = KvComponent(
                attention.kv_heads * (attention.head_dim + attention.v_head_dim) * fmt.value_bytes,
                window=attention.window or attention.chunk,
                read_limit=attention.indexer.top_k if attention.indexer else None,
                stored=not attention.shares_kv,
                ranks=attention.kv_heads,
            )
            return (main, *_index_keys(attention.indexer, fmt, tokens_per_entry=1))
        case LatentAttention():
            main = KvComponent(
                _entry_bytes(attention.kv_lora_rank, attention.rope_dim, fmt),
                read_limit=attention.indexer.top_k if attention.indexer else None,
                stored=not attention.shares_kv,
            )
            return (main, *_index_keys(attention.indexer, fmt, tokens_per_entry=1))
        case CompressedAttention():
            entry = _entry_bytes(attention.head_dim - attention.rope_dim, attention.rope_dim, fmt)
            window = KvComponent(entry, window=attention.window)
            if not attention.ratio:
                return (window,)
            limit = attention.indexer.top_k if attention.indexer else None
            main = KvComponent(entry, tokens_per_entry=attention.ratio, read_limit=limit)
            return (window, main, *_index_keys(attention.indexer, fmt, tokens_per_entry=attention.ratio))
        case _:
            return ()


def _entry_bytes(values: int, rope_values: int, fmt: KvFormat) -> float:
    return values * fmt.value_bytes + rope_values * fmt.rope_bytes + fmt.entry_scale_bytes


def _index_keys(indexer: Indexer | None, fmt: KvFormat, *, tokens_per_entry: int) -> tuple[KvComponent, ...]:
    if indexer is None or not indexer.computes:
        return ()
    size = indexer.head_dim * fmt.index_value_bytes + fmt.index_scale_bytes
    return (KvComponent(size, tokens_per_entry=tokens_per_entry),)
