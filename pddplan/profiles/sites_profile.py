"""Sites files: where chips can stand, which lines connect the places, what they cost.

    schema: sites/1
    name: two datacenters
    sources: {...}
    sites:
      a: {chips: {h100-sxm: {max_chips: 512, price_per_chip_hour: 1.88}}}
      b: {chips: {h200-sxm: {}}}
    lines:
      a-b: {from: a, to: b, rtt_ms: 10, tiers: [{gbps: 100, monthly_cost: 8700}]}
    finance: {currency: USD}

Numbers may carry a source (``{value: 1.88, source: tracker}``) or stand alone: then they are the user's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from pddplan.domain.provenance import Basis, Provenance
from pddplan.domain.sites import Finance, Line, Site, SiteChip, Sites, Tier
from pddplan.errors import did_you_mean
from pddplan.profiles import lookup
from pddplan.profiles.schema import (
    Check,
    Count,
    CountOrZero,
    Identifier,
    NonNegative,
    OrPlain,
    Positive,
    Profile,
    Sourced,
    SourcedFraction,
    SourcedNonNegative,
    SourcedPositive,
    Strict,
    Text,
    provenance,
    read,
)
from pddplan.profiles.yaml_source import SourceDocument
from pddplan.units import MIB, MS_PER_S

DEFAULT_SITES = "two-sites"

PositiveNumber = Annotated[SourcedPositive, OrPlain]
NonNegativeNumber = Annotated[SourcedNonNegative, OrPlain]
FractionNumber = Annotated[SourcedFraction, OrPlain]
RoleName = Literal["P", "RLD", "MD", "AGG"]
DEFAULT_WINDOW_MIB = 6.0
"""Receive window that stock Linux allows a flow."""
ShapeName = Annotated[str, Field(pattern=r"^TP[1-9]\d{0,3}(-PP[1-9]\d{0,3})?(-DP[1-9]\d{0,3})?(-EP[1-9]\d{0,3})?$")]
Acquisition = Literal["rent", "purchase"]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]


class _LowSourcedFraction(Sourced):
    """A share from 0 up to, but not including, 1."""

    value: Annotated[float, Field(ge=0, lt=1)]


class _EfficiencyFraction(Sourced):
    """A share above 0, up to 1."""

    value: Annotated[float, Field(gt=0, le=1)]


class SiteChipBody(Strict):
    """One kind of chip at a site."""

    max_chips: CountOrZero | None = None
    """Most chips of this kind that can be had here; without it there is no limit."""
    owned_chips: CountOrZero = 0
    """Chips already paid for: used for free, not sellable."""
    price_per_chip_hour: NonNegativeNumber | None = None
    """Rent of one chip per hour under a long contract, in the currency of finance; overrides the chip profile."""
    on_demand_price_per_chip_hour: NonNegativeNumber | None = None
    """Rent of one chip per hour without commitment, in the currency of finance."""
    acquisition: Acquisition | None = None
    """rent or purchase; without it as in finance."""
    purchase_price_per_chip: NonNegativeNumber | None = None
    """Price of one chip with its share of the server, in the currency of finance."""
    roles: Annotated[list[RoleName], Field(min_length=1)] | None = None
    """Roles this kind may take here (P, RLD, MD, AGG); without it any."""
    shapes: Annotated[list[ShapeName], Field(min_length=1)] | None = None
    """Instance shapes this kind may take here, e.g. TP8 or TP8-DP2-EP16; without it any that fits."""


class SiteBody(Strict):
    """One datacenter."""

    name: Text | None = None
    """Name shown to people."""
    chips: Annotated[dict[Identifier, SiteChipBody | None], Field(min_length=1)]
    """Kinds of chips that can be had here, by profile id."""
    power_limit_kw: PositiveNumber | None = None
    """Most power that the chips here may draw [kW]: (TDP x power_load_fraction + host) x PUE, which is a mean; for
    peaks set power_load_fraction: 1."""
    pue: Annotated[SourcedPositive, OrPlain] | None = None
    """Total power over IT power of this site."""
    power_price_per_kwh: NonNegativeNumber | None = None
    """Price of power per kWh, in the currency of finance."""
    hosting_per_kw_month: NonNegativeNumber | None = None
    """Rack space per kW of IT load and month, in the currency of finance."""


class TierBody(Strict):
    """One rung of a tariff ladder."""

    gbps: Annotated[float, Field(gt=0, le=1e6)]
    """Line rate [Gbit/s]."""
    monthly_cost: NonNegativeNumber
    """Monthly price of the line, in the tier's currency."""
    setup_cost: NonNegative = 0.0
    """Paid once per line."""
    port_monthly_cost_per_end: NonNegative = 0.0
    """Cloud or exchange port at each end, per month."""
    currency: Currency | None = None
    """Currency of this tier; without it that of finance."""


