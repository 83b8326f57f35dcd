"""Numbers for block ids, and the blocks of a whole trace in memory or in a scratch file."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

import numpy as np
from numpy.typing import NDArray

from pddplan.traces.rows import Ints
from pddplan.units import MIB

ALWAYS_PLAIN = 2**22
"""Ids below this are used as they are."""
PLAIN_FACTOR = 8
"""Larger ids are used as they are while the largest is below this many times the ids read so far."""
LARGEST_PLAIN = 2**30
MEMORY_BYTES = 512 * MIB
"""Beyond this, blocks wait in a scratch file until they are replayed."""
CHUNK_BLOCKS = 2**19
"""Blocks replayed at a time (a speed setting: results do not depend on it)."""


class BlockNumbers:
    """Small numbers for block ids of any size, so that arrays can be indexed by them."""

    def __init__(self) -> None:
        self._plain_below: int | None = None  # None while every id so far was used as it is
        self._seen = 0
        self._largest = -1
        self._keys = np.empty(0, dtype=np.int64)
        self._values = np.empty(0, dtype=np.int32)
        self._next = 0

    def number(self, ids: Ints) -> NDArray[np.int32]:
        """Numbers of these ids; equal ids get equal numbers, now and later."""
        if not ids.size:
            return np.empty(0, dtype=np.int32)
        low, high = int(ids.min()), int(ids.max())
        self._seen += ids.size
        if self._plain_below is None:
            limit = max(ALWAYS_PLAIN, min(PLAIN_FACTOR * self._seen, LARGEST_PLAIN))
            if low >= 0 and high < limit:
                self._largest = max(self._largest, high)
                return ids.astype(np.int32)
            self._plain_below = self._next = self._largest + 1
        plain = (ids >= 0) & (ids < self._plain_below)
        numbers = np.empty(ids.size, dtype=np.int32)
        numbers[plain] = ids[plain]
        numbers[~plain] = self._looked_up(ids[~plain])
        return numbers

    def _looked_up(self, ids: Ints) -> NDArray[np.int32]:
        unique, inverse = np.unique(ids, return_inverse=True)
        place = np.searchsorted(self._keys, unique)
        known = np.zeros(unique.size, dtype=bool)
        inside = place < self._keys.size
        known[inside] = self._keys[place[inside]] == unique[inside]
        numbers = np.empty(unique.size, dtype=np.int32)
        numbers[known] = self._values[place[known]]
        fresh = np.arange(self._next, self._next + int((~known).sum()), dtype=np.int32)
        numbers[~known] = fresh
        self._next += fresh.size
        self._keys = np.insert(self._keys, place[~known], unique[~known])
        self._values = np.insert(self._values, place[~known], fresh)
        return numbers[inverse]


@dataclass(slots=True, eq=False)
class BlockStore:
    """Block numbers of all requests, in the order of the file."""

    offsets: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    largest: int = -1
    """Largest block number so far."""
    _parts: list[NDArray[np.int32]] = field(default_factory=list)
    _lengths: list[Ints] = field(default_factory=list)
    _kept_bytes: int = 0
    _scratch: IO[bytes] | None = None
    _map: mmap.mmap | None = None
    _flat: NDArray[np.int32] | None = None

    def append(self, lengths: Ints, numbers: NDArray[np.int32]) -> None:
        """Blocks of further requests."""
        self._lengths.append(lengths.astype(np.int64))
        self.largest = max(self.largest, int(numbers.max(initial=-1)))
        if self._scratch is None and self._kept_bytes + numbers.nbytes > MEMORY_BYTES:
            self._scratch = tempfile.TemporaryFile(prefix="pddplan-blocks-")  # noqa: SIM115 (lives with the store)
            for part in self._parts:
                self._scratch.write(part.tobytes())
            self._parts.clear()
        if self._scratch is None:
            self._parts.append(numbers)
            self._kept_bytes += numbers.nbytes
        else:
            self._scratch.write(numbers.tobytes())

    def close(self) -> None:
        """No more requests follow."""
        lengths = np.concatenate(self._lengths) if self._lengths else np.empty(0, dtype=np.int64)
        self.offsets = np.concatenate(([0], np.cumsum(lengths)))
        self._lengths.clear()
        if self._scratch is None:
            self._flat = np.concatenate(self._parts) if self._parts else np.empty(0, dtype=np.int32)
            self._parts.clear()
        else:
            self._scratch.flush()
            self._map = mmap.mmap(self._scratch.fileno(), 0, access=mmap.ACCESS_READ)
            self._flat = np.frombuffer(self._map, dtype=np.int32)
            self.discard()  # the mapping keeps the data alive

    def discard(self) -> None:
        """Let go of the scratch file."""
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None

    @property
    def count(self) -> int:
        return int(self.offsets[-1])

    def lengths(self) -> Ints:
        return np.diff(self.offsets)

    def gather(self, order: Ints) -> tuple[Ints, Ints]:
        """Offsets and block numbers of these requests, in this order."""
        assert self._flat is not None
        lengths = self.offsets[order + 1] - self.offsets[order]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        if order.size and order[-1] - order[0] == order.size - 1 and bool((np.diff(order) == 1).all()):
            flat = self._flat[self.offsets[order[0]] : self.offsets[order[-1] + 1]]
        else:
            starts = np.repeat(self.offsets[order] - offsets[:-1], lengths)
            flat = self._flat[np.arange(int(offsets[-1]), dtype=np.int64) + starts]
        blocks = flat.astype(np.int64)
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)  # pages of the scratch file need not stay in memory
        return offsets, blocks

    def fingerprints(self, order: Ints) -> Ints:
        """A number per request that equal sequences of blocks share (and others hardly ever)."""
        offsets, blocks = self.gather(order)
        place = np.arange(blocks.size, dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets))
        with np.errstate(over="ignore"):
            mixed = (blocks + 1) * (2 * place + 1) * np.int64(-7046029254386353131)
            mixed ^= mixed >> np.int64(29)
            running = np.concatenate(([0], np.cumsum(mixed)))
            return np.asarray(running[offsets[1:]] - running[offsets[:-1]])

    def chunks(self, order: Ints, *, chunk_blocks: int = CHUNK_BLOCKS) -> Iterator[Ints]:
        """Cut a sequence of requests into pieces of about so many blocks."""
        if not order.size:
            return
        total = np.cumsum(self.offsets[order + 1] - self.offsets[order])
        cuts = np.searchsorted(total, np.arange(chunk_blocks, int(total[-1]) + chunk_blocks, chunk_blocks), side="left")
        start = 0
        for cut in np.unique(np.minimum(cuts + 1, order.size)):
            yield order[start:cut]
            start = int(cut)
        if start < order.size:
            yield order[start:]
