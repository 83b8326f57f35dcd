"""Tokens of each request that are missing at the prefill side and at the decode side.

    m = L - hit at P           computed (at least one token is, for its logits)
    s = L - hit at MD          crosses the line (decode-side cache on)

The decode side also holds the KV of generated tokens of earlier turns, so s is usually a little below m.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from pddplan.domain.provenance import Basis
from pddplan.errors import InputError, Problem
from pddplan.traces.blocks import CHUNK_BLOCKS
from pddplan.traces.caching import CachePolicy, CacheResult, replay
from pddplan.traces.rows import Ints
from pddplan.traces.scratch import RowStore
from pddplan.traces.sessions import SESSION_BLOCK_TOKENS, carried_tokens, with_session_blocks
from pddplan.traces.source import Progress
from pddplan.traces.trace import Trace

LARGEST_AT_A_TIME = 2**26
"""With more blocks than this the two caches are replayed one after the other, to save memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Misses:
    """Missing tokens per request, and how they were found."""

    rows: RowStore
    """Columns ``prefill``, ``decode`` (missing tokens) and ``hit`` (cached at the prefill side)."""
    basis: Basis
    how: str
    prefill_cache: CacheResult | None = None
    decode_cache: CacheResult | None = None

    @property
    def prefill_tokens(self) -> Ints:
        """Tokens to prefill of all requests as a whole, in memory."""
        return self.rows.column("prefill").astype(np.int64)

    @property
    def decode_tokens(self) -> Ints:
        """Tokens to transfer of all requests as a whole, in memory."""
        return self.rows.column("decode").astype(np.int64)


@dataclass(frozen=True, slots=True)
class HitAssumption:
    """Hit rates that the user states for traces that tell nothing about prefixes."""

    prefill: float
    decode: float


def find_misses(
    trace: Trace,
    *,
    prefill: CachePolicy,
    decode: CachePolicy | None,
    assumed: HitAssumption | None = None,
    chunk_blocks: int = CHUNK_BLOCKS,
    progress: Progress | None = None,
) -> Misses:
    """Missing tokens of all requests: by replay, as reported, from sessions, or as assumed.

    Parameters:  prefill, decode: caches of the two sides; decode None = the decode side keeps no cache
    Raises:      InputError when the trace tells nothing about prefixes and nothing is assumed.
    """
    if assumed is not None:
        return _assumed(trace, assumed)
    if trace.blocks is not None:
        found, far = _both_sides(trace, prefill, decode, chunk_blocks=chunk_blocks, progress=progress)
        near = (rows["hit"] for rows in found.hits.chunks())
        far_side = repeat(0) if far is None else (rows["hit"] for rows in far.hits.chunks())
        return Misses(
            rows=_missing(trace, near, far_side),
            basis=Basis.DERIVED,
            how="replay of block ids through LRU caches",
            prefill_cache=found,
            decode_cache=far,
        )
    if trace.has_hits:
        return _reported(trace, keep_generated=decode is not None and decode.keep_generated, cached=decode is not None)
    if trace.has_session and trace.has_time:
        with_blocks = with_session_blocks(trace)
        misses = find_misses(with_blocks, prefill=prefill, decode=decode, chunk_blocks=chunk_blocks, progress=progress)
        grain = (
            "" if with_blocks.block_tokens == SESSION_BLOCK_TOKENS else f", {with_blocks.block_tokens} tokens a block"
        )
        how = f"session ids: a turn is taken to begin with the whole input of the turn before{grain}"
        return replace(misses, how=how)
    raise InputError(
        Problem(
            what="has neither block ids, sessions nor reported cache hits, so hit rates cannot be known from it",
            fix="state them: --assume-hit-rate 0.5 (and --assume-decode-hit-rate, if it differs); 0 for no cache",
            where=trace.file,
        )
    )


def _both_sides(
    trace: Trace,
    prefill: CachePolicy,
    decode: CachePolicy | None,
    *,
    chunk_blocks: int,
    progress: Progress | None,
) -> tuple[CacheResult, CacheResult | None]:
    """Both caches at a time (the work is in numpy, which lets go of the interpreter), unless they are very large."""
    assert trace.blocks is not None
    if decode is None or trace.blocks.largest > LARGEST_AT_A_TIME:
        near_side = replay(trace, prefill, chunk_blocks=chunk_blocks, progress=progress)
        if decode is None:
            return near_side, None
        return near_side, replay(trace, decode, chunk_blocks=chunk_blocks, progress=progress)
    with ThreadPoolExecutor(max_workers=2) as pool:
        near = pool.submit(replay, trace, prefill, chunk_blocks=chunk_blocks, progress=progress)
        far = pool.submit(replay, trace, decode, chunk_blocks=chunk_blocks)
        return near.result(), far.result()


def _assumed(trace: Trace, assumed: HitAssumption) -> Misses:
    def hits(share: float) -> Iterator[Ints]:
        for rows in trace.rows.chunks():
            yield rows["input"] - np.round(rows["input"] * (1 - share)).astype(np.int64)

    return Misses(
        rows=_missing(trace, hits(assumed.prefill), hits(assumed.decode)),
        basis=Basis.ASSUMED,
        how=f"assumed: {assumed.prefill:.1%} of every input hits at P, {assumed.decode:.1%} at MD",
    )


def _reported(trace: Trace, *, keep_generated: bool, cached: bool) -> Misses:
    """Hits as the provider measured them; the decode side is taken to hold what the prefill side does, and answers."""
    far: Iterable[Ints | int] = repeat(0)
    if cached:
        far = (rows["hit"] for rows in trace.rows.chunks())
    if cached and keep_generated and trace.has_session:
        pairs = zip(trace.rows.chunks(), carried_tokens(trace), strict=True)
        far = (np.maximum(rows["hit"], carried) for rows, carried in pairs)
    return Misses(
        rows=_missing(trace, (rows["hit"] for rows in trace.rows.chunks()), far),
        basis=Basis.MEASURED,
        how="cache reads reported by the provider (capacity and curve unknown)",
    )


def _missing(trace: Trace, near: Iterable[Ints], far: Iterable[Ints | int]) -> RowStore:
    """Missing tokens from the hits at both sides, chunk by chunk; at least one token is computed."""
    result = RowStore([("prefill", "i4"), ("decode", "i4"), ("hit", "i4")])
    for rows, near_hits, far_hits in zip(trace.rows.chunks(), near, far, strict=False):
        length = rows["input"].astype(np.int64)
        result.append(prefill=np.maximum(length - near_hits, 1), decode=length - far_hits, hit=near_hits)
    return result
