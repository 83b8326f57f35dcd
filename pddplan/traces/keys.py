"""Small numbers for large keys: block ids of any size, names of sessions. Names themselves are not kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pddplan.traces.rows import Ints

UNKNOWN = -1
MOST_RECENT = 2**16
RECENT_SHARE = 4
"""Recent keys are merged into the others when they are more than these over this, so that merging stays cheap."""
NO_NAME = ("", "null", "None", "nan", "NaN")


class KeyTable:
    """Numbers of 64-bit keys, 12 bytes each: sorted, with a smaller table of recent ones before it."""

    def __init__(self) -> None:
        self._old = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))
        self._recent = self._old

    @property
    def size(self) -> int:
        return int(self._old[0].size + self._recent[0].size)

    def lookup(self, keys: Ints) -> NDArray[np.int32]:
        """Number of each key, UNKNOWN where there is none."""
        found = np.full(keys.size, UNKNOWN, dtype=np.int32)
        for known, numbers in (self._old, self._recent):
            place = np.searchsorted(known, keys)
            place[place == known.size] = 0
            if known.size:
                hit = known[place] == keys
                found[hit] = numbers[place[hit]]
        return found

    def insert(self, keys: Ints, numbers: NDArray[np.int32]) -> None:
        """New keys in ascending order, none of them known."""
        self._recent = _merged(self._recent, (keys, numbers))
        if self._recent[0].size > max(MOST_RECENT, self._old[0].size // RECENT_SHARE):
            self._old = _merged(self._old, self._recent)
            self._recent = (keys[:0], numbers[:0])


class Names:
    """Numbers for names (sessions, chats) in order of appearance."""

    def __init__(self) -> None:
        self._table = KeyTable()
        self.count = 0

    def fresh(self, count: int) -> Ints:
        """Numbers that belong to no name."""
        self.count += count
        return np.arange(self.count - count, self.count, dtype=np.int64)

    def many(self, prints: Ints, named: NDArray[np.bool_]) -> Ints:
        """Numbers of some names, given by their prints; each one that is not named gets a number of its own."""
        unique, first, inverse = np.unique(prints, return_index=True, return_inverse=True)
        numbers = self._table.lookup(unique).astype(np.int64)
        new = np.flatnonzero((numbers == UNKNOWN) & named[first])
        # in order of appearance, so that numbers do not depend on how a file is cut
        opened = np.concatenate((first[new], np.flatnonzero(~named)))
        rank = np.empty(opened.size, dtype=np.int64)
        rank[np.argsort(opened)] = self.fresh(opened.size)
        numbers[new] = rank[: new.size]
        self._table.insert(unique[new], numbers[new].astype(np.int32))
        result = numbers[inverse]
        result[~named] = rank[new.size :]
        return result


def prints_of(names: Any) -> tuple[Ints, NDArray[np.bool_]]:
    """A 64-bit number for each name, the same wherever it stands, and which are names at all.

    Parameters:  names, a polars column or a list of anything
    """
    import polars as pl

    if not isinstance(names, pl.Series):
        names = pl.Series([None if name is None else _text(name) for name in names], dtype=pl.String)
    texts = names.cast(pl.String)
    named = ~(texts.is_null() | texts.is_in(list(NO_NAME))).to_numpy()
    return texts.fill_null("").hash(seed=0).to_numpy().view(np.int64), named


def joined_prints(columns: Sequence[tuple[Ints, NDArray[np.bool_]]]) -> tuple[Ints, NDArray[np.bool_]]:
    """Prints of pairs of names; a pair is named if its first part is."""
    (prints, named), *others = columns
    with np.errstate(over="ignore"):
        for further, _ in others:
            prints = prints * np.int64(-7046029254386353131) + further
    return prints, named


def _text(name: object) -> str:
    return str(name).encode(errors="replace").decode()  # JSON can write halves of characters, which are no text


def _merged(
    one: tuple[Ints, NDArray[np.int32]], other: tuple[Ints, NDArray[np.int32]]
) -> tuple[Ints, NDArray[np.int32]]:
    place = np.searchsorted(one[0], other[0])
    return np.insert(one[0], place, other[0]), np.insert(one[1], place, other[1])
