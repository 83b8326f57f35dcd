"""``bcr curve`` on the terminal, as JSON and as CSV: the bathtub, where the workload stands in it, and the way out."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pddplan import __version__
from pddplan.economics.moves import Move
from pddplan.report.bcr_parts import bullets, joined, price_text, title
from pddplan.report.line_chart import line_chart
from pddplan.report.numbers import PERCENT, count, money, percent, plain_text, short
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.studies.curve import MEMORY_PRICE_RANGE, BathtubStudy

SCHEMA = "pddplan-bcr-curve/1"
FAR_END = 0.97
"""A curve whose lowest point lies beyond this only falls."""
SHALLOW = 0.97
"""A valley that reaches this is hardly one."""
SHOWN_TOP = 2.0
"""The curve rises without bound towards 100 % hits; the plot is cut here."""
MOST_NOTCHES = 8
MOST_MOVES = 6


def render(study: BathtubStudy, screen: Screen) -> str:
    """The whole report as text."""
    blocks = [_verdict(study, screen), _plot(study, screen), _points(study, screen), _sized(study, screen)]
    blocks += [_notches(study, screen), _moves(study, screen), _rests_on(study, screen)]
    return joined(blocks, screen)


def verdict(study: BathtubStudy) -> str:
    """Where the workload stands, in a sentence or two."""
    reading = study.reading
    here = (
        f"{study.workload} stands at {percent(reading.now_hit_rate)} token hits and earns "
        f"{percent(reading.now_relative)} of what it would earn per unit of cost without any cache"
    )
    if reading.valley_relative >= 1:
        return f"{here}. At these prices there is no valley: every hit pays."
    if reading.break_even_hit_rate is None and reading.valley_hit_rate >= FAR_END:
        gain = float(study.curve.requests_per_cost[_at(study, reading.now_hit_rate)] / study.curve.requests_per_cost[0])
        return (
            f"{here}. At these prices revenue per cost only falls with hits: the tub has no far rim, because a cached "
            f"token costs its user {percent(study.price.cached_over_miss)} of a missed one. What grows is requests per "
            f"cost: {short(gain)} times those without cache."
        )
    if reading.valley_relative > SHALLOW:
        return (
            f"{here}. There is hardly a valley: at worst, at {percent(reading.valley_hit_rate)} hits, it is "
            f"{percent(reading.valley_relative)}."
        )
    tub = f"The valley is at {hits_text(reading.valley_hit_rate)} hits ({percent(reading.valley_relative)})"
    if reading.break_even_hit_rate is None:
        return f"{here}. {tub}; at these prices more hits never earn back what their discount costs."
    out = f"hits pay from {hits_text(reading.break_even_hit_rate)} on"
    inside = ": inside the tub, where the discount on a hit is worth more than the work it saves"
    return f"{here}{inside if reading.in_valley else ''}. {tub}; {out}."


def hits_text(rate: float) -> str:
    """A hit rate; close to all, with the decimals that tell it from all."""
    return f"{rate * PERCENT:.2f} %" if FAR_END < rate < 1 else percent(rate)


def _at(study: BathtubStudy, hit_rate: float) -> int:
    return int(np.argmin(np.abs(study.curve.hit_rate - hit_rate)))


def _verdict(study: BathtubStudy, screen: Screen) -> list[str]:
    tone = screen.paint.warn if study.reading.in_valley else screen.paint.good
    return [tone(line) for line in paragraph(plain_text(verdict(study)), width=screen.width)]


def _plot(study: BathtubStudy, screen: Screen) -> list[str]:
    curve, reading = study.curve, study.reading
    marks = {"V": (reading.valley_hit_rate, reading.valley_relative), "N": (reading.now_hit_rate, reading.now_relative)}
    if reading.break_even_hit_rate is not None:
        marks["B"] = (reading.break_even_hit_rate, 1.0)
    head = "REVENUE PER COST against token hit rate   1 = no cache; V valley, B break-even, N now"
    return [
        *title(head, screen),
        *line_chart(
            curve.hit_rate.tolist(),
            curve.relative.tolist(),
            width=screen.width,
            height=14,
            marks=marks,
            rule=1.0,
            top=max(SHOWN_TOP, min(reading.now_relative * 1.05, 10.0)),
            x_labels=[(rate, f"{rate:.0%}") for rate in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)],
        ),
    ]


def _points(study: BathtubStudy, screen: Screen) -> list[str]:
    curve = study.curve
    columns = [
        Column("hit rate", right=True, importance=0),
        Column("revenue per cost", right=True, importance=0),
        Column("to no cache", right=True, importance=0),
        Column(f"requests per {study.currency}", right=True, importance=1),
        Column("this fleet, req/s", right=True, importance=2),
        Column("prefill, s", right=True, importance=3),
    ]
    rows = []
    for rate in (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98):
        i = _at(study, rate)
        rows.append(
            [
                percent(float(curve.hit_rate[i])),
                short(float(curve.benefit[i])),
                percent(float(curve.relative[i])),
                short(float(curve.requests_per_cost[i])),
                short(float(study.fleet_rate_rps[i])),
                short(float(curve.prefill_s[i])),
            ]
        )
    return [*title("POINTS", screen), *table(columns, rows, width=screen.width, paint=screen.paint)]


def _sized(study: BathtubStudy, screen: Screen) -> list[str]:
    if not study.sized:
        return []
    columns = [
        Column("hit rate", right=True, importance=0),
        Column("chips", right=True, importance=1),
        Column(f"{study.currency}/month", right=True, importance=1),
        Column("revenue per cost", right=True, importance=0),
        Column("at today's utilisation", right=True, importance=0),
    ]
    rows = [
        [
            percent(point.hit_rate),
            short(point.chips),
            short(point.monthly_cost),
            short(point.benefit),
            short(float(study.bare_benefit[_at(study, point.hit_rate)]) if study.bare_benefit is not None else None),
        ]
        for point in study.sized
    ]
    head = "FITTED ANEW   large fleets under the same promises, per today's rate; the curve runs through them"
    return [*title(head, screen), *table(columns, rows, width=screen.width, paint=screen.paint)]


def _notches(study: BathtubStudy, screen: Screen) -> list[str]:
    notches = study.reading.notches
    lines = title("NOTCHES   dips from tail chunks", screen)
    if not notches:
        reason = "none deep enough to matter" if study.chunk_tokens else "not known"
        if study.tail_packing is not None:
            reason += f" (tails are packed with other requests to {percent(study.tail_packing)})"
        return [*lines, f"  {reason}"]
    deepest = sorted(notches, key=lambda notch: -notch.depth_fraction)[:MOST_NOTCHES]
    lines += bullets(
        (
            f"at {notch.hit_rate:.1%}, {notch.depth_fraction:.1%} deep: {notch.explanation}"
            for notch in sorted(deepest, key=lambda notch: notch.hit_rate)
        ),
        screen,
    )
    if len(notches) > MOST_NOTCHES:
        lines.append(f"  and {len(notches) - MOST_NOTCHES} shallower ones (all in --json and --csv)")
    return lines


def _moves(study: BathtubStudy, screen: Screen) -> list[str]:
    lines = title("TWO MOVES   what changes benefit from here", screen)
    for name, moves in (("a shallower tub", study.shallower), ("another cache size", _spread_out(study.cache))):
        if not moves:
            continue
        lines.append(f"  {name}")
        for move in moves:
            text = f"{move.name}: {percent(move.gain_fraction, signed=True)}"
            if move.capacity_tokens is not None:
                memory = _signed_money(move.extra_monthly_cost, study.currency)
                text += f" at {percent(move.hit_rate)} hits, memory {memory}"
            lines += paragraph(plain_text(text), width=screen.width, indent="      ", first="    ")
    if study.cache:
        best = max(study.cache, key=lambda move: move.benefit)
        lines.append(f"  best of all measured capacities: {best.name} ({percent(best.gain_fraction, signed=True)})")
    return lines


def _spread_out(moves: Sequence[Move]) -> list[Move]:
    if len(moves) <= MOST_MOVES:
        return list(moves)
    picked = np.unique(np.linspace(0, len(moves) - 1, MOST_MOVES).round().astype(int))
    return [moves[int(i)] for i in picked]


def _signed_money(amount: float, currency: str) -> str:
    return f"{'+' if amount > 0 else '-' if amount < 0 else ''}{money(abs(amount), currency)} a month"


def _rests_on(study: BathtubStudy, screen: Screen) -> list[str]:
    price = study.price
    low, high = MEMORY_PRICE_RANGE
    loss = study.plan_benefit / study.now_benefit - 1 if study.now_benefit > 0 else 0.0
    texts = [
        f"the plan itself, in whole instances, earns {short(study.plan_benefit)} per unit of cost, "
        f"{percent(loss, signed=True)} against a large fleet at this hit rate",
        price_text(price, assumed=study.price_assumed),
        "misses of all classes scale together (skew as now)"
        if study.spread == "as-now"
        else "every request hits the same share of its input",
        "between the points sized anew, pools are sized to their load"
        if study.sized
        else "pools are sized to their load at every hit rate, at the utilisation planned now (--sized is closer)",
    ]
    if study.cache:
        texts.append(
            f"memory for cached KV at {short(study.memory_price_per_gb_month)} {study.currency} per GB and month "
            f"(assumed unless given; {low:g} to {high:g} USD is plausible)"
        )
    if study.chunk_tokens:
        texts.append(f"prefill in chunks of {count(study.chunk_tokens)} tokens (serving stack profile)")
    return title("RESTS ON", screen) + bullets([*texts, *study.remarks], screen, dim=True)


def curve_json(study: BathtubStudy) -> dict[str, Any]:
    """Plain data for other programs."""
    curve, reading = study.curve, study.reading
    return {
        "schema": SCHEMA,
        "pddplan_version": __version__,
        "workload": study.workload,
        "topology": study.topology,
        "currency": study.currency,
        "verdict": verdict(study),
        "cached_over_miss": study.price.cached_over_miss,
        "now": {
            "hit_rate": reading.now_hit_rate,
            "benefit": study.now_benefit,
            "plan_benefit": study.plan_benefit,
            "relative": reading.now_relative,
            "in_valley": reading.in_valley,
        },
        "valley": {"hit_rate": reading.valley_hit_rate, "relative": reading.valley_relative},
        "break_even_hit_rate": reading.break_even_hit_rate,
        "notches": [
            {
                "hit_rate": notch.hit_rate,
                "depth_fraction": notch.depth_fraction,
                "predicted_hit_rate": notch.predicted_hit_rate,
                "full_chunks": notch.full_chunks,
                "explanation": notch.explanation,
            }
            for notch in reading.notches
        ],
        "chunk_tokens": study.chunk_tokens,
        "tail_packing": study.tail_packing,
        "moves": {"shallower": [_move(m) for m in study.shallower], "more_cache": [_move(m) for m in study.cache]},
        "curve": [
            {
                "hit_rate": float(curve.hit_rate[i]),
                "benefit": _number(curve.benefit[i]),
                "relative": _number(curve.relative[i]),
                "revenue_per_request": float(curve.revenue[i]),
                "cost_per_request": float(curve.cost[i]),
                "requests_per_cost": _number(curve.requests_per_cost[i]),
                "prefill_s": float(curve.prefill_s[i]),
                "fleet_rate_rps": _number(study.fleet_rate_rps[i]),
            }
            for i in range(curve.hit_rate.size)
        ],
        "sized": [
            {
                "hit_rate": point.hit_rate,
                "chips": point.chips,
                "monthly_cost": point.monthly_cost,
                "benefit": _number(point.benefit),
            }
            for point in study.sized
        ],
        "remarks": list(study.remarks),
    }


def _move(move: Move) -> dict[str, Any]:
    return {
        "name": move.name,
        "hit_rate": move.hit_rate,
        "benefit": _number(move.benefit),
        "gain_fraction": _number(move.gain_fraction),
        "extra_monthly_cost": move.extra_monthly_cost,
        "capacity_tokens": move.capacity_tokens,
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def curve_csv(study: BathtubStudy) -> str:
    """One row per hit rate."""
    data = curve_json(study)["curve"]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(data[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(data)
    return buffer.getvalue()
