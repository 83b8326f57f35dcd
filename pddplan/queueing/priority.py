"""Waits when the shortest waiting request goes first, without interruption."""

from __future__ import annotations

import numpy as np

from pddplan.domain.workload import Array
from pddplan.queueing.wait import Wait, pool_wait


def shortest_first_wait(
    servers: int, service_s: Array, *, class_rate_rps: Array, service_scv: float, arrival_scv: float = 1.0
) -> Wait:
    """Wait of each class when waiting requests are taken in order of their service time.

    Formula:     E[W_k] = W0 / ((1 - s_<k) (1 - s_<=k)),  W0 = (1 - rho) E[W of first come first served];
                 s_<k, s_<=k: utilisation by classes shorter than k, and by those not longer than k.
                 Same chance of delay p for all; the delayed of a class wait Exp(E[W_k] / p)
    Parameters:  servers c >= 1; service_s, shape (classes,) [s]; class_rate_rps, shape (classes,) [1/s];
                 service_scv cs^2 of the mix; arrival_scv ca^2
    Returns:     Wait with arrays of shape (classes,); inf for classes that a full pool never reaches
    Raises:      DomainError as pool_wait
    Holds when:  service times are known on arrival (prefill lengths are); exact mean for M/G/1.
    References:  conway1967, chapter 8; cobham1954
    """
    work = class_rate_rps * service_s / servers
    shorter = (work[None, :] * (service_s[None, :] < service_s[:, None])).sum(axis=1)
    not_longer = (work[None, :] * (service_s[None, :] <= service_s[:, None])).sum(axis=1)
    rho = float(work.sum())
    rate = float(class_rate_rps.sum())
    mean_s = float(np.dot(class_rate_rps, service_s)) / rate if rate > 0 else 0.0
    # the residual work in front of a newcomer is that of the pool just below saturation when it is overloaded
    level = min(rho, 1.0 - 1e-9)
    fifo = pool_wait(
        servers,
        mean_s,
        service_scv=service_scv,
        arrival_rate_rps=level * servers / mean_s if mean_s > 0 else 0.0,
        arrival_scv=arrival_scv,
    )
    residual = (1.0 - level) * float(fifo.mean_s)
    room = np.maximum(1.0 - shorter, 0.0) * np.maximum(1.0 - not_longer, 0.0)
    delayed = float(fifo.delay_probability) if rho < 1.0 else 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(room > 1e-12, residual / room, np.inf)
        tail = mean / delayed if delayed > 0 else np.zeros_like(mean)
    return Wait(np.full_like(mean, delayed), np.where(residual > 0, tail, 0.0))
