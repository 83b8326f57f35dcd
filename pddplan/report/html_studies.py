"""Parts of the page that take a study: what simulation says, the bathtub, and which numbers matter."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pddplan.domain.outcome import Outcome
from pddplan.report import bcr_curve, bcr_sure, page
from pddplan.report.numbers import count, percent, seconds, short
from pddplan.report.page import text
from pddplan.report.page_charts import Axis, Line, Point, Spot, Swing, chart, tornado
from pddplan.simulate.result import Estimates, SimulationResult
from pddplan.studies.curve import BathtubStudy
from pddplan.studies.sureness import Sureness

MOST_SWINGS, MOST_MOVES = 14, 12
TUB_TOP = 2.0
"""The curve rises without bound towards 100 % hits; the drawing is cut here, or a little above today's place."""


def first_token_chart(closed: Sequence[Point], simulated: Sequence[Point], *, spots: Sequence[Spot]) -> str:
    """Share of first tokens out by a time: closed form, and simulation where there is one."""
    longest = max([t for t, _ in closed] + [spot.x for spot in spots] + [1e-9])
    lines = [Line("closed form", closed), Line("simulation", [(t, q) for t, q in simulated if t <= longest])]
    return chart(
        lines,
        x=Axis("seconds", 0.0, longest, short),
        y=Axis("of first tokens", 0.0, 1.0, lambda share: f"{share:.3g}" if 0.99 < share < 1 else percent(share)),
        label="Share of first tokens out by a time",
        spots=spots,
    )


def simulation_section(outcome: Outcome, simulated: SimulationResult | None) -> str:
    """Closed form beside simulation, with the margin of the simulation."""
    if simulated is None:
        return ""
    rows = []
    pairs: list[tuple[str, tuple[float, float, float, float], Estimates]] = [
        ("TTFT", (outcome.ttft.p50, outcome.ttft.p90, outcome.ttft.p99, outcome.ttft.mean), simulated.ttft),
        ("E2E", (outcome.e2e.p50, outcome.e2e.p90, outcome.e2e.p99, outcome.e2e.mean), simulated.e2e),
    ]
    for name, closed, seen in pairs:
        for label, value, estimate in zip(
            ("P50", "P90", "P99", "mean"), closed, (seen.p50, seen.p90, seen.p99, seen.mean), strict=True
        ):
            ratio = value / estimate.value - 1 if estimate.value > 0 and math.isfinite(value) else None
            rows.append(
                [
                    f"{name} {label}",
                    seconds(value),
                    f"{seconds(estimate.value)} ± {seconds(estimate.half_width)}",
                    percent(ratio, signed=True),
                ]
            )
    words = (
        f"{count(simulated.measured)} requests counted, {len(simulated.seeds)} run(s) of {count(simulated.requests)}, "
        f"{seconds(simulated.span_s)} of traffic."
    )
    notes = "".join(f"<p>{text(note)}</p>" for note in (*simulated.unstable, *simulated.notes))
    heads = ("", "closed form", "simulation ± margin", "closed form against it")
    return f"<p>{text(words)}</p>{page.table(heads, rows, right=(1, 2, 3))}{notes}"


def bathtub_section(study: BathtubStudy | None) -> str:
    """Revenue per cost against the hit rate, where the workload stands, and the ways out."""
    if study is None:
        return ""
    reading, curve = study.reading, study.curve
    top = max(TUB_TOP, reading.now_relative * 1.05)
    spots = [
        Spot(reading.now_hit_rate, reading.now_relative, f"now {percent(reading.now_hit_rate)}", "good"),
        Spot(
            reading.valley_hit_rate,
            reading.valley_relative,
            f"valley {bcr_curve.hits_text(reading.valley_hit_rate)}",
            "bad",
        ),
    ]
    if reading.break_even_hit_rate is not None:
        spots.append(
            Spot(reading.break_even_hit_rate, 1.0, f"break-even {bcr_curve.hits_text(reading.break_even_hit_rate)}")
        )
    points = [p for p in zip(curve.hit_rate.tolist(), curve.relative.tolist(), strict=True) if p[1] <= top]
    values = [1.0, *(value for _, value in points), *(spot.y for spot in spots)]
    low, high = min(values), max(values)
    room = max(0.15 * (high - low), 0.02)
    drawing = chart(
        [Line("revenue per cost", points)],
        x=Axis("of input tokens found in the cache", 0.0, 1.0, lambda rate: f"{rate:.0%}"),
        y=Axis("of what no cache earns", max(low - 2 * room, 0.0), high + room, percent),
        label="Revenue per cost against the hit rate, 100 % without any cache",
        spots=spots,
    )
    moves = [[move.name, percent(move.gain_fraction, signed=True)] for move in (*study.shallower, *study.cache)]
    ways = page.table(("a change", "benefit against today"), moves[:MOST_MOVES], right=(1,)) if moves else ""
    caption = "<figcaption>100 % is what a unit of cost earns without any cache.</figcaption>"
    remarks = "".join(f'<p class="soft">{text(remark)}</p>' for remark in study.remarks)
    return f"<p>{text(bcr_curve.verdict(study))}</p><figure>{drawing}{caption}</figure>{ways}{remarks}"


def sensitivity_section(sure: Sureness | None) -> str:
    """Tornado of the BCR, and how often all promises hold."""
    if sure is None:
        return ""
    swings = []
    felt = [bar for bar in sure.bars if bcr_sure.matters(bar, sure)]
    idle = [bar.factor.name for bar in sure.bars if not bcr_sure.matters(bar, sure)]
    for bar in felt[:MOST_SWINGS]:
        broken = [end for end, score in (("low", bar.at_low), ("high", bar.at_high)) if not score.holds]
        note = f"{short(bar.factor.low)} to {short(bar.factor.high)} {bar.factor.unit}".strip()
        note += f"; a promise breaks at its {' and '.join(broken)} end" if broken else "; promises hold"
        swings.append(Swing(bar.factor.name, bar.at_low.bcr, bar.at_high.bcr, note, bool(broken)))
    drawing = tornado(
        swings,
        centre=sure.planned.bcr,
        write=short,
        label=f"BCR when one number moves; {short(sure.planned.bcr)} as planned",
    )
    rows = [
        [f.name, f"{short(f.low)} to {short(f.high)} {f.unit}".strip(), short(f.value), f.source] for f in sure.factors
    ]
    caption = (
        f"<figcaption>BCR when one number moves alone, {text(short(sure.planned.bcr))} as planned; "
        "! and a dashed edge: a promise breaks there.</figcaption>"
    )
    listing = page.table(("number", "range", "planned", "why this range"), rows, right=(2,))
    return (
        f"<p>{text(bcr_sure.verdict(sure))}</p>"
        + (f"<figure>{drawing}{caption}</figure>" if drawing else "")
        + (f"<p>Without effect: {text(', '.join(idle))}.</p>" if idle else "")
        + f"<details><summary>Ranges of all {len(rows)} uncertain numbers</summary>{listing}</details>"
    )
