"""What a simulation says: the same quantities as an Outcome, each with its margin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pddplan.domain.workload import Array
from pddplan.simulate.statistics import Estimate


@dataclass(frozen=True, slots=True)
class Estimates:
    """A latency distribution in four estimated numbers [s]."""

    p50: Estimate
    p90: Estimate
    p99: Estimate
    mean: Estimate


@dataclass(frozen=True, slots=True)
class ClassSimulation:
    """What the requests of one traffic class met."""

    ttft: Estimates
    tpot: Estimates
    e2e: Estimates


@dataclass(frozen=True, slots=True)
class PoolSimulation:
    """What one pool did while it was measured."""

    pool: str
    role: str
    utilization: Estimate
    """Prefill: share of time an instance works. Decoding: token rate over that of full batches. Relay: share of
    slots taken. Aggregated: work that arrives, prefill and tokens at full batches, over the time there is."""
    wait: Estimates
    """Time in front of the pool: for an instance, or for a slot."""
    batch: Estimate | None
    """Mean sequences per instance (decoding pools)."""
    offered: float
    """Work that arrives per second over what the pool can do at most."""


@dataclass(frozen=True, slots=True)
class LineSimulation:
    line: str
    utilization: Estimate
    transfer: Estimates
    """End of prefill to KV complete at the far side."""
    offered: float


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A quantity against time, of the first seed."""

    name: str
    unit: str
    time_s: Array
    values: Array


@dataclass(frozen=True, slots=True, eq=False)
class SimulationResult:
    """One or several runs of the same plan. Read together with the Outcome of the evaluator."""

    seeds: tuple[int, ...]
    requests: int
    """Requests per seed."""
    measured: int
    """Requests that count, over all seeds (without warm-up and cool-down)."""
    span_s: float
    """Simulated time of one run."""
    ttft: Estimates
    tpot: Estimates
    e2e: Estimates
    worst_itl: Estimates
    ttft_by_path: Mapping[str, Estimates]
    path_share: Mapping[str, float]
    relay_token_share: Estimate
    pools: tuple[PoolSimulation, ...]
    lines: tuple[LineSimulation, ...]
    series: tuple[Series, ...]
    unstable: tuple[str, ...]
    """One sentence per stage that does not keep up; empty when all do."""
    notes: tuple[str, ...] = ()
    ttft_curve: tuple[tuple[float, float], ...] = ()
    """Distribution of TTFT over all seeds: (seconds, share of first tokens out by then), rising."""
    elapsed_s: float = 0.0
    """Wall time of the replay alone, summed over seeds."""
    by_class: Mapping[str, ClassSimulation] = field(default_factory=dict)
    """Per traffic class, where requests say which they are."""
    extra: Mapping[str, float] = field(default_factory=dict)
    """Quantities of trace mode, e.g. hit rate at the decode side."""

    @property
    def requests_per_second(self) -> float:
        return self.requests * len(self.seeds) / self.elapsed_s if self.elapsed_s > 0 else float("inf")
