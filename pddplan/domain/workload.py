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
    group: tuple[str, ...] = ()
    """Traffic class that each belongs to (chat, agents), to which promises can be made; empty = not told apart."""

    @property
    def count(self) -> int:
        return int(self.weight.size)

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the traffic classes, each once."""
        return tuple(dict.fromkeys(name for name in self.group if name))

    def members(self, group: str) -> Array:
        """1 for the request classes of a traffic class, 0 for others; all of them for the empty name."""
        return np.array([1.0 if not group or name == group else 0.0 for name in self.group or ("",) * self.count])

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
class PromiseKind:
    """What can be promised: a latency and the share of requests that keep it."""

    field: str
    """Of ``Promises``."""
    name: str
    latency: str
    """``ttft``, ``tpot`` or ``e2e``."""
    quantile: float

    @property
    def is_tail(self) -> bool:
        """Whether waits decide it, so that the tail margin applies."""
        return self.latency != "tpot" and self.quantile > 0.5

    @property
    def statistic(self) -> str:
        """Name of the percentile, as records of percentiles have it."""
        return f"p{100 * self.quantile:.0f}"


PROMISE_KINDS = (
    PromiseKind("ttft_p50_s", "TTFT P50", "ttft", 0.5),
    PromiseKind("ttft_p90_s", "TTFT P90", "ttft", 0.9),
    PromiseKind("ttft_p99_s", "TTFT P99", "ttft", 0.99),
    PromiseKind("tpot_s", "TPOT P90", "tpot", 0.9),
    PromiseKind("e2e_p50_s", "E2E P50", "e2e", 0.5),
    PromiseKind("e2e_p90_s", "E2E P90", "e2e", 0.9),
    PromiseKind("e2e_p99_s", "E2E P99", "e2e", 0.99),
)


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise made, to all requests or to those of one traffic class."""

    kind: PromiseKind
    limit_s: float
    group: str = ""
    """Traffic class; empty = all requests."""

    @property
    def name(self) -> str:
        """As every report calls it, e.g. ``TTFT P99`` or ``chat TTFT P99``."""
        return f"{self.group} {self.kind.name}" if self.group else self.kind.name


@dataclass(frozen=True, slots=True)
class Promises:
    """SLA. ``None`` = not promised. TTFT counts from arrival to the first output token leaving the system."""

    ttft_p50_s: float | None = None
    ttft_p90_s: float | None = None
    ttft_p99_s: float | None = None
    tpot_s: float | None = None
    """Kept by 90 % of the requests."""
    e2e_p50_s: float | None = None
    e2e_p90_s: float | None = None
    e2e_p99_s: float | None = None
    by_class: Mapping[str, Promises] = field(default_factory=dict)
    """Promises to single traffic classes, beside those to all requests; theirs hold no further classes."""

    def ttft(self) -> dict[float, float]:
        """Promised TTFT per quantile, e.g. ``{0.9: 10.0, 0.99: 20.0}``."""
        pairs = {0.5: self.ttft_p50_s, 0.9: self.ttft_p90_s, 0.99: self.ttft_p99_s}
        return {q: limit for q, limit in pairs.items() if limit is not None}

    def made(self) -> tuple[Promise, ...]:
        """Every promise made: those to all requests first, then class by class."""
        own = [Promise(k, limit) for k in PROMISE_KINDS if (limit := getattr(self, k.field)) is not None]
        return (*own, *(replace(p, group=name) for name, part in self.by_class.items() for p in part.made()))

    def with_limit(self, kind: PromiseKind, limit_s: float | None, *, group: str = "") -> Promises:
        """These promises with one of them made, changed or (None) taken back."""
        if not group:
            return replace(self, **{kind.field: limit_s})  # type: ignore[arg-type]
        part = self.by_class.get(group, Promises()).with_limit(kind, limit_s)
        return replace(self, by_class={**self.by_class, group: part})


@dataclass(frozen=True, slots=True)
class OddTraffic:
    """The exception of the PDD report: long transfer, short answer; finished on the relay pool, nothing crosses."""

    min_transfer_tokens: float = 16_384.0
    """A request counts as odd from so many tokens that would have to cross the line."""
    max_output_tokens: float = 500.0
    """And only with fewer output tokens than this."""

    def covers(self, transfer_tokens: NDArray[Any], output_tokens: NDArray[Any]) -> NDArray[np.bool_]:
        """Which requests are odd.

        Formula:     s >= s_min and O < O_max
        Parameters:  transfer_tokens s, output_tokens O, of one shape [tokens]
        Returns:     of that shape
        Raises:      nothing
        Holds when:  s is what would have to cross the line, not the whole input.
        References:  pdd-report, odd-traffic filter
        """
        return np.asarray((transfer_tokens >= self.min_transfer_tokens) & (output_tokens < self.max_output_tokens))


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
