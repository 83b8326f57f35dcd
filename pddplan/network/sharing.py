"""Transfers that share a line: processor sharing with its tail."""

from __future__ import annotations

import numpy as np

from pddplan.domain.workload import Array


def sharing_tail_ratio(utilization: Array | float, *, arrival_scv: float = 1.0, size_scv: float = 1.0) -> Array:
    """Mean extra time of a transfer per second of its time on an idle line.

    Formula:     g = rho / (1 - rho) * (ca^2 + cs^2) / (1 + cs^2)
    Parameters:  utilization rho >= 0, any shape; arrival_scv ca^2 of the flow of transfers; size_scv cs^2 of payloads
    Returns:     g, shape of utilization; inf where rho >= 1
    Raises:      nothing
    Holds when:  the line is shared equally; exact mean for Poisson arrivals (ca^2 = 1), heavy-traffic limit otherwise.
    References:  kleinrock1976, section 4.4; zhang2008
    """
    rho = np.asarray(utilization, dtype=float)
    stable = rho < 1.0
    ratio = rho / np.where(stable, 1.0 - rho, 1.0) * (arrival_scv + size_scv) / (1.0 + size_scv)
    return np.where(stable, ratio, np.inf)


def idle_transfer_s(payload_bytes: Array, rate_bytes_per_s: Array | float) -> Array:
    """Time that a payload occupies an idle line.

    Formula:     t = z / C
    Parameters:  payload_bytes z, shape (classes,) [bytes]; rate_bytes_per_s C [bytes/s]
    Returns:     shape (classes,) [s]; inf when there is no rate and something to carry
    Raises:      nothing
    Holds when:  nothing else uses the line; otherwise see sharing_tail_ratio.
    References:  kleinrock1976, section 4.4
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(payload_bytes) > 0, np.asarray(payload_bytes, dtype=float) / rate_bytes_per_s, 0.0)
