"""How a prefill pool shapes the flow of transfers that it feeds into a line.

A large payload follows a long prefill, so a busy pool of c servers cannot send bytes faster than its servers
make them: on the time scale of a transfer the flow is smoother than independent arrivals. Small payloads leave
in clumps once long prefills have ended. Both effects fade for large pools, idle pools and slow lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array

AVERAGING = 0.15
RELAXATION = 3.0
CLUMPING = 1.0
"""Three numbers fitted once against simulation: 220 cases of five traffic mixes (skewed and flat hit rates, lognormal
lengths, payloads only loosely tied to prefill), pools of 2-40, pool utilisation 0.5-0.85, line 0.3-0.85."""
MARGIN_FROM = 0.85
MARGIN_SLOPE = 5.0
"""Of feed_margin, from the cells of the grid of docs/simulation.md where TTFT P99 was more than 5 % too low."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One pool that sends to a line."""

    servers: int
    utilization: float
    delay_probability: float
    """Chance that all servers are busy."""
    rate_rps: float
    """Requests through the pool."""
    service_scv: float
    payload_service_s: float
    """Mean prefill time, weighted by the square of the payload that follows."""
    sent_work_fraction: float
    """Share of the pool's busy time spent on requests that use the line."""
    payload_spread: float
    """d in [0, 1]: E[(z - s E[z]/E[s])^2] / E[z^2]; 0 when the payload is proportional to the prefill time."""
    payload_square: float
    """Sum over classes of rate x payload squared, on this line [bytes^2/s]."""


@dataclass(frozen=True, slots=True)
class FeedEffect:
    """How far the extra time of transfers departs from that of independent arrivals."""

    smoothing: float = 0.0
    """r in [0, 1): share of the extra time that large payloads are spared."""
    clumping: float = 0.0
    """k >= 0: share of extra time added for small payloads."""
    margin: float = 0.0
    """m >= 0: share of extra time added for what the form misses (see feed_margin)."""


NO_EFFECT = FeedEffect()


def feed_margin(servers: int, utilization: float, *, pool_utilization: float) -> float:
    """Margin on the extra time of transfers where a small pool feeds a nearly full line.

    Formula:     m = 5 rho max(rl - 0.85, 0) / c
    Parameters:  servers c >= 1 of the feeding pool; utilization rl of the line; pool_utilization rho
    Returns:     share of the extra time, 0 up to a utilisation of 0.85
    Raises:      nothing
    Holds when:  rl <= 0.95. Without it TTFT P99 is up to 10 % too low for c = 2 at rl = 0.9, where a long wait for
                 prefill and a crowded line come together; large pools and emptier lines need none.
    References:  calibrated against simulation (docs/simulation.md, the grid)
    """
    beyond = max(min(utilization, 1.0) - MARGIN_FROM, 0.0)
    return MARGIN_SLOPE * min(pool_utilization, 1.0) * beyond / max(servers, 1)


def feed_effect(feeds: Sequence[Feed], *, large_transfer_s: float, utilization: float) -> FeedEffect:
    """Smoothing and clumping of a flow that prefill pools feed into a line.

    Formula:     r = f p (1 - d)^2 v / (v + 0.15) / (1 + (th/3)^2),  k = (p/c) (cs^2 - 1)+ / (cs^2 + 1),
                 weighted over the pools by rate x payload^2, as is m = feed_margin;
                 v = x2 / ((1 - rl) s2 (1 + cs^2)): transfer time scale over the time a server takes to average its mix;
                 th = (1 - rho)^2 lambda x2 / ((1 - rl)^2 rho^2 (1 + cs^2)): the same over the pool's relaxation time
    Parameters:  feeds: chance p that all c servers are busy, rho, lambda [1/s], cs^2 of prefill times,
                 s2 = E[s z^2]/E[z^2] [s], f share of work that is sent, d payload_spread;
                 large_transfer_s x2 = E[z^2]/(E[z] C) [s];
                 utilization rl of the line
    Returns:     FeedEffect; none without feeds or load
    Raises:      nothing
    Holds when:  0.3 <= rl <= 0.85, rho <= 0.85: TTFT P99 then within 10 % of simulation, not over 5 % optimistic.
    References:  whitt2018; suresh1990; three numbers calibrated against simulation
    """
    total = sum(feed.payload_square for feed in feeds)
    if total <= 0 or not 0 < utilization < 1 or not 0 < large_transfer_s < np.inf:
        return NO_EFFECT
    smoothing = clumping = margin = 0.0
    for feed in feeds:
        part, mixed = feed.payload_square / total, 1.0 + feed.service_scv
        averaged = large_transfer_s / ((1.0 - utilization) * max(feed.payload_service_s, 1e-12) * mixed)
        load = max(min(feed.utilization, 1.0), 1e-9)
        relaxed = (1.0 - load) ** 2 * feed.rate_rps * large_transfer_s / ((1.0 - utilization) ** 2 * load**2 * mixed)
        busy = feed.sent_work_fraction * feed.delay_probability
        tied = (1.0 - feed.payload_spread) ** 2
        smoothing += part * busy * tied * averaged / (averaged + AVERAGING) / (1.0 + (relaxed / RELAXATION) ** 2)
        clumping += part * CLUMPING * feed.delay_probability / feed.servers * max(feed.service_scv - 1.0, 0.0) / mixed
        margin += part * feed_margin(feed.servers, utilization, pool_utilization=feed.utilization)
    return FeedEffect(smoothing, clumping, margin)


def tail_factor(relative_size: Array, effect: FeedEffect) -> Array:
    """Factor on the mean extra time of a shared transfer, by its size.

    Formula:     (1 - r y + k (1 - y)) (1 + m),  y = min(1, z / z2), z2 = E[z^2]/E[z]
    Parameters:  relative_size z/z2 >= 0, any shape; effect with r, k and margin m
    Returns:     factor > 0, shape of relative_size
    Raises:      nothing
    Holds when:  see feed_effect.
    References:  calibrated against simulation (decisions, queueing)
    """
    size = np.minimum(relative_size, 1.0)
    return np.asarray((1.0 - effect.smoothing * size + effect.clumping * (1.0 - size)) * (1.0 + effect.margin))
