"""``pddplan explain``: an explanation as text, as JSON and as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pddplan.domain.outcome import Outcome
from pddplan.optimize.alternatives import Alternative
from pddplan.optimize.changes import Move, moves
from pddplan.optimize.explanation import Explanation, Marginal
from pddplan.optimize.marginals import RATE
from pddplan.optimize.one_fewer import LOAD, ONLY_ONE, Needed
from pddplan.report.json_plan import finite
from pddplan.report.numbers import count, percent, quantity, seconds, short
from pddplan.report.plain_csv import plain_csv
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.report.verdict import SAME, fleet_words

MOST_OPEN = 0.01
"""Gaps up to this share are not worth a word."""


def render(found: Explanation, screen: Screen) -> str:
    """Verdict, what binds, what one more unit buys, what else was close, why not the others."""
    outcome, width, paint = found.outcome, screen.width, screen.paint
    currency = outcome.cost.currency
    lines = [paint.bold(_verdict(outcome)), ""]
    for remark in (*found.remarks, *_proof(found)):
        lines += paragraph(remark, width=width, indent="    ", first="  ")
    lines += [""] if len(lines) > 2 else []
    lines.append(paint.bold("What binds"))
    rows = [[b.limit, short(b.used), short(b.available), b.unit] for b in outcome.binding]
    columns = [Column("limit", importance=0), Column("used", right=True), Column("of", right=True), Column("unit")]
    lines += table(columns, rows, width=width, paint=paint)
    lines += _items((f"{_smaller(one)}: {breaks(one)}" for one in found.needs), width) or (
        [] if rows else ["  nothing is used to its limit"]
    )
    lines += ["", paint.bold("What one more would buy, the most valuable first")]
    columns = [Column("lever", importance=0), Column("effect", importance=0)]
    rows = [[f"{m.lever} {m.change}", effect(m, currency)] for m in found.marginals]
    lines += table(columns, rows, width=width, paint=paint)
    if any(m.uncertain > 0 for m in found.marginals):
        lines += _items(["in brackets: how far the value may be off, since searches stop before all is proven"], width)
    if found.carries_rps is not None:
        more = found.carries_rps / outcome.plan.rate_rps - 1.0 if outcome.plan.rate_rps > 0 else 0.0
        said = f"the fleet as it is carries up to {short(found.carries_rps)} req/s"
        lines += _items([f"{said} ({percent(max(more, 0.0), signed=True)}) within all promises"], width)
    better = [other for other in found.runners_up if (other.worse_by or 0.0) <= -SAME]
    if better:
        lines += ["", paint.bold("Better than this plan")]
        lines += _items((_fleet_beside(other, outcome) for other in better), width)
    lines += ["", paint.bold("Other fleets, nearly as good")]
    alike = [other for other in found.runners_up if other not in better]
    lines += _items((_fleet_beside(other, outcome) for other in alike), width) or ["  no other fleet comes near"]
    lines += ["", paint.bold("Why not another topology, each at the best found for it")]
    lines += _items(_topologies(found), width)
    return "\n".join(lines) + "\n"


def _items(texts: Iterator[str] | Sequence[str], width: int) -> list[str]:
    return [line for text in texts for line in paragraph(text, width=width, indent="    ", first="  ")]


def _proof(found: Explanation) -> Iterator[str]:
    """Said once for all values: how far the plan itself is from being proven the best."""
    if found.open_gap > MOST_OPEN:
        yield (
            f"this plan is not proven to be the best: up to {percent(found.open_gap)} is left open; the values below "
            "are differences between the best plans found"
        )


def _smaller(one: Needed) -> str:
    return f"{one.part} {one.less}" if "->" in one.less else f"{one.part} with {one.less} less"


def breaks(one: Needed) -> str:
    """What a smaller part of the fleet would break."""
    if one.breaks == ONLY_ONE:
        return "none would be left"
    if one.breaks == LOAD:
        beyond = "" if one.allowed >= 1 else f", above the ceiling of {percent(one.allowed)}"
        return f"it would be {percent(one.reached)} busy{beyond}"
    if one.unit == "s":
        return f"{one.breaks} would be {seconds(one.reached)}, promised are {seconds(one.allowed)}"
    return f"{one.breaks} would be {short(one.reached)} of {short(one.allowed)} {one.unit}"


def effect(marginal: Marginal, currency: str) -> str:
    """What a lever does, in words."""
    if marginal.why_not is not None:
        return f"no plan: {marginal.why_not}"
    bought, spent = marginal.rate_change_rps, marginal.cost_change
    if marginal.nothing:
        return _nothing(marginal, currency)
    if bought is not None:
        price = marginal.price_per_month
        paid = f" for {count(price)} {currency} a month" if price else ""
        sure = f" (at most {short(bought + marginal.uncertain)})" if marginal.uncertain > 0 else ""
        if marginal.doubtful > 0:
            sure += f"; {short(marginal.doubtful)} of it perhaps without"
        return f"buys {short(bought)} req/s{paid}{sure}"
    amount, moved = abs(spent or 0.0), marginal.chips_change or 0
    chips = f", {count(abs(moved))} chip{'s' if abs(moved) != 1 else ''} {'fewer' if moved < 0 else 'more'}"
    saves = (spent or 0.0) < 0
    far = amount + marginal.uncertain if saves else max(amount - marginal.uncertain, 0.0)
    sure = f" (at {'most' if saves else 'least'} {count(far)})" if marginal.uncertain > 0 else ""
    return f"{'saves' if saves else 'costs'} {count(amount)} {currency} a month{chips if moved else ''}{sure}"


def _nothing(marginal: Marginal, currency: str) -> str:
    """A lever with which no better plan was found."""
    if marginal.uncertain > 0 and marginal.rate_change_rps is not None:
        return f"nothing found (at most {short(marginal.uncertain)} req/s)"
    if marginal.uncertain > 0:
        return f"nothing found (at most {count(marginal.uncertain)} {currency} a month)"
    if marginal.lever == RATE:
        return "costs nothing more, with another fleet of this price"
    if marginal.however_far:
        return "changes nothing, however far it is eased"
    return "buys nothing: it does not bind" if marginal.price_per_month is not None else "changes nothing"


def _fleet_beside(other: Alternative, plan: Outcome) -> str:
    """Another fleet: what it costs or serves, and how it differs from the plan's."""
    if other.outcome is None:
        return other.name
    changed = ", ".join(_moved(move) for move in moves(plan.plan, other.outcome.plan))
    return f"{_against(other)}: {changed or fleet_words(other.outcome)} ({other.name})"


