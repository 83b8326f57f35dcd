"""Stack distances of an LRU block cache, for all capacities in one pass.

A request looks up its block ids against the cache as it was before the request, then touches them from last to
first, inserting what is missing; afterwards the cache keeps the most recent blocks up to its capacity. LRU keeps
its blocks on a stack (most recent on top) that does not depend on the capacity: a block is in a cache of c blocks
if at most c - 1 blocks lie above it. So one number per block and request, its depth, answers for every capacity.

How depths are found without walking a list:

- Each touch takes the next *slot* of a growing time line. A slot is live while no later touch of its block exists.
  The depth of a block is the number of live slots from its own upwards.
- Blocks that were touched together and not since lie in consecutive slots. A request therefore dies and revives
  whole *runs* of slots; conversations consist of a few runs per turn, however long they are.
- Live slots above a run = all slots above it, less those that earlier requests killed. The latter is a sum over
  earlier runs with a higher slot: a weighted count of inversions, found in log2(runs) vectorised sweeps.

- Which slots are live is kept as one bit each, so that the live slots above any older slot are a popcount away.

Cost: O(n log n) for n blocks, in numpy throughout. Requests are fed in chunks; results do not depend on where
chunks end. Memory: 4 bytes per distinct block and per block number, and about 40 bytes per request of which a block is
still the latest touch. Slots and requests that nothing refers to any more are dropped from time to time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.traces.inversions import LARGEST_INT32, earlier_greater_weight
from pddplan.traces.slot_bits import SlotBits

Ints = NDArray[np.int64]
Number = TypeVar("Number", np.int32, np.int64, np.float64)
NEVER = np.int64(2**31 - 1)
"""Depth of a block that no cache holds: seen for the first time, or expired."""
NO_SLOT = np.int64(2**62)
"""Where requests that have not come yet end."""
SLACK = 2**22
"""Dead slots and requests that may pile up, beside as many as are live, before they are dropped."""
_START_SIZE = 1024


@dataclass(frozen=True, slots=True, eq=False)
class RequestChunk:
    """Consecutive requests in order of time, as parallel arrays."""

    offsets: Ints
    """Blocks of request i are blocks[offsets[i]:offsets[i + 1]]; shape (requests + 1,)."""
    blocks: Ints
    """Block numbers, small and dense (see ``BlockNumbers``)."""
    input_tokens: Ints
    output_tokens: Ints
    time_s: Array | None


@dataclass(frozen=True, slots=True, eq=False)
class Depths:
    """What one chunk found."""

    needed_blocks: Ints
    """Smallest capacity [blocks] at which this block, and all before it in its request, are hits; shape (blocks,)."""
    parent: Ints
    """Earlier request (counted over all chunks) whose input this request continues, -1 if none; shape (requests,)."""
    conversation: Ints
    """Number of the chain of requests that continue each other, in order of appearance; shape (requests,)."""


class StackReplay:
    """One LRU cache; feed requests in order of time."""

    def __init__(
        self,
        *,
        block_tokens: int,
        keep_generated: bool = False,
        ttl_s: float | None = None,
        expected_blocks: int = 0,
    ) -> None:
        """Start with an empty cache.

        Parameters:  block_tokens, tokens per block; keep_generated, the cache also holds the KV of generated
                     tokens (decode side), which the next turn of the conversation finds there; ttl_s, blocks not
                     touched for longer are gone [s]; expected_blocks, where known, saves memory
        """
        self.block_tokens, self.keep_generated, self.ttl_s = block_tokens, keep_generated, ttl_s
        self.requests = 0
        self._slot: NDArray[Any] = np.full(expected_blocks or _START_SIZE, -1, dtype=np.int32)  # of each block number
        self._slots = SlotBits()
        # records of requests that may be asked for again: needed to recognise the next turn of a conversation
        self._held = 0
        self._conversations = 0
        self._number = np.empty(0, dtype=np.int64)  # of the request, over all chunks
        self._conversation = np.empty(0, dtype=np.int32)
        self._input = np.empty(0, dtype=np.int32)
        self._output = np.empty(0, dtype=np.int32)
        self._time = np.empty(0, dtype=np.float64)
        self._end = np.empty(0, dtype=np.int64)  # first slot after those of each request
        # highest slot of the generated blocks of each request, -1 = none
        self._generated_slot: NDArray[Any] = np.empty(0, dtype=np.int32)

    @property
    def live_blocks(self) -> int:
        """Distinct blocks seen so far: the capacity that never evicts."""
        return self._slots.live

    def feed(self, chunk: RequestChunk) -> Depths:
        """Depths of the blocks of these requests, and update of the cache."""
        lengths = np.diff(chunk.offsets)
        self._grow(chunk, lengths)
        request = np.repeat(np.arange(lengths.size, dtype=np.int64), lengths)
        kept = _first_of_request(chunk.blocks, request)
        if kept is None:
            depths, parent, conversation = self._feed(chunk, request, lengths)
            return Depths(_running_max(depths, request), parent, conversation)
        # an id twice in one request is one block: touched last at its first place, looked up once
        thin_lengths = np.bincount(request[kept.first], minlength=lengths.size)
        thin = RequestChunk(
            offsets=np.concatenate(([0], np.cumsum(thin_lengths))),
            blocks=chunk.blocks[kept.first],
            input_tokens=chunk.input_tokens,
            output_tokens=chunk.output_tokens,
            time_s=chunk.time_s,
        )
        depths, parent, conversation = self._feed(thin, request[kept.first], thin_lengths)
        return Depths(_running_max(depths[kept.index], request), parent, conversation)

    def _feed(self, chunk: RequestChunk, request: Ints, lengths: Ints) -> tuple[Ints, Ints, Ints]:
        count, blocks = chunk.blocks.size, chunk.blocks
        filled = self._slots.filled
        generated = self._generated_blocks(chunk, lengths)

        # slots: request after request; inside a request generated blocks lowest, then blocks from last to first
        end = np.cumsum(lengths + generated)
        top = filled + end - 1
        position = np.arange(count, dtype=np.int64) - chunk.offsets[request]
        slot = top[request] - position
        start = filled + end - lengths - generated  # slots filled before each request
        self._end[self._held : self._held + lengths.size] = filled + end

        previous = self._previous(blocks, slot)
        parent = self._parents(chunk, previous, request, lengths)
        if self.keep_generated:
            previous, consumed = self._find_generated(chunk, previous, parent, request, top - lengths)
        else:
            consumed = np.empty(0, dtype=np.int64)

        depths = np.full(count, NEVER, dtype=np.int64)
        found = np.flatnonzero(previous >= 0)
        if found.size:
            starts = np.ones(found.size, dtype=bool)
            starts[1:] = (
                (np.diff(found) != 1) | (np.diff(previous[found]) != -1) | (request[found[1:]] != request[found[:-1]])
            )
            run_of = np.cumsum(starts) - 1
            first = found[starts]
            weight = np.bincount(run_of)
            dead = _killed_above(previous[first], request[first], weight)
            above = start[request[first]] - filled + self._live_above(previous[first], filled) - dead
            depths[found] = above[run_of] + 1 + (previous[first][run_of] - previous[found])
        if self.ttl_s is not None and chunk.time_s is not None:
            age = chunk.time_s[request[found]] - self._time[self._owner(previous[found])]
            depths[found[age > self.ttl_s]] = NEVER

        conversation = self._conversations_of(parent)
        number = np.where(parent >= 0, self._number[parent], -1)
        self._commit(blocks, slot, generated, top - lengths, previous)
        self._generated_slot[consumed] = -1
        if max(self._slots.filled, self._held) > 2 * self._slots.live + SLACK:
            self._compact()
        return depths, number, conversation

    def _conversations_of(self, parent: Ints) -> Ints:
        """Number of the conversation of each request of this chunk, whose records are in place."""
        own = np.arange(parent.size, dtype=np.int64)
        root = np.where(parent >= self._held, parent - self._held, own)
        while not np.array_equal(further := root[root], root):
            root = further
        opens = parent < 0
        found = np.where(opens, self._conversations - 1 + np.cumsum(opens), self._conversation[parent])
        self._conversations += int(opens.sum())
        found = found[root]
        self._conversation[self._held : self._held + parent.size] = found
        return np.asarray(found, dtype=np.int64)

    def _compact(self) -> None:
        """Forget dead slots, and requests of which no slot is live."""
        held = slice(0, self._held)
        end = self._slots.live_below(self._end[held])
        alive = np.diff(end, prepend=0) > 0
        count = int(alive.sum())
        for values in (self._slot, self._generated_slot):
            known = np.flatnonzero(values >= 0)
            values[known] = self._slots.live_below(values[known].astype(np.int64))
        self._end = end[alive]
        self._number, self._conversation = self._number[held][alive], self._conversation[held][alive]
        self._input, self._output = self._input[held][alive], self._output[held][alive]
        self._generated_slot = self._generated_slot[held][alive] if self.keep_generated else self._generated_slot
        self._time = self._time[held][alive] if self._time.size else self._time
        self._held = count
        live, self._slots = self._slots.live, SlotBits()
        self._slots.add(live)
        self._slots.kill(np.empty(0, dtype=np.int64))

    def _live_above(self, slot: Ints, filled: int) -> Ints:
        """Slots above each one that were live before this chunk, minus those of this chunk up to it."""
        new = slot >= filled
        above = np.where(new, filled - 1 - slot, 0)
        above[~new] = self._slots.live_above(slot[~new])
        return np.asarray(above)

    def _generated_blocks(self, chunk: RequestChunk, lengths: Ints) -> Ints:
        """Blocks that a request fills with generated tokens, beyond the whole blocks of its input."""
        if not self.keep_generated:
            return np.zeros(lengths.size, dtype=np.int64)
        total = chunk.input_tokens + chunk.output_tokens
        return total // self.block_tokens - chunk.input_tokens // self.block_tokens

    def _owner(self, slot: Ints) -> Ints:
        """Record of the request that filled each slot."""
        return np.searchsorted(self._end, slot, side="right").astype(np.int64)

    def _previous(self, blocks: Ints, slot: Ints) -> Ints:
        """Slot of the last touch of each block before its request; -1 for none."""
        count = blocks.size
        if not count:
            return np.empty(0, dtype=np.int64)
        bits = max(int(count - 1).bit_length(), 1)
        key = np.sort((blocks << bits) | np.arange(count, dtype=np.int64))  # by block, then by time
        order = key & ((1 << bits) - 1)
        sorted_blocks = key >> bits
        same = np.zeros(count, dtype=bool)
        same[1:] = sorted_blocks[1:] == sorted_blocks[:-1]
        previous = np.empty(count, dtype=np.int64)
        previous[order[same]] = slot[order[:-1][same[1:]]]
        firsts = order[~same]
        previous[firsts] = self._slot[sorted_blocks[~same]]
        self._last_touch = order[np.append(~same[1:], True)]  # last touch of each block in this chunk
        return previous

    def _parents(self, chunk: RequestChunk, previous: Ints, request: Ints, lengths: Ints) -> Ints:
        """Record of the request that each one continues: all whole input blocks of the earlier one lead the later one.

        Found from the last leading block that was ever seen: whoever touched it last is the candidate; its whole
        blocks must end exactly there, and the later input must have room for the earlier answer.
        """
        parent = np.full(lengths.size, -1, dtype=np.int64)
        unseen = np.flatnonzero(previous < 0)
        leading = lengths.astype(np.int64).copy()
        np.minimum.at(leading, request[unseen], unseen - chunk.offsets[request[unseen]])
        some = np.flatnonzero(leading > 0)
        candidate = self._owner(previous[chunk.offsets[some] + leading[some] - 1])
        whole = self._input[candidate].astype(np.int64) // self.block_tokens
        carried = self._input[candidate].astype(np.int64) + self._output[candidate]
        continues = (whole == leading[some]) & (chunk.input_tokens[some] >= carried)
        parent[some[continues]] = candidate[continues]
        return parent

    def _find_generated(
        self, chunk: RequestChunk, previous: Ints, parent: Ints, request: Ints, generated_top: Ints
    ) -> tuple[Ints, Ints]:
        """Unseen blocks right after a continued input are the earlier answer: point them at its slots."""
        candidate = parent[request]
        heir = np.flatnonzero((candidate >= 0) & (previous < 0))
        owner = candidate[heir]
        size = self.block_tokens
        whole = self._input[owner].astype(np.int64) // size
        filled = (self._input[owner].astype(np.int64) + self._output[owner]) // size
        place = heir - chunk.offsets[request[heir]]
        inside = (place >= whole) & (place < filled)
        heir, owner, offset = heir[inside], owner[inside], (place - whole)[inside]
        in_chunk = owner >= self._held
        top = np.where(in_chunk, generated_top[np.where(in_chunk, owner - self._held, 0)], self._generated_slot[owner])
        alive = top >= 0
        heir, owner = heir[alive], owner[alive]
        previous = previous.copy()
        previous[heir] = top[alive] - offset[alive]
        return previous, np.unique(owner)

    def _commit(self, blocks: Ints, slot: Ints, generated: Ints, generated_top: Ints, previous: Ints) -> None:
        """Remember the touches of this chunk."""
        self._slots.add(blocks.size + int(generated.sum()))
        self._slots.kill(previous[previous >= 0])
        if self._slots.filled > LARGEST_INT32 and self._slot.dtype != np.int64:
            self._slot = self._slot.astype(np.int64)
            self._generated_slot = self._generated_slot.astype(np.int64)
        if blocks.size:
            self._slot[blocks[self._last_touch]] = slot[self._last_touch]
        if self.keep_generated:
            has = np.flatnonzero(generated)
            self._generated_slot[self._held + has] = generated_top[has]
        self.requests += generated.size
        self._held += generated.size

    def _grow(self, chunk: RequestChunk, lengths: Ints) -> None:
        if chunk.blocks.size:
            needed = int(chunk.blocks.max()) + 1
            self._slot = _grown(self._slot, needed)
        size = self._held + lengths.size
        here = slice(self._held, size)
        self._number, self._conversation = _grown(self._number, size), _grown(self._conversation, size)
        self._input, self._output = _grown(self._input, size), _grown(self._output, size)
        if self._end.size < size:
            later = np.full(max(size, 2 * self._end.size) - self._end.size, NO_SLOT, dtype=np.int64)
            self._end = np.concatenate((self._end, later))
        self._number[here] = np.arange(self.requests, self.requests + lengths.size)
        self._input[here] = chunk.input_tokens
        self._output[here] = chunk.output_tokens
        if self.keep_generated:
            self._generated_slot = _grown(self._generated_slot, size)
            self._generated_slot[here] = -1
        if self.ttl_s is not None and chunk.time_s is not None:
            self._time = _grown(self._time, size)
            self._time[here] = chunk.time_s


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    first: Ints
    """Positions of the first occurrence of each block in its request, ascending."""
    index: Ints
    """For every position, which of ``first`` stands for it."""


def _first_of_request(blocks: Ints, request: Ints) -> _Kept | None:
    """First occurrences of blocks within their requests; None when no request names a block twice."""
    if not blocks.size:
        return None
    # requests whose blocks increase strictly (the usual case) cannot repeat one
    suspicious = (np.diff(blocks) <= 0) & (request[1:] == request[:-1])
    if not suspicious.any():
        return None
    bits = max(int(blocks.max()).bit_length(), 1)
    pair, first, inverse = np.unique((request << bits) | blocks, return_index=True, return_inverse=True)
    if pair.size == blocks.size:
        return None
    order = np.argsort(first)
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return _Kept(first=first[order], index=rank[inverse])


def _killed_above(slot: Ints, request: Ints, weight: Ints) -> Ints:
    """Slots above each run that earlier requests of this chunk have killed.

    Formula:     K_q = sum of weight_u over runs u with request_u < request_q and slot_u > slot_q
    Parameters:  slot, highest slot of each run, all different; request, not decreasing; weight, slots per run
    Returns:     shape (runs,)
    Holds when:  runs do not overlap.
    References:  mattson1970, stack processing
    """
    # inside a request count nothing: put its runs in ascending order of slots
    bits = max(int(slot.max()).bit_length(), 1)
    order = np.argsort((request << bits) | slot)
    counted = earlier_greater_weight(slot[order], weight[order])
    killed = np.empty(slot.size, dtype=np.int64)
    killed[order] = counted
    return killed


def _running_max(depths: Ints, request: Ints) -> Ints:
    """Largest depth among a block and those before it in its request."""
    shifted = depths + (request << 32)
    return np.asarray(np.maximum.accumulate(shifted) - (request << 32))


def _ranges(starts: Ints, lengths: Ints) -> Ints:
    """start, start + 1, ... of each range, one after the other."""
    total = int(lengths.sum())
    before = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(total, dtype=np.int64) + np.repeat(starts - before, lengths))


def _grown(values: NDArray[Number], needed: int) -> NDArray[Number]:
    if values.size >= needed:
        return values
    larger = np.empty(max(needed, 2 * values.size, _START_SIZE), dtype=values.dtype)
    larger[: values.size] = values
    larger[values.size :] = -1
    return larger
