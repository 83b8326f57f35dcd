"""``pddplan explain``: an explanation as text and as JSON."""

from __future__ import annotations

from typing import Any

from pddplan.domain.outcome import Outcome
from pddplan.optimize.explanation import Alternative, Explanation, Marginal
from pddplan.report.json_plan import finite
from pddplan.report.numbers import count, short
from pddplan.report.text_table import Column, Screen, paragraph, table


def render(found: Explanation, screen: Screen) -> str:
    """Verdict, what binds, what one more unit buys, what else was close, why not the others."""
    outcome, width, paint = found.outcome, screen.width, screen.paint
    currency = outcome.cost.currency
    lines = [paint.bold(_verdict(outcome)), ""]
    lines += [f"  {remark}" for remark in found.remarks] + ([""] if found.remarks else [])
    lines.append(paint.bold("What binds"))
    rows = [[b.limit, short(b.used), short(b.available), b.unit] for b in outcome.binding]
    columns = [Column("limit", importance=0), Column("used", right=True), Column("of", right=True), Column("unit")]
    lines += table(columns, rows, width=width, paint=paint) or ["  nothing is used to 97 % of its limit"]
    lines += ["", paint.bold("What one more would buy")]
    columns = [Column("lever", importance=0), Column("change"), Column("effect", importance=0)]
    rows = [[m.lever, m.change, effect(m, currency)] for m in found.marginals]
    lines += table(columns, rows, width=width, paint=paint)
    lines += ["", paint.bold("Nearly as good")]
    for other in found.runners_up:
        lines += paragraph(
            f"{other.name}: {_against(other, currency)}; {_fleet(other.outcome)}", width=width, indent="  "
        )
    if not found.runners_up:
        lines.append("  no other fleet comes near")
    lines += ["", paint.bold("Why not another topology")]
    for other in found.topologies:
        lines += paragraph(f"{other.name}: {_against(other, currency)}", width=width, indent="  ")
    return "\n".join(lines) + "\n"


def effect(marginal: Marginal, currency: str) -> str:
    """What a lever does, in words."""
    if marginal.why_not is not None:
        return f"no plan: {marginal.why_not}"
    if marginal.rate_change_rps is not None:
        gained = marginal.rate_change_rps
        return f"buys {short(gained)} req/s" if gained > 0 else "buys nothing: it does not bind"
    if not marginal.cost_change:
        return "changes nothing: it does not bind"
    verb = "saves" if marginal.cost_change < 0 else "costs"
    moved = marginal.chips_change or 0
    chips = f", {abs(moved)} chips {'less' if moved < 0 else 'more'}" if moved else ""
    return f"{verb} {count(abs(marginal.cost_change))} {currency} a month{chips}"


def explanation_json(found: Explanation) -> dict[str, Any]:
    """The same as a record for JSON."""
    record: dict[str, Any] = {
        "topology": found.outcome.plan.topology,
        "monthly_cost": found.outcome.cost.monthly_total,
        "currency": found.outcome.cost.currency,
        "remarks": list(found.remarks),
        "binding": [
            {"limit": b.limit, "used": b.used, "available": b.available, "unit": b.unit} for b in found.outcome.binding
        ],
        "marginals": [
            {
                "lever": m.lever,
                "change": m.change,
                "monthly_cost_change": m.cost_change,
                "chips_change": m.chips_change,
                "rps_change": m.rate_change_rps,
                "why_not": m.why_not,
            }
            for m in found.marginals
        ],
        "runners_up": [_other_json(a) for a in found.runners_up],
        "topologies": [_other_json(a) for a in found.topologies],
    }
    return {name: finite(value) for name, value in record.items()}


def _other_json(other: Alternative) -> dict[str, Any]:
    outcome = other.outcome
    return {
        "name": other.name,
        "monthly_cost": outcome.cost.monthly_total if outcome else None,
        "cost_ratio": other.cost_ratio,
        "chips": sum(pool.chips for pool in outcome.plan.pools) if outcome else None,
        "why_not": other.why_not,
    }


def _verdict(outcome: Outcome) -> str:
    chips = sum(pool.chips for pool in outcome.plan.pools)
    return (
        f"{outcome.plan.topology}: {short(outcome.plan.rate_rps)} req/s on {chips} chips, "
        f"{count(outcome.cost.monthly_total)} {outcome.cost.currency} a month"
    )


def _against(other: Alternative, currency: str) -> str:
    if other.outcome is None:
        return f"no plan ({other.why_not})"
    ratio = other.cost_ratio or 0.0
    how = "costs the same" if abs(ratio) < 5e-3 else f"costs {abs(ratio):.1%} {'more' if ratio > 0 else 'less'}"
    return f"{how} ({count(other.outcome.cost.monthly_total)} {currency} a month)"


def _fleet(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    return ", ".join(f"{p.chips} x {p.chip} as {p.role.value} at {p.site}" for p in outcome.plan.pools)
