"""Result files of load-test clients: vLLM, SGLang, aiperf and genai-perf, guidellm, inference-perf, genai-bench,
LLMServingSim and MLPerf; each becomes one or more BenchmarkRun in seconds and tokens.

No client writes which chips it talked to: the user must say. Everything else is taken from the file or refused.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from pddplan.domain.plan import Shape
from pddplan.errors import InputError, Problem
from pddplan.files import read_text
from pddplan.performance.measurement import Measurement
from pddplan.units import MS_PER_S, NS_PER_S, US_PER_S

MAX_FILE_BYTES = 64_000_000
SATURATED_SHARE = 0.9
"""A stage that reaches less than this share of the rate asked for was overloaded: its waiting says nothing of speed."""
SAME_TPOT_SHARE = 0.1
"""Means of ratios and ratios of means differ; beyond this share the client's TPOT is not per token."""
_SECONDS_PER = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1 / MS_PER_S, "us": 1 / US_PER_S, "ns": 1 / NS_PER_S}


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """One run (or one stage) of a load test, means over its successful requests."""

    client: str
    where: str
    input_tokens: float
    output_tokens: float
    tpot_s: float | None
    ttft_s: float | None
    rate_rps: float | None
    """Requests completed per second."""
    in_flight: float | None
    """Mean number of requests being served."""
    requests: int
    llm: str = ""
    """Model name as the client wrote it."""
    cached_tokens: float = 0.0
    remark: str = ""
    """Why the run should not be used, if so."""
    closed_loop: bool = False
    """The client kept a fixed number of requests in flight; otherwise throughput is what was asked, not what was got."""
    corrected: str = ""
    """What was put right in it."""
    latency_s: float | None = None
    """End-to-end latency."""
    accept_tokens: float | None = None
    """Tokens per step with speculative decoding, where the client says."""


def read_benchmark(path: Path) -> list[BenchmarkRun]:
    """Runs in a result file, whatever client wrote it.

    Raises:  InputError for unreadable files, unknown layouts, and files without any usable run.
    """
    text = read_text(path, limit=MAX_FILE_BYTES)
    readers: tuple[Callable[[str, str], list[BenchmarkRun] | None], ...] = (_from_json, _from_csv, _from_mlperf)
    for reader in readers:
        runs = reader(text, str(path))
        if runs is not None:
            usable = [_completed(run) for run in runs]
            if not usable:
                raise InputError(
                    Problem(
                        what="no completed request in this file",
                        fix="give a run in which requests succeeded",
                        where=str(path),
                    )
                )
            return usable
    raise InputError(
        Problem(
            what="this is not a result file of a client we know",
            fix="give a result of vllm bench serve, sglang.bench_serving, aiperf, genai-perf, guidellm, "
            "inference-perf, genai-bench, LLMServingSim or MLPerf, or a table in the schema of docs/validation.md",
            where=str(path),
        )
    )


def measurements_of(
    run: BenchmarkRun,
    *,
    chip: str,
    llm: str,
    shape: Shape,
    framework: str,
    weights_dtype: str | None,
    kv_dtype: str | None,
) -> list[Measurement]:
    """A run as closed-loop measurements of one instance: TPOT, throughput, and TTFT (which is mostly waiting)."""
    common = Measurement(
        kind="tpot",
        mode="closed_loop",
        model=llm,
        chip=chip,
        shape=shape,
        chips=shape.chips,
        weights_dtype=weights_dtype,
        kv_dtype=kv_dtype,
        framework=framework,
        date="",
        input_tokens=run.input_tokens,
        cached_tokens=min(run.cached_tokens, run.input_tokens),
        output_tokens=run.output_tokens,
        batch=run.in_flight,
        unit="ms",
        value=run.tpot_s,
        source=run.client,
        where=run.where,
    )
    found = []
    if run.tpot_s and run.in_flight:
        found.append(common)
    if run.ttft_s and run.in_flight:
        found.append(replace(common, kind="ttft", value=run.ttft_s))
    if run.rate_rps and run.in_flight and run.closed_loop:
        tokens_per_s = run.rate_rps * run.output_tokens
        found.append(replace(common, kind="throughput_e2e", unit="out_tok/s", value=tokens_per_s))
    return found


