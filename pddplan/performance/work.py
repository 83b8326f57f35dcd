"""FLOPs of a forward pass: linear layers per token, attention per pair of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pddplan.domain.llm import (
    CompressedAttention,
    GroupedAttention,
    Indexer,
    LatentAttention,
    Llm,
    RecurrentKind,
    RecurrentMixer,
)
from pddplan.performance.parameters import latent_expansion_parameters, parameters

Array = NDArray[np.float64]

FLOP_PER_PARAMETER = 2.0
"""One multiplication and one addition."""

RECURRENT_FLOP_PER_STATE_VALUE = {
    RecurrentKind.CONV: 2.0,  # one tap of the kernel
    # update (k v^T) and read (S q) cost 2 each; the delta rule also reads what it overwrites (S k)
    RecurrentKind.LIGHTNING: 4.0,
    RecurrentKind.MAMBA: 4.0,
    RecurrentKind.MAMBA2: 4.0,
    RecurrentKind.GDN: 6.0,
    RecurrentKind.KDA: 6.0,
}


@dataclass(frozen=True, slots=True)
class TokenFlops:
    """FLOPs of one token outside attention scores, by the part whose format (and so whose peak) they use."""

    attention: float
    """Projections."""
    dense: float
    shared_experts: float
    experts: float
    """Routed experts that the token passes."""
    router: float
    recurrent: float
    """State update and read of recurrent layers."""
    head: float
    """Language-model head; in prefill only the last token needs it."""

    @property
    def layers(self) -> float:
        """All but the head."""
        return self.attention + self.dense + self.shared_experts + self.experts + self.router + self.recurrent

    @property
    def total(self) -> float:
        return self.layers + self.head


@lru_cache(maxsize=512)
def linear_flops_per_token(llm: Llm) -> TokenFlops:
    """FLOPs per token of everything that does not grow with the context.

    Formula:     2 * parameters the token passes, by part; head 2 V d; recurrent 4 or 6 per state value
    Parameters:  llm
    Returns:     TokenFlops [FLOP/token]
    Raises:      nothing
    Holds when:  matrices dominate (norms, activations and softmax left out).
    References:  kaplan2020, deepseek-v3
    """
    count = parameters(llm)
    recurrent = sum(
        g.count * _state_values(g.attention) * RECURRENT_FLOP_PER_STATE_VALUE[g.attention.kind]
        for g in llm.layers
        if isinstance(g.attention, RecurrentMixer)
    )
    return TokenFlops(
        attention=FLOP_PER_PARAMETER * count.attention,
        dense=FLOP_PER_PARAMETER * count.dense,
        shared_experts=FLOP_PER_PARAMETER * count.shared_experts,
        experts=FLOP_PER_PARAMETER * count.active_experts,
        router=FLOP_PER_PARAMETER * count.router,
        recurrent=recurrent,
        head=FLOP_PER_PARAMETER * llm.vocab * llm.hidden,
    )


def causal_pairs(new_tokens: ArrayLike, cached_tokens: ArrayLike, *, limit: float | None = None) -> Array:
    """Query-key pairs of causal attention, each query seeing at most ``limit`` keys.

    Formula:     sum over i = 1..q of min(c + i, w) = n c + n (n + 1) / 2 + (q - n) w,  n = clip(w - c, 0, q)
    Parameters:  new_tokens q, cached_tokens c, shapes that broadcast [tokens]; limit w [tokens], None = all
    Returns:     broadcast shape [pairs]
    Raises:      nothing
    Holds when:  every new token also sees itself.
    References:  vaswani2017, mistral7b
    """
    q, c = np.asarray(new_tokens, dtype=np.float64), np.asarray(cached_tokens, dtype=np.float64)
    if limit is None:
        return q * c + q * (q + 1) / 2
    below = np.clip(limit - c, 0.0, q)
    return below * c + below * (below + 1) / 2 + (q - below) * limit


def chunked_pairs(new_tokens: ArrayLike, cached_tokens: ArrayLike, *, chunk: float) -> Array:
    """Query-key pairs where a query sees its own chunk only, from the chunk's start.

    Formula:     F(c + q) - F(c),  F(x) = k C (C + 1) / 2 + r (r + 1) / 2,  k = floor(x / C), r = x - k C
    Parameters:  new_tokens q, cached_tokens c [tokens]; chunk C [tokens]
    Returns:     broadcast shape [pairs]
    Raises:      nothing
    Holds when:  chunks start at multiples of C.
    References:  llama4
    """

    def up_to(x: Array) -> Array:
        whole = np.floor(x / chunk)
        rest = x - whole * chunk
        return whole * chunk * (chunk + 1) / 2 + rest * (rest + 1) / 2

    q, c = np.asarray(new_tokens, dtype=np.float64), np.asarray(cached_tokens, dtype=np.float64)
    return up_to(c + q) - up_to(c)


def attention_flops(llm: Llm, *, new_tokens: ArrayLike, cached_tokens: ArrayLike, absorbed: bool = False) -> Array:
    """FLOPs of attention scores and weighted sums for new tokens over a cached prefix, all layers.

    Formula:     sum over layers of pairs * 2 h (d_qk + d_v); windows, chunks and top-k bound the pairs, ratio r
                 divides them; an indexer scores every pair with 2 h_i d_i. MLA expands each cached latent
                 (2 r_kv h (n + v) a token), or works on latents (absorbed): d_qk = r_kv + r, d_v = r_kv
    Parameters:  llm; new_tokens q, cached_tokens c, shapes that broadcast [tokens]; absorbed: MLA as in decoding
    Returns:     broadcast shape [FLOP]
    Raises:      nothing
    Holds when:  kernels skip masked pairs; sparse MLA (DSA) always works on latents.
    References:  vaswani2017, deepseek-v2, deepseek-v32, deepseek-v4
    """
    q, c = np.asarray(new_tokens, dtype=np.float64), np.asarray(cached_tokens, dtype=np.float64)
    total: Array = np.zeros(np.broadcast(q, c).shape)
    for group in llm.layers:
        mixer = group.attention
        if isinstance(mixer, GroupedAttention):
            total = total + group.count * _grouped_flops(mixer, q, c)
        elif isinstance(mixer, LatentAttention):
            total = total + group.count * _latent_flops(mixer, q, c, absorbed=absorbed)
        elif isinstance(mixer, CompressedAttention):
            total = total + group.count * _compressed_flops(mixer, q, c)
    return total


def forward_flops(llm: Llm, *, new_tokens: ArrayLike, cached_tokens: ArrayLike) -> Array:
    """FLOPs of prefilling new tokens over a cached prefix, head for the last token only.

    Formula:     q * layers' FLOPs per token + attention FLOPs + head
    Parameters:  llm; new_tokens q, cached_tokens c [tokens]
    Returns:     broadcast shape [FLOP]
    Raises:      nothing
    Holds when:  as linear_flops_per_token and attention_flops.
    References:  kaplan2020
    """
    per_token = linear_flops_per_token(llm)
    q = np.asarray(new_tokens, dtype=np.float64)
    scores = attention_flops(llm, new_tokens=q, cached_tokens=cached_tokens)
    result: Array = q * per_token.layers + scores + np.where(q > 0, per_token.head, 0.0)
    return result


def _grouped_flops(mixer: GroupedAttention, q: Array, c: Array) -> Array:
    if mixer.chunk is not None:
        pairs = chunked_pairs(q, c, chunk=mixer.chunk)
    else:
        limits = [x for x in (mixer.window, mixer.indexer.top_k if mixer.indexer else None) if x is not None]
        pairs = causal_pairs(q, c, limit=min(limits) if limits else None)
    return pairs * 2.0 * mixer.heads * (mixer.head_dim + mixer.v_head_dim) + _indexer_flops(mixer.indexer, q, c)


def _latent_flops(mixer: LatentAttention, q: Array, c: Array, *, absorbed: bool) -> Array:
    on_latents = 2.0 * mixer.heads * (2 * mixer.kv_lora_rank + mixer.rope_dim)
    if mixer.indexer is not None:
        pairs = causal_pairs(q, c, limit=mixer.indexer.top_k)
        return pairs * on_latents + _indexer_flops(mixer.indexer, q, c)
    if absorbed:
        return causal_pairs(q, c) * on_latents
    expanded = 2.0 * mixer.heads * (mixer.nope_dim + mixer.rope_dim + mixer.v_dim)
    expansion = FLOP_PER_PARAMETER * latent_expansion_parameters(mixer) * np.where(q > 0, c, 0.0)
    return causal_pairs(q, c) * expanded + expansion


def _compressed_flops(mixer: CompressedAttention, q: Array, c: Array) -> Array:
    per_pair = 4.0 * mixer.heads * mixer.head_dim
    flops = per_pair * causal_pairs(q, c, limit=mixer.window)
    if not mixer.ratio:
        return flops
    limit = None if mixer.indexer is None else float(mixer.indexer.top_k * mixer.ratio)
    flops = flops + per_pair * causal_pairs(q, c, limit=limit) / mixer.ratio
    return flops + _indexer_flops(mixer.indexer, q, c) / mixer.ratio


def _indexer_flops(indexer: Indexer | None, q: Array, c: Array) -> Array:
    if indexer is None or not indexer.computes:
        return np.zeros(np.broadcast(q, c).shape)
    return causal_pairs(q, c) * 2.0 * indexer.heads * indexer.head_dim


def _state_values(mixer: RecurrentMixer) -> float:
    return float(mixer.heads * mixer.key_dim * mixer.value_dim)
