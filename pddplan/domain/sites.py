"""Where chips can stand, what connects the places, and what money costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SiteChip:
    """One kind of chip at one site."""

    chip: str
    max_chips: int | None = None
    owned_chips: int = 0
    """Already paid for: free to use, but not sellable."""
    price_per_chip_hour: float | None = None
    """Overrides the price of the chip profile."""
    roles: tuple[str, ...] | None = None
    """Roles this kind may take here (P, RLD, MD, AGG); None = any."""


@dataclass(frozen=True, slots=True)
class Site:
    id: str
    chips: Mapping[str, SiteChip]
    power_limit_kw: float | None = None
    pue: float | None = None
    power_price_per_kwh: float | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Tier:
    """One rung of a tariff ladder."""

    gbps: float
    monthly_cost: float
    setup_cost: float = 0.0
    currency: str = "USD"
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A leased line between two sites: what it can carry and what it costs."""

    id: str
    from_site: str
    to_site: str
    tiers: tuple[Tier, ...]
    rtt_s: float
    loss_fraction: float = 0.0
    protocol_efficiency: float = 0.94
    """Share of the line rate left for payload; 0.941 = TCP over 1500-byte frames with timestamps."""
    tcp_flows: int = 32
    tcp_window_bytes: float = 6 * 2**20
    mss_bytes: float = 1448.0
    max_lines: int = 1
    background_fraction: float = 0.0
    """Share of the line that other traffic takes."""
    noise_mean_s: float = 0.0
    """Mean of an extra exponential delay per transfer (congestion outside our control)."""


@dataclass(frozen=True, slots=True)
class Finance:
    """Settings shared by all costs. Money is in ``currency`` unless a field says otherwise."""

    currency: str = "USD"
    usd_per_currency: float = 1.0
    hours_per_month: float = 730.0
    power_price_per_kwh: float = 0.0
    """0 = power is part of the rent."""
    pue: float = 1.3
    support_fraction: float = 0.0
    spare_fraction: float = 0.0


@dataclass(frozen=True, slots=True)
class Sites:
    """All places, all lines, and the finance settings: what can be bought."""

    name: str
    sites: Mapping[str, Site]
    lines: Mapping[str, Line]
    finance: Finance = field(default_factory=Finance)
    provenance: Mapping[str, str] = field(default_factory=dict)
