"""Several workloads on one fleet, on the terminal, as JSON and as CSV."""

from __future__ import annotations

from typing import Any

from pddplan import __version__
from pddplan.report.bcr_parts import bullets, joined, title
from pddplan.report.csv_costs import costs_csv, priced
from pddplan.report.json_plan import outcome_json
from pddplan.report.numbers import count, money, percent, plain_text, ratio, seconds, short
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.studies.shared_fleet import SharedFleet
from pddplan.units import MONTHS_PER_YEAR

SCHEMA = "pddplan-bcr-fleet/1"


def render(fleet: SharedFleet, screen: Screen) -> str:
    """The whole report as text."""
    blocks = [_verdict(fleet, screen), _tenants(fleet, screen), _chips(fleet, screen), _rests_on(fleet, screen)]
    return joined(blocks, screen)


def verdict(fleet: SharedFleet) -> str:
    """The fleet in a sentence."""
    chips = sum(fleet.chips().values())
    monthly, yearly = (money(fleet.monthly_total * months, fleet.currency) for months in (1, MONTHS_PER_YEAR))
    return (
        f"{count(chips)} chips serve {len(fleet.tenants)} workload{'s' if len(fleet.tenants) > 1 else ''}, "
        f"{short(fleet.goodput_rps)} req/s together, "
        f"for {monthly} a month ({yearly} a year)."
    )


def _verdict(fleet: SharedFleet, screen: Screen) -> list[str]:
    return [screen.paint.bold(line) for line in paragraph(plain_text(verdict(fleet)), width=screen.width)]


def _tenants(fleet: SharedFleet, screen: Screen) -> list[str]:
    columns = [
        Column("workload", importance=0),
        Column("req/s", right=True, importance=0),
        Column("pools", importance=1),
        Column("line", right=True, importance=2),
        Column(f"{fleet.currency}/month", right=True, importance=0),
        Column("BCR", right=True, importance=0),
        Column("TTFT P90", right=True, importance=2),
        Column("P99", right=True, importance=2),
    ]
    rows = []
    for tenant in fleet.tenants:
        outcome = tenant.outcome
        pools = ", ".join(f"{p.chips} {p.chip} {p.role}" for p in outcome.plan.pools if p.instances)
        lines = " + ".join(f"{x.gbps * x.count:g}G" for x in outcome.plan.lines if x.count)
        rows.append(
            [
                plain_text(tenant.name),
                short(outcome.goodput_rps),
                plain_text(pools),
                lines or "-",
                short(outcome.cost.monthly_total),
                ratio(outcome.bcr),
                seconds(outcome.ttft.p90),
                seconds(outcome.ttft.p99),
            ]
        )
    return [*title("WORKLOADS", screen), *table(columns, rows, width=screen.width, paint=screen.paint)]


def _chips(fleet: SharedFleet, screen: Screen) -> list[str]:
    columns = [
        Column("site", importance=0),
        Column("chip", importance=0),
        Column("taken", right=True, importance=0),
        Column("of", right=True, importance=1),
        Column("", right=True, importance=1),
    ]
    rows = []
    for (site_id, chip_id), taken in sorted(fleet.chips().items()):
        limit = _limit(fleet, site_id, chip_id)
        share = percent(taken / limit) if limit else ""
        rows.append([plain_text(site_id), plain_text(chip_id), count(taken), count(limit) if limit else "-", share])
    return [*title("TOGETHER", screen), *table(columns, rows, width=screen.width, paint=screen.paint)]


def _limit(fleet: SharedFleet, site_id: str, chip_id: str) -> int | None:
    """Chips of the whole site: what was left for the workload sized first."""
    first = next(tenant for tenant in fleet.tenants if tenant.name == fleet.order[0])
    own = first.inputs.sites.sites[site_id].chips.get(chip_id)
    return own.max_chips if own is not None else None


def _rests_on(fleet: SharedFleet, screen: Screen) -> list[str]:
    texts = ["each workload keeps pools and lines of its own; they share sites, chips, power and line counts"]
    if fleet.scarce:
        texts.append(
            f"chips, power or lines are scarce: sized in the order {', '.join(fleet.order)}, the cheapest total of the "
            "orders tried; good, not proven best"
        )
    else:
        texts.append("nothing they share is scarce, so every plan is the best for its workload")
    return title("RESTS ON", screen) + bullets(texts, screen, dim=True)


def fleet_json(fleet: SharedFleet) -> dict[str, Any]:
    """Plain data for other programs."""
    return {
        "schema": SCHEMA,
        "pddplan_version": __version__,
        "topology": fleet.topology,
        "currency": fleet.currency,
        "verdict": verdict(fleet),
        "monthly_total": fleet.monthly_total,
        "goodput_rps": fleet.goodput_rps,
        "scarce": fleet.scarce,
        "order": list(fleet.order),
        "chips": [
            {"site": site, "chip": chip, "chips": taken} for (site, chip), taken in sorted(fleet.chips().items())
        ],
        "workloads": [{"name": t.name, **outcome_json(t.outcome, t.inputs)} for t in fleet.tenants],
    }


def fleet_csv(fleet: SharedFleet) -> str:
    """Cost items of all workloads, in the columns of ``size --csv``."""
    return costs_csv(priced(tenant.inputs, tenant.outcome) for tenant in fleet.tenants)
