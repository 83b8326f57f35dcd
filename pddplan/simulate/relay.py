"""A relay pool: decodes while the KV crosses the line, then hands the answer over and frees the slot."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.errors import DomainError
from pddplan.simulate.checks import require_stage_input
from pddplan.simulate.decoding import checked_steps

Handover = Callable[[int, float, float], tuple[float, float]]
"""(request, tokens made, seconds per token now) -> (how long it goes on emitting, how long the last round takes)."""

_LANDED, _SILENT, _FREE = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class RelayRun:
    """What happened to each request in a relay pool; all arrays have shape (requests,)."""

    start_s: Array
    """NaN where the KV had landed before a slot was free: the relay is skipped."""
    first_token_s: Array
    """NaN where the relay made no whole token."""
    silent_s: Array
    """Last token emitted here: the answer is complete, or its last hand-over round begins."""
    leave_s: Array
    """The slot is free again; the decode pool may go on."""
    made_tokens: Array
    complete: NDArray[np.bool_]
    """True where the whole answer was made on the relay pool."""


def no_handover(request: int, made: float, token_s: float) -> tuple[float, float]:
    """Leave at once: the decode pool needs nothing from the relay."""
    return 0.0, 0.0


class _Pool:
    """State of the pool while it is replayed."""

    def __init__(self, tokens: Array, landed_s: Array, *, step: list[float], handover: Handover) -> None:
        count = tokens.size
        nan = float("nan")
        self.wanted, self.landed, self.step, self.handover = tokens.tolist(), landed_s.tolist(), step, handover
        self.start, self.first, self.silent = [nan] * count, [nan] * count, [nan] * count
        self.leave, self.base, self.got = [0.0] * count, [0.0] * count, [0.0] * count
        self.emitting = [False] * count
        self.complete = [False] * count
        self.by_tokens: list[tuple[float, int]] = []
        self.by_time: list[tuple[float, int, int]] = []
        self.waiting: deque[int] = deque()
        self.now = self.made = 0.0
        self.batch = 0
        """Sequences that emit."""
        self.used = 0
        """Slots taken, those in their last round included."""

    def enter(self, k: int, late: float) -> None:
        self.used += 1
        self.batch += 1
        self.emitting[k] = True
        self.start[k] = self.now
        self.first[k] = self.now + (1.0 + late) * self.step[self.batch]
        self.base[k] = self.made + late
        heappush(self.by_tokens, (self.made + late + self.wanted[k], k))
        if self.landed[k] != np.inf:
            heappush(self.by_time, (self.landed[k], _LANDED, k))

    def next_departure(self) -> float:
        """Time at which the next sequence has its whole answer; inf when nobody emits."""
        while self.by_tokens and not self.emitting[self.by_tokens[0][1]]:
            heappop(self.by_tokens)
        if not self.by_tokens:
            return float("inf")
        return self.now + max(self.by_tokens[0][0] - self.made, 0.0) * self.step[self.batch]

    def move_to(self, now: float) -> None:
        if self.batch:
            self.made += (now - self.now) / self.step[self.batch]
        self.now = now

    def fall_silent(self, k: int) -> None:
        self.emitting[k] = False
        self.batch -= 1
        self.silent[k] = self.now
        self.got[k] = min(max(self.made - self.base[k], 0.0), self.wanted[k])

    def free(self, k: int) -> None:
        self.leave[k] = self.now
        self.used -= 1
        while self.waiting and self.used < len(self.step) - 1:
            waiting = self.waiting.popleft()
            if self.landed[waiting] <= self.now:
                self.leave[waiting] = self.landed[waiting]
            else:
                self.enter(waiting, 0.0)

    def timed(self, event: int, k: int) -> None:
        """The KV of a request has landed, it stops emitting, or its hand-over is done."""
        if event == _FREE:
            self.free(k)
            return
        if not self.emitting[k]:
            return
        made = self.made - self.base[k]
        if made < 1.0:  # not one token: nothing to hand over
            self.fall_silent(k)
            self.got[k] = 0.0
            self.free(k)
            return
        token_s = self.step[self.batch]
        more_s, last_s = self.handover(k, made, token_s) if event == _LANDED else (0.0, self.leave[k])
        if more_s > 0:
            self.leave[k] = last_s  # kept here until the rounds before the last are over
            heappush(self.by_time, (self.now + more_s, _SILENT, k))
            return
        self.fall_silent(k)
        if last_s > 0:
            heappush(self.by_time, (self.now + last_s, _FREE, k))
        else:
            self.free(k)

    def play(self, until: float) -> None:
        """Play every event up to a time."""
        while self.batch or self.by_time:
            done = self.next_departure()
            if self.by_time and self.by_time[0][0] < done:
                if self.by_time[0][0] > until:
                    return
                time, event, k = heappop(self.by_time)
                self.move_to(max(time, self.now))
                self.timed(event, k)
            else:
                if done > until:
                    return
                target, k = heappop(self.by_tokens)
                self.now, self.made = done, target
                self.complete[k] = True
                self.fall_silent(k)
                self.got[k] = self.wanted[k]
                self.free(k)


def relay_batch(
    arrival_s: Array,
    tokens: Array,
    *,
    landed_s: Array,
    second_per_token: Sequence[float],
    handover: Handover = no_handover,
    boundary: Array | None = None,
) -> RelayRun:
    """Replay a relay pool: as decode_batch, but a request is handed over once its KV has landed elsewhere.

    Formula:     emits until min(answer complete, landing + rounds before the last); then the slot is held for the
                 last round; made = V(end) - V(start). A request that still waits for a slot when its KV lands,
                 or has not made one token, goes straight to the decode pool.
    Parameters:  as for decode_batch; landed_s, shape (requests,) >= arrival [s], inf = finishes here;
                 handover: rule of the hand-over, see Handover
    Returns:     RelayRun
    Raises:      DomainError as for decode_batch, and if a landing lies before the arrival.
    Holds when:  as for decode_batch.
    References:  pdd-report, A1
    """
    require_stage_input(arrival_s, tokens, name="tokens")
    if landed_s.shape != arrival_s.shape or bool((landed_s < arrival_s).any() | np.isnan(landed_s).any()):
        raise DomainError("landed_s", "must not lie before the arrival", "an earlier landing")
    step = checked_steps(second_per_token)
    pool = _Pool(tokens, landed_s, step=step, handover=handover)
    residual = np.zeros(arrival_s.size) if boundary is None else boundary
    for i, (arrived, late) in enumerate(zip(arrival_s.tolist(), residual.tolist(), strict=True)):
        pool.play(arrived)
        if pool.used == len(step) - 1:
            pool.waiting.append(i)
            continue
        pool.move_to(arrived)
        if pool.landed[i] <= arrived:
            pool.leave[i] = arrived
        else:
            pool.enter(i, late if pool.batch else 0.0)
    pool.play(np.inf)
    got, complete = np.asarray(pool.got), np.asarray(pool.complete)
    first = np.asarray(pool.first)
    return RelayRun(
        start_s=np.asarray(pool.start),
        first_token_s=np.where(got > 0, first, np.nan),
        silent_s=np.where(got > 0, np.asarray(pool.silent), np.nan),
        leave_s=np.asarray(pool.leave),
        made_tokens=got,
        complete=complete,
    )
