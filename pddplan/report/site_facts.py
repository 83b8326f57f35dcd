"""What can be bought where: sites, chips, prices and lines of a sites file, as text and as a record for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pddplan.domain.chip import Chip
from pddplan.domain.sites import Line, Sites
from pddplan.economics.unit_costs import UnitCost, chip_unit_costs
from pddplan.errors import InputError
from pddplan.report.numbers import amount, count, percent, plain_text, short
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.units import MS_PER_S


def list_text(found: Mapping[str, Sites], screen: Screen) -> str:
    """One row per bundled or own sites file."""
    columns = [
        Column("sites", importance=0),
        Column("places", importance=1),
        Column("chips (at most)", importance=0),
        Column("lines", importance=2),
    ]
    rows = []
    for name, sites in found.items():
        places = [plain_text(site_id) for site_id in sites.sites]
        offers = [
            plain_text(f"{site_id}: {chip} ({_most(offer.max_chips)})")
            for site_id, site in sites.sites.items()
            for chip, offer in site.chips.items()
        ]
        lines = [plain_text(f"{line.from_site}-{line.to_site}") for line in sites.lines.values()]
        rows.append([plain_text(name), ", ".join(places), ", ".join(offers), ", ".join(lines) or "-"])
    said = "own ones: pddplan sites copy two-sites --out my-sites.yaml, change it, then size --sites my-sites.yaml"
    return "\n".join([*table(columns, rows, width=screen.width, paint=screen.paint), "", *_soft([said], screen)]) + "\n"


def show_text(sites: Sites, chips: Mapping[str, Chip], screen: Screen) -> str:
    """Prices and lines of one sites file, and where each price comes from."""
    finance = sites.finance
    columns = [
        Column("site", importance=0),
        Column("chip", importance=0),
        Column("at most", right=True, importance=0),
        Column("roles", importance=2),
        Column(finance.currency, right=True, importance=0),
        Column("per", importance=0),
    ]
    rows, sources = [], []
    for site_id, site in sites.sites.items():
        for chip_id, offer in site.chips.items():
            price, unit, source = _price(sites, site_id, chips[chip_id])
            roles = " ".join(offer.roles) if offer.roles else "any"
            rows.append([plain_text(site_id), plain_text(chip_id), _most(offer.max_chips), roles, price, unit])
            sources.append(f"{chip_id} at {site_id}: {source}")
    lines = [screen.paint.bold(plain_text(sites.name)), ""]
    lines += [*table(columns, rows, width=screen.width, paint=screen.paint), *_soft(sources, screen)]
    for line in sites.lines.values():
        lines += ["", *_line(line, finance.currency, screen)]
    return "\n".join([*lines, "", *_soft([f"a month has {short(finance.hours_per_month)} hours"], screen)]) + "\n"


def facts(sites: Sites, chips: Mapping[str, Chip]) -> dict[str, Any]:
    """The same as a record."""
    return {
        "name": sites.name,
        "currency": sites.finance.currency,
        "hours_per_month": sites.finance.hours_per_month,
        "sites": {
            site_id: {
                chip_id: {
                    "max_chips": offer.max_chips,
                    "roles": list(offer.roles) if offer.roles else None,
                    "price": paid.unit_price if (paid := _paid(sites, site_id, chips[chip_id])) else None,
                    "price_hours": paid.hours if paid else None,
                }
                for chip_id, offer in site.chips.items()
            }
            for site_id, site in sites.sites.items()
        },
        "lines": {
            line_id: {
                "from": line.from_site,
                "to": line.to_site,
                "rtt_s": line.rtt_s,
                "max_lines": line.max_lines,
                "tiers": [{"gbps": tier.gbps, "monthly_cost": tier.monthly_cost} for tier in line.tiers],
            }
            for line_id, line in sites.lines.items()
        },
    }


def _line(line: Line, currency: str, screen: Screen) -> list[str]:
    said = (
        f"line {line.id}, {line.from_site} to {line.to_site}: RTT {short(line.rtt_s * MS_PER_S)} ms, up to "
        f"{count(line.max_lines)} of one rate, {percent(line.protocol_efficiency)} of it payload"
    )
    columns = [
        Column("Gbit/s", right=True, importance=0),
        Column(f"{line.tiers[0].currency if line.tiers else currency} / month", right=True, importance=0),
    ]
    rows = [[f"{tier.gbps:g}", amount(tier.monthly_cost)] for tier in line.tiers]
    ranges = [_range(tier.monthly_cost_low, tier.monthly_cost_high) for tier in line.tiers]
    if any(ranges):
        columns.append(Column("low to high", right=True, importance=1))
        rows = [[*row, shown] for row, shown in zip(rows, ranges, strict=True)]
    rates: dict[str, list[str]] = {}
    for tier in line.tiers:
        if tier.source:
            rates.setdefault(tier.source, []).append(f"{tier.gbps:g}")
    sources = [f"{', '.join(of)} Gbit/s: {source}" for source, of in rates.items()]
    head = [screen.paint.bold(text) for text in paragraph(plain_text(said), width=screen.width)]
    return [*head, *table(columns, rows, width=screen.width, paint=screen.paint), *_soft(sources, screen)]


def _price(sites: Sites, site_id: str, chip: Chip) -> Sequence[str]:
    paid = _paid(sites, site_id, chip)
    if paid is None:
        return "none", "", "give price_per_chip_hour"
    return short(paid.unit_price), f"chip-{'month' if paid.hours == 1 else 'hour'}", plain_text(paid.source)


def _paid(sites: Sites, site_id: str, chip: Chip) -> UnitCost | None:
    """Rent or annuity of a chip; None where no price is known."""
    try:
        return next(unit for unit in chip_unit_costs(sites, site_id, chip=chip, need_price=True) if unit.capital)
    except InputError:
        return None


def _most(chips: int | None) -> str:
    return "no limit" if chips is None else count(chips)


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{amount(low)}-{amount(high)}"


def _soft(texts: Sequence[str], screen: Screen) -> list[str]:
    wrapped = [
        line for text in texts for line in paragraph(plain_text(text), width=screen.width, indent="  ", first="")
    ]
    return [screen.paint.dim(line) for line in wrapped]
