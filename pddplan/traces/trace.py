"""A trace as the planner uses it: columns in order of time, and what was found on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pddplan.domain.workload import Array
from pddplan.traces.arrivals import ArrivalPattern
from pddplan.traces.blocks import BlockStore
from pddplan.traces.rows import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of time (ties in file order), as parallel arrays of shape (requests,)."""

    file: str
    sha256: str
    format: str
    how_recognised: str
    """Why it was read as this format."""
    time_s: Array | None
    """Arrival, the first at 0; None when the file has no times."""
    clock_start_s: float | None
    """Seconds since midnight of the first arrival, where the file has calendar time."""
    input_tokens: Ints
    output_tokens: Ints
    session: Ints | None
    hit_tokens: Ints | None
    """Cached tokens as reported by the provider, where the file has them."""
    order: Ints
    """Position in ``blocks`` of each request."""
    blocks: BlockStore | None
    block_tokens: int | None
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
        return int(self.input_tokens.size)

    @property
    def span_s(self) -> float | None:
        """Time from the first to the last arrival."""
        if self.time_s is None or not self.time_s.size:
            return None
        return float(self.time_s[-1] - self.time_s[0])
