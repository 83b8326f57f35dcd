"""A growth path on the terminal, as JSON and as CSV by month: who is added when, and what it costs today."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from pddplan import __version__
from pddplan.report.bcr_parts import bullets, joined, title
from pddplan.report.csv_costs import safe_text
from pddplan.report.numbers import amount, count, money, percent, plain_text, quantity, ratio, seconds, short
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.studies.growth_path import GrowthStudy

SCHEMA = "pddplan-bcr-growth/1"


def render(study: GrowthStudy, screen: Screen) -> str:
    """The whole report as text."""
    blocks = [_verdict(study, screen), _quarters(study, screen), _changes(study, screen), _rests_on(study, screen)]
    return joined(blocks, screen)


def verdict(study: GrowthStudy) -> str:
    """The path in two sentences."""
    first = next((step for step in study.steps if step.outcome is not None), study.steps[0])
    last = study.steps[-1]
    cost = study.plan.net_present_cost
    text = (
        f"From {short(first.rate_rps)} to {short(last.rate_rps)} req/s in {len(study.steps)} quarters: net present "
        f"cost {money(cost, study.currency)}, {money(study.at_once_present_cost - cost, study.currency)} less than the "
        "final fleet from the first day"
    )
    saved = study.rent_only_present_cost - cost
    if math.isfinite(saved) and saved > 0.005 * cost:
        text += f", {money(saved, study.currency)} less than renting all of it"
    buys = any(row.owned > 0 for row in study.monthly_rows)
    return f"{text}. Nothing bought ever stands idle." if buys else f"{text}. Everything is rented."


def _verdict(study: GrowthStudy, screen: Screen) -> list[str]:
    return [screen.paint.good(line) for line in paragraph(plain_text(verdict(study)), width=screen.width)]


def _quarters(study: GrowthStudy, screen: Screen) -> list[str]:
    pools = study.final.plan.pools
    columns = [
        Column("quarter", right=True, importance=0),
        Column("req/s", right=True, importance=0),
        *(Column(f"{p.role} {p.chip} × {p.shape.chips}", right=True, importance=0) for p in pools),
        Column("chips", right=True, importance=0),
        Column("line", right=True, importance=1),
        Column(f"{study.currency}/month", right=True, importance=0),
        Column("BCR", right=True, importance=0),
        Column("TTFT P90", right=True, importance=2),
        Column("P99", right=True, importance=2),
    ]
    rows = []
    for step in study.steps:
        outcome = step.outcome
        if outcome is None:
            rows.append([str(step.quarter), "0", *["-"] * (len(columns) - 2)])
            continue
        lines = " + ".join(f"{line.gbps * line.count:g}G" for line in outcome.plan.lines if line.count)
        rows.append(
            [
                str(step.quarter),
                short(step.rate_rps),
                *(count(pool.instances) for pool in outcome.plan.pools),
                count(sum(pool.chips for pool in outcome.plan.pools)),
                lines or "-",
                amount(outcome.cost.monthly_total),
                ratio(outcome.bcr),
                seconds(outcome.ttft.p90),
                seconds(outcome.ttft.p99),
            ]
        )
    head = "QUARTERS   instances of each pool; cost as if all were taken at the terms of the sites file"
    return [*title(head, screen), *table(columns, rows, width=screen.width, paint=screen.paint)]


def _changes(study: GrowthStudy, screen: Screen) -> list[str]:
    columns = [
        Column("month", right=True, importance=0),
        Column("what", importance=0),
        Column("bought", right=True, importance=0),
        Column("owned", right=True, importance=1),
        Column("rented", right=True, importance=0),
        Column(f"{study.currency} that month", right=True, importance=1),
        Column("", importance=2),
    ]
    before: dict[str, tuple[float, float]] = {}
    rows = []
    for row in sorted(study.monthly_rows, key=lambda r: (r.month, r.kind)):
        state = (row.owned, row.rented)
        if before.get(row.kind, (0.0, 0.0)) != state:
            rows.append(
                [
                    str(row.month),
                    plain_text(row.kind),
                    count(row.bought) if row.bought and row.owned else "",
                    quantity(row.owned) if row.owned else "",
                    quantity(row.rented) if row.rented else "",
                    amount(row.cash),
                    plain_text(row.note),
                ]
            )
        before[row.kind] = state
    return [*title("WHEN WHAT CHANGES", screen), *table(columns, rows, width=screen.width, paint=screen.paint)]


def _rests_on(study: GrowthStudy, screen: Screen) -> list[str]:
    texts = [
        f"{kind}: an instance costs {short(both.rent_monthly_cost)} rented, {short(both.purchase_monthly_cost)} "
        f"bought, per month; break-even after {short(both.break_even_months)} months"
        if both.break_even_months is not None
        else f"{kind}: rent never adds up to the price of buying"
        for kind, both in study.contracts
    ]
    texts += [
        f"cost of capital {percent(study.annual_rate_fraction)} a year; prices stay as they are (they have fallen)",
        "the kinds of pools are those of the plan for the largest demand; each quarter takes the smallest counts and "
        "thinnest line that keep all promises",
        "a unit is bought when it is needed in every month from then on and buying is cheaper; else it is rented "
        "(purchase needs purchase_price_per_chip in the sites file)",
    ]
    return title("RESTS ON", screen) + bullets(texts, screen, dim=True)


def growth_json(study: GrowthStudy) -> dict[str, Any]:
    """Plain data for other programs."""
    return {
        "schema": SCHEMA,
        "pddplan_version": __version__,
        "workload": study.workload,
        "currency": study.currency,
        "verdict": verdict(study),
        "net_present_cost": study.plan.net_present_cost,
        "at_once_present_cost": study.at_once_present_cost,
        "rent_only_present_cost": study.rent_only_present_cost,
        "idle_owned_unit_months": study.plan.idle_owned_unit_months,
        "quarters": [
            {
                "quarter": step.quarter,
                "rate_rps": step.rate_rps,
                "keeps_promises": step.outcome.keeps_promises if step.outcome else None,
                "monthly_cost": step.outcome.cost.monthly_total if step.outcome else 0.0,
                "bcr": step.outcome.bcr if step.outcome else None,
                "pools": [
                    {"id": p.id, "role": str(p.role), "chip": p.chip, "instances": p.instances, "gpus": p.chips}
                    for p in (step.outcome.plan.pools if step.outcome else ())
                ],
                "links": [
                    {"id": line.line, "gbps": line.gbps, "count": line.count}
                    for line in (step.outcome.plan.lines if step.outcome else ())
                ],
            }
            for step in study.steps
        ],
        "months": _months(study),
    }


COLUMNS = ("month", "kind", "needed", "owned", "rented", "bought", "cash", "present_value", "currency", "note")


def _months(study: GrowthStudy) -> list[dict[str, Any]]:
    return [
        {
            "month": row.month,
            "kind": row.kind,
            "needed": row.needed,
            "owned": row.owned,
            "rented": row.rented,
            "bought": row.bought,
            "cash": row.cash,
            "present_value": row.present_value,
            "currency": study.currency,
            "note": row.note,
        }
        for row in sorted(study.monthly_rows, key=lambda r: (r.month, r.kind))
    ]


def growth_csv(study: GrowthStudy) -> str:
    """One row per month and kind; present values add up to the net present cost."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in _months(study):
        writer.writerow({key: safe_text(value) if isinstance(value, str) else value for key, value in row.items()})
    return buffer.getvalue()
