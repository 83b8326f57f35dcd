"""A chip on four axes (compute, memory capacity, memory bandwidth, interconnect) plus power and price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pddplan.domain.provenance import Provenance


class Fabric(StrEnum):
    """How the chips of one scale-up domain are wired."""

    SWITCH = "switch"  # NVLink/NVSwitch, HCCS/UB switch: any pair gets the full rate
    MESH = "mesh"  # point-to-point links: a pair gets 1/(n-1) of the rate
    TORUS = "torus"
    PCIE = "pcie"  # no scale-up fabric


@dataclass(frozen=True, slots=True)
class Price:
    """Rent of one chip; low and high often come from different contract kinds."""

    low_per_chip_hour: float
    high_per_chip_hour: float
    currency: str = "USD"
    date: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Chip:
    """One accelerator. All rates are dense, per chip, per direction, in base units."""

    id: str
    name: str
    vendor: str
    year: int | None
    peak_flop_per_s: Mapping[str, float]
    """Dense peak per dtype (bf16, fp8, fp4, int8); a dtype that is missing is not supported."""
    memory_bytes: float
    """Printed GB x 1e9. Memory is built in powers of two: a chip holds performance.memory.BINARY_CAPACITY as much."""
    memory_bandwidth_bytes_per_s: float
    scaleup_bytes_per_s: float
    scaleup_domain_chips: int
    fabric: Fabric
    nic_bytes_per_s: float | None = None
    tdp_w: float | None = None
    price: Price | None = None
    aliases: tuple[str, ...] = ()
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    """Per field name (``peak_flop_per_s.fp8``, ``memory_bytes`` ...)."""

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Names of the numbers on which sources disagree."""
        return tuple(sorted(name for name, p in self.provenance.items() if p.doubtful))
