"""``bcr compare`` on the terminal, as JSON and as CSV: topologies side by side, verdict first."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from pddplan import __version__
from pddplan.domain.outcome import Outcome, Percentiles
from pddplan.economics.attribution import TokenCost
from pddplan.report.bcr_parts import bullets, joined, price_text, title
from pddplan.report.csv_costs import safe_text
from pddplan.report.numbers import amount, bar, count, money, percent, plain_text, ratio, seconds, short
from pddplan.report.proof import PROOF_KEY, closeness
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.report.verdict import fleet_words
from pddplan.studies.break_evens import BreakEvens
from pddplan.studies.compare import BcrComparison, Entry
from pddplan.units import MONTHS_PER_YEAR

SCHEMA = "pddplan-bcr-compare/1"
BAR_CELLS = 40


def render(found: BcrComparison, screen: Screen) -> str:
    """The whole report as text."""
    blocks = [_verdict(found, screen), _table(found, screen), _chart(found, screen), _fleets(found, screen)]
    blocks += [_break_evens(found, screen), _missing(found, screen), _assumptions(found, screen)]
    return joined(blocks, screen)


def verdict(found: BcrComparison) -> str:
    """The answer in a sentence."""
    best, base = found.best, found.baseline_entry
    if best is None or best.outcome is None:
        return f"No contender keeps the promises of {found.workload}."
    mine = best.outcome
    what = (
        f"{best.name} gives the most per unit of cost{_shared(best, found)}: BCR {short(mine.bcr)} req/s per 1,000 "
        f"{found.currency} a month"
    )
    if base is None or base.outcome is None:
        return f"{what}; the baseline {found.baseline} has no plan that keeps the promises."
    if best is base:
        return f"{what}, and it is the baseline: nothing else pays here."
    if base.outcome.bcr <= 0 or best.bcr_gain is None:
        return f"{what}; the baseline {found.baseline} breaks a promise."
    saving = (base.outcome.cost.monthly_total * mine.goodput_rps / base.outcome.goodput_rps) - mine.cost.monthly_total
    return (
        f"{what}, {percent(best.bcr_gain, signed=True)} over {found.baseline}; at its rate that saves "
        f"{money(saving * MONTHS_PER_YEAR, found.currency)} a year."
    )


def _shared(best: Entry, found: BcrComparison) -> str:
    """Which other contenders come to the best plan as well."""
    assert best.outcome is not None
    fleet = fleet_words(best.outcome)
    others = [e.name for e in found.entries if e is not best and e.outcome and fleet_words(e.outcome) == fleet]
    verb = "come" if len(others) > 1 else "comes"
    return f" ({', '.join(others)} {verb} to the same plan)" if others else ""


def _verdict(found: BcrComparison, screen: Screen) -> list[str]:
    tone = screen.paint.good if found.best is not found.baseline_entry else screen.paint.warn
    return [tone(line) for line in paragraph(plain_text(verdict(found)), width=screen.width)]


def _table(found: BcrComparison, screen: Screen) -> list[str]:
    columns = [
        Column("contender", importance=0),
        Column("chips", right=True, importance=0),
        Column(f"{found.currency}/month", right=True, importance=0),
        Column("req/s", right=True, importance=0),
        Column("BCR", right=True, importance=0),
        Column("to base", right=True, importance=0),
        Column("proof", right=True, importance=0),
        Column("TTFT P50", right=True, importance=2),
        Column("P90", right=True, importance=1),
        Column("P99", right=True, importance=1),
        Column("TPOT", right=True, importance=4),
        Column("missed/M", right=True, importance=3),
        Column("cached/M", right=True, importance=5),
        Column("out/M", right=True, importance=3),
        Column("", importance=1),
    ]
    rows = [_row(entry, found) for entry in found.entries if entry.outcome is not None]
    if not rows:
        return []
    shown = table(columns, rows, width=screen.width, paint=screen.paint)
    per_token = {"missed/M": "missed input", "cached/M": "cached input", "out/M": "output"}
    named = [words for name, words in per_token.items() if name in shown[0]]
    keys = [PROOF_KEY] if any(entry.outcome is not None and entry.outcome.solver for entry in found.entries) else []
    if named:
        keys.append(f"/M: {found.currency} per million tokens of {', '.join(named)}")
    return [*title("SIDE BY SIDE", screen), *shown, *bullets(keys, screen, dim=True, indent="")]


def _row(entry: Entry, found: BcrComparison) -> list[str]:
    outcome, tokens = entry.outcome, entry.token_cost
    assert outcome is not None
    kept = "" if outcome.keeps_promises else "BREAKS " + ", ".join(v.limit for v in outcome.violations)
    return [
        plain_text(entry.name) + (" (given)" if entry.fixed else ""),
        count(entry.chips) + (f" of {count(entry.chips + entry.idle_chips)}" if entry.idle_chips else ""),
        amount(outcome.cost.monthly_total),
        short(outcome.goodput_rps if outcome.keeps_promises else outcome.plan.rate_rps),
        ratio(outcome.bcr),
        "base" if entry.name == found.baseline else percent(entry.bcr_gain, signed=True),
        closeness(outcome.solver) if outcome.solver is not None else "-",
        seconds(outcome.ttft.p50),
        seconds(outcome.ttft.p90),
        seconds(outcome.ttft.p99),
        seconds(outcome.tpot_s),
        short(tokens.miss_per_mtok if tokens else None),
        short(tokens.cached_per_mtok if tokens else None),
        short(tokens.output_per_mtok if tokens else None),
        kept,
    ]


def _chart(found: BcrComparison, screen: Screen) -> list[str]:
    rows = [(entry.name, entry.outcome.bcr) for entry in found.entries if entry.outcome is not None]
    top = max((value for _, value in rows if math.isfinite(value)), default=0.0)
    if top <= 0:
        return []
    name_width = max(len(name) for name, _ in rows)
    cells = max(min(BAR_CELLS, screen.width - name_width - 20), 10)
    lines = title(f"BCR   req/s per 1,000 {found.currency} a month", screen)
    for name, value in rows:
        lines.append(f"{plain_text(name):<{name_width}}  {bar(value / top, cells)}  {short(value)}")
    return lines


def _fleets(found: BcrComparison, screen: Screen) -> list[str]:
    """What each contender takes; topologies that come to the same plan in one line."""
    taken: dict[str, list[str]] = {}
    for entry in found.entries:
        if entry.outcome is not None:
            taken.setdefault(fleet_words(entry.outcome), []).append(entry.name)
    return [*title("FLEETS", screen), *bullets([f"{', '.join(n)}: {words}" for words, n in taken.items()], screen)]


def _break_evens(found: BcrComparison, screen: Screen) -> list[str]:
    texts = break_even_sentences(found.break_evens, found)
    if not texts:
        return []
    head = f"BREAK-EVEN   where {found.break_evens.plan} and {found.baseline} are equal, both plans kept"
    return title(head, screen) + bullets(texts, screen)


def break_even_sentences(points: BreakEvens, found: BcrComparison) -> list[str]:
    """Break-even prices and hit rates in words."""
    texts = []
    if points.decode_chip is not None and points.price_premium_now is not None:
        now = f"now {percent(points.price_premium_now, signed=True)} over the prefill chip"
        if points.price_premium is None:
            texts.append(f"price of {points.decode_chip}: {now}; no price of it makes the two equal")
        else:
            texts.append(f"price of {points.decode_chip}: {now}; equal at {percent(points.price_premium, signed=True)}")
    if points.has_line and points.line_price_factor is None:
        texts.append("line: no price of it, not even none, makes the two equal")
    if points.line_price_factor is not None and points.line_monthly_cost is not None:
        texts.append(
            f"line: equal at {money(points.line_monthly_cost, found.currency)} a month, "
            f"{short(points.line_price_factor)} times its price"
        )
    if points.hit_rate_now is not None:
        where = ", ".join(percent(rate) for rate in points.hit_rates) or "no hit rate"
        texts.append(
            f"hit rate: now {percent(points.hit_rate_now)} by tokens; equal cost per request at {where} "
            "(pools sized to their load)"
        )
    return texts


def _missing(found: BcrComparison, screen: Screen) -> list[str]:
    texts = [_why_not(entry) for entry in found.entries if entry.outcome is None]
    return [*title("WITHOUT A PLAN", screen), *bullets(texts, screen)] if texts else []


def _why_not(entry: Entry) -> str:
    why = entry.why_not or ""
    return why if why.startswith(f"{entry.name}:") else f"{entry.name}: no plan; {why}"


def _assumptions(found: BcrComparison, screen: Screen) -> list[str]:
    texts = []
    if found.price is not None:
        texts.append(price_text(found.price, assumed=found.price_assumed))
        margins = [
            f"{entry.name} {short(entry.monthly_revenue - entry.outcome.cost.monthly_total)}"
            for entry in found.entries
            if entry.outcome is not None and entry.monthly_revenue is not None
        ]
        texts.append(f"revenue at list price over cost, {found.currency} a month: {'; '.join(margins)}")
    texts.append(
        "cost per million tokens: prefill and line to input, relay and main decode to output; cached tokens bear the "
        "prefill time that their context adds"
    )
    return title("RESTS ON", screen) + bullets(texts, screen, dim=True)


def comparison_json(found: BcrComparison) -> dict[str, Any]:
    """Plain data for other programs."""
    points = found.break_evens
    return {
        "schema": SCHEMA,
        "pddplan_version": __version__,
        "workload": found.workload,
        "currency": found.currency,
        "baseline": found.baseline,
        "best": found.best.name if found.best is not None else None,
        "verdict": verdict(found),
        "contenders": [_entry_json(entry) for entry in found.entries],
        "break_even": {
            "plan": points.plan,
            "decode_chip": points.decode_chip,
            "price_premium_now": points.price_premium_now,
            "price_premium": points.price_premium,
            "line_price_factor": points.line_price_factor,
            "line_monthly_cost": points.line_monthly_cost,
            "hit_rate_now": points.hit_rate_now,
            "hit_rates": list(points.hit_rates),
        },
        "token_price": None
        if found.price is None
        else {
            "model": found.price.model,
            "assumed": found.price_assumed,
            "miss_per_mtok": found.price.miss_per_mtok,
            "cached_per_mtok": found.price.cached_per_mtok,
            "output_per_mtok": found.price.output_per_mtok,
            "currency": found.price.currency,
            "date": found.price.date,
            "source": found.price.source,
        },
    }


def _entry_json(entry: Entry) -> dict[str, Any]:
    outcome = entry.outcome
    if outcome is None:
        return {"name": entry.name, "given": entry.fixed, "status": "no plan", "why": entry.why_not}
    return {
        "name": entry.name,
        "given": entry.fixed,
        "status": "feasible" if outcome.keeps_promises else "promises broken",
        "chips": entry.chips,
        "idle_chips": entry.idle_chips,
        "pools": [
            {"site": p.site, "role": str(p.role), "chip": p.chip, "gpus": p.chips, "instances": p.instances}
            for p in outcome.plan.pools
        ],
        "monthly_cost": outcome.cost.monthly_total,
        "rate_rps": outcome.plan.rate_rps,
        "goodput_rps": outcome.goodput_rps,
        "bcr": outcome.bcr,
        "bcr_to_baseline": entry.bcr_gain,
        "cost_to_baseline": entry.cost_gain,
        "rps_to_baseline": entry.rps_gain,
        "ttft_s": _percentiles(outcome.ttft),
        "tpot_s": outcome.tpot_s,
        "monthly_revenue": entry.monthly_revenue,
        "token_cost": _token_cost(entry.token_cost),
        "violations": [v.limit for v in outcome.violations],
        "solver": _solver(outcome),
    }


def _percentiles(times: Percentiles) -> dict[str, float]:
    return {"p50": times.p50, "p90": times.p90, "p99": times.p99, "mean": times.mean}


def _token_cost(tokens: TokenCost | None) -> dict[str, float | None] | None:
    if tokens is None:
        return None
    return {
        "miss_per_mtok": tokens.miss_per_mtok,
        "cached_per_mtok": tokens.cached_per_mtok,
        "input_per_mtok": tokens.input_per_mtok,
        "output_per_mtok": tokens.output_per_mtok,
        "all_per_mtok": tokens.all_per_mtok,
        "miss_monthly_cost": tokens.miss_monthly_cost,
        "cached_monthly_cost": tokens.cached_monthly_cost,
        "output_monthly_cost": tokens.output_monthly_cost,
    }


def _solver(outcome: Outcome) -> dict[str, Any] | None:
    solver = outcome.solver
    if solver is None:
        return None
    return {"name": solver.name, "status": solver.status, "gap": solver.gap, "gap_over_all": solver.gap_over_all}


COLUMNS = (
    "contender",
    "given",
    "status",
    "chips",
    "monthly_cost",
    "currency",
    "goodput_rps",
    "bcr",
    "bcr_to_baseline",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "tpot_s",
    "cost_per_mtok_miss",
    "cost_per_mtok_cached",
    "cost_per_mtok_output",
    "monthly_revenue",
)


def comparison_csv(found: BcrComparison) -> str:
    """One row per contender."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in found.entries:
        outcome, tokens = entry.outcome, entry.token_cost
        if outcome is None:
            writer.writerow([safe_text(entry.name), entry.fixed, "no plan", *[""] * (len(COLUMNS) - 3)])
            continue
        writer.writerow(
            [
                safe_text(entry.name),
                entry.fixed,
                "feasible" if outcome.keeps_promises else "promises broken",
                entry.chips,
                outcome.cost.monthly_total,
                found.currency,
                outcome.goodput_rps,
                outcome.bcr,
                entry.bcr_gain if entry.bcr_gain is not None else "",
                outcome.ttft.p50,
                outcome.ttft.p90,
                outcome.ttft.p99,
                outcome.tpot_s,
                *(
                    value if value is not None else ""
                    for value in (
                        (tokens.miss_per_mtok, tokens.cached_per_mtok, tokens.output_per_mtok)
                        if tokens
                        else (None,) * 3
                    )
                ),
                entry.monthly_revenue if entry.monthly_revenue is not None else "",
            ]
        )
    return buffer.getvalue()
