"""What the one evaluator says of a plan. Every renderer reads this and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module

from pddplan.domain.plan import Plan
from pddplan.domain.provenance import Basis
from pddplan.domain.workload import Promise


@dataclass(frozen=True, slots=True)
class Percentiles:
    """A latency distribution in four numbers [s]; ``inf`` where the system does not keep up."""

    p50: float
    p90: float
    p99: float
    mean: float


@dataclass(frozen=True, slots=True)
class Latencies:
    """What the requests of one traffic class meet."""

    ttft: Percentiles
    tpot: Percentiles
    e2e: Percentiles


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """What one pool does under the plan."""

    pool: str
    utilization: float
    mean_service_s: float
    wait: Percentiles
    batch: float | None
    """Mean sequences in flight per instance (decoding pools)."""
    batch_cap: float | None
    batch_cap_reason: str | None
    """``memory``, ``TPOT`` or ``stack``: what keeps the batch from growing."""
    step_s: float | None = None


@dataclass(frozen=True, slots=True)
class LineLoad:
    line: str
    gbps: float
    count: int
    mean_gbps: float
    utilization: float
    transfer: Percentiles
    limit: str
    """What sets the usable rate: ``line``, ``window`` (BDP) or ``loss`` (Mathis)."""


@dataclass(frozen=True, slots=True)
class CostItem:
    """One priced line; monthly cost = quantity x unit_price x hours (hours = 1 for monthly prices)."""

    site: str
    role: str
    item: str
    quantity: float
    unit: str
    unit_price: float
    hours: float
    monthly_cost: float
    currency: str
    source: str


@dataclass(frozen=True, slots=True)
class Cost:
    currency: str
    monthly_total: float
    items: tuple[CostItem, ...]


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise or limit that the plan breaks."""

    limit: str
    promised: float
    predicted: float
    unit: str


@dataclass(frozen=True, slots=True)
class Binding:
    """A constraint that stops the plan from being cheaper, with what one more unit would buy where known."""

    limit: str
    used: float
    available: float
    unit: str
    marginal: str | None = None


@dataclass(frozen=True, slots=True)
class Assumption:
    """A number the result leans on and nobody measured."""

    name: str
    value: str
    basis: Basis
    source: str
    range: str | None = None


@dataclass(frozen=True, slots=True)
class SolverReport:
    name: str
    status: str
    gap: float
    """No plan of the shapes looked at can be better by more than this fraction."""
    seconds: float
    shapes_searched: int = 0
    """Pools (site, role, chip, instance shape) the search could open; 0 = not said."""
    shapes_possible: int = 0
    """All that no other one beats in everything."""
    gap_over_all: float | None = None
    """No plan of any shapes can be better by more than this fraction; None = not proven."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Metrics of a plan, its cost and what they rest on."""

    plan: Plan
    goodput_rps: float
    """Requests per second served within all promises; 0 when a promise is broken."""
    bcr: float
    """goodput_rps per 1,000 currency units of monthly cost."""
    cost: Cost
    ttft: Percentiles
    tpot_s: float
    worst_itl_s: float
    e2e: Percentiles
    pools: tuple[PoolLoad, ...]
    lines: tuple[LineLoad, ...]
    path_share: Mapping[str, float]
    """Share of requests per path id."""
    relay_token_share: float
    violations: tuple[Violation, ...] = ()
    binding: tuple[Binding, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    tpot: Percentiles | None = None
    """Over requests; ``tpot_s`` is its mean."""
    ttft_by_path: Mapping[str, Percentiles] = field(default_factory=dict)
    """Of paths that carry requests."""
    ttft_by_class: tuple[Percentiles, ...] = ()
    e2e_by_class: tuple[Percentiles, ...] = ()
    tpot_by_class_s: tuple[float, ...] = ()
    """Mean over the class."""
    worst_itl_by_class_s: tuple[float, ...] = ()
    by_class: Mapping[str, Latencies] = field(default_factory=dict)
    """Per traffic class (``RequestClasses.group``), where the workload tells some apart."""
    notes: tuple[str, ...] = ()
    solver: SolverReport | None = None

    @property
    def keeps_promises(self) -> bool:
        return not self.violations

    def reached_s(self, promise: Promise) -> float:
        """What is predicted where a promise is made, without any margin [s]."""
        if promise.group:
            latency = getattr(self.by_class[promise.group], promise.kind.latency)
        elif promise.kind.latency == "tpot" and self.tpot is None:
            return self.tpot_s
        else:
            latency = getattr(self, promise.kind.latency)
        return float(getattr(latency, promise.kind.statistic))

    def _repr_html_(self) -> str:
        """What a notebook shows. The report layer stands above this one, so it is looked up when it is asked for."""
        return str(import_module("pddplan.report.notebook").outcome_html(self))
