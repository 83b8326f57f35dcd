"""Rows as readers yield them: parallel columns, not yet judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used."""

    line: int
    what: str
    cut_off: bool = False
    """The last line of a file that ends in the middle of it."""


@dataclass(slots=True, eq=False)
class Rows:
    """Some rows of a trace. Missing numbers are NaN; columns that a format does not have are None."""

    line: Ints
    """Line (or row, in binary formats) counted from 1."""
    input_tokens: NDArray[Any]
    output_tokens: NDArray[Any]
    time_s: Array | None = None
    session: Ints | None = None
    """Number of the conversation."""
    hit_tokens: NDArray[Any] | None = None
    """Cached tokens as the provider reported them."""
    offsets: Ints | None = None
    ids: Ints | None = None
    """Block ids of row i are ids[offsets[i]:offsets[i + 1]]."""
    failed: Flags | None = None
    """Requests that the log itself calls failed."""
    bad: list[BadRow] = field(default_factory=list)
    """Rows that could not be read at all; they are not among the columns."""
    others: int = 0
    """Lines that are no requests, in a log of all kinds of events."""

    @property
    def count(self) -> int:
        return int(self.line.size)

    def take(self, keep: Flags) -> Rows:
        """The rows where ``keep`` is true."""
        offsets, ids = self.offsets, self.ids
        if offsets is not None and ids is not None and not keep.all():
            lengths = np.diff(offsets)
            ids = ids[np.repeat(keep, lengths)]
            offsets = np.concatenate(([0], np.cumsum(lengths[keep])))
        return Rows(
            line=self.line[keep],
            input_tokens=self.input_tokens[keep],
            output_tokens=self.output_tokens[keep],
            time_s=None if self.time_s is None else self.time_s[keep],
            session=None if self.session is None else self.session[keep],
            hit_tokens=None if self.hit_tokens is None else self.hit_tokens[keep],
            offsets=offsets,
            ids=ids,
            failed=None if self.failed is None else self.failed[keep],
            bad=self.bad,
            others=self.others,
        )
