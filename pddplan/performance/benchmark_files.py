"""Result files of load-test clients: vLLM, SGLang, aiperf and genai-perf, guidellm, inference-perf, genai-bench,
LLMServingSim and llm-d; each becomes one or more BenchmarkRun in seconds and tokens.

No client writes which chips it talked to: the user must say. Everything else is taken from the file or refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pddplan.domain.plan import Shape
from pddplan.errors import InputError, Problem
from pddplan.files import read_text
from pddplan.performance.benchmark_aiperf import from_csv, from_requests, from_summary
from pddplan.performance.benchmark_reports import (
    from_genai_bench,
    from_guidellm,
    from_inference_perf,
    from_llmd,
    from_serving_sim,
    refuse_mlperf,
)
from pddplan.performance.benchmark_run import SATURATED_SHARE, BenchmarkRun, number
from pddplan.performance.measurement import Measurement
from pddplan.units import MS_PER_S

MAX_FILE_BYTES = 64_000_000
LARGEST_NUMBER = 1e15
FAILED_SHARE = 0.05
"""With more failures than this per request that succeeded, nobody knows what the engine was busy with."""
SAME_TPOT_SHARE = 0.1
"""Means of ratios and ratios of means differ; beyond this share the client's TPOT is not per token."""


def read_benchmark(path: Path) -> list[BenchmarkRun]:
    """Runs in a result file, whatever client wrote it.

    Raises:  InputError for unreadable files, unknown layouts, and files without any usable run.
    """
    text = read_text(path, limit=MAX_FILE_BYTES)
    refuse_mlperf(text, str(path))
    for reader in (_from_json, from_csv):
        runs = reader(text, str(path))
        if runs is not None:
            return _usable(runs, str(path))
    raise InputError(
        Problem(
            what="this is not a result file of a client we know",
            fix="give a result of vllm bench serve, sglang.bench_serving, aiperf, genai-perf, guidellm, "
            "inference-perf, genai-bench, llm-d or LLMServingSim, or a table in the schema of docs/validation.md",
            where=str(path),
        )
    )


def runs_of_records(records: Sequence[Any], where: str) -> list[BenchmarkRun]:
    """Runs in records already parsed, say from YAML.

    Raises:  InputError as read_benchmark.
    """
    runs = _of_records(records, where)
    if runs is None:
        raise InputError(
            Problem(
                what="this is not a report of a client that writes YAML",
                fix="give a benchmark report of llm-d, or a result file as JSON or CSV",
                where=where,
            )
        )
    return _usable(runs, where)


def _usable(runs: Sequence[BenchmarkRun], where: str) -> list[BenchmarkRun]:
    usable = [_completed(_plausible(run)) for run in runs]
    if not usable:
        raise InputError(
            Problem(what="no completed request in this file", fix="give a run in which requests succeeded", where=where)
        )
    return usable


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


def _plausible(run: BenchmarkRun) -> BenchmarkRun:
    """The run, unless a number of it is none that a load test can give.

    Raises:  InputError for negative, infinite or absurd numbers.
    """
    for spec in fields(run):
        value = getattr(run, spec.name)
        if isinstance(value, int | float) and not 0 <= value <= LARGEST_NUMBER:
            raise InputError(
                Problem(what=f"{spec.name} is {value:.6g}", fix="give the file as the client wrote it", where=run.where)
            )
    return run


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
    return _of_records(_json_records(text, where), where)


def _of_records(records: Sequence[Any], where: str) -> list[BenchmarkRun] | None:
    if not records or not all(isinstance(r, Mapping) for r in records):
        return None
    first = records[0]
    for fits, what in _OTHER_RESULTS:
        if fits(first):
            raise InputError(
                Problem(
                    what=what,
                    fix="give the run as rows of a table in the schema of docs/validation.md, or a serving benchmark",
                    where=where,
                )
            )
    for fits, reader in _JSON_LAYOUTS:
        if fits(first):
            try:
                return reader(records, where)
            except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as fault:
                raise InputError(
                    Problem(
                        what=f"looks like a known client's file, but a field is missing or of the wrong kind: {fault}",
                        fix="give the file as the client wrote it",
                        where=where,
                    )
                ) from fault
    return None


def _json_records(text: str, where: str) -> list[Any]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        records: list[Any] = []
        for line, raw in enumerate(text.splitlines(), start=1):
            if raw.strip():
                try:
                    records.append(json.loads(raw))
                except (ValueError, RecursionError):
                    if not records:
                        return []
                    raise InputError(
                        Problem(
                            what="is not whole JSON (cut off?)",
                            fix="correct or remove this line",
                            where=f"{where}:{line}",
                        )
                    ) from None
        return records
    return whole if isinstance(whole, list) else [whole]


