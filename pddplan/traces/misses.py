"""Tokens of each request that are missing at the prefill side and at the decode side.

    m = L - hit at P           computed (at least one token is, for its logits)
    s = L - hit at MD          crosses the line (decode-side cache on)

The decode side also holds the KV of generated tokens of earlier turns, so s is usually a little below m.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from pddplan.domain.provenance import Basis
from pddplan.errors import InputError, Problem
from pddplan.traces.blocks import CHUNK_BLOCKS
from pddplan.traces.caching import CachePolicy, CacheResult, replay
from pddplan.traces.rows import Ints
from pddplan.traces.source import Progress
from pddplan.traces.trace import Trace

LARGEST_AT_A_TIME = 2**26
"""With more blocks than this the two caches are replayed one after the other, to save memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Misses:
    """Missing tokens per request, and how they were found."""

    prefill_tokens: Ints
    decode_tokens: Ints
    basis: Basis
    how: str
    prefill_cache: CacheResult | None = None
    decode_cache: CacheResult | None = None


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
        return Misses(
            prefill_tokens=_computed(trace.input_tokens - found.hit_tokens),
            decode_tokens=trace.input_tokens - (far.hit_tokens if far is not None else 0),
            basis=Basis.DERIVED,
            how="replay of block ids through LRU caches",
            prefill_cache=found,
            decode_cache=far,
        )
    if trace.hit_tokens is not None:
        return _reported(trace, keep_generated=decode is not None and decode.keep_generated, cached=decode is not None)
    if trace.session is not None and trace.time_s is not None:
        from pddplan.traces.sessions import with_session_blocks

        misses = find_misses(
            with_session_blocks(trace), prefill=prefill, decode=decode, chunk_blocks=chunk_blocks, progress=progress
        )
        return replace(misses, how="session ids: a turn is taken to begin with the whole input of the turn before")
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
    tokens = trace.input_tokens
    return Misses(
        prefill_tokens=_computed(np.round(tokens * (1 - assumed.prefill)).astype(np.int64)),
        decode_tokens=np.round(tokens * (1 - assumed.decode)).astype(np.int64),
        basis=Basis.ASSUMED,
        how=f"assumed: {assumed.prefill:.1%} of every input hits at P, {assumed.decode:.1%} at MD",
    )


def _reported(trace: Trace, *, keep_generated: bool, cached: bool) -> Misses:
    """Hits as the provider measured them; the decode side is taken to hold what the prefill side does, and answers."""
    assert trace.hit_tokens is not None
    hits = trace.hit_tokens
    if not cached:
        far = np.zeros_like(hits)
    elif keep_generated and trace.session is not None:
        far = np.maximum(hits, _carried(trace))
    else:
        far = hits
    return Misses(
        prefill_tokens=_computed(trace.input_tokens - hits),
        decode_tokens=trace.input_tokens - far,
        basis=Basis.MEASURED,
        how="cache reads reported by the provider (capacity and curve unknown)",
    )


def _carried(trace: Trace) -> Ints:
    """Input and answer of the turn before in the same session, where this input has room for both."""
    assert trace.session is not None
    order = np.argsort(trace.session, kind="stable")
    total = (trace.input_tokens + trace.output_tokens)[order]
    before = np.zeros(trace.count, dtype=np.int64)
    same = np.diff(trace.session[order]) == 0
    before[1:][same] = total[:-1][same]
    before[before > trace.input_tokens[order]] = 0
    carried = np.empty_like(before)
    carried[order] = before
    return carried


def _computed(missing: Ints) -> Ints:
    return np.maximum(missing, 1)