def _moved(move: Move) -> str:
    if move.unit == "instances":
        return (
            f"{quantity(abs(move.after - move.before))} x {move.what} {'more' if move.after > move.before else 'fewer'}"
        )
    if not move.after or not move.before:
        return f"{move.what} {'taken' if move.after else 'given up'}"
    return f"{move.what} {quantity(move.before)} -> {quantity(move.after)} {move.unit}"


def _topologies(found: Explanation) -> Iterator[str]:
    """Each topology; one whose best fleet was listed before says so."""
    listed: dict[str, str] = {}
    for other in found.topologies:
        fleet = fleet_words(other.outcome) if other.outcome is not None and not other.same_plan else None
        if fleet is not None and fleet in listed:
            yield f"{other.name}: comes to the plan of {listed[fleet]}"
            continue
        if fleet is not None:
            listed[fleet] = other.name
        yield _topology(other)


def _topology(other: Alternative) -> str:
    """Why a topology is not taken: what it lacks, what its best fleet costs and why that is not smaller."""
    if other.outcome is None:
        lacks = f"{'; '.join(other.lacks)}; " if other.lacks and "has no path" not in (other.why_not or "") else ""
        return f"{other.name}: no plan: {lacks}{other.why_not}"
    if other.same_plan and other.open_gap > MOST_OPEN:
        return f"{other.name}: no better plan found; up to {percent(other.open_gap)} is left open"
    if other.same_plan:
        return f"{other.name}: comes to this plan; the other paths that it allows are not worth taking"
    lacks = f": {'; '.join(other.lacks)}" if other.lacks else ""
    needs = "; ".join(f"{_smaller(one)}: {breaks(one)}" for one in other.needs[:2])
    held = f"; {needs}" if needs else ""
    left = f" (not proven: up to {percent(other.open_gap)} better)" if other.open_gap > MOST_OPEN else ""
    return f"{other.name}: {_against(other)}{left}{lacks}; it takes {fleet_words(other.outcome)}{held}"


