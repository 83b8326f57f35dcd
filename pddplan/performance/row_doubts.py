"""What a table row says that its prediction cannot follow: said beside the value, never passed over."""

from __future__ import annotations

from collections.abc import Iterator

from pddplan.domain.chip import Chip
from pddplan.domain.llm import GroupedAttention, Llm
from pddplan.domain.plan import Shape
from pddplan.domain.provenance import Basis
from pddplan.errors import InputError, Problem
from pddplan.performance.measurement import Measurement, parse_note

_UNITS_FOR = {"fp8": ("fp8",), "fp4": ("fp4",), "mxfp4": ("fp4",), "int8": ("int8",)}
_NO_SPECULATION = ("", "none", "off", "no", "false", "0")
_SPECULATION_KEYS = ("spec", "speculative", "speculation", "spec_decoding", "mtp", "eagle", "draft")


def doubts(m: Measurement, *, chip: Chip, llm: Llm, shape: Shape) -> str:
    """Everything that is odd about a row, in one line; empty where nothing is."""
    return "; ".join(_doubts(m, chip, llm, shape))


def check_answerable(m: Measurement) -> None:
    """Refuse rows whose value depends on something that they leave out.

    Raises:  InputError
    """
    loop = m.mode in ("closed_loop", "offline_max")
    least = {"tpot": 2, "throughput_e2e": 1}.get(m.kind, 0) if not m.unit.startswith("in_") else 0
    if loop and m.output_tokens < least:
        said = f"is {m.output_tokens:g}" if m.output_tokens else "is missing"
        raise InputError(
            Problem(
                what=f"osl_tokens {said}: {m.kind} of a {m.mode} run depends on the length of answers",
                fix=f"give osl_tokens of at least {least}",
            )
        )


def _doubts(m: Measurement, chip: Chip, llm: Llm, shape: Shape) -> Iterator[str]:
    units = _UNITS_FOR.get(m.weights_dtype or "", ())
    if units and not any(chip.peak_flop_per_s.get(dtype) for dtype in units):
        yield f"{chip.id} has no {units[0]} units: weights kept in {m.weights_dtype} are multiplied in a wider format"
    link = chip.provenance.get("scaleup_bytes_per_s")
    assumed = not chip.scaleup_bytes_per_s or (link is not None and link.basis is Basis.ASSUMED)
    if shape.tp * shape.dp > 1 and assumed:
        yield f"no link between {chip.id} chips is known: PCIe assumed"
    heads = [g.attention.heads for g in llm.layers if isinstance(g.attention, GroupedAttention)]
    if any(count % shape.tp for count in heads):
        yield f"{heads[0]} heads cannot be shared out evenly over tp {shape.tp}: predicted as if they could"
    if shape.pp > llm.layer_count:
        yield f"pp {shape.pp} is more than the {llm.layer_count} layers"
    length = m.input_tokens + (0.0 if m.kind == "decode_step" else m.output_tokens)
    if llm.max_context_tokens and length > llm.max_context_tokens:
        yield f"{length:.0f} tokens are more than the {llm.max_context_tokens} that {llm.id} is made for"
    note = parse_note(m.note)
    spoken = [key for key in _SPECULATION_KEYS if key in note and note[key].lower() not in _NO_SPECULATION]
    if spoken:
        yield f"speculative decoding ({spoken[0]}={note[spoken[0]]}) is not part of the prediction"
    if note.get("stat", "").lower().startswith(("p9", "p8", "max", "min")):
        yield f"a mean is predicted, the value is a {note['stat']}"
