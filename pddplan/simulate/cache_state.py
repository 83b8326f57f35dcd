"""The cache at the decode side, as the line sees it: a block counts as there once its transfer is complete.

Closed forms take the missing tokens of a class as given. On a real trace they depend on what has arrived: the
next turn of a conversation whose KV is still under way, or went to the relay only, must carry it again.

One exception keeps replays honest. On P-MD the KV must land before the answer begins, and nobody asks a next
question before the answer to the last one. A trace knows nothing of our transfers and may bring the next turn
earlier; what the turn before has under way then counts as landed.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.evaluate.problem import KvBytes
from pddplan.simulate.scenario import Index

Blocks = NDArray[np.int64]


class Cache(Protocol):
    """Blocks at the decode side."""

    def leading(self, blocks: Blocks) -> int:
        """How many blocks from the first on are present, without a gap."""

    def insert(self, blocks: Blocks) -> None:
        """Blocks are complete."""


class EndlessCache:
    """Nothing is ever evicted: one flag per block number."""

    def __init__(self, block_numbers: int) -> None:
        self._present = np.zeros(block_numbers, dtype=bool)

    def leading(self, blocks: Blocks) -> int:
        """How many blocks from the first on are present, without a gap."""
        there = self._present[blocks]
        gap = int(there.argmin()) if blocks.size else 0
        return gap if blocks.size and not there[gap] else int(blocks.size)

    def insert(self, blocks: Blocks) -> None:
        """Blocks are complete."""
        self._present[blocks] = True


class LruCache:
    """Least recently used blocks go first."""

    def __init__(self, capacity_blocks: int) -> None:
        self.capacity = capacity_blocks
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def leading(self, blocks: Blocks) -> int:
        """How many blocks from the first on are present, without a gap."""
        present = self._blocks
        for place, block in enumerate(blocks.tolist()):
            if block not in present:
                return place
        return int(blocks.size)

    def insert(self, blocks: Blocks) -> None:
        """Blocks are complete. Touched from last to first, so that prefixes outlive what follows them."""
        present = self._blocks
        for block in reversed(blocks.tolist()):
            if block in present:
                present.move_to_end(block)
            else:
                present[block] = None
        while len(present) > self.capacity:
            present.popitem(last=False)


@dataclass(frozen=True, slots=True, eq=False)
class BlockLists:
    """Block numbers of each request of a trace; copies of a request have the blocks of its original, renumbered."""

    offsets: Blocks
    numbers: Blocks
    block_tokens: int
    original: Blocks | None = None
    """Request that each request is a copy of, shape (requests,); None = itself."""
    copy: Blocks | None = None
    """Which copy it is; copies of different number share no block."""
    stride: int = 0
    """Block numbers within one copy lie below this."""

    @property
    def block_numbers(self) -> int:
        """All block numbers lie below this."""
        if self.copy is None:
            return int(self.numbers.max(initial=-1)) + 1
        return self.stride * (int(self.copy.max(initial=0)) + 1)

    def of(self, request: int) -> Blocks:
        if self.original is None or self.copy is None:
            return self.numbers[self.offsets[request] : self.offsets[request + 1]]
        source = self.original[request]
        listed = self.numbers[self.offsets[source] : self.offsets[source + 1]]
        shifted: Blocks = listed + self.copy[request] * self.stride
        return shifted


@dataclass(slots=True, eq=False)
class DecodeCache:
    """State of one line: sizes transfers by what the far cache holds when they start (see sharing.LineState)."""

    blocks: BlockLists
    cache: Cache
    input_tokens: NDArray[np.int64]
    whole_bytes: Array
    """KV of the whole input of each request: what crosses without any cache."""
    skipped_bytes: Array
    """Element h: what h cached blocks save."""
    uses_cache: NDArray[np.bool_]
    """False for requests on paths without a decode-side cache."""
    generated_from: NDArray[np.int64]
    """Earlier request whose input and answer this request's input continues, -1 = none or unknown."""
    output_tokens: NDArray[np.int64]
    answered_after_landing: NDArray[np.bool_]
    """True on paths whose answer needs the transfer first (P-MD)."""
    assumed_held_tokens: NDArray[np.int64]
    """Held from before the start of the replay."""
    missing_tokens: Array = field(init=False)
    """What each request had to carry; NaN where it did not cross."""
    _requests: Index = field(init=False)
    _sent: list[float] = field(init=False, default_factory=list)
    _under_way: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.missing_tokens = np.full(self.input_tokens.size, np.nan)

    @property
    def sent_bytes(self) -> Array:
        return np.asarray(self._sent)

    def expect(self, requests: Index) -> None:
        self._requests = requests
        self._sent = [0.0] * requests.size

    def begin(self, transfer: int) -> float:
        request = int(self._requests[transfer])
        total = int(self.input_tokens[request])
        if not self.uses_cache[request]:
            self.missing_tokens[request] = total
            self._sent[transfer] = float(self.whole_bytes[request])
            return self._sent[transfer]
        size = self.blocks.block_tokens
        held = max(self.cache.leading(self.blocks.of(request)) * size, int(self.assumed_held_tokens[request]))
        parent = int(self.generated_from[request])
        if parent >= 0 and self._has_whole(parent, held):
            # the decode side made the parent's answer itself: nobody needs to send it
            held = max(held, int(self.input_tokens[parent] + self.output_tokens[parent]))
        held = min(held, total - 1)  # the last token always runs through prefill, so its KV crosses
        self.missing_tokens[request] = total - held
        saved = self.skipped_bytes[held // size]
        self._sent[transfer] = float(self.whole_bytes[request] - saved)
        self._under_way.add(request)
        return self._sent[transfer]

    def _has_whole(self, parent: int, held_tokens: int) -> bool:
        """Whether the whole input of the turn before is there, or must be by the time its answer was read."""
        if parent in self._under_way and self.answered_after_landing[parent]:
            return True
        size = self.blocks.block_tokens
        return held_tokens >= int(self.input_tokens[parent]) // size * size > 0

    def end(self, transfer: int) -> None:
        request = int(self._requests[transfer])
        self._under_way.discard(request)
        if self.uses_cache[request]:
            self.cache.insert(self.blocks.of(request))


def bytes_saved(kv: KvBytes, *, longest_tokens: int, block_tokens: int) -> Array:
    """What a cached prefix of h blocks saves, for h = 0, 1, ...

    Formula:     g(h) = inc(L, L) - inc(L, L - h B) for the longest input L: growing entries of the prefix alone,
                 because windows and state cross in both cases
    Parameters:  kv; longest_tokens L; block_tokens B
    Returns:     shape (blocks of L + 1,) [bytes]
    Raises:      nothing
    Holds when:  entries grow with position only, as in KvSize.
    References:  pdd-report, A1 (DRC)
    """
    held = np.minimum(np.arange(longest_tokens // block_tokens + 1) * float(block_tokens), longest_tokens - 1.0)
    total = np.full(held.size, float(longest_tokens))
    whole = kv.increment_bytes(total_tokens=total, missing_tokens=total)
    rest = kv.increment_bytes(total_tokens=total, missing_tokens=total - held)
    saved: Array = np.asarray(whole, dtype=float) - np.asarray(rest, dtype=float)
    return saved
