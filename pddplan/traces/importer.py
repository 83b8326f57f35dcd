"""From a trace to a workload: misses by replay, request classes, arrivals, and a record of how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pddplan.domain.provenance import Basis, Provenance
from pddplan.domain.workload import Arrival, OddTraffic, Promises, RequestClasses, Workload
from pddplan.errors import InputError, Problem
from pddplan.traces.arrival_pattern import arrival_pattern
from pddplan.traces.arrivals import ArrivalPattern, Scaling
from pddplan.traces.caching import CachePolicy, Routing, knee
from pddplan.traces.cells import HIT_BIN_EDGES
from pddplan.traces.classes import MAX_CLASSES, Fit, classes_of, fit_of
from pddplan.traces.misses import HitAssumption, Misses, find_misses
from pddplan.traces.reading import ReadOptions, read_trace
from pddplan.traces.source import Progress
from pddplan.traces.tally import Tally, request_columns, tally_requests
from pddplan.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """What the user wants to make of a trace."""

    llm: str
    name: str
    prefill_cache: CachePolicy = field(default_factory=CachePolicy)
    decode_cache: CachePolicy | None = field(default_factory=lambda: CachePolicy(keep_generated=True))
    """None = the decode side keeps no cache: all tokens cross the line."""
    assumed: HitAssumption | None = None
    max_classes: int = MAX_CLASSES
    rate_rps: float | None = None
    """Arrival rate to plan for; None = the rate of the trace."""
    scaling: Scaling = Scaling.USERS
    promises: Promises = field(default_factory=Promises)
    odd_traffic: OddTraffic = field(default_factory=OddTraffic)
    description: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """A workload and what it was made from, for looking at."""

    workload: Workload
    trace: Trace
    misses: Misses
    arrival: ArrivalPattern | None
    fit: Fit
    tally: Tally
    """Counts over all requests."""

    @property
    def token_hit_fraction(self) -> float:
        """Share of input tokens that hit at the prefill side."""
        return self.tally.token_hit_fraction


def import_trace(trace: Trace, settings: ImportSettings, *, progress: Progress | None = None) -> Imported:
    """Make a workload of a trace.

    Parameters:  progress, called with the blocks replayed so far and in all
    Raises:  InputError when hit rates or the arrival rate can neither be found nor were stated.
    """
    misses = find_misses(
        trace,
        prefill=settings.prefill_cache,
        decode=settings.decode_cache,
        assumed=settings.assumed,
        progress=progress,
    )
    tally = tally_requests(trace, misses, settings.odd_traffic)
    classes = classes_of(
        lambda: request_columns(trace, misses),
        tally.marginals,
        max_classes=settings.max_classes,
        odd=settings.odd_traffic,
    )
    fit = fit_of(classes, tally.marginals)
    pattern = trace.given_arrival
    if trace.has_time:
        pattern = arrival_pattern(
            trace.times, clock_start_s=trace.clock_start_s, rate_rps=settings.rate_rps, how=settings.scaling
        )
    results: dict[str, Any] = {
        "mean_hit_fraction": _short(tally.mean_hit_fraction),
        "token_hit_fraction": _short(tally.token_hit_fraction),
        "share_per_hit_bin": {
            f"{100 * low:g}-{100 * high:g} %": _short(float(share))
            for low, high, share in zip(HIT_BIN_EDGES, HIT_BIN_EDGES[1:], tally.bin_share, strict=False)
        },
        "odd_traffic_share": _short(tally.odd_share),
        "classes_worst_error": f"{fit.worst_relative_error:.2%} ({fit.where})",
    }
    if misses.prefill_cache is not None:
        results["token_hit_fraction_without_eviction"] = _short(
            float(misses.prefill_cache.token_hit_fraction(misses.prefill_cache.distinct_blocks))
        )
    arrival, arrival_numbers = _arrival(trace, pattern, settings)
    workload = Workload(
        name=settings.name,
        llm=settings.llm,
        classes=classes,
        arrival=arrival,
        promises=settings.promises,
        odd_traffic=settings.odd_traffic,
        provenance=_record(trace, settings, misses, classes, results, arrival_numbers),
        cache_curve=misses.prefill_cache.curve() if misses.prefill_cache is not None else None,
    )
    return Imported(
        workload=workload,
        trace=trace,
        misses=misses,
        arrival=pattern,
        fit=fit,
        tally=tally,
    )


def import_file(path: str | Path, settings: ImportSettings, *, options: ReadOptions | None = None) -> Imported:
    """Read a trace file (or a bundled trace by name) and make a workload of it.

    Raises:  InputError with file and line for what cannot be used.
    """
    progress = options.progress if options is not None else None
    return import_trace(read_trace(path, options), settings, progress=progress)


def _arrival(
    trace: Trace, pattern: ArrivalPattern | None, settings: ImportSettings
) -> tuple[Arrival, dict[str, Provenance]]:
    measured = Provenance(basis=Basis.MEASURED, source=f"arrival times of {trace.file}")
    if trace.given_arrival is not None:
        measured = Provenance(basis=Basis.PUBLISHED, source=f"rates and CVs of {trace.file}")
    if trace.drawn_times is not None:
        measured = Provenance(basis=Basis.DERIVED, source=f"{trace.file}: {trace.drawn_times}")
    user = Provenance(basis=Basis.PUBLISHED, source="given by the user")
    if pattern is None:
        if settings.rate_rps is None:
            raise InputError(
                Problem(
                    what="has no usable arrival times, so the rate cannot be known from it",
                    fix="state the rate to plan for: --scale-to-rps 5, or name its column: --columns time=NAME",
                    where=trace.file,
                )
            )
        poisson = Provenance(
            basis=Basis.ASSUMED, source="no arrival times in the trace; Poisson arrivals assumed", low=0.8, high=3.0
        )
        flat = Provenance(basis=Basis.ASSUMED, source=poisson.source, low=1.0, high=2.0)
        return Arrival(rate_rps=settings.rate_rps), {
            "arrival.rate_rps": user,
            "arrival.scv": poisson,
            "arrival.peak_to_mean": flat,
        }
    note = f"{pattern.raw_scv:.3g} at the rate of the trace" if settings.rate_rps is not None else None
    if pattern.grid_s is not None:
        note = f"clock quantised to {pattern.grid_s:.3g} s; {pattern.raw_scv:.3g} before spreading"
    scaled = settings.rate_rps is not None
    rate_note = f"the trace has {pattern.trace_rate_rps:.4g} requests/s over {pattern.span_s:,.0f} s"
    numbers = {
        "arrival.rate_rps": user if scaled else measured,
        "arrival.scv": measured,
        "arrival.peak_to_mean": measured,
        "arrival.dispersion": measured,
        "arrival.hourly_profile": measured,
    }
    numbers["arrival.rate_rps"] = _noted(numbers["arrival.rate_rps"], rate_note if scaled else None)
    numbers["arrival.scv"] = _noted(measured, note)
    numbers["arrival.peak_to_mean"] = _noted(measured, f"busiest {pattern.peak_window_s:.3g} s over the mean")
    if scaled:
        way = "by more independent users" if settings.scaling is Scaling.USERS else "by a faster clock"
        if trace.given_arrival is not None:
            way = "keeping its variability"
        source = f"{measured.source}; scaled {arrival_factor(pattern, settings):.4g} times {way}"
        derived = Provenance(basis=Basis.DERIVED, source=source)
        for key in ("arrival.scv", "arrival.dispersion", "arrival.peak_to_mean"):
            numbers[key] = _noted(derived, numbers[key].note)
    return (
        Arrival(
            rate_rps=settings.rate_rps or pattern.trace_rate_rps,
            scv=pattern.scv,
            peak_to_mean=pattern.peak_to_mean,
            dispersion=dict(pattern.dispersion),
            hourly_profile=pattern.hourly_profile,
        ),
        numbers,
    )


def _record(
    trace: Trace,
    settings: ImportSettings,
    misses: Misses,
    classes: RequestClasses,
    results: Mapping[str, Any],
    arrival_numbers: Mapping[str, Provenance],
) -> dict[str, Any]:
    """Provenance in the form that ``dump_workload`` writes. Aggregates only: no ids, hashes or times of requests."""
    user = Provenance(basis=Basis.PUBLISHED, source="given by the user")
    numbers: dict[str, Provenance] = dict(arrival_numbers)
    numbers["requests"] = Provenance(basis=misses.basis, source=f"{trace.file}: {misses.how}")
    numbers["cache_curve"] = Provenance(
        basis=Basis.DERIVED, source=f"{trace.file}: stack distances of one replay, per prefill instance"
    )
    for name in ("ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "tpot_s", "e2e_p50_s", "e2e_p90_s", "e2e_p99_s"):
        numbers[f"promises.{name}"] = user
    default = OddTraffic()
    for name, low, high in (("min_transfer_tokens", 8192.0, 32768.0), ("max_output_tokens", 100.0, 1000.0)):
        value = getattr(settings.odd_traffic, name)
        assumed = Provenance(basis=Basis.ASSUMED, source="default of the importer", low=low, high=high)
        numbers[f"odd_traffic.{name}"] = assumed if value == getattr(default, name) else user
    parameters: dict[str, Any] = {
        "llm": settings.llm,
        "misses": misses.how,
        "classes": classes.count,
        "read_as": f"{trace.format} ({trace.how_recognised})",
    }
    if trace.block_tokens is not None:
        parameters["block_tokens"] = trace.block_tokens
    if settings.assumed is None and misses.prefill_cache is not None:
        parameters["prefill_cache"] = describe(settings.prefill_cache, misses.prefill_cache.block_tokens)
        parameters["decode_cache"] = (
            describe(settings.decode_cache, misses.prefill_cache.block_tokens)
            if settings.decode_cache is not None
            else "none: every token crosses the line"
        )
    record: dict[str, Any] = {
        "numbers": numbers,
        "form": "table",
        "trace": {
            "file": trace.file,
            "sha256": trace.sha256,
            "format": trace.format,
            "rows": trace.count,
            "skipped_rows": sum(trace.skipped.values()),
            **({} if trace.span_s is None else {"span_s": round(trace.span_s, 3)}),
            "oddities": {**{f"skipped: {why}": n for why, n in trace.skipped.items() if n}, **trace.oddities},
            "parameters": parameters,
            "results": dict(results),
        },
    }
    if settings.description:
        record["description"] = settings.description
    notes = [*trace.notes]
    if settings.assumed is not None:
        notes.append("hit rates are assumed, not measured: compare with a plan at hit rate 0")
        if trace.blocks is not None or trace.has_hits:
            notes.append("the trace itself could tell hit rates; the assumption replaces them")
    if notes:
        record["notes"] = notes
    return record


def describe(policy: CachePolicy, block_tokens: int) -> str:
    """One side's cache in words."""
    size = (
        "unbounded"
        if policy.capacity_blocks is None
        else f"{policy.capacity_blocks:,} blocks = {policy.capacity_blocks * block_tokens:,} tokens"
    )
    text = f"{size}, LRU"
    if policy.instances > 1:
        word = "sticky sessions" if policy.routing is Routing.STICKY else f"{policy.routing} routing"
        text += f", {policy.instances} instances with {word}"
    if policy.ttl_s is not None:
        text += f", time to live {policy.ttl_s:g} s"
    if policy.keep_generated:
        text += ", keeps generated tokens"
    return text


def arrival_factor(pattern: ArrivalPattern, settings: ImportSettings) -> float:
    """Rate planned for over the rate of the trace."""
    return (settings.rate_rps or pattern.trace_rate_rps) / pattern.trace_rate_rps


def cache_knee(imported: Imported) -> tuple[float, float] | None:
    """(capacity in tokens, hit rate) from which more cache buys little."""
    return knee(imported.workload.cache_curve) if imported.workload.cache_curve else None


def _noted(origin: Provenance, note: str | None) -> Provenance:
    from dataclasses import replace

    return origin if note is None else replace(origin, note=note)


def _short(value: float) -> float:
    return float(f"{value:.5g}")