class LineBody(Strict):
    """A leased line between two sites."""

    from_site: Identifier = Field(alias="from")
    """Site where prefill stands: KV flows from here."""
    to_site: Identifier = Field(alias="to")
    """Site where decode stands."""
    rtt_ms: PositiveNumber
    """Round-trip time [ms]."""
    tiers: Annotated[list[TierBody], Field(min_length=1)]
    """Tariff ladder: what can be leased."""
    loss_fraction: Annotated[_LowSourcedFraction, OrPlain] | None = None
    """Share of packets lost."""
    protocol_efficiency: Annotated[_EfficiencyFraction, OrPlain] | None = None
    """Share of the line rate left for payload after headers."""
    tcp_flows: Count = 32
    """Parallel TCP connections that carry one transfer."""
    tcp_window_mib: PositiveNumber | None = None
    """Largest window of one connection [MiB]."""
    mss_bytes: Positive = 1448.0
    """Payload of one packet [bytes]."""
    max_lines: Count = 1
    """How many parallel lines may be leased."""
    background_fraction: Annotated[_LowSourcedFraction, OrPlain] | None = None
    """Share of the line that other traffic takes."""
    noise_mean_s: NonNegativeNumber | None = None
    """Mean of an extra exponential delay per transfer, for congestion outside our control [s]."""


class FinanceBody(Strict):
    """Settings shared by all costs; those left out keep their defaults (docs/defaults.md)."""

    currency: Currency = "USD"
    """Currency of all results and of all prices that do not name their own."""
    usd_per_currency: PositiveNumber | None = None
    """Exchange rate: USD per unit of the currency."""
    usd_per: dict[Currency, Positive] = Field(default_factory=dict)
    """Exchange rates of further currencies: USD per unit."""
    hours_per_month: PositiveNumber | None = None
    """Hours in a month."""
    power_price_per_kwh: NonNegativeNumber | None = None
    """Price of power per kWh; 0 = part of the rent."""
    pue: PositiveNumber | None = None
    """Total power over IT power."""
    support_fraction: NonNegativeNumber | None = None
    """Support and operation, as a fraction of the subtotal of a pool or line."""
    spare_fraction: NonNegativeNumber | None = None
    """Chips held in reserve, as a fraction of the chips in service."""
    price_position: FractionNumber | None = None
    """Where between the low (0) and the high end (1) of a chip's rent to buy."""
    acquisition: Acquisition = "rent"
    """rent or purchase."""
    amortisation_years: PositiveNumber | None = None
    """Years over which a purchase is paid back."""
    residual_fraction: FractionNumber | None = None
    """Share of the purchase price left at the end."""
    cost_of_capital_fraction: NonNegativeNumber | None = None
    """Yearly interest on money tied up."""
    power_load_fraction: FractionNumber | None = None
    """Mean draw of a chip in service over its TDP."""
    host_power_w_per_chip: NonNegativeNumber | None = None
    """Share of host, fans and NICs per chip [W]."""
    hosting_per_kw_month: NonNegativeNumber | None = None
    """Rack space per kW of IT load and month."""
    network_per_chip_month: NonNegativeNumber | None = None
    """Share of NICs, switches and optics per chip and month."""
    cross_connect_per_end_month: NonNegativeNumber | None = None
    """Cross-connect per line and end, per month."""
    rent_includes_running_costs: bool = False
    """True: rent contains power, hosting and network, which are then charged on bought chips only."""
    line_term_months: PositiveNumber | None = None
    """Months over which the set-up of a line is spread."""


class FinanceFile(Profile):
    """A way of buying, to be named by sites files (``finance: rent-3y``)."""

    schema_name: ClassVar[str] = "finance/1"
    finance: FinanceBody
    """The settings."""


class SitesFile(Profile):
    """Everything that can be bought: sites, lines, finance settings."""

    schema_name: ClassVar[str] = "sites/1"
    sites: Annotated[dict[Identifier, SiteBody], Field(min_length=1)]
    """Datacenters by id."""
    lines: dict[Identifier, LineBody] = Field(default_factory=dict)
    """Leased lines by id."""
    finance: FinanceBody | Identifier = Field(default_factory=FinanceBody)
    """Finance settings, or the id of a finance profile."""


def _unknown_ends(file: SitesFile) -> list[tuple[str, str, str]]:
    return [
        (line_id, key, end)
        for line_id, line in file.lines.items()
        for key, end in (("from", line.from_site), ("to", line.to_site))
        if end not in file.sites
    ]


def _ends_message(file: SitesFile) -> str:
    line_id, key, end = _unknown_ends(file)[0]
    return f"line {line_id!r} runs {key} an unknown site {end!r}{did_you_mean(end, file.sites)}"


def _loops(file: SitesFile) -> list[str]:
    return [line_id for line_id, line in file.lines.items() if line.from_site == line.to_site]


def _repeated_tiers(file: SitesFile) -> list[str]:
    return [
        line_id for line_id, line in file.lines.items() if len({tier.gbps for tier in line.tiers}) < len(line.tiers)
    ]


