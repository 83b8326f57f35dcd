"""Load-test results of aiperf and its predecessor genai-perf: summaries as JSON or CSV, and one request a line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from pddplan.errors import InputError, Problem
from pddplan.performance.benchmark_run import SECONDS_PER, BenchmarkRun, number
from pddplan.units import MS_PER_S, NS_PER_S

_AIPERF = {
    "ttft": ("time_to_first_token", "ttft"),
    "itl": ("inter_token_latency", "itl"),
    "latency": ("request_latency",),
    "isl": ("input_sequence_length", "isl", "num_input_tokens"),
    "osl": ("output_sequence_length", "osl", "num_output_tokens"),
    "rate": ("request_throughput",),
    "count": ("request_count",),
}


def _metric(metrics: Mapping[str, Any], key: str, field: str) -> tuple[float, str] | None:
    for name in _AIPERF[key]:
        metric = metrics.get(name)
        if isinstance(metric, Mapping):
            value = number(metric.get(field))
            if value is not None:
                return value, str(metric.get("unit", ""))
    return None


def _seconds(found: tuple[float, str] | None) -> float | None:
    if found is None:
        return None
    value, unit = found
    return value * SECONDS_PER.get(unit.strip().lower(), 1 / MS_PER_S)


def from_summary(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    runs = []
    for r in records:
        inner = r.get("records")
        metrics: Mapping[str, Any] = inner if isinstance(inner, Mapping) else r
        runs += _run(metrics, where, cached=number(_average(metrics.get("usage_prompt_cache_read_tokens"))) or 0.0)
    return runs


def _average(metric: Any) -> Any:
    return metric.get("avg") if isinstance(metric, Mapping) else None


def _run(metrics: Mapping[str, Any], where: str, *, cached: float = 0.0) -> list[BenchmarkRun]:
    found = {key: _metric(metrics, key, "avg") for key in _AIPERF}
    if found["isl"] is None or found["osl"] is None:
        raise ValueError("input_sequence_length or output_sequence_length is missing")
    effective = number(_average(metrics.get("effective_concurrency")))
    rate, latency = found["rate"], _seconds(found["latency"])
    in_flight = effective
    if in_flight is None and rate is not None and latency is not None:
        in_flight = max(rate[0] * latency, 1.0)
    count = found["count"]
    return [
        BenchmarkRun(
            client="aiperf",
            where=where,
            input_tokens=found["isl"][0],
            output_tokens=found["osl"][0],
            tpot_s=_seconds(found["itl"]),
            ttft_s=_seconds(found["ttft"]),
            rate_rps=rate[0] if rate else None,
            latency_s=latency,
            in_flight=in_flight,
            requests=int(count[0]) if count else 1,
            cached_tokens=cached,
        )
    ]


def from_requests(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    """One request a line; warm-up and failures are left out."""
    kept = []
    for r in records:
        meta, metrics = r.get("metadata") or {}, r.get("metrics") or {}
        phase = meta.get("benchmark_phase") or meta.get("credit_phase") or "profiling"
        if phase == "profiling" and not r.get("error") and _metric(metrics, "latency", "value"):
            kept.append((meta, metrics))
    if not kept:
        return []

    def mean(key: str, seconds: bool) -> float | None:
        values = [_metric(metrics, key, "value") for _, metrics in kept]
        numbers = [_seconds(v) if seconds else v[0] for v in values if v is not None]
        plain = [n for n in numbers if n is not None]
        return fmean(plain) if plain else None

    starts = [number(m.get("request_start_ns") or m.get("timestamp_ns")) for m, _ in kept]
    latencies = [_seconds(_metric(metrics, "latency", "value")) or 0.0 for _, metrics in kept]
    known = [(s / NS_PER_S, d) for s, d in zip(starts, latencies, strict=True) if s is not None]
    span = max(s + d for s, d in known) - min(s for s, _ in known) if known else 0.0
    return [
        BenchmarkRun(
            client="aiperf",
            where=where,
            input_tokens=mean("isl", seconds=False) or 0.0,
            output_tokens=mean("osl", seconds=False) or 0.0,
            tpot_s=mean("itl", seconds=True),
            ttft_s=mean("ttft", seconds=True),
            rate_rps=len(kept) / span if span > 0 else None,
            latency_s=fmean(latencies),
            in_flight=max(sum(latencies) / span, 1.0) if span > 0 else None,
            requests=len(kept),
        )
    ]


def from_csv(text: str, where: str) -> list[BenchmarkRun] | None:
    """The summary CSV of aiperf: tables divided by blank lines."""
    if not re.match(r"\s*Metric,(avg|Value)", text):
        return None
    metrics: dict[str, dict[str, Any]] = {}
    header: list[str] = []
    for row in _csv_rows(text, where):
        if not row or not row[0]:
            header = []
        elif row[0] == "Metric":
            header = [name.lower() for name in row]
        elif header:
            name, unit = re.fullmatch(r"(.*?)(?:\s*\(([^)]*)\))?", row[0]).groups()  # type: ignore[union-attr]
            values = dict(zip(header[1:], row[1:], strict=False))
            average = values.get("avg") or values.get("value") or ""
            try:
                metrics[name.strip().lower().replace(" ", "_")] = {"avg": float(average), "unit": unit or ""}
            except ValueError:
                continue
    try:
        return _run(metrics, where)
    except ValueError as fault:
        raise InputError(
            Problem(what=str(fault), fix="give the summary CSV as aiperf wrote it", where=where)
        ) from fault


def _csv_rows(text: str, where: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(text.splitlines())
    except csv.Error as fault:
        raise InputError(Problem(what=f"is no table: {fault}", fix="give it as aiperf wrote it", where=where)) from None
