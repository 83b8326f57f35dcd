"""Share of requests within a TTFT limit: the constants of the promises' rows, and their check."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pddplan.domain.workload import Array
from pddplan.paths.latency import LatencySum


def coverage(latency: LatencySum, limits_s: Mapping[float, float]) -> dict[float, Array]:
    """P(TTFT <= limit) per class, for the limit promised at each quantile.

    Formula:     F(limit) of the latency's closed form; a promise (q, T) over a mix holds when
                 sum over paths and classes of share * weight * F(T) >= q, which is linear in the shares
    Parameters:  latency of a path with shape (..., classes); limits_s: quantile -> limit [s]
    Returns:     quantile -> shape (..., classes)
    Raises:      nothing
    Holds when:  the operating points behind the latency are those the plan will have.
    References:  definition; ross2014, chapter 5
    """
    ready = latency.prepared()
    return {quantile: np.asarray(ready.cdf(limit)) for quantile, limit in limits_s.items()}