def _completed(run: BenchmarkRun) -> BenchmarkRun:
    """TPOT by its definition, (end-to-end - TTFT) / (output - 1); requests in flight from Little's law if not said.

    Some clients divide by stream events instead of tokens, which halves TPOT where an engine sends empty events.
    """
    if run.latency_s and run.ttft_s and run.output_tokens > 1 and run.latency_s > run.ttft_s:
        tpot_s = (run.latency_s - run.ttft_s) / (run.output_tokens - 1)
        if run.tpot_s is None or abs(run.tpot_s / tpot_s - 1) > SAME_TPOT_SHARE:
            said = f"client says TPOT {MS_PER_S * (run.tpot_s or 0):.2f} ms" if run.tpot_s else "client gives no TPOT"
            run = replace(run, tpot_s=tpot_s, corrected=f"{said}, latencies say {MS_PER_S * tpot_s:.2f} ms")
    if run.in_flight is None and run.rate_rps and run.tpot_s:
        residence = (run.ttft_s or 0.0) + max(run.output_tokens - 1, 0.0) * run.tpot_s
        return replace(run, in_flight=max(run.rate_rps * residence, 1.0))
    return run


def _from_json(text: str, where: str) -> list[BenchmarkRun] | None:
    records = _json_records(text)
    if not records or not all(isinstance(r, Mapping) for r in records):
        return None
    first = records[0]
    for fits, reader in _JSON_LAYOUTS:
        if fits(first):
            try:
                return reader(records, where)
            except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError) as fault:
                raise InputError(
                    Problem(
                        what=f"looks like a known client's file, but a field is missing or of the wrong kind: {fault}",
                        fix="give the file as the client wrote it",
                        where=where,
                    )
                ) from fault
    return None


def _json_records(text: str) -> list[Any]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        records = []
        for raw in text.splitlines():
            if raw.strip():
                try:
                    records.append(json.loads(raw))
                except (ValueError, RecursionError):
                    return []
        return records
    return whole if isinstance(whole, list) else [whole]


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def _need(value: Any, name: str) -> float:
    number = _number(value)
    if number is None:
        raise ValueError(f"{name} is {value!r}")
    return number


# --- vLLM and SGLang --------------------------------------------------------------------------------------------


