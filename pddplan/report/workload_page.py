"""A workload or a trace on one page: lengths, misses, hit rates, arrivals, cache curve, and how to read them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pddplan.domain.provenance import Basis, Provenance
from pddplan.domain.workload import Array, Workload
from pddplan.report.json_plan import promises_json
from pddplan.report.numbers import short
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.traces.arrivals import ArrivalPattern
from pddplan.traces.caching import knee
from pddplan.traces.cells import HIT_BIN_EDGES
from pddplan.traces.importer import Imported
from pddplan.traces.tally import Tally, tally_classes
from pddplan.units import MS_PER_S

HISTOGRAM_BINS = 24
CURVE_HEIGHT, CURVE_WIDTH = 8, 56
SHOWN_QUANTILES = (0.5, 0.9, 0.99)
_BLOCKS, _BLOCKS_ASCII = " ▁▂▃▄▅▆▇█", " .:-=+*#@"


TITLES = ("input (L)", "to prefill (m)", "to transfer (s)", "output (O)")


def tally_of(workload: Workload, imported: Imported | None) -> Tally:
    """Counts over single requests where a trace is at hand, else over the classes."""
    return tally_classes(workload.classes, workload.odd_traffic) if imported is None else imported.tally


# -- the page --------------------------------------------------------------------------------------------------


def page(workload: Workload, imported: Imported | None, *, screen: Screen) -> list[str]:
    """Lines of the page."""
    tally = tally_of(workload, imported)
    paint, width = screen.paint, screen.width
    known_rate = imported is None or imported.arrival is not None
    head = [workload.name]
    if workload.llm != "not-named":
        head.append(f"model {workload.llm}")
    if known_rate:
        head.append(f"{short(workload.arrival.rate_rps)} requests/s")
    if imported is not None:
        head.append(f"{imported.trace.count:,} requests, read as {imported.trace.format}")
    lines = [paint.bold("   ".join(head))]
    if workload.provenance.get("description"):
        lines += paragraph(str(workload.provenance["description"]), width=width, indent="  ")
    lines += [""]
    for sentence in reading(workload, imported, tally):
        lines += paragraph(sentence, width=width, indent="  ", first="  ")
    lines += ["", *_lengths(tally, screen), "", *_hit_bins(tally, screen), ""]
    lines += _arrivals(workload, imported, screen) if known_rate else ["Arrivals: the file has no times, or too few"]
    if workload.cache_curve and knee(workload.cache_curve):
        lines += ["", *_curve(workload.cache_curve, screen)]
    lines += _promises(workload)
    lines += _origins(workload, imported, width)
    return lines


def reading(workload: Workload, imported: Imported | None, tally: Tally) -> list[str]:
    """Three sentences that say what the numbers mean for a plan."""
    length, miss, transfer, _output = tally.marginals
    first = (
        f"{_percent(tally.high_share)} of requests hit > 95 %; the {_percent(float(tally.bin_share[0]))} that hit < 90 "
        f"% carry {_percent(float(tally.bin_miss_share[0]))} of all tokens to prefill (mean hit "
        f"{_percent(tally.mean_hit_fraction)}, by tokens {_percent(1 - miss.mean / length.mean)})."
    )
    second = (
        f"With a cache at the decode side {_percent(transfer.mean / length.mean)} of the input tokens cross the line, "
        f"without one all; {_percent(tally.odd_share)} of requests are odd traffic (transfer >= "
        f"{short(workload.odd_traffic.min_transfer_tokens)}, output < {short(workload.odd_traffic.max_output_tokens)} "
        "tokens)."
    )
    return [first, second, _arrival_sentence(workload, imported)]


def _arrival_sentence(workload: Workload, imported: Imported | None) -> str:
    pattern = imported.arrival if imported is not None else None
    if imported is not None and pattern is None:
        return "Nothing can be said about arrivals: there are no times, or too few."
    arrival = workload.arrival
    if arrival.scv < 0.8:
        word = "smoother than Poisson"
    elif arrival.scv <= 1.3:
        word = "close to Poisson"
    else:
        word = "bursty" if arrival.scv < 5 else "very bursty"
    text = f"Arrivals are {word} (SCV {short(arrival.scv)}"
    if pattern is not None and pattern.grid_s is not None:
        text += (
            f"; the clock ticks every {short(pattern.grid_s)} s, which alone would look like {short(pattern.raw_scv)}"
        )
    text += ")"
    slow = max(arrival.dispersion.items(), default=None)
    if slow is not None and slow[1] > 1.5:
        joint = "but" if arrival.scv <= 1.3 else "and"
        text += f", {joint} counts per {slow[0]:g} s vary {short(slow[1])} times as much as Poisson's"
    return text + f"; the peak is {short(arrival.peak_to_mean)} times the mean."


def _lengths(tally: Tally, screen: Screen) -> list[str]:
    columns = [Column("tokens per request", importance=0)]
    columns += [Column(title, right=True, importance=2) for title in ("mean", "P50", "P90", "P99", "largest")]
    low = min(float(marginal.values[marginal.values > 0].min(initial=np.inf)) for marginal in tally.marginals)
    high = max(marginal.largest for marginal in tally.marginals)
    edges = np.geomspace(max(low, 1.0), max(high, low * 2, 2.0) * 1.0001, HISTOGRAM_BINS + 1)
    columns.append(Column(f"{short(edges[0])} .. {short(edges[-1])} (log scale)", importance=1))
    rows = []
    for title, marginal in zip(TITLES, tally.marginals, strict=True):
        cells = [short(marginal.mean), *(short(marginal.quantile(q)) for q in SHOWN_QUANTILES)]
        shares = np.histogram(np.clip(marginal.values, edges[0], None), bins=edges, weights=marginal.weight)[0]
        rows.append([title, *cells, short(marginal.largest), _bars(shares, screen)])
    return table(columns, rows, width=screen.width, paint=screen.paint)


def _hit_bins(tally: Tally, screen: Screen) -> list[str]:
    full = "#" if screen.ascii_only else "█"
    rows = [
        [
            f"{100 * low:g}-{100 * high:g} %",
            _percent(float(tally.bin_share[k])),
            _percent(float(tally.bin_miss_share[k])),
            full * round(30 * float(tally.bin_share[k])),
        ]
        for k, (low, high) in enumerate(itertools.pairwise(HIT_BIN_EDGES))
    ]
    columns = [
        Column("hit rate", importance=0),
        Column("requests", right=True, importance=0),
        Column("tokens to prefill", right=True, importance=1),
        Column("", importance=2),
    ]
    return table(columns, rows, width=screen.width, paint=screen.paint)


def _arrivals(workload: Workload, imported: Imported | None, screen: Screen) -> list[str]:
    arrival = workload.arrival
    parts = [f"rate {short(arrival.rate_rps)}/s", f"SCV of gaps {short(arrival.scv)}"]
    parts += [f"dispersion {w:g} s: {short(v)}" for w, v in sorted(arrival.dispersion.items())]
    parts.append(f"peak/mean {short(arrival.peak_to_mean)}")
    lines = paragraph("Arrivals: " + "   ".join(parts), width=screen.width, indent="  ", first="")
    pattern = imported.arrival if imported is not None else None
    if pattern is not None:
        if pattern.grid_s is not None:
            raw = ", ".join(f"{w:g} s: {short(v)}" for w, v in pattern.raw_dispersion.items())
            text = f"as written, on a grid of {short(pattern.grid_s)} s: SCV {short(pattern.raw_scv)}"
            lines += paragraph(
                text + (f", dispersion {raw}" if raw else ""), width=screen.width, indent="  ", first="  "
            )
        counts = np.array(pattern.counts, dtype=np.float64)
        lines.append(f"  {_bars(counts, screen)}")
        lines.append(
            f"  {len(counts)} steps of {_duration(pattern.counts_window_s)}, "
            f"up to {short(float(counts.max()) / max(pattern.counts_window_s, 1e-12))}/s"
        )
    if arrival.hourly_profile:
        lines.append(f"  {_bars(np.array(arrival.hourly_profile), screen)}  hours 0 to 23, mean 1")
    return lines


def _curve(curve: Sequence[tuple[float, float]], screen: Screen) -> list[str]:
    """The cache curve as a picture, the knee marked."""
    point = knee(tuple(curve))
    assert point is not None
    x = np.log([capacity for capacity, _ in curve])
    y = np.array([rate for _, rate in curve])
    width = min(CURVE_WIDTH, screen.width - 16)
    grid = np.linspace(x[0], x[-1], width)
    place = np.clip(np.searchsorted(x, grid + 1e-9, side="right") - 1, 0, len(curve) - 1)
    top = max(float(y.max()), 1e-9)
    height = np.round(y[place] / top * (CURVE_HEIGHT - 1)).astype(int)
    at = int(np.argmin(np.abs(grid - np.log(point[0]))))
    dot, mark = ("*", "K") if screen.ascii_only else ("•", "◆")
    lines = ["Cache curve (hit rate by tokens over the capacity of one prefill instance)"]
    for level in range(CURVE_HEIGHT - 1, -1, -1):
        row = "".join((mark if column == at else dot) if h == level else " " for column, h in enumerate(height))
        label = _percent(top * level / (CURVE_HEIGHT - 1)) if level % 2 else ""
        lines.append(f"  {label:>7} |{row}".rstrip())
    lines.append(f"          +{'-' * width}")
    left, right = f"{short(float(curve[0][0]))} tokens", short(float(curve[-1][0]))
    lines.append(f"           {left}{right:>{max(width - len(left), 1)}}")
    lines.append(
        f"  {mark} knee: {short(point[0])} tokens give {_percent(point[1])} of at most {_percent(curve[-1][1])}"
    )
    return lines


def _promises(workload: Workload) -> list[str]:
    parts = []
    for promise in workload.promises.made():
        if promise.kind.latency == "tpot":
            said = f"{short(promise.limit_s * MS_PER_S)} ms"
        else:
            said = f"{short(promise.limit_s)} s"
        parts.append(f"{promise.name} {said}")
    return ["", "Promises: " + ("   ".join(parts) if parts else "none")]


def _origins(workload: Workload, imported: Imported | None, width: int) -> list[str]:
    lines: list[str] = []
    record = workload.provenance.get("trace")
    if record:
        text = f"{record['file']}: {record['rows']:,} requests as {record['format']}"
        if record.get("skipped_rows"):
            text += f", {record['skipped_rows']:,} rows left out"
        lines += ["", *paragraph("Trace: " + text, width=width, indent="  ", first="")]
        for what, count in record.get("oddities", {}).items():
            lines += paragraph(f"{count:,} x {what}", width=width, indent="    ", first="  ")
        parameters = record.get("parameters", {})
        for key in ("misses", "prefill_cache", "decode_cache"):
            if key in parameters:
                lines += paragraph(
                    f"{key.replace('_', ' ')}: {parameters[key]}", width=width, indent="    ", first="  "
                )
    for note in workload.provenance.get("notes", []):
        lines += paragraph(f"note: {note}", width=width, indent="    ", first="  ")
    numbers: Mapping[str, Provenance] = workload.provenance.get("numbers", {})
    assumed: dict[str, list[str]] = {}
    for key, origin in numbers.items():
        if origin.basis is Basis.ASSUMED and _is_used(workload, key):
            span = "" if origin.low is None or origin.high is None else f" ({origin.low:g} to {origin.high:g})"
            assumed.setdefault(origin.source, []).append(f"{key}{span}")
    if assumed:
        lines += ["", "Assumed, not measured:"]
        for source, keys in assumed.items():
            lines += paragraph(f"{source}: {', '.join(keys)}", width=width, indent="    ", first="  ")
    return lines


def _is_used(workload: Workload, key: str) -> bool:
    """Whether the number behind a key is part of this workload (promises may not be given)."""
    part, _, name = key.partition(".")
    return part != "promises" or name.startswith("by_class.") or getattr(workload.promises, name, None) is not None


def import_summary(imported: Imported, *, width: int) -> list[str]:
    """What ``workload import`` says on standard error, at most ``width`` wide."""
    lines = _summary(imported)
    inner = [part for line in lines[1:] for part in paragraph(line, width=width, indent="    ", first="  ")]
    return [*paragraph(lines[0], width=width, indent="    ", first=""), *inner]


def _summary(imported: Imported) -> list[str]:
    trace, workload = imported.trace, imported.workload
    lines = [f"{trace.file}: read as {trace.format} ({trace.how_recognised}); --format overrules"]
    lines += trace.notes
    lines.append(f"{trace.count:,} requests" + (f" over {_duration(trace.span_s)}" if trace.span_s else ""))
    lines += [f"left out, {reason}: {count:,}" for reason, count in trace.skipped.items() if count]
    lines += [f"{what}: {count:,}" for what, count in trace.oddities.items()]
    lines.append(f"misses: {imported.misses.how}")
    lines += reading(workload, imported, imported.tally)
    lines.append(
        f"{workload.classes.count} request classes; means and P50/P90/P99 of prefill, transfer, output and input "
        f"tokens within {imported.fit.worst_relative_error:.2%} ({imported.fit.where})"
    )
    if workload.promises.ttft() == {}:
        lines.append("no promises given: add --ttft-p90, --ttft-p99, --tpot here or at size, else any latency will do")
    return lines


def page_json(workload: Workload, imported: Imported | None) -> str:
    """The page as JSON: aggregates only."""
    tally = tally_of(workload, imported)
    quantities = {}
    names = ("input_tokens", "miss_prefill_tokens", "miss_decode_tokens", "output_tokens")
    for name, marginal in zip(names, tally.marginals, strict=True):
        quantities[name] = {
            "mean": marginal.mean,
            **{f"p{100 * q:.0f}": marginal.quantile(q) for q in SHOWN_QUANTILES},
            "max": marginal.largest,
        }
    pattern = imported.arrival if imported is not None else None
    point = knee(workload.cache_curve) if workload.cache_curve else None
    data: dict[str, Any] = {
        "name": workload.name,
        "llm": workload.llm if workload.llm != "not-named" else None,
        "classes": workload.classes.count,
        "requests": imported.trace.count if imported is not None else None,
        "format": imported.trace.format if imported is not None else None,
        "tokens": quantities,
        "hit_rate": {
            "mean": tally.mean_hit_fraction,
            "token_weighted": tally.token_hit_fraction,
            "bins": [
                {"from": low, "to": high, "share": float(tally.bin_share[k])}
                for k, (low, high) in enumerate(itertools.pairwise(HIT_BIN_EDGES))
            ],
            "share_above_95": tally.high_share,
        },
        "arrival": {
            "rate_rps": workload.arrival.rate_rps if imported is None or imported.arrival is not None else None,
            "scv": workload.arrival.scv,
            "peak_to_mean": workload.arrival.peak_to_mean,
            "dispersion": {f"{w:g}": v for w, v in workload.arrival.dispersion.items()},
            "hourly_profile": workload.arrival.hourly_profile,
            **_pattern_json(pattern),
        },
        "odd_traffic_share": tally.odd_share,
        "promises": promises_json(workload.promises),
        "cache_curve": [{"capacity_tokens": c, "token_hit_fraction": r} for c, r in workload.cache_curve or ()],
        "cache_knee": None if point is None else {"capacity_tokens": point[0], "token_hit_fraction": point[1]},
        "reading": reading(workload, imported, tally),
        "trace": workload.provenance.get("trace"),
        "notes": list(workload.provenance.get("notes", [])),
    }
    return json.dumps(data, indent=2, allow_nan=False)


def listing(workloads: Sequence[tuple[str, Workload]], traces: Mapping[str, Path], *, screen: Screen) -> list[str]:
    """Table of known workloads."""
    columns = [
        Column("workload", importance=0),
        Column("model", importance=1),
        Column("req/s", right=True, importance=2),
        Column("input", right=True, importance=2),
        Column("output", right=True, importance=3),
        Column("hit", right=True, importance=1),
        Column("classes", right=True, importance=4),
        Column("origin", importance=5),
    ]
    rows = []
    for name, workload in workloads:
        c = workload.classes
        miss = c.mean(c.miss_prefill_tokens) / c.mean(c.input_tokens)
        record = workload.provenance.get("trace")
        origin = f"trace {record['file']}" if record else str(workload.provenance.get("form", ""))
        rows.append(
            [
                name,
                workload.llm,
                short(workload.arrival.rate_rps),
                short(c.mean(c.input_tokens)),
                short(c.mean(c.output_tokens)),
                _percent(1 - miss),
                str(c.count),
                origin,
            ]
        )
    lines = table(columns, rows, width=screen.width, paint=screen.paint) if rows else ["no workloads found"]
    if traces:
        lines += ["", "Bundled traces (pddplan workload show NAME): " + ", ".join(traces)]
    return lines


def listing_json(workloads: Sequence[tuple[str, Workload]], traces: Mapping[str, Path]) -> dict[str, Any]:
    """The same as data."""
    return {
        "workloads": [
            {
                "id": name,
                "llm": w.llm,
                "rate_rps": w.arrival.rate_rps,
                "mean_input_tokens": w.classes.mean(w.classes.input_tokens),
                "mean_output_tokens": w.classes.mean(w.classes.output_tokens),
                "token_hit_fraction": 1
                - w.classes.mean(w.classes.miss_prefill_tokens) / w.classes.mean(w.classes.input_tokens),
                "classes": w.classes.count,
                "form": w.provenance.get("form"),
            }
            for name, w in workloads
        ],
        "traces": list(traces),
    }


# -- small parts -----------------------------------------------------------------------------------------------


def _pattern_json(pattern: ArrivalPattern | None) -> dict[str, Any]:
    if pattern is None:
        return {}
    return {
        "trace_rate_rps": pattern.trace_rate_rps,
        "raw_scv": pattern.raw_scv,
        "clock_grid_s": pattern.grid_s,
        "raw_dispersion": {f"{w:g}": v for w, v in pattern.raw_dispersion.items()},
        "span_s": pattern.span_s,
    }


def _bars(values: Array, screen: Screen) -> str:
    """One character per value, its height in proportion to the largest; anything above 0 is visible."""
    blocks = _BLOCKS_ASCII if screen.ascii_only else _BLOCKS
    top = float(values.max()) if values.size else 0.0
    if top <= 0:
        return blocks[0] * values.size
    return "".join(blocks[0 if v <= 0 else max(1, round(float(v) / top * (len(blocks) - 1)))] for v in values)


def _percent(share: float) -> str:
    value = 100 * share
    if value <= 0 or value >= 100 - 1e-9:
        return f"{value:.0f} %"
    if 0 < value < 0.1 or 99.95 <= value < 100:
        return f"{value:.2f} %"
    return f"{value:.1f} %" if value < 10 or value > 90 else f"{value:.0f} %"


def _duration(seconds: float | None) -> str:
    from pddplan.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, SECONDS_PER_MINUTE

    if seconds is None:
        return "-"
    for unit, size in (("days", SECONDS_PER_DAY), ("h", SECONDS_PER_HOUR), ("min", SECONDS_PER_MINUTE)):
        if seconds >= 2 * size:
            return f"{short(seconds / size)} {unit}"
    return f"{short(seconds)} s"
