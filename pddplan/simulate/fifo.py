"""A pool of identical servers with one queue, replayed request by request."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace

import numpy as np

from pddplan.domain.workload import Array
from pddplan.simulate.checks import require_count, require_stage_input


def multi_server_fifo(arrival_s: Array, service_s: Array, *, servers: int) -> Array:
    """Start of service of each request when the longest waiting request goes first (G/G/c, FIFO).

    Formula:     start_i = max(a_i, smallest of the c times at which a server becomes free);
                 with one server this is Lindley's recursion, done on whole arrays.
    Parameters:  arrival_s, shape (requests,), not decreasing [s]; service_s, shape (requests,) >= 0 [s]; servers c >= 1
    Returns:     shape (requests,) [s]
    Raises:      DomainError if times are out of order, negative or not finite.
    Holds when:  servers do not fail and a started request is not interrupted; exact otherwise.
    References:  lindley1952; kiefer1955
    """
    require_stage_input(arrival_s, service_s, name="service_s")
    require_count(servers, name="servers")
    if servers == 1:
        work_until = np.cumsum(service_s)
        work_before = work_until - service_s
        return np.maximum(np.maximum.accumulate(arrival_s - work_before) + work_before, arrival_s)
    if servers >= arrival_s.size:
        return arrival_s.copy()
    free = [-np.inf] * servers
    start = [0.0] * arrival_s.size
    earliest = free[0]
    for i, (arrived, needed) in enumerate(zip(arrival_s.tolist(), service_s.tolist(), strict=True)):
        begun = arrived if arrived > earliest else earliest
        start[i] = begun
        heapreplace(free, begun + needed)
        earliest = free[0]
    return np.asarray(start)


def multi_server_shortest_first(arrival_s: Array, service_s: Array, *, servers: int) -> Array:
    """Start of service of each request when the shortest waiting request goes first, without interruption.

    Formula:     whenever a server becomes free, start the waiting request with the smallest service time
                 (ties: the one that came first)
    Parameters:  as for multi_server_fifo
    Returns:     shape (requests,) [s]
    Raises:      DomainError if times are out of order, negative or not finite.
    Holds when:  the scheduler knows the service time beforehand, which prefill lengths allow; exact otherwise.
    References:  conway1967, chapter 8 (non-preemptive shortest-processing-time first)
    """
    require_stage_input(arrival_s, service_s, name="service_s")
    require_count(servers, name="servers")
    start = np.empty_like(arrival_s)
    busy_until: list[float] = []
    waiting: list[tuple[float, int]] = []
    needed_s: Sequence[float] = service_s.tolist()
    for i, arrived in enumerate(arrival_s.tolist()):
        while busy_until and busy_until[0] <= arrived:
            freed = heappop(busy_until)
            if waiting:
                needed, j = heappop(waiting)
                start[j] = freed
                heappush(busy_until, freed + needed)
        if len(busy_until) < servers:
            start[i] = arrived
            heappush(busy_until, arrived + needed_s[i])
        else:
            heappush(waiting, (needed_s[i], i))
    while waiting:
        freed = heappop(busy_until)
        needed, j = heappop(waiting)
        start[j] = freed
        heappush(busy_until, freed + needed)
    return start
