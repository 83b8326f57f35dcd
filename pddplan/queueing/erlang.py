"""Chance to find every server busy: Erlang's B and C formulas."""

from __future__ import annotations

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import DomainError

TERMS_AT_ONCE = 4096
"""Terms of a sum over servers that are held in memory; fleets may have a million servers."""
NEGLIGIBLE = 1e-18
MOST_SERVERS = 1e9
"""More servers are taken as so many: nobody waits, or all do."""


def erlang_b(servers: int, load_erlang: Array | float) -> Array:
    """Share of requests that a system without waiting room turns away.

    Formula:     1/B(c, a) = sum over k = 0..c of c! / (c-k)! / a^k
    Parameters:  servers c >= 1; load_erlang a = arrival rate x mean service >= 0, any shape
    Returns:     probability, shape of load_erlang
    Raises:      DomainError if there is no server or the load is negative.
    Holds when:  arrivals are Poisson; the law of the service times does not matter.
    References:  erlang1917, loss formula
    """
    if servers < 1:
        raise DomainError("servers", "must be at least 1", servers)
    load = np.asarray(load_erlang, dtype=float)
    if not np.all(load >= 0):
        raise DomainError("load_erlang", "must not be negative", load_erlang)
    inverse, product = np.ones_like(load), np.ones_like(load)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for top in range(servers, 0, -TERMS_AT_ONCE):
            ratios = np.arange(top, max(top - TERMS_AT_ONCE, 0), -1, dtype=float) / load[..., None]
            products = product[..., None] * np.cumprod(ratios, axis=-1)
            inverse = inverse + products.sum(axis=-1)
            product = products[..., -1]
            if np.all((product <= NEGLIGIBLE * inverse) | ~np.isfinite(inverse)):
                break  # terms grow first and shrink then: what is left does not count
    return np.asarray(np.where(np.isfinite(inverse), 1.0 / np.maximum(inverse, 1.0), 0.0))


def erlang_c(servers: int, utilization: Array | float) -> Array:
    """Chance that an arriving request finds all servers busy and has to wait.

    Formula:     C = B / (1 - rho (1 - B)), B = erlang_b(c, c rho); 1 when rho >= 1
    Parameters:  servers c >= 1; utilization rho = lambda E[S] / c >= 0, any shape
    Returns:     probability, shape of utilization
    Raises:      DomainError if there is no server or the utilization is negative.
    Holds when:  Poisson arrivals, exponential services; a close approximation otherwise.
    References:  erlang1917, delay formula
    """
    rho = np.asarray(utilization, dtype=float)
    blocked = erlang_b(servers, servers * rho)
    with np.errstate(divide="ignore", invalid="ignore"):
        delayed = blocked / (1.0 - rho * (1.0 - blocked))
    return np.asarray(np.where(rho < 1.0, delayed, 1.0))


def erlang_c_real(servers: float, utilization: Array | float) -> Array:
    """Erlang's delay formula for a number of servers that need not be whole.

    Formula:     1/B(R, a) is interpolated geometrically between the whole numbers around R at the same load a = R rho;
                 C = B / (1 - rho (1 - B)); rho for R <= 1
    Parameters:  servers R > 0; utilization rho >= 0, any shape
    Returns:     probability, shape of utilization; 1 where rho >= 1
    Raises:      DomainError if R is not positive.
    Holds when:  as erlang_c; within 1 % of the continuous formula for R >= 1.
    References:  jagerman1974; lindberger1999
    """
    if not servers > 0:
        raise DomainError("servers", "must be positive", servers)
    rho = np.asarray(utilization, dtype=float)
    if servers <= 1.0:
        return np.asarray(np.minimum(rho, 1.0))
    servers = min(servers, MOST_SERVERS)
    below = int(servers)
    part = servers - below
    load = servers * rho
    low = erlang_b(below, load)
    with np.errstate(divide="ignore", invalid="ignore"):
        blocked = np.where(low > 0, low ** (1.0 - part) * erlang_b(below + 1, load) ** part, 0.0) if part > 0 else low
        delayed = blocked / (1.0 - rho * (1.0 - blocked))
    return np.asarray(np.where(rho < 1.0, delayed, 1.0))
