"""Waiting time in front of a pool of equal servers with one shared queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import DomainError
from pddplan.queueing.erlang import erlang_c


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """W = 0 with probability 1 - p, else exponential: an atom and one tail.

    Both fields may be floats or arrays that broadcast against (classes,).
    """

    delay_probability: Array | float
    conditional_mean_s: Array | float
    """Mean of the wait of those who wait; ``inf`` when the pool cannot keep up."""

    @property
    def mean_s(self) -> Array:
        probability = np.asarray(self.delay_probability, dtype=float)
        with np.errstate(invalid="ignore"):
            return np.where(probability > 0.0, probability * self.conditional_mean_s, 0.0)

    def quantile_s(self, quantile: float) -> Array:
        """Wait that the share ``quantile`` of requests does not exceed."""
        probability = np.asarray(self.delay_probability, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.log(probability / (1.0 - quantile)) * self.conditional_mean_s
        return np.where(probability > 1.0 - quantile, beyond, 0.0)


NO_WAIT = Wait(0.0, 0.0)


def pool_wait(
    servers: int,
    service_mean_s: float,
    *,
    service_scv: float,
    arrival_rate_rps: Array | float,
    arrival_scv: float = 1.0,
) -> Wait:
    """Wait for the first free of c servers, first come first served (G/G/c).

    Formula:     p = erlang_c(c, rho);  tau = E[S] / (c (1 - rho)) * (ca^2 + cs^2) / 2;  rho = lambda E[S] / c
    Parameters:  servers c >= 1; service_mean_s E[S] >= 0 [s]; service_scv cs^2 >= 0;
                 arrival_rate_rps lambda >= 0 [1/s], any shape; arrival_scv ca^2 >= 0
    Returns:     Wait; tau = inf and p = 1 where rho >= 1
    Raises:      DomainError for a negative or missing argument
    Holds when:  any server may take any request; exact for M/M/c, exact mean for M/G/1.
    References:  allen1990, section 5.3; kingman1961
    """
    for name, value in (("service_mean_s", service_mean_s), ("service_scv", service_scv), ("arrival_scv", arrival_scv)):
        if not value >= 0:
            raise DomainError(name, "must not be negative", value)
    rate = np.asarray(arrival_rate_rps, dtype=float)
    rho = rate * service_mean_s / servers
    probability = erlang_c(servers, rho)
    spread = 0.5 * (arrival_scv + service_scv)
    slack = np.maximum(1.0 - rho, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = service_mean_s * spread / (servers * slack)
    tail = np.where(rho < 1.0, tail, np.inf)
    return Wait(probability, tail)
