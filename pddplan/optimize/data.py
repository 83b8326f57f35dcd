"""The integer program as plain numbers: what ``formulation`` writes down and nothing it would have to compute.

Every number comes from the evaluator or from economics (``points`` asks them). Symbols are those of docs/milp.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pddplan.domain.workload import Array


@dataclass(frozen=True, slots=True)
class PoolOption:
    """A pool that may be opened: symbol c, integer n[c] instances."""

    id: str
    site: str
    chip: str
    role: str
    chips_per_instance: int
    monthly_cost_per_instance: float
    max_utilization: float
    max_instances: int
    min_instances: int = 0
    spare_instances: float = 0.0
    """Idle capacity an open pool must keep, in instances: what its operating point asks for."""
    max_load: float = float("inf")
    """Load in instances above which the operating point no longer holds."""
    redundant_instances: int = 0
    power_kw_per_instance: float = 0.0
    pace: str = ""
    """Which TPOT its batches are for, where promises differ."""

    @property
    def kind(self) -> str:
        """Site, role, chip and pace: of one kind only one shape is open."""
        return f"{self.site}/{self.role}/{self.chip}{self.pace}"


@dataclass(frozen=True, slots=True)
class LineOption:
    """One tier and number of parallel lines of a leased line: binary t[l, o]."""

    id: str
    line: str
    gbps: float
    count: int
    monthly_cost: float
    capacity_bytes_per_s: float
    """Payload rate up to which the line may be filled."""
    working: int = 1
    """Parallel lines counted on; one less than ``count`` where the loss of one must be survived."""


class CoverageWhenAsked(Mapping[str, Array]):
    """Coverage of a route, worked out when it is first looked at: most routes are only asked for their work."""

    __slots__ = ("_found", "_work_out")

    def __init__(self, work_out: Callable[[], Mapping[str, Array]]) -> None:
        self._work_out = work_out
        self._found: Mapping[str, Array] | None = None

    def _all(self) -> Mapping[str, Array]:
        if self._found is None:
            self._found = self._work_out()
        return self._found

    def __getitem__(self, promise: str) -> Array:
        return self._all()[promise]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """A way through pools and lines that classes may take: symbol p, rate y[p, k] per class k.

    ``work`` is what one request of each class asks of each pool (instance-seconds) and ``payload_bytes`` of
    the line; ``coverage`` holds P(latency <= promise) per promise name. All arrays have shape (classes,).
    """

    id: str
    work: Mapping[str, Array]
    allowed: Array
    """1 where the class may take this way, 0 where not."""
    line: str | None = None
    payload_bytes: Array | None = None
    coverage: Mapping[str, Array] = field(default_factory=dict)
    options: tuple[str, ...] | None = None
    """Line options under which ``coverage`` holds; None = any that is open."""
    relay_tokens: Array | None = None
    """Output tokens made by a relay that hands over; None without one."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """A promise as the program sees it: at least this share of the requests that it is made to is covered."""

    name: str
    quantile: float
    share: float = 1.0
    """Of all requests those it is made to; ``Route.coverage`` is 0 for the others."""

    @property
    def covered_share(self) -> float:
        """Share of all requests that must be covered."""
        return self.quantile * self.share


@dataclass(frozen=True, slots=True)
class OwnedChips:
    """Chips of one kind at one site that cost no capital when used."""

    site: str
    chip: str
    count: int
    credit_per_chip: float
    chips_held_per_chip: float = 1.0
    """1 + spare fraction: chips held for each chip in service."""


@dataclass(frozen=True, slots=True, eq=False)
class ProgramData:
    """All numbers of one integer program."""

    weight: Array
    pools: tuple[PoolOption, ...]
    lines: tuple[LineOption, ...]
    routes: tuple[Route, ...]
    promises: tuple[Quantile, ...]
    min_rate_rps: float
    max_rate_rps: float
    chip_limits: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Chips a site can hold, per (site, chip)."""
    owned: tuple[OwnedChips, ...] = ()
    power_limits_kw: Mapping[str, float] = field(default_factory=dict)
    budget: float | None = None
    max_chips: int | None = None
