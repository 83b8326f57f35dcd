"""What the kernel replays: stages with their service times, kinds of requests, and the ways between stages.

A *kind* is a row of quantities that requests share. Drawn requests have as many kinds as the workload has
classes; every request of a trace is a kind of its own. Service times stand per kind, so that each is
computed once, in whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.plan import PathKind
from pddplan.domain.workload import Array

Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class PrefillStage:
    """Instances that prefill one request at a time from one queue."""

    pool: str
    servers: int
    service_s: Array
    """Shape (kinds,)."""
    shortest_first: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DecodeStage:
    """Instances that decode in batches; also a relay pool."""

    pool: str
    instances: int
    second_per_token: tuple[float, ...]
    """Element n: time of one token when n sequences are in the whole pool; shape (slots + 1,)."""

    @property
    def slots(self) -> int:
        return len(self.second_per_token) - 1


@dataclass(frozen=True, slots=True, eq=False)
class MixedStage:
    """Instances that prefill in chunks along with decode steps (aggregated serving)."""

    pool: str
    instances: int
    service_s: Array
    """Prefill alone, shape (kinds,)."""
    chunk_s: float
    """Time of one full chunk, where chunks and decode steps are replayed by turns; inf = mixed passes."""
    pass_alone_s: Array
    """Longest chunk of a prefill as a pass of its own, shape (kinds,)."""
    pass_added_s: Array
    """What that chunk adds to a decode step, shape (kinds,)."""
    second_per_token: tuple[float, ...]
    """Element b: time of one token when b sequences decode on *one* instance; shape (slots per instance + 1,)."""
    side_by_side: int = 1
    """Prefills that one instance works on at once."""
    stop_share: Array | None = None
    """Share of a prefill's time in which decoding stands still, shape (kinds,); None = all of it."""


@dataclass(frozen=True, slots=True)
class LineStage:
    line: str
    rate_bytes_per_s: float
    """Shared by all transfers."""
    transfer_limit_bytes_per_s: float
    """What the TCP flows of one transfer reach (window over RTT, loss)."""
    delay_s: float
    """Propagation, one way."""
    noise_mean_s: float
    """Mean of an exponential delay added to each transfer (congestion outside)."""


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """One path of the plan, with all that depends on the pair (path, kind)."""

    path: str
    kind: PathKind
    prefill: str
    relay: str | None
    decode: str | None
    line: str | None
    payload_bytes: Array
    """What crosses the line, shape (kinds,); zeros inside one site."""
    local_s: Array
    """Copy over RDMA from the prefill pool to the pool at the same site, shape (kinds,)."""
    decode_cache: bool
    pipelined_fraction: float
    """Share of the payload that may leave while prefill still runs: 0, or 1 - 1/layers layer by layer."""
    handover: Callable[[float, float], tuple[float, float]]
    """(tokens made, seconds per token) -> (how long the relay goes on, how long the last round takes)."""


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """A plan made ready for replay."""

    ways: tuple[Way, ...]
    share: Array
    """Shape (ways, classes); columns sum to one."""
    prefill: tuple[PrefillStage, ...]
    decode: tuple[DecodeStage, ...]
    relay: tuple[DecodeStage, ...]
    mixed: tuple[MixedStage, ...]
    lines: tuple[LineStage, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Requests in order of arrival."""

    arrival_s: Array
    kind: Index
    """Row of the scenario's per-kind arrays."""
    request_class: Index
    """Column of the plan's routing shares."""
    way: Index
    output_tokens: Array

    @property
    def count(self) -> int:
        return int(self.arrival_s.size)


def choose_ways(request_class: Index, share: Array, rng: np.random.Generator) -> Index:
    """Send each request over one way, with the probabilities of its class.

    Formula:     way = first row of the cumulated shares of the class that exceeds a uniform number
    Parameters:  request_class, shape (requests,); share, shape (ways, classes)
    Returns:     shape (requests,)
    Raises:      nothing; a column is scaled to sum to one
    Holds when:  the router decides at random; deterministic splitting would be smoother.
    References:  elementary
    """
    cumulated = np.cumsum(share, axis=0)
    cumulated = cumulated / cumulated[-1]
    drawn = rng.random(request_class.size)
    way = np.zeros(request_class.size, dtype=np.intp)
    for row in cumulated[:-1]:
        way += drawn >= row[request_class]
    return way
