"""How sure a plan is, on the terminal, as JSON and as CSV: chance that promises hold, tornado, what matters most."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from pddplan import __version__
from pddplan.economics.uncertainty import Bar, Factor
from pddplan.report.bcr_parts import bullets, joined, title
from pddplan.report.csv_costs import safe_text
from pddplan.report.numbers import percent, plain_text, short
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.studies.sureness import Sureness

SCHEMA = "pddplan-bcr-sure/1"
MANY_SAMPLES = 128
"""From here on a number without effect alone may be said to matter together with others."""
BAR_CELLS = 24


def render(sure: Sureness, screen: Screen) -> str:
    """The whole report as text."""
    blocks = [_verdict(sure, screen), _tornado(sure, screen), _influence(sure, screen), _rests_on(sure, screen)]
    return joined(blocks, screen)


def verdict(sure: Sureness) -> str:
    """How sure, in two sentences."""
    spread = sure.spread
    text = (
        f"All promises hold in {percent(spread.holds_fraction)} of {spread.samples} joint draws of "
        f"{len(sure.factors)} uncertain numbers (give or take {percent(spread.holds_error)}). BCR is "
        f"{short(sure.planned.bcr)} as planned, {short(spread.bcr_p5)} to {short(spread.bcr_p95)} in nine of ten draws."
    )
    if spread.beats_fraction is not None:
        text += f" It is at least that of the baseline in {percent(spread.beats_fraction)}."
    breaking = [bar for bar in sure.bars if not (bar.at_low.holds and bar.at_high.holds)]
    if breaking and sure.planned.holds:
        text += f" Alone, {_listed([bar.factor.name for bar in breaking])} can break a promise."
    return text


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]


def _verdict(sure: Sureness, screen: Screen) -> list[str]:
    tone = screen.paint.good if sure.spread.holds_fraction >= 0.9 else screen.paint.warn
    return [tone(line) for line in paragraph(plain_text(verdict(sure)), width=screen.width)]


def _tornado(sure: Sureness, screen: Screen) -> list[str]:
    if not sure.bars:
        return []
    columns = [
        Column("one at a time", importance=0),
        Column("range", right=True, importance=2),
        Column("BCR at low", right=True, importance=0),
        Column("at high", right=True, importance=0),
        Column("", importance=1),
        Column("promises", importance=0),
    ]
    reach = max(max(abs(s.bcr - sure.planned.bcr) for s in (bar.at_low, bar.at_high)) for bar in sure.bars)
    felt = [bar for bar in sure.bars if matters(bar, sure)]
    idle = [bar.factor.name for bar in sure.bars if not matters(bar, sure)]
    rows = [_row(bar, sure, reach) for bar in felt]
    head = f"TORNADO   BCR {short(sure.planned.bcr)} req/s per 1,000 {sure.currency} a month as planned"
    lines = [*title(head, screen), *table(columns, rows, width=screen.width, paint=screen.paint)]
    return lines + bullets([f"without effect: {', '.join(idle)}"] if idle else [], screen, dim=True)


def matters(bar: Bar, sure: Sureness) -> bool:
    """Whether a factor moves what is printed, or what holds."""
    shown = {short(score.bcr) for score in (bar.at_low, bar.at_high, sure.planned)}
    return len(shown) > 1 or not (bar.at_low.holds == bar.at_high.holds == sure.planned.holds)


def _row(bar: Bar, sure: Sureness, reach: float) -> list[str]:
    broken = [end for end, s in (("low", bar.at_low), ("high", bar.at_high)) if not s.holds]
    return [
        plain_text(bar.factor.name),
        f"{short(bar.factor.low)} to {_value(bar.factor.high, bar.factor)}",
        short(bar.at_low.bcr),
        short(bar.at_high.bcr),
        tornado_bar(bar, sure.planned.bcr, reach),
        f"break at {' and '.join(broken)}" if broken else "hold",
    ]


def _value(value: float, factor: Factor) -> str:
    return f"{short(value)}{' ' + factor.unit if factor.unit else ''}"


def tornado_bar(bar: Bar, centre: float, reach: float, cells: int = BAR_CELLS) -> str:
    """Both ends of a factor around the planned value: full towards more BCR, shaded towards less."""
    half = cells // 2
    down = min(bar.at_low.bcr, bar.at_high.bcr, centre)
    up = max(bar.at_low.bcr, bar.at_high.bcr, centre)
    left = round((centre - down) / reach * half) if reach > 0 else 0
    right = round((up - centre) / reach * half) if reach > 0 else 0
    return " " * (half - left) + "▒" * left + "│" + "█" * right + " " * (half - right)


def _influence(sure: Sureness, screen: Screen) -> list[str]:
    felt = {bar.factor.name for bar in sure.bars if matters(bar, sure)}
    few = sure.spread.samples < MANY_SAMPLES  # then quasi-random coordinates still follow each other by construction
    known = [(name, value) for name, value in sure.spread.influence.items() if name in felt or not few]
    ranked = sorted(known, key=lambda pair: -abs(pair[1]))[:5]
    noise = max(0.1, 2.0 / math.sqrt(sure.spread.samples))  # two standard errors of a correlation that is nought
    strong = [f"{name} ({value:+.2f})" for name, value in ranked if abs(value) >= noise]
    if not strong:
        return []
    text = f"What moves BCR most when all move together (rank correlation): {', '.join(strong)}."
    return paragraph(plain_text(text), width=screen.width)


def _rests_on(sure: Sureness, screen: Screen) -> list[str]:
    texts = [f"{f.name}: {_value(f.low, f)} to {_value(f.high, f)}; {f.source}" for f in sure.factors]
    texts.append(
        f"factors are independent and triangular between their ends; quasi-random draws, seed {sure.seed}; the plan is "
        "kept; BCR counts what it carries within its promises; change a range with --range 'NAME=LOW:HIGH'"
    )
    return title("RANGES", screen) + bullets(texts, screen, dim=True)


def sure_json(sure: Sureness) -> dict[str, Any]:
    """Plain data for other programs."""
    spread = sure.spread
    return {
        "schema": SCHEMA,
        "pddplan_version": __version__,
        "workload": sure.workload,
        "verdict": verdict(sure),
        "seed": sure.seed,
        "samples": spread.samples,
        "planned": {"bcr": sure.planned.bcr, "holds": sure.planned.holds},
        "bcr": {"p5": spread.bcr_p5, "p50": spread.bcr_p50, "p95": spread.bcr_p95},
        "holds_fraction": spread.holds_fraction,
        "holds_error": spread.holds_error,
        "beats_baseline_fraction": spread.beats_fraction,
        "tornado": [
            {
                "factor": bar.factor.name,
                "low": bar.factor.low,
                "value": bar.factor.value,
                "high": bar.factor.high,
                "unit": bar.factor.unit,
                "source": bar.factor.source,
                "bcr_at_low": bar.at_low.bcr,
                "bcr_at_high": bar.at_high.bcr,
                "holds_at_low": bar.at_low.holds,
                "holds_at_high": bar.at_high.holds,
                "influence": spread.influence.get(bar.factor.name),
            }
            for bar in sure.bars
        ],
    }


def sure_csv(sure: Sureness) -> str:
    """One row per factor."""
    rows = sure_json(sure)["tornado"]
    names = ["factor", "low", "value", "high", "unit", "bcr_at_low", "bcr_at_high", "holds_at_low", "holds_at_high"]
    names += ["influence", "source"]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: safe_text(value) if isinstance(value, str) else value for key, value in row.items()})
    return buffer.getvalue()
