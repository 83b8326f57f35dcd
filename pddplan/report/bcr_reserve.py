"""A reserved base and an on-demand peak, on the terminal, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

from pddplan import __version__
from pddplan.report.bcr_parts import bullets, joined, title
from pddplan.report.csv_costs import safe_text
from pddplan.report.numbers import count, money, percent, plain_text, short
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.studies.daily import DailyStudy
from pddplan.units import MONTHS_PER_YEAR

SCHEMA = "pddplan-bcr-reserve/1"
_BLOCKS = " ▁▂▃▄▅▆▇█"
_BLOCKS_ASCII = " .:-=+*#@"


def render(study: DailyStudy, screen: Screen) -> str:
    """The whole report as text."""
    return joined(
        [_verdict(study, screen), _pools(study, screen), _day(study, screen), _rests_on(study, screen)], screen
    )


def verdict(study: DailyStudy) -> str:
    """What to reserve, in a sentence."""
    reserved = sum(day.commitment.reserved_chips for day in study.pools)
    peak = sum(day.commitment.peak_chips for day in study.pools)
    saved = min(study.all_reserved_monthly_cost, study.all_on_demand_monthly_cost) - study.monthly_cost
    mixed, less, all_reserved, by_the_hour = (
        money(amount, study.currency)
        for amount in (
            study.monthly_cost,
            saved * MONTHS_PER_YEAR,
            study.all_reserved_monthly_cost,
            study.all_on_demand_monthly_cost,
        )
    )
    if reserved == peak:
        return (
            f"Reserve all {count(peak)} chips, {mixed} a month: taking some by the hour saves nothing ({by_the_hour})."
        )
    if reserved == 0:
        return (
            f"Take all {count(peak)} chips by the hour, {mixed} a month: reserving some saves nothing ({all_reserved})."
        )
    return (
        f"Reserve {count(reserved)} of {count(peak)} chips and take the rest by the hour: {mixed} a month for chips, "
        f"{less} a year less than the better of all reserved ({all_reserved}) and all on demand ({by_the_hour})."
    )


def _verdict(study: DailyStudy, screen: Screen) -> list[str]:
    return [screen.paint.good(line) for line in paragraph(plain_text(verdict(study)), width=screen.width)]


def _pools(study: DailyStudy, screen: Screen) -> list[str]:
    columns = [
        Column("site", importance=2),
        Column("role", importance=0),
        Column("chip", importance=0),
        Column("reserved", right=True, importance=0),
        Column("peak", right=True, importance=0),
        Column("on demand, chip-hours/day", right=True, importance=1),
        Column("reserved price", right=True, importance=3),
        Column("on demand", right=True, importance=3),
        Column(f"{study.currency}/month", right=True, importance=0),
        Column("all reserved", right=True, importance=1),
    ]
    rows = [
        [
            plain_text(day.pool.site),
            str(day.pool.role),
            plain_text(day.pool.chip),
            count(day.commitment.reserved_chips),
            count(day.commitment.peak_chips),
            short(day.commitment.on_demand_chip_hours_per_day),
            short(day.reserved_price),
            short(day.on_demand_price),
            short(day.commitment.monthly_cost),
            short(day.commitment.all_reserved_monthly_cost),
        ]
        for day in study.pools
    ]
    return [*title("RESERVED BASE AND ON-DEMAND PEAK   chips", screen), *table(columns, rows, width=screen.width)]


def _day(study: DailyStudy, screen: Screen) -> list[str]:
    top = max(study.rates_rps)
    blocks = _BLOCKS_ASCII if screen.ascii_only else _BLOCKS
    bars = "".join(blocks[round(rate / top * (len(blocks) - 1))] for rate in study.rates_rps)
    low, high = (short(value) for value in (min(study.rates_rps), top))
    return [*title("THE DAY   requests per second, hour 0 to 23", screen), f"  |{bars}|  {low} to {high} req/s"]


def _rests_on(study: DailyStudy, screen: Screen) -> list[str]:
    texts = [
        f"{day.pool.chip}: reserved {day.reserved_source}; on demand {day.on_demand_source}" for day in study.pools
    ]
    texts = list(dict.fromkeys(texts))
    texts.append("the kinds of pools are those of the plan for the busiest hour; on-demand chips start within the hour")
    texts.append(
        f"chips only; lines and whatever else is paid by the month are in the plan "
        f"({money(study.peak.cost.monthly_total, study.currency)} a month for the busiest hour, "
        f"chips {percent(study.all_reserved_monthly_cost / study.peak.cost.monthly_total)})"
    )
    return title("RESTS ON", screen) + bullets(texts, screen, dim=True)


def reserve_json(study: DailyStudy) -> dict[str, Any]:
    """Plain data for other programs."""
    return {
        "schema": SCHEMA,
        "pddplan_version": __version__,
        "workload": study.workload,
        "currency": study.currency,
        "verdict": verdict(study),
        "rates_rps": list(study.rates_rps),
        "monthly_cost": study.monthly_cost,
        "all_reserved_monthly_cost": study.all_reserved_monthly_cost,
        "all_on_demand_monthly_cost": study.all_on_demand_monthly_cost,
        "pools": [
            {
                "site": day.pool.site,
                "role": str(day.pool.role),
                "chip": day.pool.chip,
                "reserved_chips": day.commitment.reserved_chips,
                "peak_chips": day.commitment.peak_chips,
                "on_demand_chip_hours_per_day": day.commitment.on_demand_chip_hours_per_day,
                "chips_per_hour": list(day.chips_per_hour),
                "reserved_price_per_chip_hour": day.reserved_price,
                "on_demand_price_per_chip_hour": day.on_demand_price,
                "monthly_cost": day.commitment.monthly_cost,
            }
            for day in study.pools
        ],
    }


def reserve_csv(study: DailyStudy) -> str:
    """One row per pool and hour of the day."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("hour", "rate_rps", "site", "role", "chip", "chips", "reserved_chips", "on_demand_chips"))
    for hour, rate in enumerate(study.rates_rps):
        for day in study.pools:
            chips, base = day.chips_per_hour[hour], day.commitment.reserved_chips
            place = (safe_text(day.pool.site), str(day.pool.role), safe_text(day.pool.chip))
            writer.writerow((hour, rate, *place, chips, base, max(0.0, chips - base)))
    return buffer.getvalue()
