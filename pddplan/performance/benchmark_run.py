"""One run of a load test, whatever client made it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pddplan.units import MS_PER_S, NS_PER_S, US_PER_S

SECONDS_PER = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1 / MS_PER_S, "us": 1 / US_PER_S, "ns": 1 / NS_PER_S}
"""Seconds in the units that clients write."""
SATURATED_SHARE = 0.9
"""A stage that reaches less than this share of the rate asked for was overloaded: its waiting says nothing of speed."""


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """One run (or one stage) of a load test, means over its successful requests."""

    client: str
    where: str
    input_tokens: float
    output_tokens: float
    tpot_s: float | None
    ttft_s: float | None
    rate_rps: float | None
    """Requests completed per second."""
    in_flight: float | None
    """Mean number of requests being served."""
    requests: int
    llm: str = ""
    """Model name as the client wrote it."""
    cached_tokens: float = 0.0
    remark: str = ""
    """Why the run should not be used, if so."""
    closed_loop: bool = False
    """The client kept a fixed number of requests in flight; otherwise throughput is what was asked for."""
    corrected: str = ""
    """What was put right in it."""
    latency_s: float | None = None
    """End-to-end latency."""


def number(value: Any) -> float | None:
    """A finite number that is not negative, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


def need(value: Any, name: str) -> float:
    """A number that a file must have.

    Raises:  ValueError where it is none.
    """
    found = number(value)
    if found is None:
        raise ValueError(f"{name} is {value!r}")
    return found
