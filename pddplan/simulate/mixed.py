"""An aggregated pool: each instance prefills one request in chunks, between the decode steps of the others."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import DomainError
from pddplan.simulate.checks import require_count, require_stage_input
from pddplan.simulate.decoding import DecodeRun


class _Instance:
    """One instance: a few prefills side by side, and n sequences that decode in step."""

    __slots__ = ("active", "chunk_s", "made", "mixed", "now", "prefilling", "step", "stops", "version", "worked_s")

    def __init__(self, step: Sequence[float], chunk_s: float, stops: Sequence[float]) -> None:
        self.step, self.chunk_s, self.stops = step, chunk_s, stops
        self.now = self.made = self.worked_s = 0.0
        self.version = 0
        self.prefilling: list[tuple[float, int]] = []
        self.active: list[tuple[float, int]] = []
        self.mixed: list[tuple[float, float]] = []
        """(when a prefill began, its longest pass), passes falling: a longer one hides what came before."""

    def second_per_token(self) -> float:
        alone = self.step[len(self.active)]
        if not self.prefilling:
            return alone
        if self.chunk_s < np.inf:
            return alone + self.chunk_s
        going = 1.0 - sum(self.stops[request] for _, request in self.prefilling)
        return alone / going if going > 0 else np.inf

    def stretch(self) -> float:
        """Seconds that pass per second of prefill work."""
        return 1.0 + self.step[len(self.active)] / self.chunk_s if self.active else 1.0  # 1 for an endless chunk

    def move_to(self, now: float) -> None:
        passed = now - self.now
        if self.active:
            self.made += passed / self.second_per_token()
        if self.prefilling:
            self.worked_s += passed / self.stretch()
        self.now = now

    def mixes(self, pass_s: float) -> None:
        while self.mixed and self.mixed[-1][1] <= pass_s:
            self.mixed.pop()
        self.mixed.append((self.now, pass_s))

    def longest_since(self, begun: float) -> float:
        """Longest mixed pass of prefills that began since."""
        at = bisect_left(self.mixed, (begun, 0.0))
        return self.mixed[at][1] if at < len(self.mixed) else 0.0

    def next_event(self) -> tuple[float, bool]:
        """When something ends here next, and whether it is a prefill."""
        ends = np.inf
        if self.prefilling:
            ends = self.now + max(self.prefilling[0][0] - self.worked_s, 0.0) * self.stretch()
        if self.active:
            left = max(self.active[0][0] - self.made, 0.0)
            done = self.now + left * self.second_per_token() if left > 0 else self.now
            if done < ends:
                return done, False
        return ends, True


def mixed_batch(
    arrival_s: Array,
    prefill_s: Array,
    *,
    tokens: Array,
    instances: int,
    second_per_token: Sequence[float],
    chunk_s: float,
    side_by_side: int = 1,
    stop_share: Array | None = None,
    longest_pass_s: tuple[Array, Array] | None = None,
) -> tuple[Array, Array, DecodeRun]:
    """Replay an aggregated pool: start and end of prefill, and the decoding of each request.

    Formula:     while an instance prefills, a cycle is one chunk and one decode step:
                 prefill work advances by chunk_s, every sequence by one token, in chunk_s + tau(b);
                 with an endless chunk (inf) prefill runs at its own speed, decoding stands still for the share f of it:
                 a token takes tau(b) / (1 - f), f the sum over the prefills under way (at 1 nothing is made);
                 without prefill a token takes tau(b). FIFO over the pool; the free instance with fewest sequences wins.
    Parameters:  arrival_s, not decreasing [s]; prefill_s >= 0, alone on an instance [s]; tokens >= 0, all of shape
                 (requests,); instances >= 1; second_per_token tau, shape (slots + 1,), per instance [s];
                 chunk_s > 0 [s]; side_by_side: prefills that one instance works on at once;
                 stop_share f in [0, 1], shape (requests,), None = 1;
                 longest_pass_s: of the chunks of each prefill (a, d): alone, and added to a decode step. Somebody who
                 decodes meanwhile waits max(a, tau + d) for a token
    Returns:     (prefill start, prefill end, DecodeRun), each of shape (requests,) [s]
    Raises:      DomainError on arrivals out of order, negative work or a pool without slots.
    Holds when:  chunk and decode step run one after the other (no gain from fusing them); fluid within a cycle.
                 Prefills side by side add up: attention ranks step together, so each bears its part of a shared
                 stop; in a pipeline every token must pass the stage that a prefill holds, then meets it in the next.
    References:  agrawal2024 (chunked prefill)
    """
    require_stage_input(arrival_s, prefill_s, name="prefill_s")
    require_stage_input(arrival_s, tokens, name="tokens")
    require_count(instances, name="instances")
    require_count(side_by_side, name="side_by_side")
    if not chunk_s > 0:
        raise DomainError("chunk_s", "must be greater than 0", chunk_s)
    slots = len(second_per_token) - 1
    require_count(slots, name="slots")
    step = [float(value) for value in second_per_token]
    if min(step[1:]) <= 0:
        raise DomainError("second_per_token", "must be greater than 0", min(step[1:]))
    count = arrival_s.size
    work, wanted = prefill_s.tolist(), tokens.tolist()
    begun, ended, first, finish, gap = ([0.0] * count for _ in range(5))
    alone, added = ([0.0] * count, [0.0] * count) if longest_pass_s is None else (x.tolist() for x in longest_pass_s)
    stops = [1.0] * count if stop_share is None else stop_share.tolist()
    pool = [_Instance(step, chunk_s, stops) for _ in range(instances)]
    events: list[tuple[float, int, int]] = []
    waiting: deque[int] = deque()

    def schedule(number: int) -> None:
        instance = pool[number]
        instance.version += 1
        if instance.prefilling or instance.active:
            heappush(events, (instance.next_event()[0], number, instance.version))

    def begin(number: int, request: int, now: float) -> None:
        instance = pool[number]
        instance.move_to(now)
        if not instance.prefilling:
            instance.worked_s = 0.0
        instance.mixes(max(alone[request], step[len(instance.active)] + added[request]))
        heappush(instance.prefilling, (instance.worked_s + work[request], request))
        begun[request] = now

    def has_room(instance: _Instance) -> bool:
        return len(instance.prefilling) < side_by_side and len(instance.active) + len(instance.prefilling) < slots

    def play(until: float) -> None:
        while events and events[0][0] <= until:
            now, number, version = heappop(events)
            instance = pool[number]
            if version != instance.version:
                continue
            prefill_ends = instance.next_event()[1]
            instance.move_to(now)
            if prefill_ends:
                instance.worked_s, request = heappop(instance.prefilling)
                ended[request] = now
                if not instance.active:
                    instance.made = 0.0
                heappush(instance.active, (instance.made + wanted[request], request))
                first[request] = now + step[len(instance.active)]
                for _, other in instance.prefilling:  # chunks of other ranks' prefills go on
                    instance.mixes(max(alone[other], step[len(instance.active)] + added[other]))
            else:
                instance.made, request = heappop(instance.active)
                finish[request] = now
                gap[request] = instance.longest_since(ended[request])
            while waiting and has_room(instance):
                begin(number, waiting.popleft(), now)
            schedule(number)

    for i, arrived in enumerate(arrival_s.tolist()):
        play(arrived)
        chosen, fewest = -1, 2 * slots
        if not waiting:
            for number, instance in enumerate(pool):
                inside = len(instance.active) + 2 * len(instance.prefilling)  # rather where no prefill is under way
                if inside < fewest and has_room(instance):
                    chosen, fewest = number, inside
        if chosen < 0:
            waiting.append(i)
        else:
            begin(chosen, i, arrived)
            schedule(chosen)
    play(np.inf)
    run = DecodeRun(
        start_s=np.asarray(ended), first_token_s=np.asarray(first), finish_s=np.asarray(finish), gap_s=np.asarray(gap)
    )
    return np.asarray(begun), np.asarray(ended), run
