"""One measured number, in the schema of a validation table, and the reader of such tables.

A row that cannot be used keeps its reason; nothing is skipped silently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pddplan.domain.plan import Shape
from pddplan.performance.delimited_table import BLANKS, TableRow, parse_number, read_rows
from pddplan.units import MS_PER_S

COLUMNS = (
    "source",
    "url_or_ref",
    "date",
    "kind",
    "model",
    "weights_dtype",
    "kv_dtype",
    "chip",
    "n_chips",
    "tp",
    "pp",
    "dp",
    "ep",
    "framework",
    "isl_tokens",
    "prefix_tokens",
    "osl_tokens",
    "batch_or_concurrency",
    "value",
    "unit",
    "note",
)
KINDS = ("prefill_latency", "decode_step", "ttft", "tpot", "throughput_e2e")
MODES = ("op_composed", "static", "closed_loop", "offline_max", "fit_of_measurements", "fleet_24h")
UNITS = ("ms", "s", "out_tok/s", "out_tok/s/chip", "in_tok/s", "in_tok/s/chip")
PARTS = ("gemm", "attn", "moe", "comm", "other")
_WORDS: Mapping[str, Mapping[str, str]] = {
    "kind": {"itl": "tpot", "prefill": "prefill_latency", "decode": "decode_step", "throughput": "throughput_e2e"},
    "unit": {
        "ms/token": "ms",
        "ms/tok": "ms",
        "ms/step": "ms",
        "sec": "s",
        "seconds": "s",
        "us": "us",
        "µs": "us",
        "tok/s": "out_tok/s",
        "tokens/s": "out_tok/s",
        "output_tok/s": "out_tok/s",
        "tok/s/chip": "out_tok/s/chip",
        "tokens/s/chip": "out_tok/s/chip",
        "output_tok/s/chip": "out_tok/s/chip",
    },
}
"""Other words for the same kind or unit."""
_DTYPES = {
    "fp16": "bf16",
    "float16": "bf16",
    "bfloat16": "bf16",
    "half": "bf16",
    "16-bit": "bf16",
    "float8": "fp8",
    "fp8-e4m3": "fp8",
    "fp8-e5m2": "fp8",
    "e4m3": "fp8",
    "fp8-block": "fp8",
    "fp8-dynamic": "fp8",
    "fp8-w8a8": "fp8",
    "mxfp8": "fp8",
    "w8a8": "int8",
    "int8-w8a8": "int8",
    "nvfp4": "fp4",
    "w4a4": "fp4",
    "awq": "int4",
    "gptq": "int4",
    "int4-awq": "int4",
    "awq-int4": "int4",
    "int4-gptq": "int4",
    "w4a16": "int4",
    "w4a8": "int4",
    "w4afp8": "int4",
    "fp32": "fp32",
    "float32": "fp32",
    "fp8-ds-mla": "fp8-scaled",
    **dict.fromkeys(("q4-0", "q4-k-s", "q4-k-m", "iq4-xs", "mlx-4bit", "4bit", "bnb-4bit"), "int4"),
}
"""Names under which engines and model hubs know number formats; fp16 counts as bf16: same size and rate."""
MIXING_SOURCES = ("inferencex", "inferencemax")
"""Benchmarks whose client draws lengths at random (InferenceX: from 80 % of the stated one upwards)."""
DP_SEQUENCES = 16.0
"""Sequences per chip from which on attention is data parallel, where a row leaves the layout of its workers open."""
NODE_CHIPS = 8
"""Chips that split tensors at most, where a row leaves the layout of its workers open."""
MAX_FILE_BYTES = 64_000_000
MAX_TENSOR_SPLIT = 16
MAX_COUNT = 1_000_000
SMALLEST_NUMBER, LARGEST_NUMBER = 1e-12, 1e12
"""What numbers of a table may be, beside zero: formulas divide by them."""
"""More ranks, workers or chips than this are a slip of the pen."""
_REQUIRED = ("kind", "model", "chip")


@dataclass(frozen=True, slots=True)
class PoolSize:
    """Workers of one side of a disaggregated system, from the note of its row."""

    workers: int
    chips: int
    """Of all workers."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measured value with everything that is known about how it came about; times in seconds."""

    kind: str
    mode: str
    model: str
    chip: str
    shape: Shape
    chips: int
    weights_dtype: str | None
    kv_dtype: str | None
    framework: str
    date: str
    input_tokens: float
    cached_tokens: float
    output_tokens: float
    batch: float | None
    """Sequences of the whole instance (or requests in flight); None = limited by memory."""
    unit: str
    value: float | None
    """Seconds, or tokens per second as the unit says; None = not given."""
    parts_s: Mapping[str, float] = field(default_factory=dict)
    disaggregated: bool = False
    prefill_pool: PoolSize | None = None
    prefill_shape: Shape | None = None
    decode_pool: PoolSize | None = None
    attention_dp: bool = False
    layout_stated: bool = True
    """False where the expert-parallel ranks are left blank."""
    equal_lengths: bool = False
    """All prompts are input_tokens long and all answers output_tokens; else these are means."""
    low_quality: bool = False
    remark: str = ""
    """What was made of cells that do not follow the schema."""
    note: str = ""
    source: str = ""
    where: str = ""

    @property
    def per_chip(self) -> bool:
        return self.unit.endswith("/chip")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table: the measurement, or the reason why there is none."""

    text: Mapping[str, str]
    where: str
    measurement: Measurement | None
    reason: str | None = None


def read_measurements(path: Path) -> list[Row]:
    """Read a table in the validation schema.

    Raises:  InputError when the file cannot be read or lacks its main columns; a bad row is returned with its reason.
    """
    return [_parsed(row) for row in read_rows(path, limit=MAX_FILE_BYTES, needed=_REQUIRED)]


def _parsed(row: TableRow) -> Row:
    """A row with its cells as written, whatever the names of their columns look like."""
    parsed = parse_row(row.named(), where=row.where, decimal_comma=row.decimal_comma)
    m = parsed.measurement
    if m is not None and row.surplus:
        m = replace(m, remark="; ".join(filter(None, (m.remark, f"{row.surplus} cells beyond the header not read"))))
    return replace(parsed, text=row.cells, measurement=m)


def parse_note(note: str) -> dict[str, str]:
    """``key=value`` pairs split by ``;``, keys in lower case; a bare word becomes a key without value."""
    pairs: dict[str, str] = {}
    for part in note.split(";"):
        key, _, value = part.strip().partition("=")
        if key:
            pairs.setdefault(key.strip().lower(), value.strip())
    return pairs


def parse_row(text: Mapping[str, str], *, where: str, decimal_comma: bool = False) -> Row:
    """Turn one line into a Measurement, or say why not."""
    faults: list[str] = []
    remarks: list[str] = []

    def number(name: str, default: float | None) -> float | None:
        raw = (text.get(name) or "").strip()
        if raw.lower() in BLANKS:
            return default
        try:
            value = parse_number(raw, decimal_comma=decimal_comma)
        except ValueError:
            faults.append(f"{name} is not a number: {raw!r}")
            return default
        if value != 0 and not SMALLEST_NUMBER <= value <= LARGEST_NUMBER:  # NaN is neither
            rule = f"finite and not negative, at least {SMALLEST_NUMBER:g} if not 0 and at most {LARGEST_NUMBER:g}"
            faults.append(f"{name} must be {rule}, got {raw}")
            return default
        return value

    def count(name: str, default: int | None) -> int | None:
        value = number(name, None)
        if value is None or value == 0:  # 0 ranks: not used
            return default
        if value < 1 or value != int(value) or value > MAX_COUNT:
            faults.append(f"{name} must be a whole number of 1 or more, got {text.get(name)!r}")
            return default
        return int(value)

    note = parse_note(text.get("note") or "")
    kind = _word(text, "kind")
    if kind not in KINDS:
        faults.append(f"kind {kind!r} is not one of {', '.join(KINDS)}")
    mode = (note.get("mode") or next((m for m in MODES if m in note), "")).lower()
    if mode not in MODES:
        named, mode = mode, "closed_loop" if kind in ("tpot", "ttft") else "static"
        if named:
            remarks.append(f"mode {named!r} is not one of {', '.join(MODES)}; read as {mode}")
    unit = _word(text, "unit") or ("out_tok/s" if kind == "throughput_e2e" else "ms")
    if unit not in (*UNITS, "us"):
        faults.append(f"unit {unit!r} is not one of {', '.join(UNITS)}")
    elif (kind == "throughput_e2e") == (unit in ("us", "ms", "s")):
        faults.append(f"unit {unit!r} does not suit kind {kind!r}")

    attention_dp = note.get("attention_dp", "") in ("1", "true") or note.get("decode_dpa") == "1"
    tp, pp = count("tp", None), count("pp", 1) or 1
    dp, ep = count("dp", None), count("ep", None)
    chips = count("n_chips", None)
    disaggregated = "disagg" in note
    batch = number("batch_or_concurrency", None)
    if batch is not None and batch <= 0:
        remarks.append("batch_or_concurrency 0 is read as not stated")
        batch = None
    prefill_pool = _pool(note, "prefill", batch=None)
    decode_pool = _pool(note, "decode", batch=batch)
    if disaggregated and (prefill_pool is None or decode_pool is None):
        faults.append(
            "disaggregated row without prefill_workers, prefill_gpus, decode_workers, decode_gpus in its note"
        )
    instance_chips = chips
    if disaggregated and decode_pool is not None:
        instance_chips = max(decode_pool.chips // decode_pool.workers, 1)
        if _layout_open(note, (tp, dp, ep), chips=instance_chips):
            small = instance_chips <= NODE_CHIPS and _sequences_per_chip(batch, decode_pool.chips) < DP_SEQUENCES
            tp, ep, attention_dp = (instance_chips if small else 1), None, not small
            remarks.append(f"layout of decode workers not stated; {'tensor' if small else 'data'} parallel assumed")
        elif not attention_dp and tp is not None:
            tp = min(tp, instance_chips)
    shape = _layout(tp, pp, dp, ep, chips=instance_chips, attention_dp=attention_dp)
    if not disaggregated:
        remarks += _layout_remarks({"tp": tp, "pp": count("pp", None), "dp": dp, "ep": ep}, shape, chips=chips)
    prefill_shape = None
    if prefill_pool is not None:
        size = max(prefill_pool.chips // prefill_pool.workers, 1)
        prefill_dp = note.get("prefill_dpa") == "1"
        prefill_tp, prefill_ep = _noted(note, "prefill_tp", size), _noted(note, "prefill_ep", 1)
        prefill_shape = _layout(
            None if prefill_dp else min(prefill_tp, size),
            1,
            size if prefill_dp else None,
            prefill_ep,
            chips=size,
            attention_dp=prefill_dp,
        )
    readable = len(faults)
    isl = number("isl_tokens", None)
    unread = len(faults) > readable
    cached = number("prefix_tokens", 0.0) or 0.0
    osl = number("osl_tokens", None)
    if isl is None and mode != "fleet_24h":
        if not unread:
            faults.append("isl_tokens is missing")
        isl = 0.0
    if isl is not None and cached > isl:
        faults.append("prefix_tokens exceeds isl_tokens, which includes it")
    if "batch_is_per_dp_rank" in note and batch is not None:
        batch *= shape.dp
    sound = len(faults)
    value = number("value", None)
    if value == 0:
        faults.append("value must be positive")
    if len(faults) > sound:
        # a prediction needs no measured value
        remarks += [f"not compared: {fault}" for fault in faults[sound:]]
        value = None
        del faults[sound:]
    if value is not None and unit == "ms":
        value /= MS_PER_S
    elif value is not None and unit == "us":
        value /= MS_PER_S * MS_PER_S
    parts = {}
    for name in PARTS:
        try:
            if name in note:
                parts[name] = float(note[name]) / MS_PER_S
                if not 0 <= parts[name] < math.inf:
                    raise ValueError
        except ValueError:
            remarks.append(f"{name}= in the note is not a number")
            parts.pop(name, None)
    if not (text.get("model") or "").strip() or not (text.get("chip") or "").strip():
        faults.append("model and chip must be named")
    if faults:
        return Row(text=text, where=where, measurement=None, reason="; ".join(faults))
    return Row(
        text=text,
        where=where,
        measurement=Measurement(
            kind=kind,
            mode=mode,
            model=text["model"].strip(),
            chip=text["chip"].strip(),
            shape=shape,
            chips=chips or shape.chips,
            weights_dtype=dtype_of(text.get("weights_dtype") or ""),
            kv_dtype={"int4": "fp4"}.get(kv := dtype_of(text.get("kv_dtype") or "") or "", kv) or None,
            framework=(text.get("framework") or "").strip(),
            date=(text.get("date") or "").strip(),
            input_tokens=float(isl or 0.0),
            cached_tokens=cached,
            output_tokens=osl or 0.0,
            batch=batch,
            unit=unit,
            value=value,
            parts_s=parts,
            disaggregated=disaggregated,
            prefill_pool=prefill_pool,
            prefill_shape=prefill_shape,
            decode_pool=decode_pool,
            attention_dp=attention_dp,
            layout_stated=ep is not None,
            equal_lengths=_equal_lengths(note, text.get("source") or ""),
            low_quality="quality" in note,
            remark="; ".join(remarks),
            note=text.get("note") or "",
            source=(text.get("source") or "").strip(),
            where=where,
        ),
    )


def _equal_lengths(note: Mapping[str, str], source: str) -> bool:
    """Whether a client sends prompts of one length: what the note says, else what such clients do by default."""
    said = note.get("lengths", "").lower()
    return said == "equal" or (said != "mixed" and not source.strip().lower().startswith(MIXING_SOURCES))


def dtype_of(text: str) -> str | None:
    """Our name of a number format, e.g. ``NVFP4`` is ``fp4``; None where nothing is said."""
    word = re.sub(r"[\s_]+", "-", text.strip().lower())
    return None if word in BLANKS else _DTYPES.get(word, word)


def _word(text: Mapping[str, str], column: str) -> str:
    """A kind or unit in the schema's own words, in lower case."""
    word = (text.get(column) or "").strip().lower()
    if column == "unit":
        word = re.sub(r"/(gpu|accelerator|device)$", "/chip", word)
    return _WORDS[column].get(word, word)


