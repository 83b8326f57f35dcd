"""Why mixtures of experts come out differently from the peer, term by term: prefill over nodes, aggregated serving."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from peers_questions import INPUT_TOKENS, OUTPUT_TOKENS, Question, kv_dtype_of, peer_rows, questions, shape_of

from pddplan.domain.chip import Chip
from pddplan.domain.plan import Shape
from pddplan.errors import InputError
from pddplan.performance.forward_pass import PassTime, pass_time
from pddplan.performance.instance import instance_performance
from pddplan.performance.load import chip_key, pass_model
from pddplan.profiles.chip_profile import load_chip
from pddplan.profiles.efficiency_profile import load_efficiency
from pddplan.profiles.llm_profile import load_llm
from pddplan.units import MS_PER_S

LLM, CHIP, DTYPE = "deepseek-v3", "h100-sxm", "fp8"
OVER_NODES = (Shape(tp=1, dp=16, ep=16), Shape(tp=1, dp=32, ep=32))
STACKS = (None, "trtllm-2025", "wide-ep")
PUBLISHED = Path(__file__).parent.parent / "tests" / "papers" / "wide_expert_parallel.csv"
SETTINGS = ("experts_load_cv", "exchange_overlap")
"""Numbers of the stack that a published setting changes; blank = as the stack has them."""
FULL_TTFT_S = 10.0
"""Waits that only a full pool makes."""


def prefill_terms(shape: Shape, stack: str | None, *, chip: Chip) -> tuple[float, PassTime]:
    """Input tokens per second and chip of prompts of the question's length, one a rank, and the terms of their pass."""
    model = pass_model(load_llm(LLM), chip_key(chip), shape, DTYPE, "bf16")
    load = model.load(sequences=shape.dp, new_tokens=INPUT_TOKENS, cached_tokens=0.0, decode=False)
    terms = pass_time(load, load_efficiency(stack, chip))
    return INPUT_TOKENS * shape.dp / float(terms.total) / shape.chips, terms


def term_lines() -> Iterator[str]:
    """Our terms, by layout and engine."""
    chip = load_chip(CHIP)
    yield "| layout | engine | products | attention | experts | exchange | other | input tok/s per chip |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for shape in OVER_NODES:
        wired = replace(chip, id=f"{chip.id}-one-domain", scaleup_domain_chips=shape.chips)
        cases = [(stack or "usual, 2025", stack, chip) for stack in STACKS]
        cases.insert(1, ("the same, NICs as fast as NVLink", None, wired))
        for label, stack, where in cases:
            rate, terms = prefill_terms(shape, stack, chip=where)
            ms = {name: float(value) * MS_PER_S for name, value in terms.main_terms().items()}
            rest = ms["other"] + ms["overhead"]
            yield (
                f"| {shape} | {label} | {ms['gemm']:.0f} | {ms['attn']:.0f} | {ms['moe']:.0f} | {ms['comm']:.0f} "
                f"| {rest:.0f} | {rate:,.0f} |"
            )


@dataclass(frozen=True, slots=True)
class Full:
    """A measured split system in which requests wait long for their first token, so that one of its pools is full."""

    what: str
    prefill_tokens_per_s_per_chip: float
    """At least what prefill can do; just that, where decoding is not the full pool."""
    ttft_s: float
    decoding_per_chip: float
    """Requests in decoding, by Little's law."""


def measured_prefill(data: Path) -> list[Full]:
    """Split systems with prefill over nodes and long waits: what was run, and how full it was."""
    path = data / "inferencex_dsr1_closed_loop.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["chip"] == "h100_sxm" and "disagg" in row["note"]]
    key = ("isl_tokens", "batch_or_concurrency", "n_chips", "tp")
    timed = [row for row in rows if row["unit"] == "ms"]
    times = {(row["kind"], *(row[k] for k in key)): float(row["value"]) / MS_PER_S for row in timed}
    found = []
    for row in rows:
        where = tuple(row[k] for k in key)
        ttft_s = times.get(("ttft", *where), 0.0)
        if row["kind"] != "throughput_e2e" or ttft_s < FULL_TTFT_S:
            continue
        note = dict(part.split("=", 1) for part in row["note"].split(";") if "=" in part)
        prompt, answer = float(row["isl_tokens"]), float(row["osl_tokens"])
        rps = float(row["value"]) * float(row["n_chips"]) / answer
        pools = f"{note['prefill_workers']} x EP{note['prefill_ep']}"
        found.append(
            Full(
                what=f"{row['framework']}, {pools}, prompts of {prompt:,.0f}",
                prefill_tokens_per_s_per_chip=rps * prompt / float(note["prefill_gpus"]),
                ttft_s=ttft_s,
                decoding_per_chip=rps * times["tpot", *where] * answer / float(note["decode_gpus"]),
            )
        )
    return found


def published_rows() -> list[dict[str, str]]:
    """Throughputs that teams publish of wide expert parallelism, and what each setting changes in the stack."""
    with PUBLISHED.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def wide_tokens_per_s_per_chip(row: dict[str, str]) -> float:
    """Our throughput of one published row: prompts of a rank in one pass, or one decoding step."""
    chip, ranks = load_chip(CHIP), int(row["ranks"])
    changes: dict[str, Any] = {name: float(row[name]) for name in SETTINGS if row[name]}
    model = pass_model(load_llm(LLM), chip_key(chip), Shape(tp=1, dp=ranks, ep=ranks), DTYPE, "bf16")
    tokens, sequences = float(row["tokens"]), float(row["sequences_per_rank"])
    load = model.load(
        sequences=sequences * ranks,
        new_tokens=tokens,
        cached_tokens=float(row["cached_tokens"]),
        decode=row["phase"] == "decode",
    )
    return sequences * tokens / float(pass_time(load, replace(load_efficiency("wide-ep", chip), **changes)).total)


