"""Which slots of a growing time line are live, one bit each, with fast counts of those above any slot."""

from __future__ import annotations

import numpy as np

from pddplan.traces.rows import Ints

WORD_BITS = 64
_START_SIZE = 1024


class SlotBits:
    """Which slots of the time line are live, one bit each, with fast counts."""

    def __init__(self) -> None:
        self.filled = 0
        """Slots handed out so far."""
        self.live = 0
        self._words = np.zeros(_START_SIZE, dtype=np.uint64)
        self._before = np.zeros(_START_SIZE, dtype=np.int64)
        """Live slots in all words before each one."""

    def add(self, count: int) -> None:
        """Hand out further slots, all live."""
        after = self.filled + count
        words = (after + WORD_BITS - 1) // WORD_BITS
        if words > self._words.size:
            larger = np.zeros(max(words, 2 * self._words.size), dtype=np.uint64)
            larger[: self._words.size] = self._words
            self._words = larger
        first, last = self.filled // WORD_BITS, after // WORD_BITS
        head = _low_bits(self.filled % WORD_BITS)
        if count:
            self._words[first] |= ~head if last > first else _low_bits(after % WORD_BITS) & ~head
            self._words[first + 1 : last] = _low_bits(WORD_BITS)
            if last > first and after % WORD_BITS:
                self._words[last] |= _low_bits(after % WORD_BITS)
        self.filled = after
        self.live += count

    def kill(self, slots: Ints) -> None:
        """These slots, live until now and all different, are dead from now on."""
        bits = np.left_shift(np.uint64(1), (slots % WORD_BITS).astype(np.uint64))
        np.bitwise_xor.at(self._words, slots // WORD_BITS, bits)
        self.live -= slots.size
        words = self.filled // WORD_BITS + 1
        counts = np.bitwise_count(self._words[:words])
        self._before = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))

    def live_above(self, slots: Ints) -> Ints:
        """Live slots above each of these."""
        word, bit = slots // WORD_BITS, (slots % WORD_BITS).astype(np.uint64)
        inside = np.bitwise_count(self._words[word] >> bit).astype(np.int64)  # this slot and those above in its word
        return np.asarray(self.live - self._before[word + 1] + inside - 1)

    def live_below(self, places: Ints) -> Ints:
        """Live slots below each place (a slot, or the end of the line)."""
        word, bit = places // WORD_BITS, (places % WORD_BITS).astype(np.uint64)
        last = self._words.size - 1  # the end of the line may lie in the word after it
        inside = np.bitwise_count(self._words[np.minimum(word, last)] & ((np.uint64(1) << bit) - np.uint64(1))).astype(
            np.int64
        )
        return np.asarray(self._before[word] + inside)


def _low_bits(count: int) -> np.uint64:
    return np.uint64((1 << count) - 1)
