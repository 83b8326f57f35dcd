"""Prefill of one request: chunks, tail, cached prefix, and what of the KV transfer it can hide."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pddplan.domain.workload import Array
from pddplan.errors import DomainError
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.forward_pass import PassTime, added_time_s, pass_time
from pddplan.performance.load import PassModel

MAX_CHUNKS = 4096


def prefill_passes(
    model: PassModel, *, new_tokens: ArrayLike, cached_tokens: ArrayLike, efficiency: Efficiency, requests: float = 1.0
) -> PassTime:
    """Time of prefilling requests, by part, summed over their chunks.

    Formula:     sum over i of t(C, c + i C) + (1 - p) t(r, c + k C) + p (r / C) t(C, c + k C),
                 k = floor(m / C), r = m - k C, p = tail packing
    Parameters:  model; new_tokens m, cached_tokens c, shapes that broadcast [tokens]; efficiency (chunk C, p);
                 requests prefilled side by side on as many attention ranks
    Returns:     PassTime of the broadcast shape [s]
    Raises:      DomainError when a prompt has more than 4096 chunks.
    Holds when:  chunks of one request follow each other without gaps.
    References:  agrawal2024, performance_terms
    """
    _, size, before = _chunks(new_tokens, cached_tokens, efficiency)
    chunk = efficiency.chunk_tokens
    share = size / chunk
    tail = (share > 0) & (share < 1)
    packing = efficiency.tail_packing * tail
    passes = pass_time(
        model.load(sequences=requests, new_tokens=np.maximum(size, 1.0), cached_tokens=before, decode=False), efficiency
    )
    alone = np.where(size > 0, 1.0 - packing, 0.0)
    parts = {name: np.sum(alone * value, axis=-1) for name, value in passes.main_terms().items()}
    if efficiency.tail_packing > 0:
        full = pass_time(
            model.load(sequences=requests, new_tokens=np.full_like(size, chunk), cached_tokens=before, decode=False),
            efficiency,
        )
        for name, value in full.main_terms().items():
            parts[name] = parts[name] + np.sum(packing * share * value, axis=-1)
    return PassTime(
        gemm=parts["gemm"],
        attention=parts["attn"],
        experts=parts["moe"],
        communication=parts["comm"],
        elementwise=parts["other"],
        overhead=parts["overhead"],
    )


def stop_share(
    model: PassModel, *, new_tokens: ArrayLike, cached_tokens: ArrayLike, efficiency: Efficiency, requests: float = 1.0
) -> Array:
    """Share of a prefill's time that stops the decoding of others on the same instance.

    Formula:     min(x sum of added_time_s over the chunks / sum of their times, 1), x = prefill_interference
    Parameters:  as prefill_passes
    Returns:     broadcast shape, in [0, 1]; 0 where nothing is prefilled
    Raises:      DomainError as prefill_passes.
    Holds when:  chunks ride in passes that decode anyway; x and the mixing were fitted to aggregated closed loops.
    References:  agrawal2024, performance_terms
    """
    new, size, before = _chunks(new_tokens, cached_tokens, efficiency)
    load = model.load(sequences=requests, new_tokens=np.maximum(size, 1.0), cached_tokens=before, decode=False)
    times = pass_time(load, efficiency).total
    taken = np.where(size > 0, times, 0.0).sum(axis=-1)
    added = np.where(size > 0, added_time_s(times, load, efficiency), 0.0).sum(axis=-1)
    share = efficiency.prefill_interference * added / np.where(taken > 0, taken, 1.0)
    return np.asarray(np.where(new > 0, np.clip(share, 0.0, 1.0), 0.0))


def _chunks(new_tokens: ArrayLike, cached_tokens: ArrayLike, efficiency: Efficiency) -> tuple[Array, Array, Array]:
    """(new tokens, new tokens of each chunk, tokens before each chunk); chunks are the last axis."""
    new, cached = np.broadcast_arrays(np.asarray(new_tokens, dtype=float), np.asarray(cached_tokens, dtype=float))
    chunk = efficiency.chunk_tokens
    count = max(int(np.ceil(np.max(new, initial=0.0) / chunk)), 1)
    if count > MAX_CHUNKS:
        raise DomainError("new_tokens", f"is at most {MAX_CHUNKS} chunks of {chunk:g} tokens", float(np.max(new)))
    start = np.arange(count, dtype=float) * chunk
    return new, np.clip(new[..., None] - start, 0.0, chunk), cached[..., None] + start


def exposed_transfer_s(*, prefill_s: ArrayLike, transfer_s: ArrayLike, layers: int, overlap: str) -> Array:
    """Part of a KV transfer that prefill does not hide.

    Formula:     none: T;  layerwise: max(T / L, T - t (L - 1) / L): the last layer's KV leaves after prefill ends
    Parameters:  prefill_s t, transfer_s T, shapes that broadcast [s]; layers L; overlap "none" or "layerwise"
    Returns:     broadcast shape [s]
    Raises:      DomainError for another overlap.
    Holds when:  KV of a layer is sent as soon as the layer is done, at a constant rate.
    References:  patel2024
    """
    prefill, transfer = np.asarray(prefill_s, dtype=float), np.asarray(transfer_s, dtype=float)
    if overlap == "none":
        return transfer + 0.0 * prefill
    if overlap != "layerwise":
        raise DomainError("overlap", 'is "none" or "layerwise"', overlap)
    return np.maximum(transfer / layers, transfer - prefill * (layers - 1) / layers)