def _noted(note: Mapping[str, str], name: str, default: int) -> int:
    """A count in a note; the default where it is not one."""
    try:
        value = float(note.get(name) or default)
    except ValueError:
        return default
    return int(value) if 0 <= value <= MAX_COUNT else default


def _layout_open(note: Mapping[str, str], ranks: tuple[int | None, ...], *, chips: int) -> bool:
    """Whether a split row says nothing of how its decode workers divide the model: no workers, or ones all through."""
    ones = chips > 1 and all(count in (None, 1) for count in ranks)
    return _noted(note, "decode_workers", -1) == 0 or ones


def _sequences_per_chip(batch: float | None, chips: int) -> float:
    return (batch or 0.0) / max(chips, 1)


def _pool(note: Mapping[str, str], side: str, *, batch: float | None) -> PoolSize | None:
    workers, chips = _noted(note, f"{side}_workers", -1), _noted(note, f"{side}_gpus", 0)
    if workers == 0 and chips and _sequences_per_chip(batch, chips) >= DP_SEQUENCES:
        workers = 1  # not stated: so many sequences are decoded by one wide worker
    elif workers == 0:
        # not stated: workers of one node, as far as they divide the chips
        workers = next(chips // size for size in (NODE_CHIPS, 4, 2, 1) if chips % size == 0) if chips else 0
    return PoolSize(workers=workers, chips=chips) if chips >= workers > 0 else None


def _layout(tp: int | None, pp: int, dp: int | None, ep: int | None, *, chips: int | None, attention_dp: bool) -> Shape:
    """Fill in what a row leaves blank: chips = tp pp dp; where attention is data parallel, dp is what is left over."""
    total = chips or (tp or 1) * pp * (dp or 1)
    split = tp if tp is not None or dp is not None else total // pp
    if split is not None and split > MAX_TENSOR_SPLIT and dp in (None, 1):
        # nobody splits attention this far: such rows count attention ranks as tensor ranks, or say nothing
        tp, dp, ep, attention_dp = 1, split, ep if ep and ep > 1 else split, True
    if attention_dp and (dp is None or dp == 1):
        dp = max(total // ((tp or 1) * pp), 1)
    if dp is None:
        dp = 1
        if tp is None:
            tp = max(total // pp, 1)
    tp = tp or max(total // (pp * dp), 1)
    if tp * pp * dp > total and not attention_dp:
        dp = max(total // (tp * pp), 1)
    group = tp * dp
    if dp > 1 and (ep is None or (ep == 1 and group > MAX_TENSOR_SPLIT // 2)):
        ep = group  # experts are not cut into more than a few slices
    ep = min(ep or 1, group)
    while group % ep:
        ep -= 1
    return Shape(tp=tp, pp=pp, dp=dp, ep=ep)


def _layout_remarks(stated: Mapping[str, int | None], shape: Shape, *, chips: int | None) -> list[str]:
    """What was made of a layout whose numbers do not go together."""
    said = []
    if any(value not in (None, getattr(shape, name)) for name, value in stated.items()):
        said.append(f"layout read as tp {shape.tp}, pp {shape.pp}, dp {shape.dp}, ep {shape.ep}")
    if chips is not None and shape.chips != chips:
        said.append(f"n_chips is {chips}, but the layout takes {shape.chips}")
    return said


def select(rows: Iterable[Row], **wanted: object) -> list[Measurement]:
    """Measurements whose fields equal what is asked."""
    return [m for m in (row.measurement for row in rows) if m and all(getattr(m, k) == v for k, v in wanted.items())]
