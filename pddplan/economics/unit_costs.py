"""What one chip and one leased line cost per month, item by item: the only place where prices become costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pddplan.domain.chip import Chip
from pddplan.domain.plan import Shape
from pddplan.domain.sites import Finance, Line, Site, SiteChip, Sites, Tier
from pddplan.economics.money import capital_monthly_cost, convert
from pddplan.errors import DomainError, InputError, Problem, did_you_mean
from pddplan.units import MONTHS_PER_YEAR, WATTS_PER_KW

ENDS = 2


@dataclass(frozen=True, slots=True)
class UnitCost:
    """One priced thing per chip or per line and month: ``quantity`` x ``unit_price`` x ``hours``."""

    item: str
    quantity: float
    unit: str
    unit_price: float
    hours: float
    source: str
    capital: bool = False
    """Rent or purchase of the chip itself: what an owned chip saves."""

    @property
    def monthly_cost(self) -> float:
        return self.quantity * self.unit_price * self.hours


def chip_price_per_hour(chip: Chip, site_chip: SiteChip | None, *, finance: Finance) -> tuple[float, str]:
    """Rent of one chip-hour and its source.

    Formula:     site price if given, else low + position * (high - low), converted
    Parameters:  chip; site_chip with its override or None; finance (position in [0, 1])
    Returns:     (price [finance.currency per chip-hour], source)
    Raises:      InputError naming the chip if it has no price anywhere.
    Holds when:  the price is a commitment at the chosen position; 0 (low end) is rent taken for years.
    References:  definition
    """
    if site_chip is not None and site_chip.price_per_chip_hour is not None:
        return _money(site_chip.price_per_chip_hour, f"price of {chip.id}"), "price of the sites file"
    if chip.price is None:
        raise InputError(
            Problem(
                what=f"chip {chip.id!r} has no price, so no plan with it can be priced",
                fix=f"give sites.<site>.chips.{chip.id}.price_per_chip_hour in the sites file, "
                f"or price: in the profile of {chip.id}",
                where=f"chip {chip.id}: price",
            )
        )
    position = finance.price_position
    if not 0 <= position <= 1:
        raise DomainError("finance.price_position", "must lie between 0 (low end) and 1 (high end)", position)
    price = chip.price
    low, high = _money(price.low_per_chip_hour, "price"), _money(price.high_per_chip_hour, "price")
    where = {0.0: "low end", 1.0: "high end"}.get(position, f"{position:.0%} between low and high")
    source = ", ".join(part for part in (price.source, price.date, f"{where} of {low:g}-{high:g}") if part)
    return convert(low + position * (high - low), price.currency, finance=finance), source


def chip_power_w(chip: Chip, site: Site, *, finance: Finance, spread: bool = True) -> float:
    """Power one chip in service draws at the meter of the site.

    Formula:     (TDP * load + host share) * PUE;  PUE = 1 with spread=False (IT load)
    Parameters:  chip with tdp_w; site and finance for load, host share and PUE
    Returns:     [W]
    Raises:      InputError if the chip has no TDP.
    Holds when:  averaged over the hours of a month.
    References:  definition; barroso2018
    """
    if chip.tdp_w is None:
        limited = site.power_limit_kw is not None
        wanted = f"held against the power limit of site {site.id}" if limited else "priced"
        otherwise = "take power_limit_kw away" if limited else "set finance.power_price_per_kwh: 0 (part of the rent)"
        raise InputError(
            Problem(
                what=f"chip {chip.id!r} has no TDP, so its power cannot be {wanted}",
                fix=f"add tdp_w to the profile of {chip.id}, or {otherwise}",
                where=f"chip {chip.id}: tdp_w",
            )
        )
    it_load_w = chip.tdp_w * finance.power_load_fraction + finance.host_power_w_per_chip
    pue = finance.pue if site.pue is None else site.pue
    return it_load_w * (pue if spread else 1.0)


def chip_unit_costs(sites: Sites, site_id: str, *, chip: Chip, need_price: bool | None = None) -> tuple[UnitCost, ...]:
    """Everything one chip in service costs at a site per month, item by item.

    Formula:     capital (rent or annuity) * (1 + spare) + power + hosting + network; support = fraction * subtotal
    Parameters:  sites with finance settings; site_id; chip; need_price, whether a missing price is an error
                 (None: unless the site owns as many chips as it can hold)
    Returns:     items, quantities per chip
    Raises:      InputError for an unknown site or a missing price, purchase price or TDP.
    Holds when:  chips are in service all hours of the month; see purchase.reserve_base for a daily profile.
    References:  definition
    """
    if need_price is None:
        need_price = not _fully_owned(sites, site_id, chip.id)
    site, finance = find_site(sites, site_id), sites.finance
    site_chip = site.chips.get(chip.id)
    capital = chip_capital(sites, site_id, chip=chip, need_price=need_price)
    items = [capital]
    if finance.spare_fraction:
        items.append(
            replace(
                capital,
                item=f"spare chips ({capital.item})",
                quantity=_fraction(finance.spare_fraction, "finance.spare_fraction"),
                source=f"{finance.spare_fraction:.1%} in reserve: {_source(sites, 'finance.spare_fraction')}",
            )
        )
    bought = _acquisition(site_chip, finance) == "purchase"
    if bought or not finance.rent_includes_running_costs:
        items += _running_costs(sites, site_id, chip=chip, bought=bought)
    return _with_support(items, sites)


def _running_costs(sites: Sites, site_id: str, *, chip: Chip, bought: bool) -> list[UnitCost]:
    """Power, hosting and network of one chip in service, as far as they have a price."""
    site, finance = find_site(sites, site_id), sites.finance
    items: list[UnitCost] = []
    power_price = finance.power_price_per_kwh if site.power_price_per_kwh is None else site.power_price_per_kwh
    if _money(power_price, "power price"):
        kilowatts = chip_power_w(chip, site, finance=finance) / WATTS_PER_KW
        items.append(
            UnitCost(
                item="power",
                quantity=kilowatts,
                unit="kW",
                unit_price=power_price,
                hours=finance.hours_per_month,
                source=f"(TDP x {finance.power_load_fraction:g} + host) x PUE; "
                + _source(sites, f"sites.{site_id}.power_price_per_kwh", "finance.power_price_per_kwh"),
            )
        )
    elif bought:
        items.append(UnitCost("power: not priced", 0.0, "kW", 0.0, 1.0, "finance.power_price_per_kwh is 0"))
    hosting = finance.hosting_per_kw_month if site.hosting_per_kw_month is None else site.hosting_per_kw_month
    if _money(hosting, "hosting price"):
        items.append(
            UnitCost(
                item="hosting",
                quantity=chip_power_w(chip, site, finance=finance, spread=False) / WATTS_PER_KW,
                unit="kW IT",
                unit_price=hosting,
                hours=1.0,
                source=_source(sites, f"sites.{site_id}.hosting_per_kw_month", "finance.hosting_per_kw_month"),
            )
        )
    if _money(finance.network_per_chip_month, "network price"):
        items.append(
            UnitCost(
                item="NIC and switch share",
                quantity=1.0,
                unit="chip",
                unit_price=finance.network_per_chip_month,
                hours=1.0,
                source=_source(sites, "finance.network_per_chip_month"),
            )
        )
    return items


def owned_chip_credit(sites: Sites, site_id: str, *, chip: Chip) -> float:
    """Capital that one chip already owned saves per month (0 where none is owned or no price is known).

    Formula:     rent * hours, or annuity of the purchase
    Parameters:  sites, site_id, chip
    Returns:     [currency/month per owned chip used, spares included]
    Raises:      InputError for an unknown site.
    Holds when:  owned chips are paid for; they still draw power and need support.
    References:  definition
    """
    site_chip = find_site(sites, site_id).chips.get(chip.id)
    if site_chip is None or site_chip.owned_chips <= 0:
        return 0.0
    return chip_capital(sites, site_id, chip=chip, need_price=False).monthly_cost


def pool_monthly_cost_per_instance(sites: Sites, site_id: str, *, chip: Chip, shape: Shape) -> float:
    """Monthly cost of one more instance of a pool, before the credit for owned chips.

    Formula:     chips per instance * sum of chip_unit_costs
    Parameters:  sites, site_id, chip, shape
    Returns:     [currency/month]
    Raises:      InputError as chip_unit_costs.
    Holds when:  as chip_unit_costs.
    References:  definition
    """
    return shape.chips * math.fsum(unit.monthly_cost for unit in chip_unit_costs(sites, site_id, chip=chip))


def line_unit_costs(line: Line, gbps: float, *, sites: Sites) -> tuple[UnitCost, ...]:
    """Everything one leased line of a tier costs per month, item by item.

    Formula:     rent + set-up as annuity over the term + 2 * (port + cross-connect); support = fraction * subtotal
    Parameters:  line with its tariff ladder; gbps, a rung of it; sites with finance settings
    Returns:     items per line
    Raises:      InputError if the ladder has no such rung or an exchange rate is missing.
    Holds when:  the line is kept for finance.line_term_months.
    References:  definition
    """
    finance = sites.finance
    tier = line_tier(line, gbps)
    origin = tier.source or _source(sites, f"lines.{line.id}")

    def money(amount: float, name: str) -> float:
        return convert(_money(amount, name), tier.currency, finance=finance)

    items = [UnitCost(f"line {gbps:g} Gbit/s", 1.0, "line", money(tier.monthly_cost, "line price"), 1.0, origin)]
    if tier.setup_cost:
        charge = capital_monthly_cost(
            money(tier.setup_cost, "line set-up"),
            finance.line_term_months,
            annual_rate_fraction=finance.cost_of_capital_fraction,
        )
        spread = f"{tier.setup_cost:g} {tier.currency} over {finance.line_term_months:g} months; {origin}"
        items.append(UnitCost("line set-up", 1.0, "line", charge, 1.0, spread))
    if tier.port_monthly_cost_per_end:
        port = money(tier.port_monthly_cost_per_end, "port price")
        items.append(UnitCost("line ports", float(ENDS), "end", port, 1.0, origin))
    if _money(finance.cross_connect_per_end_month, "cross-connect"):
        source = _source(sites, "finance.cross_connect_per_end_month")
        items.append(UnitCost("cross-connects", float(ENDS), "end", finance.cross_connect_per_end_month, 1.0, source))
    return _with_support(items, sites)


def line_tier(line: Line, gbps: float) -> Tier:
    """Return the rung of the tariff ladder with this rate, or say which rungs there are."""
    for tier in line.tiers:
        if math.isclose(tier.gbps, gbps, rel_tol=1e-9):
            return tier
    ladder = ", ".join(f"{tier.gbps:g}" for tier in line.tiers) or "none"
    raise InputError(
        Problem(
            what=f"line {line.id!r} has no tier of {gbps:g} Gbit/s",
            fix=f"take one of its tiers ({ladder}), or add the price of {gbps:g} Gbit/s to the sites file",
            where=f"lines.{line.id}.tiers",
        )
    )


def line_monthly_cost(line: Line, gbps: float, *, sites: Sites) -> float:
    """Monthly cost of one line of a tier, all items.

    Formula:     sum of line_unit_costs
    Parameters:  line, gbps, sites
    Returns:     [currency/month per line]
    Raises:      InputError as line_unit_costs.
    Holds when:  as line_unit_costs.
    References:  definition
    """
    return math.fsum(unit.monthly_cost for unit in line_unit_costs(line, gbps, sites=sites))


def chip_capital(sites: Sites, site_id: str, *, chip: Chip, need_price: bool) -> UnitCost:
    """Rent or annuity of one chip; free when no price is known and none is needed (all chips owned)."""
    finance, site_chip = sites.finance, find_site(sites, site_id).chips.get(chip.id)
    try:
        if _acquisition(site_chip, finance) == "purchase":
            return _purchase(sites, site_id, chip=chip)
        price, source = chip_price_per_hour(chip, site_chip, finance=finance)
    except InputError:
        if need_price:
            raise
        return UnitCost("chips (owned)", 1.0, "chip", 0.0, 1.0, "already paid for", capital=True)
    source = sites.provenance.get(f"sites.{site_id}.chips.{chip.id}.price_per_chip_hour", source)
    return UnitCost("rent", 1.0, "chip", price, _hours(finance), source, capital=True)


def _purchase(sites: Sites, site_id: str, *, chip: Chip) -> UnitCost:
    finance, site_chip = sites.finance, sites.sites[site_id].chips.get(chip.id)
    if site_chip is None or site_chip.purchase_price_per_chip is None:
        raise InputError(
            Problem(
                what=f"chip {chip.id!r} is to be purchased but has no purchase price",
                fix=f"give sites.{site_id}.chips.{chip.id}.purchase_price_per_chip, or acquisition: rent",
                where=f"sites.{site_id}.chips.{chip.id}",
            )
        )
    price = _money(site_chip.purchase_price_per_chip, f"purchase price of {chip.id}")
    charge = capital_monthly_cost(
        price,
        finance.amortisation_years * MONTHS_PER_YEAR,
        residual=price * _fraction(finance.residual_fraction, "finance.residual_fraction"),
        annual_rate_fraction=finance.cost_of_capital_fraction,
    )
    source = (
        f"{price:,.0f} {finance.currency} over {finance.amortisation_years:g} years at "
        f"{finance.cost_of_capital_fraction:.1%}, residual {finance.residual_fraction:.0%}; "
    ) + _source(sites, f"sites.{site_id}.chips.{chip.id}.purchase_price_per_chip")
    return UnitCost("purchase", 1.0, "chip", charge, 1.0, source, capital=True)


def _with_support(items: list[UnitCost], sites: Sites) -> tuple[UnitCost, ...]:
    fraction = _money(sites.finance.support_fraction, "finance.support_fraction")
    if not fraction:
        return tuple(items)
    subtotal = math.fsum(unit.monthly_cost for unit in items)
    source = _source(sites, "finance.support_fraction")
    return (*items, UnitCost("support", subtotal, sites.finance.currency, fraction, 1.0, source))


def find_site(sites: Sites, site_id: str) -> Site:
    """Look a site up, or say which sites there are."""
    if site_id in sites.sites:
        return sites.sites[site_id]
    raise InputError(
        Problem(
            what=f"site {site_id!r} is unknown{did_you_mean(site_id, sites.sites)}",
            fix=f"name one of: {', '.join(sites.sites)}",
            where=f"sites.{site_id}",
        )
    )


def _fully_owned(sites: Sites, site_id: str, chip_id: str) -> bool:
    site_chip = find_site(sites, site_id).chips.get(chip_id)
    if site_chip is None or site_chip.max_chips is None:
        return False
    return 0 < with_spares(site_chip.max_chips, sites.finance) <= site_chip.owned_chips


def with_spares(chips: float, finance: Finance) -> float:
    """Chips to hold for a number of chips in service."""
    return chips * (1 + finance.spare_fraction)


def _acquisition(site_chip: SiteChip | None, finance: Finance) -> str:
    kind = (site_chip.acquisition if site_chip else None) or finance.acquisition
    if kind not in ("rent", "purchase"):
        raise DomainError("acquisition", "must be rent or purchase", kind)
    return kind


def _hours(finance: Finance) -> float:
    if not (math.isfinite(finance.hours_per_month) and finance.hours_per_month > 0):
        raise DomainError("finance.hours_per_month", "must be finite and greater than 0", finance.hours_per_month)
    return finance.hours_per_month


def _money(amount: float, name: str) -> float:
    if not (math.isfinite(amount) and amount >= 0):
        raise DomainError(name, "must be finite and at least 0", amount)
    return amount


def _fraction(value: float, name: str) -> float:
    if not (math.isfinite(value) and 0 <= value <= 1):
        raise DomainError(name, "must lie between 0 and 1", value)
    return value


def _source(sites: Sites, *keys: str) -> str:
    """Source that the sites file gives for the first known of these keys, or the key itself as setting."""
    for key in keys:
        if key in sites.provenance:
            return sites.provenance[key]
    return f"setting {keys[-1]} of sites {sites.name!r}"
