"""Transfers that share a line: processor sharing with its tail."""

from __future__ import annotations

import numpy as np

from pddplan.domain.workload import Array
from pddplan.queueing.erlang import erlang_c_real

DELAY_EXPONENTS = (0.8, 0.4)
"""Fitted once against simulated sharing, see shared_delay_probability."""


def sharing_tail_ratio(
    utilization: Array | float, *, parallel: float = 1.0, arrival_scv: float = 1.0, size_scv: float = 1.0
) -> Array:
    """Mean extra time of a transfer per second that its bytes occupy the whole line.

    Formula:     g = D / (1 - rho) * (ca^2 + cs^2) / (1 + cs^2),  D = erlang_c(R, rho); D = rho for R <= 1
    Parameters:  utilization rho >= 0, any shape; parallel R: transfers at full speed that fill the line;
                 arrival_scv ca^2 of the flow of transfers; size_scv cs^2 of payloads
    Returns:     g, shape of utilization; inf where rho >= 1
    Raises:      nothing
    Holds when:  n transfers get min(r, C/n) each (M/G/R-PS). Exact for Poisson arrivals and R <= 1 or
                 exponential sizes; heavy-traffic limit in ca^2.
    References:  lindberger1999; kleinrock1976, chapter 4; zhang2008
    """
    rho = np.asarray(utilization, dtype=float)
    stable = rho < 1.0
    delayed = erlang_c_real(max(parallel, 1.0), rho)
    ratio = delayed / np.where(stable, 1.0 - rho, 1.0) * (arrival_scv + size_scv) / (1.0 + size_scv)
    return np.where(stable, ratio, np.inf)


def shared_delay_probability(
    utilization: Array | float, *, relative_size: Array | float, parallel: float = 1.0
) -> Array:
    """Chance that a transfer is slowed at all by others, as its exponential tail sees it.

    Formula:     p = D^e,  e = (0.8 - 0.4 / max(R, 1)) / (1 + min(1, z/z2) / 2),  z2 = E[z^2]/E[z]
    Parameters:  utilization rho >= 0; relative_size z/z2; parallel R; broadcast against each other
    Returns:     probability, broadcast shape: a large transfer is met by others more surely than a small one
    Raises:      nothing
    Holds when:  0.3 <= rho <= 0.9, R = 1..10; exponents fitted to P90 and P99 of simulated sharing.
    References:  calibrated against simulation (decisions, queueing)
    """
    base, drop = DELAY_EXPONENTS
    delayed = erlang_c_real(max(parallel, 1.0), np.asarray(utilization, dtype=float))
    exponent = (base - drop / max(parallel, 1.0)) / (1.0 + 0.5 * np.minimum(relative_size, 1.0))
    return np.asarray(delayed**exponent)


def idle_transfer_s(payload_bytes: Array, rate_bytes_per_s: Array | float) -> Array:
    """Time that a payload occupies an idle line.

    Formula:     t = z / C
    Parameters:  payload_bytes z, shape (classes,) [bytes]; rate_bytes_per_s C [bytes/s]
    Returns:     shape (classes,) [s]; inf when there is no rate and something to carry
    Raises:      nothing
    Holds when:  nothing else uses the line; otherwise see sharing_tail_ratio.
    References:  kleinrock1976, chapter 4
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(payload_bytes) > 0, np.asarray(payload_bytes, dtype=float) / rate_bytes_per_s, 0.0)