def _against(other: Alternative) -> str:
    outcome, worse = other.outcome, other.worse_by or 0.0
    if outcome is None:
        return f"no plan ({other.why_not})"
    if other.rate_ratio is not None:
        how = (
            "serves as much" if abs(worse) < SAME else f"serves {percent(abs(worse))} {'less' if worse > 0 else 'more'}"
        )
        paid = f"{count(outcome.cost.monthly_total)} {outcome.cost.currency} a month"
        return f"{how} ({short(outcome.goodput_rps)} req/s for {paid})"
    how = "costs the same" if abs(worse) < SAME else f"costs {percent(abs(worse))} {'more' if worse > 0 else 'less'}"
    return f"{how} ({count(outcome.cost.monthly_total)} {outcome.cost.currency} a month)"


def explanation_json(found: Explanation) -> dict[str, Any]:
    """The same as a record for JSON."""
    record: dict[str, Any] = {
        "topology": found.outcome.plan.topology,
        "monthly_cost": found.outcome.cost.monthly_total,
        "currency": found.outcome.cost.currency,
        "rps": found.outcome.goodput_rps,
        "carries_rps": found.carries_rps,
        "open_gap": found.open_gap,
        "remarks": list(found.remarks),
        "binding": [
            {"limit": b.limit, "used": b.used, "available": b.available, "unit": b.unit} for b in found.outcome.binding
        ],
        "one_fewer": [_need_json(one) for one in found.needs],
        "marginals": [
            {
                "lever": m.lever,
                "change": m.change,
                "monthly_cost_change": m.cost_change,
                "chips_change": m.chips_change,
                "rps_change": m.rate_change_rps,
                "monthly_price": m.price_per_month,
                "uncertain": m.uncertain,
                "doubtful": m.doubtful,
                "however_far": m.however_far,
                "why_not": m.why_not,
            }
            for m in found.marginals
        ],
        "runners_up": [_other_json(a) for a in found.runners_up],
        "topologies": [_other_json(a) for a in found.topologies],
    }
    return {name: finite(value) for name, value in record.items()}


def _need_json(one: Needed) -> dict[str, Any]:
    return {
        "part": one.part,
        "less": one.less,
        "breaks": one.breaks,
        "reached": one.reached,
        "allowed": one.allowed,
        "unit": one.unit,
    }


def _other_json(other: Alternative) -> dict[str, Any]:
    outcome = other.outcome
    return {
        "name": other.name,
        "monthly_cost": outcome.cost.monthly_total if outcome else None,
        "rps": outcome.goodput_rps if outcome else None,
        "cost_ratio": other.cost_ratio,
        "rate_ratio": other.rate_ratio,
        "chips": sum(pool.chips for pool in outcome.plan.pools) if outcome else None,
        "fleet": fleet_words(outcome) if outcome else None,
        "same_plan": other.same_plan,
        "open_gap": other.open_gap,
        "lacks": list(other.lacks),
        "one_fewer": [_need_json(one) for one in other.needs],
        "why_not": other.why_not,
    }


def explanation_csv(found: Explanation) -> str:
    """One row per statement: what binds, what one fewer breaks, levers, other fleets and topologies."""
    columns = ("about", "name", "change", "monthly_cost_change", "chips_change", "rps_change", "uncertain", "said")
    base, currency = found.outcome, found.outcome.cost.currency
    chips = sum(pool.chips for pool in base.plan.pools)
    rows: list[list[str | float | None]] = [
        ["binding", b.limit, None, None, None, None, None, f"{short(b.used)} of {short(b.available)} {b.unit}"]
        for b in base.binding
    ]
    rows += [["one fewer", one.part, one.less, None, None, None, None, breaks(one)] for one in found.needs]
    rows += [
        ["lever", m.lever, m.change, m.cost_change, m.chips_change, m.rate_change_rps, m.uncertain, effect(m, currency)]
        for m in found.marginals
    ]
    for about, others in (("fleet", found.runners_up), ("topology", found.topologies)):
        for other in others:
            own = other.outcome
            said = _topology(other) if about == "topology" else _fleet_beside(other, base)
            more: list[str | float | None] = [None, None, None]
            if own is not None:
                held = sum(pool.chips for pool in own.plan.pools)
                cost = own.cost.monthly_total - base.cost.monthly_total
                more = [cost, held - chips, own.goodput_rps - base.goodput_rps]
            rows.append([about, other.name, None, *more, None, said])
    return plain_csv(columns, rows)


def _verdict(outcome: Outcome) -> str:
    chips = sum(pool.chips for pool in outcome.plan.pools)
    return (
        f"{outcome.plan.topology}: {short(outcome.plan.rate_rps)} req/s on {count(chips)} chips, "
        f"{count(outcome.cost.monthly_total)} {outcome.cost.currency} a month"
    )
