"""Where chips can stand, what connects the places, and what money costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pddplan.domain.provenance import Provenance
from pddplan.units import MIB


@dataclass(frozen=True, slots=True)
class SiteChip:
    """One kind of chip at one site."""

    chip: str
    max_chips: int | None = None
    owned_chips: int = 0
    """Already paid for: free to use, but not sellable."""
    price_per_chip_hour: float | None = None
    """Overrides the price of the chip profile; in the currency of ``Finance``."""
    on_demand_price_per_chip_hour: float | None = None
    """Rent without commitment, in the currency of ``Finance``; None = high end of the chip profile."""
    acquisition: str | None = None
    """``rent`` or ``purchase``; None = as ``Finance.acquisition``."""
    purchase_price_per_chip: float | None = None
    """Price of one chip with its share of the server, in the currency of ``Finance``."""
    roles: tuple[str, ...] | None = None
    """Roles this kind may take here (P, RLD, MD, AGG); None = any."""
    shapes: tuple[str, ...] | None = None
    """Instance shapes this kind may take here, written as ``str(Shape)`` (``TP8-EP8``); None = any that fits."""


@dataclass(frozen=True, slots=True)
class Site:
    id: str
    chips: Mapping[str, SiteChip]
    power_limit_kw: float | None = None
    pue: float | None = None
    power_price_per_kwh: float | None = None
    name: str | None = None
    hosting_per_kw_month: float | None = None
    """Rack space per kW of IT load; None = as ``Finance``."""


@dataclass(frozen=True, slots=True)
class Tier:
    """One rung of a tariff ladder."""

    gbps: float
    monthly_cost: float
    setup_cost: float = 0.0
    """Paid once per line, spread over ``Finance.line_term_months``."""
    currency: str = "USD"
    source: str | None = None
    port_monthly_cost_per_end: float = 0.0
    """Cloud or exchange port that the line ends in; charged at both ends."""
    monthly_cost_low: float | None = None
    monthly_cost_high: float | None = None
    """Range of the monthly cost, where the price is not sure."""


@dataclass(frozen=True, slots=True)
class Line:
    """A leased line between two sites: what it can carry and what it costs."""

    id: str
    from_site: str
    to_site: str
    tiers: tuple[Tier, ...]
    rtt_s: float
    loss_fraction: float = 0.0
    """Share of packets lost; with the round trip it caps one flow (Mathis)."""
    protocol_efficiency: float = 0.94
    """Share of the line rate left for payload; 0.941 = TCP over 1500-byte frames with timestamps."""
    tcp_flows: int = 32
    """Parallel TCP flows of ONE transfer: window and loss limit a transfer, the line rate limits all together."""
    tcp_window_bytes: float = 6 * MIB
    """Window of one flow: it caps a flow at window over round trip."""
    mss_bytes: float = 1448.0
    """Payload of one packet."""
    max_lines: int = 1
    """So many lines of one tier may be leased side by side."""
    background_fraction: float = 0.0
    """Share of the line that other traffic takes."""
    noise_mean_s: float = 0.0
    """Mean of an extra exponential delay per transfer (congestion outside our control)."""


@dataclass(frozen=True, slots=True)
class Finance:
    """Settings shared by all costs. Money is in ``currency`` unless a field says otherwise.

    The defaults price a rented fleet whose rent contains power, racks and network; ``workloads/finance/``
    holds presets for other ways of buying.
    """

    currency: str = "USD"
    """Money of the file and of every report."""
    usd_per_currency: float | None = None
    """USD for one unit of that currency, to turn published USD prices; None = not known (1 where it is USD)."""
    hours_per_month: float = 730.0
    """Hours that a month of rent is charged for."""
    power_price_per_kwh: float = 0.0
    """0 = power is part of the rent."""
    pue: float = 1.3
    """Power drawn by the site over that of its IT equipment."""
    support_fraction: float = 0.0
    """Support and operation, as a fraction of the subtotal of a pool or line."""
    spare_fraction: float = 0.0
    """Chips held in reserve, as a fraction of the chips in service; they cost capital but draw no power."""
    price_position: float = 0.0
    """Where between the low (0) and the high end (1) of a chip's rent to buy. 0: a planner commits for years."""
    acquisition: str = "rent"
    """``rent`` or ``purchase``."""
    amortisation_years: float = 4.0
    """Years over which bought chips are written off."""
    residual_fraction: float = 0.1
    """Share of the purchase price that the chip still fetches at the end."""
    cost_of_capital_fraction: float = 0.08
    """Yearly rate at which money tied up in purchases and set-ups is charged."""
    power_load_fraction: float = 0.8
    """Mean draw of a chip in service over its TDP."""
    host_power_w_per_chip: float = 0.0
    """Share of host, fans and NICs per chip [W]."""
    hosting_per_kw_month: float = 0.0
    """Rack space per kW of IT load (before PUE)."""
    network_per_chip_month: float = 0.0
    """Share of NICs, switches and optics per chip."""
    cross_connect_per_end_month: float = 0.0
    """Cross-connect per line and end."""
    line_term_months: float = 36.0
    """Months over which the set-up of a line is spread."""
    rent_includes_running_costs: bool = False
    """Rent already contains power, hosting and network: these are then charged on bought chips only."""
    usd_per: Mapping[str, float] = field(default_factory=dict)
    """Exchange rates of further currencies, USD per unit, e.g. ``{"CNY": 0.1429}``."""


@dataclass(frozen=True, slots=True)
class Sites:
    """All places, all lines, and the finance settings: what can be bought."""

    name: str
    sites: Mapping[str, Site]
    lines: Mapping[str, Line]
    finance: Finance = field(default_factory=Finance)
    provenance: Mapping[str, str] = field(default_factory=dict)
    """One line of text per key path, for the source column of exports."""
    origins: Mapping[str, Provenance] = field(default_factory=dict)
    """Full origin per key path (basis and range), for the list of assumptions."""