def _serving(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    runs = []
    for index, r in enumerate(records):
        sglang = "random_input_len" in r or "server_info" in r or "sglang" in str(r.get("backend", ""))
        count = int(_number(r.get("completed")) or _number(r.get("num_prompts")) or 0)
        if count <= 0:
            continue
        remark = ""
        inputs, outputs = _number(r.get("total_input_tokens")), _number(r.get("total_output_tokens"))
        lists = r.get("input_lens"), r.get("output_lens")
        if inputs is None and isinstance(lists[0], list) and isinstance(lists[1], list):
            inputs, outputs = float(sum(lists[0])), float(sum(lists[1]))
        if inputs is None or outputs is None:
            remark = "token counts are not in this file"
        rate = _number(r.get("request_throughput")) or _number(r.get("request_rate"))
        limit = _number(r.get("max_concurrency"))
        in_flight = _number(r.get("concurrency"))
        if in_flight is None and limit is not None and r.get("request_rate") in ("inf", None):
            in_flight = limit
        asked = _number(r.get("request_rate"))
        if asked and rate and rate < SATURATED_SHARE * asked:
            remark = f"overloaded: {rate:.3g} of {asked:g} requests/s"
        runs.append(
            BenchmarkRun(
                client="sglang" if sglang else "vllm",
                where=f"{where}:{index + 1}",
                input_tokens=(inputs or 0.0) / count,
                output_tokens=(outputs or 0.0) / count,
                tpot_s=_ms(r, "mean_tpot_ms", "median_tpot_ms"),
                ttft_s=_ms(r, "mean_ttft_ms", "median_ttft_ms"),
                rate_rps=rate,
                latency_s=_ms(r, "mean_e2el_ms", "mean_e2e_latency_ms"),
                closed_loop=limit is not None and asked is None,
                in_flight=in_flight,
                requests=count,
                llm=str(r.get("model_id") or ""),
                remark=remark,
                accept_tokens=_number(r.get("accept_length")),
            )
        )
    return runs


def _ms(record: Mapping[str, Any], *names: str) -> float | None:
    value = next((v for v in (_number(record.get(n)) for n in names) if v), None)
    return None if value is None else value / MS_PER_S


# --- aiperf and genai-perf ----------------------------------------------------------------------------------------

_AIPERF = {
    "ttft": ("time_to_first_token", "ttft"),
    "itl": ("inter_token_latency", "itl"),
    "latency": ("request_latency",),
    "isl": ("input_sequence_length", "isl", "num_input_tokens"),
    "osl": ("output_sequence_length", "osl", "num_output_tokens"),
    "rate": ("request_throughput",),
    "count": ("request_count",),
}


def _aiperf_metric(metrics: Mapping[str, Any], key: str, field: str) -> tuple[float, str] | None:
    for name in _AIPERF[key]:
        metric = metrics.get(name)
        if isinstance(metric, Mapping):
            value = _number(metric.get(field))
            if value is not None:
                return value, str(metric.get("unit", ""))
    return None


def _seconds(found: tuple[float, str] | None) -> float | None:
    if found is None:
        return None
    value, unit = found
    return value * _SECONDS_PER.get(unit.strip().lower(), 1 / MS_PER_S)


def _aiperf(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    runs = []
    for r in records:
        inner = r.get("records")
        metrics: Mapping[str, Any] = inner if isinstance(inner, Mapping) else r
        runs += _aiperf_run(
            metrics, where, cached=_number(_average(metrics.get("usage_prompt_cache_read_tokens"))) or 0.0
        )
    return runs


def _average(metric: Any) -> Any:
    return metric.get("avg") if isinstance(metric, Mapping) else None


def _aiperf_run(metrics: Mapping[str, Any], where: str, *, cached: float = 0.0) -> list[BenchmarkRun]:
    found = {key: _aiperf_metric(metrics, key, "avg") for key in _AIPERF}
    if found["isl"] is None or found["osl"] is None:
        raise ValueError("input_sequence_length or output_sequence_length is missing")
    effective = _number(_average(metrics.get("effective_concurrency")))
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


def _aiperf_requests(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    """One request a line; warm-up and failures are left out."""
    kept = []
    for r in records:
        meta, metrics = r.get("metadata") or {}, r.get("metrics") or {}
        phase = meta.get("benchmark_phase") or meta.get("credit_phase") or "profiling"
        if phase == "profiling" and not r.get("error") and _aiperf_metric(metrics, "latency", "value"):
            kept.append((meta, metrics))
    if not kept:
        return []

    def mean(key: str, seconds: bool) -> float | None:
        values = [_aiperf_metric(metrics, key, "value") for _, metrics in kept]
        numbers = [_seconds(v) if seconds else v[0] for v in values if v is not None]
        plain = [n for n in numbers if n is not None]
        return fmean(plain) if plain else None

    starts = [_number(m.get("request_start_ns") or m.get("timestamp_ns")) for m, _ in kept]
    latencies = [_seconds(_aiperf_metric(metrics, "latency", "value")) or 0.0 for _, metrics in kept]
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


def _from_csv(text: str, where: str) -> list[BenchmarkRun] | None:
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
        return _aiperf_run(metrics, where)
    except ValueError as fault:
        raise InputError(
            Problem(what=str(fault), fix="give the summary CSV as aiperf wrote it", where=where)
        ) from fault


def _csv_rows(text: str, where: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(text.splitlines())
    except csv.Error as fault:
        raise InputError(Problem(what=f"is no table: {fault}", fix="give it as aiperf wrote it", where=where)) from None


# --- guidellm, inference-perf, genai-bench, LLMServingSim ------------------------------------------------------------


def _guidellm(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    report = records[0]
    version = report["metadata"].get("version")
    if version != 2:
        raise ValueError(f"metadata.version is {version!r}; only version 2 is read")
    runs = []
    for index, bench in enumerate(report["benchmarks"]):
        metrics = bench["metrics"]

        def mean(name: str, metrics: Mapping[str, Any] = metrics) -> float | None:
            part = (metrics.get(name) or {}).get("successful") or {}
            return _number(part.get("mean"))

        count = _number((metrics.get("request_totals") or {}).get("successful")) or 0
        inputs, outputs = mean("prompt_token_count"), mean("output_token_count")
        if inputs is None or outputs is None:
            continue
        itl, ttft = mean("inter_token_latency_ms"), mean("time_to_first_token_ms")
        runs.append(
            BenchmarkRun(
                client="guidellm",
                where=f"{where}: benchmark {index + 1}",
                input_tokens=inputs,
                output_tokens=outputs,
                tpot_s=itl / MS_PER_S if itl else None,
                ttft_s=ttft / MS_PER_S if ttft else None,
                rate_rps=mean("requests_per_second"),
                latency_s=mean("request_latency"),
                in_flight=mean("request_concurrency"),
                requests=int(count),
            )
        )
    return runs


def _inference_perf(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    runs = []
    for r in records:
        done, load = r["successes"], r["load_summary"]
        count = int(_need(done["count"], "successes.count"))
        if count <= 0:
            continue
        if "latency" not in done:
            raise ValueError("no latencies: this is the server-side (prometheus) twin, give the lifecycle file")
        latency = done["latency"]
        rate = _need(done["throughput"]["requests_per_sec"], "requests_per_sec")
        asked = _number(load.get("requested_rate"))
        achieved = _number(load.get("achieved_rate")) or rate
        tpot = _number((latency.get("time_per_output_token") or {}).get("mean"))
        ttft = _number((latency.get("time_to_first_token") or {}).get("mean"))
        residence = _need(latency["request_latency"]["mean"], "request_latency.mean")
        overloaded = asked is not None and min(achieved, rate) < SATURATED_SHARE * asked
        runs.append(
            BenchmarkRun(
                client="inference-perf",
                where=where,
                input_tokens=_need(done["prompt_len"]["mean"], "prompt_len.mean"),
                output_tokens=_need(done["output_len"]["mean"], "output_len.mean"),
                tpot_s=tpot,
                ttft_s=ttft,
                rate_rps=rate,
                latency_s=residence,
                in_flight=max(achieved * residence, 1.0),
                requests=count,
                remark=f"overloaded: {min(achieved, rate):.3g} of {asked:g} requests/s" if overloaded else "",
            )
        )
    return runs


def _genai_bench(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    runs = []
    for r in records:
        total = r["aggregated_metrics"]
        stats = total["stats"]
        unit = str(total.get("_time_unit") or r.get("_time_unit") or "s")
        scale = _SECONDS_PER.get(unit, 1.0)
        runs.append(
            BenchmarkRun(
                client="genai-bench",
                where=where,
                input_tokens=_need(stats["num_input_tokens"]["mean"], "num_input_tokens"),
                output_tokens=_need(stats["num_output_tokens"]["mean"], "num_output_tokens"),
                tpot_s=_need(stats["tpot"]["mean"], "tpot") * scale,
                ttft_s=_need(stats["ttft"]["mean"], "ttft") * scale,
                rate_rps=_number(total.get("requests_per_second")),
                in_flight=_number(total.get("num_concurrency")),
                closed_loop=_number(total.get("num_concurrency")) is not None,
                requests=int(_number(total.get("num_completed_requests")) or 1),
            )
        )
    return runs


def _serving_sim(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    ttfts, tpots, inputs, outputs, spans = [], [], [], [], []
    for r in records:
        queued, first, last = (float(r[k]) for k in ("queued_ts", "first_token_ts", "last_token_ts"))
        tokens = float(r["output_toks"])
        ttfts.append(first - queued)
        inputs.append(float(r["input_toks"]))
        outputs.append(tokens)
        spans.append((queued, last))
        if tokens > 1:
            tpots.append((last - first) / (tokens - 1))
    span = max(end for _, end in spans) - min(start for start, _ in spans)
    return [
        BenchmarkRun(
            client="LLMServingSim",
            where=where,
            input_tokens=fmean(inputs),
            output_tokens=fmean(outputs),
            tpot_s=fmean(tpots) if tpots else None,
            ttft_s=fmean(ttfts),
            rate_rps=len(spans) / span,
            in_flight=max(sum(end - start for start, end in spans) / span, 1.0),
            requests=len(spans),
        )
    ]


def _from_mlperf(text: str, where: str) -> list[BenchmarkRun] | None:
    if "MLPerf Results Summary" not in text:
        return None
    raise InputError(
        Problem(
            what="an MLPerf summary does not say how long prompts and answers were",
            fix="give the same run as a row of a table in the schema of docs/validation.md",
            where=where,
        )
    )


def _has(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda record: all(name in record for name in names)


_JSON_LAYOUTS: tuple[
    tuple[Callable[[Mapping[str, Any]], bool], Callable[[Sequence[Mapping[str, Any]], str], list[BenchmarkRun]]],
    ...,
] = (
    (_has("load_summary", "successes"), _inference_perf),
    (_has("benchmarks", "metadata"), _guidellm),
    (_has("aggregated_metrics"), _genai_bench),
    (_has("input_toks", "output_toks", "first_token_ts"), _serving_sim),
    (_has("metadata", "metrics"), _aiperf_requests),
    (lambda r: "request_rate" in r and ("backend" in r or "mean_ttft_ms" in r), _serving),
    (lambda r: "request_latency" in r or isinstance(r.get("records"), Mapping), _aiperf),
)