# --- vLLM and SGLang --------------------------------------------------------------------------------------------


def _serving(records: Sequence[Mapping[str, Any]], where: str) -> list[BenchmarkRun]:
    runs = []
    for index, r in enumerate(records):
        sglang = "random_input_len" in r or "server_info" in r or "sglang" in str(r.get("backend", ""))
        completed = number(r.get("completed"))
        count = int((number(r.get("num_prompts")) if completed is None else completed) or 0)
        if count <= 0:
            continue
        failed = number(r.get("failed")) or 0.0
        remark = f"{failed:.0f} of {count + failed:.0f} requests failed" if failed > FAILED_SHARE * count else ""
        inputs, outputs = number(r.get("total_input_tokens")), number(r.get("total_output_tokens"))
        lists = r.get("input_lens"), r.get("output_lens")
        if inputs is None and isinstance(lists[0], list) and isinstance(lists[1], list):
            inputs, outputs = float(sum(lists[0])), float(sum(lists[1]))
        if inputs is None or outputs is None:
            remark = "token counts are not in this file"
        asked = number(r.get("request_rate"))  # none where it is "inf": all at once
        duration = number(r.get("duration"))
        rate = number(r.get("request_throughput")) or (count / duration if duration else asked)
        limit = number(r.get("max_concurrency"))
        in_flight = number(r.get("concurrency"))
        if in_flight is None and asked is None:
            in_flight = limit
        if asked and rate and rate < SATURATED_SHARE * asked:
            remark = f"overloaded: {rate:.3g} of {asked:g} requests/s"
        per_step = number(r.get("accept_length")) or number(r.get("spec_decode_acceptance_length")) or 1.0
        if per_step > 1.0:
            remark = f"speculative decoding ({per_step:.3g} tokens a step): the fit knows plain steps only"
        runs.append(
            BenchmarkRun(
                client="sglang" if sglang else "vllm",
                where=f"{where}:{index + 1}",
                input_tokens=(inputs or 0.0) / count,
                output_tokens=(outputs or 0.0) / count,
                tpot_s=_ms(r, "mean_tpot_ms", "median_tpot_ms", "p50_tpot_ms"),
                ttft_s=_ms(r, "mean_ttft_ms", "median_ttft_ms", "p50_ttft_ms"),
                rate_rps=rate,
                latency_s=_ms(r, "mean_e2el_ms", "mean_e2e_latency_ms"),
                closed_loop=limit is not None and asked is None,
                in_flight=in_flight,
                requests=count,
                llm=str(r.get("model_id") or ""),
                remark=remark,
            )
        )
    return runs


def _ms(record: Mapping[str, Any], *names: str) -> float | None:
    value = next((v for v in (number(record.get(n)) for n in names) if v), None)
    return None if value is None else value / MS_PER_S


def _has(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda record: all(name in record for name in names)


_JSON_LAYOUTS: tuple[
    tuple[Callable[[Mapping[str, Any]], bool], Callable[[Sequence[Mapping[str, Any]], str], list[BenchmarkRun]]],
    ...,
] = (
    (_has("load_summary", "successes"), from_inference_perf),
    (_has("benchmarks"), from_guidellm),
    (_has("version", "results", "scenario"), from_llmd),
    (_has("aggregated_metrics"), from_genai_bench),
    (_has("input_toks", "output_toks", "first_token_ts"), from_serving_sim),
    (_has("metadata", "metrics"), from_requests),
    (lambda r: "request_rate" in r and ("backend" in r or "mean_ttft_ms" in r), _serving),
    (lambda r: "request_latency" in r or isinstance(r.get("records"), Mapping), from_summary),
)

_OTHER_RESULTS: tuple[tuple[Callable[[Mapping[str, Any]], bool], str], ...] = (
    (
        _has("elapsed_time", "tokens_per_second", "num_requests"),
        "a result of vllm bench throughput does not say how long prompts and answers were",
    ),
    (
        _has("avg_latency", "percentiles"),
        "a result of vllm bench latency does not say batch, prompt and answer lengths",
    ),
    (
        _has("prefill_latency", "batch_size", "input_len"),
        "a result of sglang.bench_one_batch is no load test; its passes are rows of their own",
    ),
)
"""Results that are known, and what they lack."""
