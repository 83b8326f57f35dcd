"""Predict the rows of a measurement table: value, main terms, or the reason why not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from pddplan.domain.chip import Chip
from pddplan.domain.llm import Llm
from pddplan.domain.plan import Shape
from pddplan.errors import InputError
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.forward_pass import PassTime, pass_time
from pddplan.performance.load import PassModel, chip_key, pass_model
from pddplan.performance.measurement import Measurement, Row, parse_note
from pddplan.performance.memory import (
    BINARY_CAPACITY,
    MemoryBudget,
    memory_budget,
    sequences_in_memory,
    weights_per_chip_bytes,
)
from pddplan.performance.row_doubts import check_answerable, doubts
from pddplan.performance.serving import (
    RAMP_SHARE,
    Quantity,
    RunLoad,
    interrupting_time_s,
    interruption_s,
    prefill_run,
    run_times,
    split_system,
    stack_runs,
)
from pddplan.units import GIGA

FLEET_INPUT_TOKENS = 4096.0
FLEET_SEQUENCES_PER_CHIP = 96.0
"""What production averages are read with when they state neither prompt length nor batch."""
OFFLINE_OUTPUT_TOKENS = 4e6
OFFLINE_MIN_REQUESTS = 1500.0
"""Size of published offline runs: about so many output tokens, but not fewer requests (TensorRT-LLM's protocol)."""

TTFTS = (Quantity.CLOSED_TTFT, Quantity.CLOSED_MEDIAN_TTFT)
"""Times to the first token in a closed loop."""
IN_STEP = (Quantity.CLOSED_TPOT, Quantity.CLOSED_THROUGHPUT, *TTFTS)
"""What depends on whether a closed loop's requests stay in step."""


class Catalog(Protocol):
    """Finds chips, models and efficiencies by the names in a table; raises InputError for unknown ones."""

    def chip(self, name: str) -> Chip: ...
    def llm(self, name: str) -> Llm: ...
    def efficiency(self, chip: Chip, framework: str, date: str, *, operators: bool = False) -> Efficiency: ...


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted value of one row in the row's own unit of measure (seconds, or tokens per second)."""

    row: Row
    value: float | None
    terms: dict[str, float]
    """Main terms by name [s]."""
    remark: str = ""
    """Why there is no value, or what was assumed."""
    stack: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A measurement with everything it refers to looked up."""

    measurement: Measurement
    chip: Chip
    llm: Llm
    efficiency: Efficiency
    model: PassModel
    remark: str = ""
    """What was assumed about the chip, and what in the row the prediction cannot follow."""


def subject_of(measurement: Measurement, catalog: Catalog) -> Subject:
    """Look up chip, model and stack of a measurement.

    Raises:  InputError for unknown names, dtypes or layouts.
    """
    check_answerable(measurement)
    chip, remark = _with_bf16(catalog.chip(measurement.chip))
    llm = catalog.llm(measurement.model)
    efficiency = catalog.efficiency(
        chip, measurement.framework, measurement.date, operators=measurement.mode == "op_composed"
    )
    shape = _shape_for(measurement.shape, llm)
    if measurement.mode == "offline_max" and not measurement.layout_stated and llm.is_moe and shape.tp > 1:
        # the throughput recipe of engines for mixtures: attention data parallel, experts over all chips
        shape = Shape(tp=1, pp=shape.pp, dp=shape.tp, ep=shape.tp)
    model = pass_model(llm, chip_key(chip), shape, measurement.weights_dtype, measurement.kv_dtype)
    remark = _said(remark, doubts(measurement, chip=chip, llm=llm, shape=shape))
    return Subject(measurement, chip, llm, efficiency, model, remark)


def _with_bf16(chip: Chip) -> tuple[Chip, str]:
    """Attention and norms run in 16 bits: where no such peak is given, half of the 8-bit one is assumed, and said."""
    peaks = chip.peak_flop_per_s
    eight_bit = max(peaks.get("fp8", 0.0), peaks.get("int8", 0.0), peaks.get("fp4", 0.0) / 2)
    if peaks.get("bf16", 0.0) > 0 or eight_bit <= 0:
        return chip, ""
    assumed = replace(chip, peak_flop_per_s={**peaks, "bf16": eight_bit / 2})
    return assumed, f"no bf16 peak of {chip.id} is given; half of its 8-bit peak assumed"


def _shape_for(shape: Shape, llm: Llm) -> Shape:
    """Dense models have no expert ranks, whatever a table says."""
    return shape if llm.is_moe else replace(shape, ep=1)


def memory_cap(subject: Subject, tokens: float) -> int:
    """Sequences of a length that the instance of a measurement holds."""
    fits = sequences_in_memory(_budget(subject), subject.model.kv, shape=subject.model.shape, tokens=tokens)
    return min(fits, int(subject.efficiency.max_sequences) * subject.model.shape.dp)


def quantity_of(m: Measurement) -> Quantity:
    """Which formula a row is compared with."""
    if m.mode == "op_composed":
        return Quantity.OPERATORS_PREFILL if m.kind == "prefill_latency" else Quantity.OPERATORS_DECODE
    if m.kind in ("prefill_latency",) or (m.kind == "ttft" and m.mode != "closed_loop"):
        return Quantity.PREFILL_LATENCY
    if m.kind == "decode_step":
        return Quantity.DECODE_STEP
    if m.unit.startswith("in_tok"):
        return Quantity.INPUT_THROUGHPUT
    if m.kind == "tpot":
        return Quantity.CLOSED_TPOT if m.mode == "closed_loop" else Quantity.DECODE_STEP
    if m.kind == "ttft":
        return Quantity.CLOSED_MEDIAN_TTFT if parse_note(m.note).get("stat") == "median" else Quantity.CLOSED_TTFT
    if m.mode == "static":
        return Quantity.STATIC_THROUGHPUT
    if m.mode == "fleet_24h":
        return Quantity.DECODE_THROUGHPUT
    return Quantity.CLOSED_THROUGHPUT if m.mode == "closed_loop" else Quantity.OFFLINE_THROUGHPUT


def run_of(subject: Subject) -> tuple[RunLoad, str]:
    """Passes of a measured run on one instance, and a remark on what was assumed.

    Raises:  InputError when the batch is neither given nor bounded by memory.
    """
    m, model, remark = subject.measurement, subject.model, ""
    quantity = quantity_of(m)
    if m.mode == "fleet_24h":
        m, remark = _fleet_assumptions(m)
        subject = replace(subject, measurement=m)
    fresh = max(m.input_tokens - m.cached_tokens, 1.0)
    output = max(m.output_tokens, 1.0)
    held = m.input_tokens + m.output_tokens / 2.0
    batch = m.batch
    if batch is None and quantity in (Quantity.OPERATORS_PREFILL, Quantity.PREFILL_LATENCY):
        batch, remark = 1.0, _said(remark, "one prompt assumed")
    if quantity not in (Quantity.OPERATORS_PREFILL, Quantity.OPERATORS_DECODE):
        remark = _said(remark, little_room(subject))
    bounded = (Quantity.CLOSED_TPOT, Quantity.CLOSED_THROUGHPUT, *TTFTS, Quantity.STATIC_THROUGHPUT)
    if quantity in bounded or batch is None:
        # without a stated batch the engine reserves room for whole answers; else pages grow as tokens come
        cap = memory_cap(subject, held if batch is not None else m.input_tokens + m.output_tokens)
        if batch is None:
            said = f"(room for {cap})"
            if cap < 1:
                cap, said = 1, "(no sequence fits by our memory reckoning; one assumed)"
            requests = max(OFFLINE_OUTPUT_TOKENS / output, OFFLINE_MIN_REQUESTS)
            # equal requests run in waves; the mean wave is a little smaller than memory allows
            batch = requests / np.ceil(requests / cap) if quantity == Quantity.OFFLINE_THROUGHPUT else float(cap)
            remark = _said(remark, f"batch {batch:.0f} from memory {said}")
        elif 1 <= cap < batch:
            remark = _said(remark, f"memory holds {cap} of {batch:g} requests")
            batch = float(cap)
    whole_batch = quantity in (Quantity.OPERATORS_PREFILL, Quantity.PREFILL_LATENCY, Quantity.STATIC_THROUGHPUT)
    # in steady state b/O requests end per step, so that many prompts arrive together
    if quantity == Quantity.INPUT_THROUGHPUT:
        batch = float(model.shape.dp)
    in_step = m.equal_lengths and subject.efficiency.prefills_first > 0 and quantity in IN_STEP
    arriving = batch if in_step else max(batch / output, float(model.shape.dp), 1.0)
    together = batch if whole_batch else min(arriving, batch)
    chunk = np.inf if quantity == Quantity.OPERATORS_PREFILL else subject.efficiency.chunk_tokens
    prefill, passes = prefill_run(
        model, requests=together, new_tokens=fresh, cached_tokens=m.cached_tokens, chunk_tokens=float(chunk)
    )
    if not whole_batch:
        # ranks prefill side by side: what one request costs the instance is its share of the pass
        shared = together if in_step or quantity not in TTFTS else 1.0
        passes = passes / shared
    context = m.input_tokens if m.kind == "decode_step" else held
    decode = model.load(sequences=batch, new_tokens=1.0, cached_tokens=context, decode=True)
    value = np.asarray
    return (
        RunLoad(
            quantity=value(float(quantity)),
            prefill=prefill,
            prefill_passes=value(passes),
            decode=decode,
            batch=value(batch),
            output_tokens=value(output),
            chips=value(float(m.chips) if m.per_chip else 1.0),
            input_tokens=value(m.input_tokens),
            in_step=value(float(in_step)),
            pass_prompts=value(min(max(chunk // fresh, 1.0) * model.shape.dp, batch)),
        ),
        remark,
    )


def _budget(subject: Subject) -> MemoryBudget:
    return memory_budget(
        subject.chip,
        subject.llm,
        shape=subject.model.shape,
        weights=subject.model.weights,
        efficiency=subject.efficiency,
    )


def impossible(subject: Subject) -> str:
    """Why a run cannot have been as it is described: its weights alone exceed the memory of its chips; else empty."""
    weights = weights_per_chip_bytes(subject.model.weights, subject.model.shape)
    memory = subject.chip.memory_bytes * BINARY_CAPACITY
    if weights <= memory:
        return ""
    return (
        f"{weights / GIGA:.0f} GB of weights a chip exceed the {memory / GIGA:.0f} GB of {subject.chip.id} at "
        f"{subject.model.shape}: the run had more chips or smaller weights (--tp, --ep, --weights)"
    )


def little_room(subject: Subject) -> str:
    """A row that was measured did run, whatever we reckon: it is predicted, and the doubt is said."""
    budget = _budget(subject)
    if budget.kv_bytes > 0:
        return ""
    weights, memory = budget.weights_bytes / GIGA, subject.chip.memory_bytes / GIGA
    return f"{weights:.0f} GB of weights leave no room in {memory:.0f} GB by our reckoning; predicted as if they fitted"


def _said(*remarks: str) -> str:
    return "; ".join(r for r in remarks if r)


def _fleet_assumptions(m: Measurement) -> tuple[Measurement, str]:
    """Production averages leave much out; what is put in its place is only good for an order of magnitude."""
    said = []
    tokens, cached, batch = m.input_tokens, m.cached_tokens, m.batch
    if tokens <= 0:
        tokens = FLEET_INPUT_TOKENS
        said.append(f"{tokens:g} input tokens assumed")
    hits = re.search(r"([\d.]+)\s*% cache hits", m.note)
    if hits and cached == 0:
        cached = tokens * min(float(hits.group(1)), 99.0) / 100
        said.append(f"{hits.group(1)} % of them cached")
    if batch is None and not m.unit.startswith("in_"):
        batch = FLEET_SEQUENCES_PER_CHIP * m.chips
        said.append(f"{FLEET_SEQUENCES_PER_CHIP:g} sequences per chip assumed")
    return replace(m, input_tokens=tokens, cached_tokens=cached, batch=batch), ", ".join(said)


def predict_row(row: Row, catalog: Catalog) -> Prediction:
    """Predict one row; every failure becomes a remark."""
    return predict_rows([row], catalog)[0]


def predict_rows(rows: Iterable[Row], catalog: Catalog) -> list[Prediction]:
    """Predict all rows of a table; every failure becomes a remark."""
    found: list[Prediction | None] = []
    waiting: dict[int, list[_Waiting]] = {}
    for row in rows:
        prediction, run = _prepare(row, catalog)
        found.append(prediction)
        if run is not None:
            run.place = len(found) - 1
            waiting.setdefault(id(run.subject.efficiency), []).append(run)
    for group in waiting.values():
        # one call prices all runs of a stack on a chip
        efficiency = group[0].subject.efficiency
        values, prefill, decode = run_times(stack_runs([w.run for w in group]), efficiency)
        for index, w in enumerate(group):
            found[w.place] = _finished(w, float(values[index]), _row_of(prefill, index), _row_of(decode, index))
    return [p for p in found if p is not None]


@dataclass(slots=True, eq=False)
class _Waiting:
    """A run that waits for its stack to be priced."""

    row: Row
    subject: Subject
    run: RunLoad
    remark: str
    place: int = 0


def _prepare(row: Row, catalog: Catalog) -> tuple[Prediction | None, _Waiting | None]:
    m = row.measurement
    if m is None:
        return Prediction(row, None, {}, row.reason or "unreadable row"), None
    try:
        subject = subject_of(m, catalog)
        if m.disaggregated:
            split = _predict_split(row, subject)
            return replace(split, remark=_said(m.remark, subject.remark, split.remark)), None
        run, remark = run_of(subject)
    except InputError as fault:
        return Prediction(row, None, {}, "; ".join(p.what for p in fault.problems)), None
    return None, _Waiting(row, subject, run, _said(m.remark, subject.remark, remark))


def _finished(w: _Waiting, value: float, prefill: PassTime, decode: PassTime) -> Prediction:
    if not np.isfinite(value) or value <= 0:
        return Prediction(w.row, None, {}, _said("the formula gives no finite value here", w.remark))
    return Prediction(
        w.row, value, _terms(w.run, prefill, decode, w.subject.efficiency), w.remark, w.subject.efficiency.name
    )


def _row_of(times: PassTime, index: int) -> PassTime:
    return PassTime(**{part: np.asarray(getattr(times, part)).reshape(-1)[index] for part in PassTime.__slots__})


def _terms(run: RunLoad, prefill: PassTime, decode: PassTime, efficiency: Efficiency) -> dict[str, float]:
    """Main terms that add up to the time behind the value (a step, a request's prefill, or a whole batch's)."""
    quantity = Quantity(int(run.quantity))
    of_prefill = quantity in (
        Quantity.OPERATORS_PREFILL,
        Quantity.PREFILL_LATENCY,
        *TTFTS,
        Quantity.INPUT_THROUGHPUT,
    )
    times, factor = (prefill, float(run.prefill_passes)) if of_prefill else (decode, 1.0)
    terms = {name: float(value) * factor for name, value in times.main_terms().items()}
    interrupting = interrupting_time_s(run, prefill, efficiency)
    if quantity in (Quantity.CLOSED_TPOT, Quantity.CLOSED_THROUGHPUT):
        terms["prefill"] = float(interruption_s(run, interrupting, efficiency))
    if quantity == Quantity.OFFLINE_THROUGHPUT:
        terms["prefill"] = float(efficiency.prefill_interference * run.batch * interrupting / run.output_tokens)
    if quantity == Quantity.STATIC_THROUGHPUT:
        terms["prefill"] = float(run.prefill_passes) * float(prefill.total)
    return terms


def _predict_split(row: Row, subject: Subject) -> Prediction:
    """Prefill and decode on separate workers of one kind of chip."""
    m, e = subject.measurement, subject.efficiency
    assert m.decode_pool is not None  # parse_row refuses split rows without pools
    assert m.prefill_pool is not None
    assert m.prefill_shape is not None
    held = m.input_tokens + m.output_tokens / 2.0
    cap, said = float(max(memory_cap(subject, held), 1)), ""
    in_flight = m.batch
    if in_flight is None:
        in_flight = cap * m.decode_pool.workers
        said = f"{in_flight:.0f} requests in flight assumed, as many as decode workers hold"
    prefill_model = pass_model(
        subject.llm, chip_key(subject.chip), _shape_for(m.prefill_shape, subject.llm), m.weights_dtype, m.kv_dtype
    )
    ranks = float(prefill_model.shape.dp)
    run, passes = prefill_run(
        prefill_model,
        requests=ranks,
        new_tokens=max(m.input_tokens - m.cached_tokens, 1.0),
        cached_tokens=m.cached_tokens,
        chunk_tokens=e.chunk_tokens,
    )
    prefill_s = passes * float(pass_time(run, e).total)
    model = subject.model

    def step(batch: float) -> float:
        load = model.load(sequences=batch, new_tokens=1.0, cached_tokens=held, decode=True)
        return float(pass_time(load, e).total)

    steady = split_system(
        in_flight=in_flight,
        output_tokens=max(m.output_tokens, 1.0),
        prefill_servers=m.prefill_pool.workers * ranks,
        prefill_s=prefill_s,
        decode_workers=float(m.decode_pool.workers),
        batch_cap=cap,
        step_s=step,
        fixed_s=e.host_overhead_s,
    )
    value = {
        "tpot": steady.tpot_s,
        "decode_step": steady.tpot_s,
        "ttft": steady.ttft_s,
        "prefill_latency": prefill_s,
        "throughput_e2e": steady.rate_rps
        * (m.input_tokens if m.unit.startswith("in_") else max(m.output_tokens, 1.0))
        / (m.chips if m.per_chip else 1)
        / RAMP_SHARE,
    }[m.kind]
    load = model.load(sequences=steady.batch_per_worker, new_tokens=1.0, cached_tokens=held, decode=True)
    terms = {name: float(v) for name, v in pass_time(load, e).main_terms().items()}
    terms["prefill"] = prefill_s
    bound = f"{steady.bound}-bound, {steady.batch_per_worker:.0f} per decode worker"
    if not np.isfinite(value) or value <= 0:
        return Prediction(row, None, {}, "the formula gives no finite value here")
    return Prediction(row, value, terms, _said(little_room(subject), said, bound), e.name)
