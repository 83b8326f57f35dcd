"""Numbers for block ids, and the blocks of a whole trace in memory or in a scratch file."""

from __future__ import annotations

import mmap
import tempfile
from dataclasses import dataclass, field
from typing import IO, Protocol

import numpy as np
from numpy.typing import NDArray

from pddplan.traces.keys import UNKNOWN, KeyTable
from pddplan.traces.rows import Ints
from pddplan.traces.scratch import scratch_errors
from pddplan.units import MIB

ALWAYS_PLAIN = 2**22
"""Ids below this are used as they are."""
PLAIN_FACTOR = 8
"""Larger ids are used as they are while the largest is below this many times the ids read so far."""
LARGEST_PLAIN = 2**30
MEMORY_BYTES = 64 * MIB
"""Beyond this, blocks wait in a scratch file until they are replayed."""
CHUNK_BLOCKS = 2**19
"""Blocks replayed at a time (a speed setting: results do not depend on it)."""
NUMBER_BYTES = 4


class BlockNumbers:
    """Small numbers for block ids of any size, so that arrays can be indexed by them."""

    def __init__(self) -> None:
        self._plain_below: int | None = None  # None while every id so far was used as it is
        self._seen = 0
        self._largest = -1
        self._table = KeyTable()
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
        numbers = self._table.lookup(unique)
        new = numbers == UNKNOWN
        numbers[new] = np.arange(self._next, self._next + int(new.sum()), dtype=np.int32)
        self._next += int(new.sum())
        self._table.insert(unique[new], numbers[new])
        return numbers[inverse]


class Blocks(Protocol):
    """Where the block numbers of requests come from."""

    @property
    def largest(self) -> int:
        """Largest block number."""

    @property
    def count(self) -> int:
        """Blocks of all requests together."""

    def gather(self, starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
        """Offsets and block numbers of requests, given where each one's begin and how many they are."""


@dataclass(slots=True, eq=False)
class BlockStore:
    """Block numbers of all requests, in the order of the file."""

    largest: int = -1
    count: int = 0
    _parts: list[NDArray[np.int32]] = field(default_factory=list)
    _scratch: IO[bytes] | None = None
    _map: mmap.mmap | None = None
    _flat: NDArray[np.int32] | None = None

    def append(self, numbers: NDArray[np.int32]) -> None:
        """Blocks of further requests.

        Raises:  InputError when there is no room for the scratch file.
        """
        self.largest = max(self.largest, int(numbers.max(initial=-1)))
        with scratch_errors():
            if self._scratch is None and NUMBER_BYTES * (self.count + numbers.size) > MEMORY_BYTES:
                self._scratch = tempfile.TemporaryFile(prefix="pddplan-blocks-")  # noqa: SIM115 (lives with the store)
                for part in self._parts:
                    self._scratch.write(part.data)
                self._parts.clear()
            if self._scratch is None:
                self._parts.append(numbers)
            else:
                self._scratch.write(np.ascontiguousarray(numbers).data)
        self.count += numbers.size

    def close(self) -> None:
        """No more requests follow."""
        if self._scratch is None:
            self._flat = np.concatenate(self._parts) if self._parts else np.empty(0, dtype=np.int32)
            self._parts.clear()
        else:
            with scratch_errors():
                self._scratch.flush()
                self._map = mmap.mmap(self._scratch.fileno(), 0, access=mmap.ACCESS_READ)
            self._flat = np.frombuffer(self._map, dtype=np.int32)
            self.discard()  # the mapping keeps the data alive

    def discard(self) -> None:
        """Let go of the scratch file."""
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None

    def gather(self, starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
        """Offsets and block numbers of requests, given where each one's begin and how many they are."""
        assert self._flat is not None
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        if starts.size and bool((starts[1:] == starts[:-1] + lengths[:-1]).all()):
            flat = self._flat[starts[0] : starts[-1] + lengths[-1]]
        else:
            flat = self._flat[_ranges(starts, offsets, lengths)]
        blocks = flat.astype(np.int64)
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)  # pages of the scratch file need not stay in memory
        return offsets, blocks


@dataclass(frozen=True, slots=True)
class ConsecutiveBlocks:
    """Blocks that need no store: those of a request are numbered one after the other from where they begin."""

    largest: int
    count: int

    def gather(self, starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
        """Offsets and block numbers of requests, given where each one's begin and how many they are."""
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        return offsets, _ranges(starts, offsets, lengths)


def fingerprints(offsets: Ints, blocks: Ints) -> Ints:
    """A number per request that equal sequences of blocks share (and others hardly ever)."""
    place = np.arange(blocks.size, dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets))
    with np.errstate(over="ignore"):
        mixed = (blocks + 1) * (2 * place + 1) * np.int64(-7046029254386353131)
        mixed ^= mixed >> np.int64(29)
        running = np.concatenate(([0], np.cumsum(mixed)))
        return np.asarray(running[offsets[1:]] - running[offsets[:-1]])


def _ranges(starts: Ints, offsets: Ints, lengths: Ints) -> Ints:
    """start, start + 1, ... of each request, one after the other."""
    return np.asarray(np.arange(int(offsets[-1]), dtype=np.int64) + np.repeat(starts - offsets[:-1], lengths))