SitesFile.checks = (
    Check(
        name="ends of lines are sites",
        holds=lambda file: not _unknown_ends(file),
        message=_ends_message,
        fix="name a key of the sites section",
        key=("lines",),
    ),
    Check(
        name="lines connect two sites",
        holds=lambda file: not _loops(file),
        message=lambda file: f"line {_loops(file)[0]!r} starts and ends at the same site",
        fix="name two different sites",
        key=("lines",),
    ),
    Check(
        name="tiers differ",
        holds=lambda file: not _repeated_tiers(file),
        message=lambda file: f"line {_repeated_tiers(file)[0]!r} has two tiers of the same rate",
        fix="keep one tier per rate",
        key=("lines",),
    ),
)


def load_sites(name: str | Path | None = None) -> Sites:
    """Sites by bundled id or file; the bundled two sites without a name.

    Raises:  InputError with every fault of the file.
    """
    return sites_of(lookup.load(lookup.Kind.SITES, name or DEFAULT_SITES))


def sites_of(document: SourceDocument) -> Sites:
    """Sites from a document already read (also the copy inside a plan file)."""
    file = read(document, SitesFile)
    origins = provenance(file)
    if isinstance(file.finance, str):
        finance, finance_origins = load_finance(file.finance)
        origins |= finance_origins
    else:
        finance = _finance(file.finance)
    lines = {line_id: _line(line_id, body, finance, origins) for line_id, body in file.lines.items()}
    texts = {key.removesuffix(".value"): source_text(origin) for key, origin in origins.items()}
    texts |= {f"lines.{line_id}": _line_text(line) for line_id, line in lines.items()}
    return Sites(
        name=file.name,
        sites={site_id: _site(site_id, body) for site_id, body in file.sites.items()},
        lines=lines,
        finance=finance,
        provenance=texts,
        origins=origins,
    )


def load_finance(name: str | Path) -> tuple[Finance, dict[str, Provenance]]:
    """Finance settings by bundled id or file, with the origin of each number (``finance.pue`` ...)."""
    return finance_of(lookup.load(lookup.Kind.FINANCE, name))


def finance_of(document: SourceDocument) -> tuple[Finance, dict[str, Provenance]]:
    """Finance settings from a document already read."""
    file = read(document, FinanceFile)
    return _finance(file.finance), provenance(file)


def source_text(origin: Provenance) -> str:
    """One line for the source column of exports."""
    text = f"{origin.basis.label}: {origin.source}" if origin.basis is Basis.ASSUMED else origin.source
    return f"{text} ({origin.date})" if origin.date else text


def _value(number: Sourced | None) -> Any:
    return None if number is None else number.value


def _given(body: Strict) -> dict[str, Any]:
    """Fields that were given, numbers without their sources; None means: keep the default of the domain record."""
    values = {name: getattr(body, name) for name in type(body).model_fields}
    plain = {name: _value(v) if isinstance(v, Sourced) else v for name, v in values.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _finance(body: FinanceBody) -> Finance:
    return Finance(**_given(body))


def _site(site_id: str, body: SiteBody) -> Site:
    chips = {}
    for chip_id, chip in body.chips.items():
        given = _given(chip) if chip is not None else {}
        given |= {name: tuple(given[name]) for name in ("roles", "shapes") if name in given}
        chips[lookup.canonical(chip_id)] = SiteChip(chip=lookup.canonical(chip_id), **given)
    return Site(
        id=site_id,
        chips=chips,
        name=body.name,
        power_limit_kw=_value(body.power_limit_kw),
        pue=_value(body.pue),
        power_price_per_kwh=_value(body.power_price_per_kwh),
        hosting_per_kw_month=_value(body.hosting_per_kw_month),
    )


def _line(line_id: str, body: LineBody, finance: Finance, origins: Mapping[str, Provenance]) -> Line:
    tiers = [
        Tier(
            gbps=tier.gbps,
            monthly_cost=tier.monthly_cost.value,
            setup_cost=tier.setup_cost,
            currency=tier.currency or finance.currency,
            source=source_text(origins[f"lines.{line_id}.tiers[{index}].monthly_cost"]),
            port_monthly_cost_per_end=tier.port_monthly_cost_per_end,
            monthly_cost_low=tier.monthly_cost.low,
            monthly_cost_high=tier.monthly_cost.high,
        )
        for index, tier in enumerate(body.tiers)
    ]
    optional = {
        name: _value(getattr(body, name))
        for name in ("loss_fraction", "protocol_efficiency", "background_fraction", "noise_mean_s")
        if getattr(body, name) is not None
    }
    return Line(
        id=line_id,
        from_site=body.from_site,
        to_site=body.to_site,
        tiers=tuple(sorted(tiers, key=lambda tier: tier.gbps)),
        rtt_s=body.rtt_ms.value / MS_PER_S,
        tcp_flows=body.tcp_flows,
        tcp_window_bytes=(_value(body.tcp_window_mib) or DEFAULT_WINDOW_MIB) * MIB,
        mss_bytes=body.mss_bytes,
        max_lines=body.max_lines,
        **optional,
    )


def _line_text(line: Line) -> str:
    sources = {tier.source for tier in line.tiers if tier.source}
    return "; ".join(sorted(sources))
