"""A decoding pool: a finite number of slots, and tokens that take longer the more sequences share a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from pddplan.domain.workload import Array
from pddplan.simulate.checks import require_count, require_positive, require_stage_input


@dataclass(frozen=True, slots=True, eq=False)
class DecodeRun:
    """What happened to each request in a decoding pool; all arrays have shape (requests,)."""

    start_s: Array
    """A slot was free and the first step began."""
    first_token_s: Array
    finish_s: Array
    gap_s: Array | None = None
    """Longest silence that prefills on the same instance cause."""


def checked_steps(second_per_token: Sequence[float]) -> list[float]:
    """Step times as a plain list, refused when a pool has no slot or a token takes no time."""
    require_count(len(second_per_token) - 1, name="slots")
    step = [float(value) for value in second_per_token]
    for value in (min(step[1:]), max(step[1:])):
        require_positive(value, name="second_per_token")
    return step


def decode_batch(
    arrival_s: Array, tokens: Array, *, second_per_token: Sequence[float], boundary: Array | None = None
) -> DecodeRun:
    """Replay a decoding pool: FIFO for slots, then all sequences advance together at a rate set by their number.

    Formula:     dV/dt = 1 / tau(n(t)), n <= slots; a request of o tokens that starts at t0 ends when V(t) = V(t0) + o;
                 its first token leaves 1 + u steps after the start, u being what is left of the step that the
                 others are in (0 when it comes alone or follows one that has just ended)
    Parameters:  arrival_s, shape (requests,), not decreasing [s]; tokens o, shape (requests,) >= 0;
                 second_per_token tau, shape (slots + 1,): element n is the time of one token when n sequences are
                 in the whole pool; element 0 is not used [s]; boundary u, shape (requests,), in [0, 1); None = 0
    Returns:     DecodeRun
    Raises:      DomainError if times are out of order, token counts negative, or a token takes no time.
    Holds when:  sequences are spread evenly over the instances of the pool and steps are short against answers;
                 exact otherwise.
    References:  cohen1979 (generalised processor sharing)
    """
    require_stage_input(arrival_s, tokens, name="tokens")
    step = checked_steps(second_per_token)
    slots = len(step) - 1
    count = arrival_s.size
    wanted = tokens.tolist()
    residual = [0.0] * count if boundary is None else boundary.tolist()
    start, first, finish = [0.0] * count, [0.0] * count, [0.0] * count
    active: list[tuple[float, int]] = []
    waiting: deque[int] = deque()
    now = made = 0.0
    n = 0
    for i, arrived in enumerate(arrival_s.tolist()):
        while n:
            target, j = active[0]
            ends = now + (target - made) * step[n]
            if ends > arrived:
                break
            heappop(active)
            finish[j] = now = ends
            made = target
            if waiting:
                k = waiting.popleft()
                start[k] = now
                first[k] = now + step[n]
                heappush(active, (made + wanted[k], k))
            else:
                n -= 1
        if n == slots:
            waiting.append(i)
            continue
        if n:
            made += (arrived - now) / step[n]
            late = residual[i]
        else:
            made = late = 0.0  # an idle pool may forget: keeps the virtual time small and exact
        n += 1
        now = arrived
        start[i] = arrived
        first[i] = arrived + (1.0 + late) * step[n]
        heappush(active, (made + late + wanted[i], i))
    while n:
        target, j = heappop(active)
        now += (target - made) * step[n]
        made = target
        finish[j] = now
        if waiting:
            k = waiting.popleft()
            start[k] = now
            first[k] = now + step[n]
            heappush(active, (made + wanted[k], k))
        else:
            n -= 1
    return DecodeRun(start_s=np.asarray(start), first_token_s=np.asarray(first), finish_s=np.asarray(finish))
