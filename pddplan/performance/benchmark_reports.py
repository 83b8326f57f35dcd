"""Reports of guidellm, inference-perf, genai-bench, LLMServingSim, llm-d and MLPerf."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from pddplan.errors import InputError, Problem
from pddplan.performance.benchmark_run import SATURATED_SHARE, SECONDS_PER, BenchmarkRun, need, number
from pddplan.units import MS_PER_S, NS_PER_S

GUIDELLM_VERSIONS = (None, 1, 2)
"""Report layouts with the same metrics; the first releases wrote no version."""


def from_guidellm(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    report = records[0]
    version = (report.get("metadata") or {}).get("version")
    if version not in GUIDELLM_VERSIONS:
        raise ValueError(f"metadata.version is {version!r}; versions 1 and 2 are read")
    runs = []
    for index, bench in enumerate(report["benchmarks"]):
        metrics = bench["metrics"]

        def mean(name: str, metrics: Mapping[str, Any] = metrics) -> float | None:
            part = (metrics.get(name) or {}).get("successful") or {}
            return number(part.get("mean"))

        made = metrics.get("request_totals") or (bench.get("run_stats") or {}).get("requests_made") or {}
        count = number(made.get("successful"))
        if count is None and isinstance((bench.get("requests") or {}).get("successful"), list):
            count = len(bench["requests"]["successful"])
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
                requests=int(count or 0),
            )
        )
    return runs


def from_inference_perf(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    runs = []
    for r in records:
        done, load = r["successes"], r["load_summary"]
        count = int(need(done["count"], "successes.count"))
        if count <= 0:
            continue
        if "latency" not in done:
            raise ValueError("no latencies: this is the server-side (prometheus) twin, give the lifecycle file")
        latency = done["latency"]
        rate = need(done["throughput"]["requests_per_sec"], "requests_per_sec")
        asked = number(load.get("requested_rate"))
        achieved = number(load.get("achieved_rate")) or rate
        tpot = number((latency.get("time_per_output_token") or {}).get("mean"))
        ttft = number((latency.get("time_to_first_token") or {}).get("mean"))
        residence = need(latency["request_latency"]["mean"], "request_latency.mean")
        overloaded = asked is not None and min(achieved, rate) < SATURATED_SHARE * asked
        runs.append(
            BenchmarkRun(
                client="inference-perf",
                where=where,
                input_tokens=need(done["prompt_len"]["mean"], "prompt_len.mean"),
                output_tokens=need(done["output_len"]["mean"], "output_len.mean"),
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


def from_genai_bench(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    runs = []
    for r in records:
        total = r["aggregated_metrics"]
        stats = total["stats"]
        unit = str(total.get("_time_unit") or r.get("_time_unit") or "s")
        scale = SECONDS_PER.get(unit, 1.0)
        runs.append(
            BenchmarkRun(
                client="genai-bench",
                where=where,
                input_tokens=need(stats["num_input_tokens"]["mean"], "num_input_tokens"),
                output_tokens=need(stats["num_output_tokens"]["mean"], "num_output_tokens"),
                tpot_s=need(stats["tpot"]["mean"], "tpot") * scale,
                ttft_s=need(stats["ttft"]["mean"], "ttft") * scale,
                rate_rps=number(total.get("requests_per_second")),
                in_flight=number(total.get("num_concurrency")),
                closed_loop=number(total.get("num_concurrency")) is not None,
                requests=int(number(total.get("num_completed_requests")) or 1),
            )
        )
    return runs


def from_serving_sim(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
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


LLMD_VERSIONS = ("0.2",)


def from_llmd(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    """A benchmark report of llm-d (also as YAML): means over its requests, and the stack it was measured on."""
    runs = []
    for r in records:
        version = str(r["version"])
        if not version.startswith(LLMD_VERSIONS):
            raise ValueError(f"version is {version!r}; versions 0.2 are read")
        total = r["results"]["request_performance"]["aggregate"]
        latency, requests, rates = total["latency"], total["requests"], total.get("throughput") or {}

        def seconds(name: str, latency: Mapping[str, Any] = latency) -> float | None:
            found = latency.get(name) or {}
            unit = str(found.get("units") or "s").split("/")[0].strip()
            if unit not in SECONDS_PER:
                raise ValueError(f"latency.{name} is in {unit!r}")
            value = number(found.get("mean"))
            return None if value is None else value * SECONDS_PER[unit]

        engines = _engines(r)
        made = need(requests["total"], "requests.total") - (number(requests.get("failures")) or 0.0)
        runs.append(
            BenchmarkRun(
                client="llm-d",
                where=where,
                input_tokens=need(requests["input_length"]["mean"], "input_length.mean"),
                output_tokens=need(requests["output_length"]["mean"], "output_length.mean"),
                tpot_s=seconds("time_per_output_token") or seconds("inter_token_latency"),
                ttft_s=seconds("time_to_first_token"),
                rate_rps=number((rates.get("request_rate") or {}).get("mean")),
                latency_s=seconds("request_latency"),
                in_flight=None,
                requests=int(max(made, 0.0)),
                remark="" if engines == 1 else f"of {engines} engine instances together; a run of one is needed",
            )
        )
    return runs


def _engines(report: Mapping[str, Any]) -> int:
    """Engine instances that served the run, prefill and decode ones alike."""
    count = 0
    for part in (report.get("scenario") or {}).get("stack") or []:
        standard = part.get("standardized") or {}
        if standard.get("kind") == "inference_engine":
            count += int(number(standard.get("replicas")) or 1)
    return max(count, 1)


_MLPERF_MEANS = {
    "samples_per_s": (
        r"Completed samples per second\s*:\s*([\d.]+)",
        r'"result_completed_samples_per_sec", "value": ([\d.]+)',
    ),
    "tokens_per_s": (
        r"Completed tokens per second\s*:\s*([\d.]+)",
        r'"result_completed_tokens_per_second", "value": ([\d.]+)',
    ),
    "ttft_ns": (
        r"Mean First Token latency \(ns\)\s*:\s*([\d.]+)",
        r'"result_first_token_mean_latency_ns", "value": ([\d.]+)',
    ),
    "tpot_ns": (
        r"Mean Time per Output Token \(ns\)\s*:\s*([\d.]+)",
        r'"result_time_to_output_token_mean", "value": ([\d.]+)',
    ),
}
"""In the summary, and in the detailed log."""


def refuse_mlperf(text: str, where: str) -> None:
    """An MLPerf log says how fast, but not on which prompts: it is refused with what it does say.

    Raises:  InputError for a summary or a detailed log of LoadGen; nothing for other files.
    """
    if "MLPerf Results Summary" not in text and ":::MLLOG" not in text:
        return
    said = {}
    for name, patterns in _MLPERF_MEANS.items():
        found = next((m for m in (re.search(p, text) for p in patterns) if m), None)
        if found and (value := number(_float(found[1]))):
            said[name] = value
    words = []
    if "ttft_ns" in said:
        words.append(f"TTFT {said['ttft_ns'] / NS_PER_S:.4g} s")
    if "tpot_ns" in said:
        words.append(f"TPOT {said['tpot_ns'] / NS_PER_S * MS_PER_S:.4g} ms")
    if "tokens_per_s" in said and "samples_per_s" in said:
        words.append(
            f"{said['tokens_per_s'] / said['samples_per_s']:.0f} tokens out at {said['samples_per_s']:.4g} req/s"
        )
    means = f" (it says {', '.join(words)})" if words else ""
    raise InputError(
        Problem(
            what=f"an MLPerf log does not say how long the prompts were{means}",
            fix="give the run as a row of a table in the schema of docs/validation.md, with isl_tokens of its data set",
            where=where,
        )
    )


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
