"""A decoding pool: a finite number of slots, and tokens that take longer the more sequences share a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.errors import DomainError
from pddplan.simulate.checks import require_count, require_positive, require_stage_input


@dataclass(frozen=True, slots=True, eq=False)
class DecodeRun:
    """What happened to each request in a decoding pool; all arrays have shape (requests,)."""

    start_s: Array
    """A slot was free and the first step began."""
    first_token_s: Array
    finish_s: Array


def decode_batch(arrival_s: Array, tokens: Array, *, second_per_token: Sequence[float]) -> DecodeRun:
    """Replay a decoding pool: FIFO for slots, then all sequences advance together at a rate set by their number.

    Formula:     dV/dt = 1 / tau(n(t)), n <= slots; a request of o tokens that starts at t0 ends when V(t) = V(t0) + o;
                 its first token leaves one tau(n) after the start
    Parameters:  arrival_s, shape (requests,), not decreasing [s]; tokens o, shape (requests,) >= 0;
                 second_per_token tau, shape (slots + 1,): element n is the time of one token when n sequences are
                 in the whole pool; element 0 is not used [s]
    Returns:     DecodeRun
    Raises:      DomainError if times are out of order, token counts negative, or a token takes no time.
    Holds when:  sequences are spread evenly over the instances of the pool and steps are short against answers
                 (a step boundary is not waited for); exact otherwise.
    References:  cohen1979 (generalised processor sharing)
    """
    require_stage_input(arrival_s, tokens, name="tokens")
    slots = len(second_per_token) - 1
    require_count(slots, name="slots")
    step = [float(value) for value in second_per_token]
    for value in (min(step[1:]), max(step[1:])):
        require_positive(value, name="second_per_token")
    count = arrival_s.size
    wanted = tokens.tolist()
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
        else:
            made = 0.0  # an idle pool may forget: keeps the virtual time small and exact
        n += 1
        now = arrived
        start[i] = arrived
        first[i] = arrived + step[n]
        heappush(active, (made + wanted[i], i))
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


@dataclass(frozen=True, slots=True, eq=False)
class RelayRun:
    """What happened to each request in a relay pool; all arrays have shape (requests,)."""

    start_s: Array
    """NaN where the transfer was over before a slot was free: the relay is skipped."""
    first_token_s: Array
    """NaN where the relay made no whole token."""
    leave_s: Array
    """Answer complete, or released to the decode pool."""
    made_tokens: Array
    complete: NDArray[np.bool_]
    """True where the whole answer was made on the relay pool."""


def relay_batch(
    arrival_s: Array, tokens: Array, *, release_s: Array, second_per_token: Sequence[float]
) -> RelayRun:
    """Replay a relay pool: as decode_batch, but a request leaves at its release time even if unfinished.

    Formula:     leave = min(time when V = V(t0) + o, release); made = V(leave) - V(t0);
                 a request still waiting for a slot at its release time skips the relay
    Parameters:  as for decode_batch; release_s, shape (requests,) >= arrival [s], inf = stays to the end
    Returns:     RelayRun
    Raises:      DomainError as for decode_batch, and if a release lies before the arrival.
    Holds when:  as for decode_batch.
    References:  pdd-report, A1 (eager output tokens)
    """
    require_stage_input(arrival_s, tokens, name="tokens")
    if release_s.shape != arrival_s.shape or bool((release_s < arrival_s).any() | np.isnan(release_s).any()):
        raise DomainError("release_s", "must not lie before the arrival", "an earlier release")
    slots = len(second_per_token) - 1
    require_count(slots, name="slots")
    step = [float(value) for value in second_per_token]
    for value in (min(step[1:]), max(step[1:])):
        require_positive(value, name="second_per_token")
    count = arrival_s.size
    wanted, released = tokens.tolist(), release_s.tolist()
    nan = float("nan")
    start, first, leave = [nan] * count, [nan] * count, [0.0] * count
    begun_at, made_tokens = [0.0] * count, [0.0] * count
    gone = [False] * count
    by_tokens: list[tuple[float, int]] = []
    by_release: list[tuple[float, int]] = []
    waiting: deque[int] = deque()
    now = made = 0.0
    n = 0

    def enter(k: int) -> None:
        nonlocal n
        n += 1
        start[k] = now
        first[k] = now + step[n]
        begun_at[k] = made
        heappush(by_tokens, (made + wanted[k], k))
        if released[k] != np.inf:
            heappush(by_release, (released[k], k))

    def advance(until: float) -> None:
        """Play every departure up to a time."""
        nonlocal n, now, made
        while n:
            while gone[by_tokens[0][1]]:
                heappop(by_tokens)
            while by_release and gone[by_release[0][1]]:
                heappop(by_release)
            target, j = by_tokens[0]
            ends = now + (target - made) * step[n]
            if by_release and by_release[0][0] < ends:
                ends, j = by_release[0]
                if ends > until:
                    return
                ends = max(ends, now)
                made += (ends - now) / step[n]
                heappop(by_release)
            else:
                if ends > until:
                    return
                made = target
                heappop(by_tokens)
            now = ends
            gone[j] = True
            leave[j] = now
            made_tokens[j] = min(made - begun_at[j], wanted[j])
            n -= 1
            while waiting and n < slots:
                k = waiting.popleft()
                if released[k] <= now:
                    leave[k] = released[k]
                else:
                    enter(k)

    for i, arrived in enumerate(arrival_s.tolist()):
        advance(arrived)
        if n == slots:
            waiting.append(i)
            continue
        if n:
            made += (arrived - now) / step[n]
        now = arrived
        if released[i] <= arrived:
            leave[i] = arrived
        else:
            enter(i)
    advance(np.inf)
    got = np.asarray(made_tokens)
    # Rounding of the virtual time must not turn a finished answer into an unfinished one.
    complete = (tokens > 0) & (got >= tokens * (1 - 1e-9))
    skipped = got < np.minimum(1.0, tokens * (1 - 1e-9))
    return RelayRun(
        start_s=np.asarray(start),
        first_token_s=np.where(skipped, np.nan, np.asarray(first)),
        leave_s=np.asarray(leave),
        made_tokens=np.where(skipped, 0.0, got),
        complete=complete,
    )
