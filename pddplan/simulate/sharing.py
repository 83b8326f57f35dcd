"""A leased line whose transfers share its rate equally, each up to its own limit (fluid processor sharing)."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.errors import DomainError
from pddplan.simulate.checks import require_positive, require_stage_input


class LineState(Protocol):
    """Something whose state decides how much a transfer carries: the cache at the far end."""

    @property
    def sent_bytes(self) -> Array:
        """What each transfer carried, once all are done."""

    def expect(self, requests: NDArray[np.intp]) -> None:
        """Told which requests the transfers belong to, in order of their start."""

    def begin(self, transfer: int) -> float:
        """Bytes that a transfer has to carry, asked when it starts."""

    def end(self, transfer: int) -> None:
        """A transfer is complete."""


def processor_sharing(
    arrival_s: Array,
    work_bytes: Array,
    *,
    rate_bytes_per_s: float,
    transfer_limit_bytes_per_s: float = math.inf,
    state: LineState | None = None,
) -> Array:
    """Time at which each transfer is complete when n transfers under way share a line (G/G/R-PS).

    Formula:     dV/dt = min(r, C / n(t)); a transfer of z bytes that begins at t0 ends when V(t) = V(t0) + z
    Parameters:  arrival_s, shape (requests,), not decreasing [s]; work_bytes z, shape (requests,) >= 0 [bytes];
                 rate_bytes_per_s C > 0 of the line [bytes/s]; transfer_limit_bytes_per_s r > 0 of one transfer
                 [bytes/s], inf = the line alone binds; state, if given, decides the sizes instead of work_bytes
    Returns:     shape (requests,) [s]
    Raises:      DomainError if times are out of order, sizes negative, or the rate not positive.
    Holds when:  flows get equal shares at once; exact for the fluid model (no TCP slow start).
    References:  parekh1993, section II (virtual time); kleinrock1976, section 4.4; lindberger1999 (M/G/R-PS)
    """
    require_stage_input(arrival_s, work_bytes, name="work_bytes")
    require_positive(rate_bytes_per_s, name="rate_bytes_per_s")
    if not transfer_limit_bytes_per_s > 0:
        raise DomainError("transfer_limit_bytes_per_s", "must be greater than 0", transfer_limit_bytes_per_s)
    share = 1.0 / rate_bytes_per_s  # seconds per byte of one transfer, for each transfer under way
    least = 1.0 / transfer_limit_bytes_per_s
    finish = [0.0] * arrival_s.size
    active: list[tuple[float, int]] = []
    now = attained = 0.0
    for i, (arrived, size) in enumerate(zip(arrival_s.tolist(), work_bytes.tolist(), strict=True)):
        while active:
            target, first = active[0]
            second_per_byte = max(len(active) * share, least)
            ends = now + (target - attained) * second_per_byte
            if ends > arrived:
                attained += (arrived - now) / second_per_byte
                break
            heappop(active)
            finish[first] = now = ends
            attained = target
            if state is not None:
                state.end(first)
        else:
            attained = 0.0  # an idle line may forget: keeps the virtual time small and exact
        now = arrived
        if state is not None:
            size = state.begin(i)
        heappush(active, (attained + size, i))
    while active:
        target, first = active[0]
        now += (target - attained) * max(len(active) * share, least)
        attained = target
        finish[first] = now
        heappop(active)
        if state is not None:
            state.end(first)
    return np.asarray(finish)
