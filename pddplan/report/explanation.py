"""``pddplan explain``: an explanation as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pddplan.domain.outcome import Outcome
from pddplan.optimize.explanation import Alternative, Explanation, Marginal
from pddplan.optimize.objective import Limits
from pddplan.report.json_plan import finite
from pddplan.report.numbers import count, percent, short
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.report.verdict import SAME, fleet_words, whole_instances

RATE_LEVER = "rate"
"""How an explanation calls more traffic."""


def render(found: Explanation, screen: Screen, *, limits: Limits | None = None) -> str:
    """Verdict, what binds, what one more unit buys, what else was close, why not the others."""
    outcome, width, paint = found.outcome, screen.width, screen.paint
    currency = outcome.cost.currency
    lines = [paint.bold(_verdict(outcome)), ""]
    lines += [f"  {remark}" for remark in found.remarks] + ([""] if found.remarks else [])
    lines.append(paint.bold("What binds"))
    rows = [[b.limit, short(b.used), short(b.available), b.unit] for b in outcome.binding]
    columns = [Column("limit", importance=0), Column("used", right=True), Column("of", right=True), Column("unit")]
    lines += table(columns, rows, width=width, paint=paint) or paragraph(
        whole_instances(outcome, limits) or "nothing is used to its limit", width=width, indent="    ", first="  "
    )
    lines += ["", paint.bold("What one more would buy")]
    columns = [Column("lever", importance=0), Column("effect", importance=0)]
    rows = [[f"{m.lever} {m.change}", effect(m, currency)] for m in found.marginals]
    lines += table(columns, rows, width=width, paint=paint)
    better = [other for other in found.runners_up if (other.cost_ratio or 0.0) <= -SAME]
    if better:
        lines += ["", paint.bold("Better than this plan")]
        lines += _listed(better, currency=currency, width=width, fleets=True)
    lines += ["", paint.bold("Nearly as good")]
    alike = [other for other in found.runners_up if other not in better]
    lines += _listed(alike, currency=currency, width=width, fleets=True) or ["  no other fleet comes near"]
    lines += ["", paint.bold("Other topologies, each at its best")]
    lines += _listed(found.topologies, currency=currency, width=width)
    return "\n".join(lines) + "\n"


def _listed(others: Sequence[Alternative], *, currency: str, width: int, fleets: bool = False) -> list[str]:
    """One wrapped item per alternative, with its pools where asked for."""
    said = [
        f"{other.name}: {_against(other, currency)}"
        + (f"; {fleet_words(other.outcome)}" if fleets and other.outcome is not None else "")
        for other in others
    ]
    return [line for text in said for line in paragraph(text, width=width, indent="    ", first="  ")]


def effect(marginal: Marginal, currency: str) -> str:
    """What a lever does, in words."""
    if marginal.why_not is not None:
        return f"no plan: {marginal.why_not}"
    left, gained = marginal.uncertain, marginal.rate_change_rps
    sure = f" (give or take {short(left)})" if left > 0 else ""
    if gained is not None:
        if 0 < gained <= left:
            return f"buys something, less than {short(gained + left)} req/s"
        if gained > 0:
            return f"buys {short(gained)} req/s{sure}"
        return f"buys less than {short(left)} req/s, if anything" if left > 0 else "buys nothing: it does not bind"
    if not marginal.cost_change and left > 0:
        return f"changes less than {count(left)} {currency} a month, if anything"
    if not marginal.cost_change and marginal.lever == RATE_LEVER:
        return "costs nothing more: the same fleet carries it"
    if not marginal.cost_change:
        return "changes nothing: it does not bind"
    if abs(marginal.cost_change) <= left:
        side = "less" if marginal.cost_change < 0 else "more"
        most = count(abs(marginal.cost_change) + left)
        return f"costs somewhat {side}, less than {most} {currency} a month"
    verb = "saves" if marginal.cost_change < 0 else "costs"
    moved = marginal.chips_change or 0
    chips = f", {abs(moved)} chips {'less' if moved < 0 else 'more'}" if moved else ""
    return f"{verb} {count(abs(marginal.cost_change))} {currency} a month{sure}{chips}"


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
                "uncertain": m.uncertain,
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
    how = "costs the same" if abs(ratio) < SAME else f"costs {percent(abs(ratio))} {'more' if ratio > 0 else 'less'}"
    return f"{how} ({count(other.outcome.cost.monthly_total)} {currency} a month)"