def published_lines() -> Iterator[str]:
    """The tuned stack against what its makers publish."""
    yield "| who, phase | ranks | tokens | sequences a rank | setting | published | ours |"
    yield "| --- | ---: | ---: | ---: | --- | ---: | ---: |"
    for row in published_rows():
        ours, said = wide_tokens_per_s_per_chip(row), float(row["tokens_per_s_per_chip"])
        length = float(row["tokens" if row["phase"] == "prefill" else "cached_tokens"])
        yield (
            f"| {row['source']}, {row['phase']} | {row['ranks']} | {length:,.0f} | {row['sequences_per_rank']} "
            f"| {row['setting']} | {said:,.0f} | {ours:,.0f} ({100 * (ours / said - 1):+.0f} %) |"
        )


@dataclass(frozen=True, slots=True)
class Aggregated:
    """The peer's best aggregated layout, timed by both."""

    shape: Shape
    in_flight: int
    tpot_ms: tuple[float, float]
    step_ms: float
    tokens_per_s_per_chip: tuple[float, float]
    promised_tokens_per_s_per_chip: float
    """Ours with as many requests in flight as keep the promised TPOT in the mean, which is how the peer counts."""
    borrowed: bool
    """The peer had no times for this exchange over nodes and took those of one node."""


def aggregated(results: Path, question: Question) -> Aggregated | None:
    """Our formulas on the peer's best aggregated layout and number of requests; None where it has or fits none."""
    rows = peer_rows(results / question.name, "agg")
    if not rows:
        return None
    row = rows[0]
    shape, in_flight = shape_of(row, ""), int(float(row["concurrency"]))
    if shape.dp > 1:
        shape = replace(shape, ep=shape.tp * shape.dp)
    chip = load_chip(question.chip)
    try:
        ours: Any = instance_performance(
            chip=chip,
            llm=load_llm(question.llm),
            shape=shape,
            efficiency=load_efficiency(None, chip),
            weights_dtype=question.dtype,
            kv_dtype=kv_dtype_of(row, ""),
        )
    except InputError:
        return None
    prompt, nothing = np.array([float(INPUT_TOKENS)]), np.array([0.0])
    context = np.array([INPUT_TOKENS + OUTPUT_TOKENS / 2])
    stop_s = float(ours.prefill_stop_s(new_tokens=prompt, cached_tokens=nothing)[0])
    first_s = float(ours.prefill_time_s(new_tokens=prompt, cached_tokens=nothing)[0])

    def served(requests: float) -> tuple[float, float, float]:
        step_s = float(ours.decode_step_s(batch=np.array([requests]), context_tokens=context)[0])
        tpot_s = step_s + (requests - 1) * stop_s / OUTPUT_TOKENS
        return step_s, tpot_s, requests * OUTPUT_TOKENS / (first_s + (OUTPUT_TOKENS - 1) * tpot_s) / shape.chips

    step_s, tpot_s, rate = served(float(in_flight))
    kept = [number for number in np.arange(1.0, 4.0 * in_flight) if served(number)[1] <= question.tpot_s]
    return Aggregated(
        shape=shape,
        in_flight=in_flight,
        tpot_ms=(tpot_s * MS_PER_S, float(row["tpot"])),
        step_ms=step_s * MS_PER_S,
        tokens_per_s_per_chip=(rate, float(row["tokens/s/gpu"])),
        promised_tokens_per_s_per_chip=served(kept[-1])[2] if kept else 0.0,
        borrowed=borrows(results / question.name, "agg"),
    )


def borrows(kept: Path, mode: str) -> bool:
    """Whether the peer's best answer takes exchange times of fewer nodes than it asks for (its own provenance file)."""
    found = sorted(kept.glob(f"**/{mode}/top1/moe_comm_fallbacks.json"))
    if not found:
        return False
    entries = json.loads(found[-1].read_text(encoding="utf-8"))
    return any(entry["requested_node_num"] > entry["measurement_node_num"] for entry in entries)


def aggregated_lines(results: Path) -> Iterator[str]:
    """Aggregated serving on the peer's layout, both speed models."""
    yield (
        "| model, chips | layout | in flight | TPOT, ms (of it steps) | ratio | tok/s per chip | ratio "
        "| ours in time | NICs |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for question in questions():
        found = aggregated(results, question)
        if found is None:
            continue
        tpot, rate = found.tpot_ms, found.tokens_per_s_per_chip
        nics = "peer: as one node" if found.borrowed else ""
        yield (
            f"| {question.llm}, {question.chip} | {found.shape} | {found.in_flight} "
            f"| {tpot[0]:.1f} ({found.step_ms:.1f}) : {tpot[1]:.1f} | {tpot[0] / tpot[1]:.2f} "
            f"| {rate[0]:.0f} : {rate[1]:.0f} | {rate[0] / rate[1]:.2f} "
            f"| {found.promised_tokens_per_s_per_chip:.0f} | {nics} |"
        )
