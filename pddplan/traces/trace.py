"""A trace as the planner uses it: requests in order of time, and what was found on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.traces.arrivals import ArrivalPattern
from pddplan.traces.blocks import CHUNK_BLOCKS, Blocks
from pddplan.traces.replay import RequestChunk
from pddplan.traces.rows import Ints
from pddplan.traces.scratch import Records, RowStore

COLUMNS = (
    ("time", "f8"),
    ("input", "i4"),
    ("output", "i4"),
    ("session", "i4"),
    ("hit", "i4"),
    ("start", "i8"),
    ("blocks", "i4"),
)
"""What is kept of each request. ``time`` as the file writes it; ``start`` and ``blocks`` say where its blocks are."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of time (ties in file order), read in chunks; columns as a whole fit only smaller traces."""

    file: str
    sha256: str
    format: str
    how_recognised: str
    """Why it was read as this format."""
    rows: RowStore
    has_time: bool
    has_session: bool
    has_hits: bool
    units_per_s: float = 1.0
    """Of the times as written."""
    first_time: float = 0.0
    """The earliest time, as written."""
    clock_start_s: float | None = None
    """Seconds since midnight of the first arrival, where the file has calendar time."""
    blocks: Blocks | None = None
    block_tokens: int | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Rows left out, by reason."""
    oddities: Mapping[str, int] = field(default_factory=dict)
    """What was found and handled, with counts."""
    notes: tuple[str, ...] = ()
    """Choices made while reading that the user should know."""
    drawn_times: str | None = None
    """How arrival times were drawn, where the file has none of its own."""
    given_arrival: ArrivalPattern | None = None
    """Arrivals as the file describes them, where it has no single requests."""

    @property
    def count(self) -> int:
        return self.rows.count

    @property
    def span_s(self) -> float | None:
        """Time from the first to the last arrival."""
        if not self.has_time or not self.count:
            return None
        return float(self.seconds(self.rows.read(self.count - 1, self.count))[0])

    def seconds(self, rows: Records) -> Array:
        """Arrival times of some rows, the first of the trace at 0."""
        return np.asarray(rows["time"] / self.units_per_s - self.first_time / self.units_per_s)

    def times(self) -> Iterator[Array]:
        """Arrival times, chunk by chunk."""
        for rows in self.rows.chunks():
            yield self.seconds(rows)

    def requests(self, *, chunk_blocks: int = CHUNK_BLOCKS) -> Iterator[tuple[Records, RequestChunk]]:
        """Requests with their blocks, about so many blocks at a time. The trace must have blocks."""
        assert self.blocks is not None
        for rows in self.rows.chunks():
            total = np.cumsum(rows["blocks"], dtype=np.int64)
            start = 0
            while start < rows.size:
                before = int(total[start - 1]) if start else 0
                stop = int(np.searchsorted(total, before + chunk_blocks, side="left")) + 1
                part = rows[start:stop]
                start = stop
                offsets, blocks = self.blocks.gather(part["start"], part["blocks"].astype(np.int64))
                yield (
                    part,
                    RequestChunk(
                        offsets=offsets,
                        blocks=blocks,
                        input_tokens=part["input"].astype(np.int64),
                        output_tokens=part["output"].astype(np.int64),
                        time_s=self.seconds(part) if self.has_time else None,
                    ),
                )

    # -- columns as a whole ------------------------------------------------------------------------------------

    @property
    def time_s(self) -> Array | None:
        """Arrival times, the first at 0; None when the file has no times."""
        parts = list(self.times())
        return np.concatenate(parts) if self.has_time and parts else None

    @property
    def input_tokens(self) -> Ints:
        return self._ints("input")

    @property
    def output_tokens(self) -> Ints:
        return self._ints("output")

    @property
    def session(self) -> Ints | None:
        """Number of the conversation of each request."""
        return self._ints("session") if self.has_session else None

    @property
    def hit_tokens(self) -> Ints | None:
        """Cached tokens as reported by the provider, where the file has them."""
        return self._ints("hit") if self.has_hits else None

    def block_lists(self) -> tuple[Ints, Ints]:
        """Offsets and block numbers of all requests. The trace must have blocks."""
        assert self.blocks is not None
        starts: NDArray[Any] = self.rows.column("start")
        return self.blocks.gather(starts, self._ints("blocks"))

    def _ints(self, name: str) -> Ints:
        return self.rows.column(name).astype(np.int64)
