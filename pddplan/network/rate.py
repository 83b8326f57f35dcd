"""What a leased line really carries: its rate to all transfers together, TCP window and loss to each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pddplan.domain.sites import Line
from pddplan.errors import DomainError
from pddplan.units import gbps_to_bytes_per_s

MATHIS_CONSTANT = math.sqrt(3.0 / 2.0)
"""C of the Mathis limit when each segment is acknowledged (mathis1997)."""


@dataclass(frozen=True, slots=True)
class LineRate:
    """What all parallel lines carry together, and the most that one transfer gets of it."""

    bytes_per_s: float
    """Payload rate shared by all transfers."""
    transfer_bytes_per_s: float
    """Rate of a transfer that has the line for itself."""
    limit: str
    """What sets the latter: ``line``, ``window`` (BDP) or ``loss`` (Mathis)."""

    @property
    def parallel(self) -> float:
        """Transfers at full speed that fill the line, R = C / r >= 1."""
        return self.bytes_per_s / self.transfer_bytes_per_s if self.transfer_bytes_per_s > 0 else 1.0


def window_limit_bytes_per_s(flows: int, window_bytes: float, *, rtt_s: float) -> float:
    """Rate at which TCP flows wait for acknowledgements.

    Formula:     r = flows * window / RTT
    Parameters:  flows >= 1; window_bytes [bytes]; rtt_s [s], 0 = no limit
    Returns:     [bytes/s]
    Raises:      nothing
    Holds when:  each flow keeps one full window in flight (bandwidth-delay product).
    References:  rfc7323
    """
    return flows * window_bytes / rtt_s if rtt_s > 0 else math.inf


def mathis_limit_bytes_per_s(flows: int, mss_bytes: float, *, rtt_s: float, loss_fraction: float) -> float:
    """Rate that random loss allows to Reno-like TCP flows.

    Formula:     r = flows * (MSS / RTT) * sqrt(3/2) / sqrt(p)
    Parameters:  flows >= 1; mss_bytes [bytes]; rtt_s [s]; loss_fraction p in [0, 1)
    Returns:     [bytes/s]; inf without loss or without delay
    Raises:      nothing
    Holds when:  p is small and congestion control is Reno; CUBIC does better on long paths, BBR ignores it.
    References:  mathis1997
    """
    if rtt_s <= 0 or loss_fraction <= 0:
        return math.inf
    return flows * mss_bytes / rtt_s * MATHIS_CONSTANT / math.sqrt(loss_fraction)


def effective_rate(line: Line, gbps: float, *, count: int = 1) -> LineRate:
    """Payload rate of ``count`` parallel lines of one tier, and what one transfer gets.

    Formula:     C = count * gbps * efficiency * (1 - background);
                 r = min(C, flows * window / RTT, flows * Mathis), flows = TCP flows of one transfer
    Parameters:  line; gbps > 0 of the tier [Gbit/s]; count >= 0 lines
    Returns:     LineRate [bytes/s]; ties are called ``line``
    Raises:      DomainError if the tier has no positive rate or the count is negative.
    Holds when:  a transfer is striped over its flows, and flows over all lines.
    References:  mathis1997; rfc7323
    """
    if not gbps > 0 or math.isinf(gbps):
        raise DomainError("gbps", "must be positive and finite", gbps)
    if count < 0:
        raise DomainError("count", "must not be negative", count)
    shared = count * gbps_to_bytes_per_s(gbps) * line.protocol_efficiency * (1.0 - line.background_fraction)
    window = window_limit_bytes_per_s(line.tcp_flows, line.tcp_window_bytes, rtt_s=line.rtt_s)
    loss = mathis_limit_bytes_per_s(line.tcp_flows, line.mss_bytes, rtt_s=line.rtt_s, loss_fraction=line.loss_fraction)
    alone = min(shared, window, loss)
    limit = "line" if alone == shared else "window" if alone == window else "loss"
    return LineRate(shared, alone, limit)
