"""Latency tables: measured or published times of one instance that stand in for the closed form.

schema: latency-table/1
name: 1T hybrid model on 8 H200, PrfaaS table 5
sources:
  paper: {kind: published, title: ..., date: ...}
table:
  chip: h200-sxm
  model: prfaas-1t-hybrid
  shape: {tp: 8}
  prefill: {value: [[1024, 0.12], [8192, 0.71]], source: paper}
  decode: {value: [[1, 0.011], [64, 0.025]], source: paper}
  batch_cap: {value: 64, source: paper}
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import Field

from pddplan.domain.chip import Chip
from pddplan.domain.llm import Llm
from pddplan.domain.plan import Shape
from pddplan.domain.provenance import Basis
from pddplan.errors import InputError
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.instance import FormulaInstance, MeasuredTable, instance_performance
from pddplan.performance.load import chip_key, pass_model
from pddplan.performance.memory import memory_budget
from pddplan.profiles import lookup
from pddplan.profiles.schema import Check, Count, Profile, Sourced, SourcedCount, Strict, Text, read
from pddplan.profiles.yaml_source import SourceDocument

Point = Annotated[list[Annotated[float, Field(ge=0, le=1e12)]], Field(min_length=2, max_length=2)]


class SourcedPoints(Sourced):
    """Pairs of (tokens or batch, seconds), keys rising."""

    value: Annotated[list[Point], Field(min_length=2, max_length=10_000)]


class ShapeBody(Strict):
    """Parallel layout of the instance."""

    tp: Count = 1
    """Tensor-parallel ranks."""
    pp: Count = 1
    """Pipeline stages."""
    dp: Count = 1
    """Data-parallel attention ranks."""
    ep: Count = 1
    """Expert-parallel ranks (of the same chips)."""


class TableBody(Strict):
    """What was timed, and the times."""

    chip: Text
    """Id of the chip."""
    model: Text
    """Id of the model."""
    shape: ShapeBody = Field(default_factory=ShapeBody)
    """Layout of the instance."""
    stack: Text | None = None
    """Serving stack, for the record."""
    weights_dtype: Text | None = None
    """Dtype of the weights; left out = any."""
    kv_dtype: Text | None = None
    """Dtype of the cache; left out = any."""
    prefill: SourcedPoints
    """[tokens, seconds]: time of one request's prefill."""
    decode: SourcedPoints | None = None
    """[batch, seconds]: time of one decoding step; left out = closed form."""
    batch_cap: SourcedCount | None = None
    """Sequences the instance decodes at most; left out = memory."""


def _rises(points: SourcedPoints | None) -> bool:
    return points is None or all(a[0] < b[0] for a, b in pairwise(points.value))


class LatencyTableFile(Profile):
    """A latency table file."""

    schema_name: ClassVar[str] = "latency-table/1"
    table: TableBody
    """What was timed, and the times."""

    checks: ClassVar[tuple[Check[Any], ...]] = (
        Check(
            name="prefill-rises",
            holds=lambda f: _rises(f.table.prefill),
            message=lambda f: "the token counts of prefill must rise from row to row",
            fix="sort the rows and merge repeated counts",
            key=("table", "prefill", "value"),
        ),
        Check(
            name="decode-rises",
            holds=lambda f: _rises(f.table.decode),
            message=lambda f: "the batches of decode must rise from row to row",
            fix="sort the rows and merge repeated batches",
            key=("table", "decode", "value"),
        ),
    )


@dataclass(frozen=True, slots=True)
class LatencyTable:
    """A table ready for use."""

    id: str
    name: str
    chip: str
    llm: str
    shape: Shape
    prefill: tuple[tuple[float, float], ...]
    decode: tuple[tuple[float, float], ...]
    batch_cap: int | None
    weights_dtype: str | None
    kv_dtype: str | None
    basis: Basis
    source: str

    def suits(self, *, weights_dtype: str | None, kv_dtype: str | None) -> bool:
        """Whether it was taken with these dtypes, as far as it says."""
        return (self.weights_dtype in (None, weights_dtype) or weights_dtype is None) and (
            self.kv_dtype in (None, kv_dtype) or kv_dtype is None
        )

    def instance(
        self,
        *,
        chip: Chip,
        llm: Llm,
        efficiency: Efficiency,
        weights_dtype: str | None = None,
        kv_dtype: str | None = None,
    ) -> MeasuredTable:
        """The table as an instance; what it does not hold is asked of the closed form."""
        weights, kv = weights_dtype or self.weights_dtype, kv_dtype or self.kv_dtype
        base: FormulaInstance
        try:
            base = instance_performance(
                chip=chip, llm=llm, shape=self.shape, efficiency=efficiency, weights_dtype=weights, kv_dtype=kv
            )
        except InputError:
            if self.batch_cap is None:
                raise
            # it ran, whatever our reckoning of memory says; the table's own cap then bounds the batch
            model = pass_model(llm, chip_key(chip), self.shape, weights, kv)
            budget = memory_budget(chip, llm, shape=self.shape, weights=model.weights, efficiency=efficiency)
            base = FormulaInstance(model=model, efficiency=efficiency, budget=budget)
        return MeasuredTable(
            prefill_tokens=tuple(p[0] for p in self.prefill),
            prefill_s=tuple(p[1] for p in self.prefill),
            base=base,
            decode_batch=tuple(p[0] for p in self.decode),
            decode_s=tuple(p[1] for p in self.decode),
            batch_cap=self.batch_cap,
            source=self.source,
            table_basis=self.basis,
        )


def load_tables(chip: Chip, llm: Llm) -> tuple[LatencyTable, ...]:
    """All latency tables of a model on a chip that can be found.

    Raises:  InputError with the faults of a file.
    """
    chips = {lookup.canonical(n) for n in (chip.id, *chip.aliases)}
    llms = {lookup.canonical(n) for n in (llm.id, *llm.aliases)}
    found = []
    for name in lookup.names(lookup.Kind.LATENCY_TABLE):
        table = load_table(name)
        if lookup.canonical(table.chip) in chips and lookup.canonical(table.llm) in llms:
            found.append(table)
    return tuple(found)


def load_table(name: str) -> LatencyTable:
    """A latency table by id or path.

    Raises:  InputError for an unknown id, or every fault of the file.
    """
    path = lookup.find(lookup.Kind.LATENCY_TABLE, name)
    return table_of(lookup.load(lookup.Kind.LATENCY_TABLE, path), table_id=path.stem)


def table_of(document: SourceDocument, *, table_id: str) -> LatencyTable:
    """A latency table from a document already read.

    Raises:  InputError with every fault of the file.
    """
    file = read(document, LatencyTableFile)
    body = file.table
    used = [n for n in (body.prefill, body.decode, body.batch_cap) if n is not None]
    sources = [file.sources[n.source] for n in used if n.source in file.sources]
    return LatencyTable(
        id=table_id,
        name=file.name,
        chip=body.chip,
        llm=body.model,
        shape=Shape(tp=body.shape.tp, pp=body.shape.pp, dp=body.shape.dp, ep=body.shape.ep),
        prefill=tuple((p[0], p[1]) for p in body.prefill.value),
        decode=tuple((p[0], p[1]) for p in body.decode.value) if body.decode else (),
        batch_cap=body.batch_cap.value if body.batch_cap else None,
        weights_dtype=body.weights_dtype,
        kv_dtype=body.kv_dtype,
        basis=max((s.basis for s in sources), default=Basis.ASSUMED),
        source="; ".join(dict.fromkeys(s.title for s in sources)) or file.name,
    )
