"""A simulation for people: closed form beside simulation, loads over time, and what does not keep up."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pddplan.domain.outcome import Outcome
from pddplan.domain.workload import Promises
from pddplan.report.numbers import count, percent, plain_text, seconds, short
from pddplan.report.text_table import Column, Paint, paragraph, table
from pddplan.simulate.compare import (
    EVERYONE,
    OFF_FRACTION,
    OPTIMISTIC_P99_FRACTION,
    PromiseCheck,
    Row,
    comparison,
    promise_checks,
)
from pddplan.simulate.result import SimulationResult
from pddplan.simulate.statistics import CONFIDENCE

_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = " .:-=+*#"
_SPARK_WIDTH = 60
_NOTHING = 1e-6
"""Smaller numbers (a wait of a microsecond) are shown as 0."""


def sparkline(values: Sequence[float], *, width: int = _SPARK_WIDTH, bars: str = _BARS) -> str:
    """Values as a row of bars; each bar is the largest of its stretch, so that peaks stay visible."""
    cells = min(width, len(values))
    if cells < 1:
        return ""
    per_bar = len(values) / cells
    peaks = [max(values[int(i * per_bar) : max(int((i + 1) * per_bar), int(i * per_bar) + 1)]) for i in range(cells)]
    top = max(peaks)
    if not top > 0:
        return bars[0] * cells
    return "".join(bars[min(int(value / top * len(bars)), len(bars) - 1)] for value in peaks)


def render(
    outcome: Outcome,
    result: SimulationResult,
    *,
    promises: Promises | None = None,
    width: int,
    paint: Paint | None = None,
    ascii_only: bool = False,
) -> str:
    """What ``pddplan simulate`` prints."""
    paint = paint or Paint()
    rows = comparison(outcome, result)
    checks = promise_checks(promises or Promises(), outcome, result)
    good = not result.unstable and all(check.verdict != "broken" for check in checks)
    verdict = paragraph(_verdict(rows, checks, result), width=width)
    blocks = [
        [paint.bold(line) if good else paint.bad(line) for line in verdict] + paragraph(_basis(result), width=width),
        _promises(checks, width=width, paint=paint, margin="+-" if ascii_only else "±"),
        _table(rows, width=width, paint=paint, margin="+-" if ascii_only else "±"),
        _over_time(result, width=width, paint=paint, ascii_only=ascii_only),
        _trace(result, width=width, paint=paint),
        _remarks(result, width=width, paint=paint),
    ]
    text = "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks if block) + "\n"
    return text.encode("ascii", "replace").decode("ascii") if ascii_only else text


def _verdict(rows: Sequence[Row], checks: Sequence[PromiseCheck], result: SimulationResult) -> str:
    if result.unstable:
        return "The simulated system does not keep up: the latencies below grow with the length of the run."
    return " ".join(filter(None, (_kept(checks), _agreement(rows))))


def _kept(checks: Sequence[PromiseCheck]) -> str:
    """The promises in one sentence."""
    broken = [check for check in checks if check.verdict == "broken"]
    if broken:
        said = ", ".join(
            f"{check.limit} is {seconds(check.simulated.value)} ({seconds(check.promised_s)} promised)"
            for check in broken
        )
        return f"The simulation breaks promises: {said}."
    close = [check.limit for check in checks if check.verdict != "kept"]
    if close:
        return f"In simulation the promises hold or nearly so; too close to call: {', '.join(close)}."
    return "In simulation all promises are kept." if checks else ""


def _agreement(rows: Sequence[Row]) -> str:
    ttft = [row for row in rows if row.group == EVERYONE and row.quantity.startswith("TTFT")]
    known = [row for row in ttft if row.relative_error is not None]
    if not known:
        return "Closed form and simulation have no latency in common to compare."
    if any(math.isinf(row.closed_form) for row in known):
        return "The closed form says that a stage does not keep up; this run did not show it."
    errors = ", ".join(
        f"{row.quantity.removeprefix('TTFT ')} {percent(row.relative_error, signed=True)}" for row in known
    )
    marks = {row.mark for row in known}
    if "optimistic" in marks:
        judgement = "the plan promises less waiting than requests will see"
    elif "off" in marks:
        off = [row for row in known if row.mark == "off"]
        names = ", ".join(row.quantity.removeprefix("TTFT ") for row in off)
        safe = all(row.closed_form > row.simulated.value for row in off)
        judgement = f"at {names} the plan is on the safe side" if safe else f"the two disagree at {names}"
        judgement += ", elsewhere no difference beyond chance" if "within margin" in marks else ""
    else:
        judgement = "they agree" if marks == {"ok"} else "no difference beyond chance"
    return f"TTFT by closed form against simulation: {errors}; {judgement}.{_inside(rows)}"


def _inside(rows: Sequence[Row]) -> str:
    """What else the closed form underestimates beyond chance, although TTFT as a whole may look right."""
    below = [
        row
        for row in rows
        if row.mark == "optimistic" or (row.mark == "off" and row.closed_form < row.simulated.value)
        if not (row.group == EVERYONE and row.quantity.startswith("TTFT"))
    ]
    said = [
        f"{row.quantity}{'' if row.group == EVERYONE else f' of {row.group}'}"
        for row in below
        if row.quantity.startswith(("TPOT P9", "wait P99", "transfer P99"))
    ]
    return f" Underestimated beside it: {', '.join(said)}." if said else ""


def _promises(checks: Sequence[PromiseCheck], *, width: int, paint: Paint, margin: str) -> list[str]:
    if not checks:
        return []
    columns = [
        Column("", importance=0),
        Column("promised", right=True, importance=0),
        Column("closed form", right=True, importance=1),
        Column("simulated", right=True, importance=0),
        Column("margin", right=True, importance=2),
        Column("", importance=0),
    ]
    cells = [
        [
            f"  {check.limit}",
            seconds(check.promised_s),
            seconds(check.closed_form_s),
            seconds(check.simulated.value),
            f"{margin}{seconds(check.simulated.half_width)}" if math.isfinite(check.simulated.half_width) else "",
            check.verdict,
        ]
        for check in checks
    ]
    return [paint.bold("PROMISES"), *table(columns, cells, width=width, paint=paint)]


def _basis(result: SimulationResult) -> str:
    per_run = f"{count(result.requests)} requests over {seconds(result.span_s)}"
    if len(result.seeds) > 1:
        runs = f"{len(result.seeds)} runs (seeds {result.seeds[0]} to {result.seeds[-1]}) of {per_run} each"
    else:
        runs = f"{per_run}, seed {result.seeds[0]}"
    return f"{runs}; {count(result.measured)} count; margins hold the true value in {percent(CONFIDENCE)} of cases."


def _table(rows: Sequence[Row], *, width: int, paint: Paint, margin: str) -> list[str]:
    columns = [
        Column("", importance=0),
        Column("closed form", right=True, importance=0),
        Column("simulated", right=True, importance=0),
        Column("margin", right=True, importance=2),
        Column("error", right=True, importance=0),
        Column("", importance=1),
    ]
    cells = []
    for row in rows:
        half = row.simulated.half_width
        error = row.relative_error
        cells.append(
            [
                f"  {row.quantity}",
                _value(row.closed_form, row.unit),
                _value(row.simulated.value, row.unit),
                f"{margin}{_value(half, row.unit)}" if math.isfinite(half) else "",
                percent(error, signed=True) if error is not None and math.isfinite(error) else "",
                row.mark if row.mark != "ok" else "",
            ]
        )
    head, *body = table(columns, cells, width=width, paint=paint)
    lines = [paint.bold("CLOSED FORM AND SIMULATION"), head]
    last = ""
    for row, line in zip(rows, body, strict=True):
        if row.group != last:
            lines += paragraph(plain_text(row.group), width=width, indent="  ", first="")
        lines.append(line)
        last = row.group
    return lines


def _value(value: float, unit: str) -> str:
    if abs(value) < _NOTHING:
        return "0"
    if unit == "s":
        return seconds(value)
    return percent(value) if unit == "share" else short(value)


def _over_time(result: SimulationResult, *, width: int, paint: Paint, ascii_only: bool) -> list[str]:
    if not result.series:
        return []
    names = [plain_text(series.name) for series in result.series]
    longest = max(len(name) for name in names)
    lines = [paint.bold("OVER TIME") + paint.dim("  first run; a bar is the highest of its stretch")]
    room = max(min(_SPARK_WIDTH, width - longest - 28), 10)
    for name, series in zip(names, result.series, strict=True):
        values = series.values.tolist()
        bars = sparkline(values, width=room, bars=_ASCII_BARS if ascii_only else _BARS)
        lines.append(f"{name:<{longest}}  {bars}  peak {count(max(values, default=0.0))} {series.unit}")
    return lines


def _trace(result: SimulationResult, *, width: int, paint: Paint) -> list[str]:
    if not result.extra:
        return []
    rows = [
        [
            plain_text(name.replace("_", " ").removesuffix(" fraction").replace(" fraction ", " ")),
            percent(value) if "fraction" in name else short(value),
        ]
        for name, value in result.extra.items()
    ]
    columns = [Column("", importance=0), Column("", right=True, importance=0)]
    return [paint.bold("TRACE"), *table(columns, rows, width=width, paint=paint)[1:]]


def _remarks(result: SimulationResult, *, width: int, paint: Paint) -> list[str]:
    lines = []
    for sentence in result.unstable:
        wrapped = paragraph(f"unstable: {plain_text(sentence)}", width=width, indent="  ", first="")
        lines += [paint.bad(line) for line in wrapped]
    for note in result.notes:
        lines += paragraph(f"note: {plain_text(note)}", width=width, indent="  ", first="")
    key = (
        f"error: closed form over simulation; off: beyond the margin and beyond {percent(OFF_FRACTION)}; optimistic: a "
        f"P99 predicted too short by more than {percent(OPTIMISTIC_P99_FRACTION)}"
    )
    lines += [paint.dim(line) for line in paragraph(key, width=width)]
    lines.append(paint.dim(f"replayed at {short(result.requests_per_second, 2)} requests per second"))
    return lines
