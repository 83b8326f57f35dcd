"""Traffic: request classes, arrivals and the promises made to users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RequestClasses:
    """Request classes as parallel arrays, shape (classes,).

    A class is what one kind of request asks of the system: ``input_tokens`` L, of which
    ``miss_prefill_tokens`` m are not in the prefill-side cache and ``miss_decode_tokens`` s are not in
    the decode-side cache (so their KV must cross the line; without a decode-side cache s = L),
    and ``output_tokens`` O. Weights sum to one.
    """

    weight: Array
    input_tokens: Array
    miss_prefill_tokens: Array
    miss_decode_tokens: Array
    output_tokens: Array
    label: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return int(self.weight.size)

    @property
    def cached_prefill_tokens(self) -> Array:
        """c = L - m, tokens found in the prefill-side cache."""
        return self.input_tokens - self.miss_prefill_tokens

    def mean(self, values: Array) -> float:
        """Mean over requests of a per-class quantity."""
        return float(np.dot(self.weight, values))


@dataclass(frozen=True, slots=True)
class Arrival:
    """How requests arrive at the whole system."""

    rate_rps: float
    scv: float = 1.0
    """Squared coefficient of variation of inter-arrival times (1 = Poisson), quantised clocks corrected."""
    peak_to_mean: float = 1.0
    dispersion: Mapping[float, float] = field(default_factory=dict)
    """Index of dispersion of counts per window length in seconds."""
    hourly_profile: tuple[float, ...] | None = None
    """24 factors with mean one, when the trace was long enough to know."""


@dataclass(frozen=True, slots=True)
class Promises:
    """SLA. ``None`` = not promised. TTFT counts from arrival to the first output token leaving the system."""

    ttft_p50_s: float | None = None
    ttft_p90_s: float | None = None
    ttft_p99_s: float | None = None
    tpot_s: float | None = None
    e2e_p50_s: float | None = None
    e2e_p90_s: float | None = None
    e2e_p99_s: float | None = None

    def ttft(self) -> dict[float, float]:
        """Promised TTFT per quantile, e.g. ``{0.9: 10.0, 0.99: 20.0}``."""
        pairs = {0.5: self.ttft_p50_s, 0.9: self.ttft_p90_s, 0.99: self.ttft_p99_s}
        return {q: limit for q, limit in pairs.items() if limit is not None}


@dataclass(frozen=True, slots=True)
class OddTraffic:
    """The exception of the PDD report: long transfer, short answer; finished on the relay pool, nothing crosses."""

    min_transfer_tokens: float = 16_384.0
    max_output_tokens: float = 500.0


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Model, traffic and promises: the question."""

    name: str
    llm: str
    """Id of the model profile."""
    classes: RequestClasses
    arrival: Arrival
    promises: Promises
    odd_traffic: OddTraffic = field(default_factory=OddTraffic)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Free, readable record: source file, sha256, rows, importer parameters."""
    cache_curve: tuple[tuple[float, float], ...] | None = None
    """(capacity in tokens, token-weighted hit rate) points, where a trace gave them."""

    def at_rate(self, rate_rps: float) -> Workload:
        """The same traffic at another rate.

        More requests mean more independent users, whose superposition is smoother: at k > 1 times the rate the SCV
        becomes 1 + (SCV - 1) / k. Fewer requests keep it, which is the safe side.
        """
        times = rate_rps / self.arrival.rate_rps if self.arrival.rate_rps > 0 else 1.0
        scv = 1.0 + (self.arrival.scv - 1.0) / times if times > 1.0 else self.arrival.scv
        return replace(self, arrival=replace(self.arrival, rate_rps=rate_rps, scv=scv))
