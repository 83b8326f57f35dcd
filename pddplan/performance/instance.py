"""One instance of a pool: what queues, paths and the optimiser ask about speed and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pddplan.domain.chip import Chip
from pddplan.domain.llm import Llm
from pddplan.domain.plan import Shape
from pddplan.domain.provenance import Basis
from pddplan.domain.workload import Array
from pddplan.errors import DomainError, InputError, Problem
from pddplan.performance.decode import decode_pass, speculation_gain
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.kv import KvSize
from pddplan.performance.load import PassModel, chip_key, pass_model
from pddplan.performance.memory import MemoryBudget, memory_budget, sequences_in_memory, stored_weights
from pddplan.performance.prefill import prefill_passes, stop_share
from pddplan.units import GIGA


class InstancePerformance(Protocol):
    """Speed and memory of one instance. Arrays go in and out elementwise."""

    @property
    def chip_id(self) -> str: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def kv(self) -> KvSize: ...
    @property
    def basis(self) -> Basis: ...
    @property
    def prefill_servers(self) -> int:
        """Requests one instance prefills side by side: one per attention rank and pipeline stage."""
        ...

    @property
    def prefill_chunk_tokens(self) -> float:
        """Most tokens of one prefill in one pass of the instance."""
        ...

    def prefill_time_s(self, *, new_tokens: Array, cached_tokens: Array) -> Array:
        """Service time of one request's prefill, all chunks and the tail included, other ranks equally busy [s]."""
        ...

    def prefill_stop_s(self, *, new_tokens: Array, cached_tokens: Array) -> Array:
        """What one request's prefill stops decoding on the same instance, where both share one (aggregated) [s].

        Attention ranks step together and prefill side by side, so a rank's prefill bears its part of a shared stop.
        """
        ...

    def decode_step_s(self, *, batch: Array, context_tokens: Array, tokens_per_sequence: Array | float = 1.0) -> Array:
        """Time of one step with ``batch`` sequences on the whole instance [s]."""
        ...

    def tokens_per_step(self, *, batch: float) -> float:
        """Tokens gained per plain step's time by speculation; 1 without. TPOT = decode_step_s / tokens_per_step."""
        ...

    def max_batch(self, *, context_tokens: float) -> tuple[int, str]:
        """Sequences of ``context_tokens`` that fit, and what stops more: ``memory`` or ``stack``."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FormulaInstance:
    """The closed form as an InstancePerformance."""

    model: PassModel
    efficiency: Efficiency
    budget: MemoryBudget
    speculation_depth: int = 0
    """Draft tokens per step from the model's own MTP blocks; 0 = off."""
    reference_context_tokens: float = 8_192.0
    """Context at which the speculation gain is judged."""

    @property
    def chip_id(self) -> str:
        return self.model.chip.id

    @property
    def shape(self) -> Shape:
        return self.model.shape

    @property
    def kv(self) -> KvSize:
        return self.model.kv

    @property
    def basis(self) -> Basis:
        return self.efficiency.basis

    @property
    def prefill_chunk_tokens(self) -> float:
        return self.efficiency.chunk_tokens

    @property
    def prefill_servers(self) -> int:
        return self.shape.dp * self.shape.pp

    def prefill_time_s(self, *, new_tokens: Array, cached_tokens: Array) -> Array:
        return prefill_passes(
            self.model,
            new_tokens=new_tokens,
            cached_tokens=cached_tokens,
            efficiency=self.efficiency,
            requests=float(self.shape.dp),
        ).total

    def prefill_stop_s(self, *, new_tokens: Array, cached_tokens: Array) -> Array:
        share = stop_share(
            self.model,
            new_tokens=new_tokens,
            cached_tokens=cached_tokens,
            efficiency=self.efficiency,
            requests=float(self.shape.dp),
        )
        # as in the closed loops that the numbers were fitted to: the prefills of all ranks ride in the same passes
        return share * self.prefill_time_s(new_tokens=new_tokens, cached_tokens=cached_tokens) / self.shape.dp

    def decode_step_s(self, *, batch: Array, context_tokens: Array, tokens_per_sequence: Array | float = 1.0) -> Array:
        return decode_pass(
            self.model,
            batch=batch,
            context_tokens=context_tokens,
            efficiency=self.efficiency,
            tokens_per_sequence=tokens_per_sequence,
        ).total

    def tokens_per_step(self, *, batch: float) -> float:
        best = 1.0
        if self.speculation_depth < 1:
            return best
        context = np.asarray(self.reference_context_tokens)
        plain = self.decode_step_s(batch=np.asarray(batch), context_tokens=context)
        draft_share = 1.0 / max(self.model.llm.layer_count, 1)
        for depth in range(1, self.speculation_depth + 1):
            verify = self.decode_step_s(
                batch=np.asarray(batch), context_tokens=context, tokens_per_sequence=1.0 + depth
            )
            gain = speculation_gain(
                plain,
                verify,
                depth=depth,
                acceptance=self.efficiency.speculation_acceptance,
                draft_share=draft_share,
            )
            best = max(best, float(gain))
        return best

    def max_batch(self, *, context_tokens: float) -> tuple[int, str]:
        memory = sequences_in_memory(self.budget, self.model.kv, shape=self.shape, tokens=context_tokens)
        stack = int(self.efficiency.max_sequences) * self.shape.dp
        return (memory, "memory") if memory <= stack else (stack, "stack")


def instance_performance(
    *,
    chip: Chip,
    llm: Llm,
    shape: Shape,
    efficiency: Efficiency,
    weights_dtype: str | None = None,
    kv_dtype: str | None = None,
    speculation_depth: int = 0,
) -> FormulaInstance:
    """Speed and memory of a model on one instance, by the closed form.

    Raises:  InputError when the weights do not fit, or a dtype is unknown.
    """
    model = pass_model(llm, chip_key(chip), shape, weights_dtype, kv_dtype)
    weights = stored_weights(llm, weights_dtype, drafts=speculation_depth > 0)
    budget = memory_budget(chip, llm, shape=shape, weights=weights, efficiency=efficiency)
    if budget.kv_bytes <= 0:
        raise InputError(
            Problem(
                what=f"{llm.id} does not fit on {chip.id} {shape}: weights {budget.weights_bytes / GIGA:.1f} GB, "
                f"activations {budget.activation_bytes / GIGA:.1f} GB and reserve {budget.reserve_bytes / GIGA:.1f} GB "
                f"a chip, usable {budget.usable_bytes / GIGA:.1f} GB",
                fix="use more chips per instance, a smaller weights dtype, or a chip with more memory",
            )
        )
    return FormulaInstance(model=model, efficiency=efficiency, budget=budget, speculation_depth=speculation_depth)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTable:
    """A measured latency table that stands in for the closed form; only its keys are believed.

    Prefill is read off (tokens -> seconds), linear between points and beyond the last two. Decoding is read off
    (batch -> seconds) if a table is given; else asked of ``base``.
    """

    prefill_tokens: tuple[float, ...]
    prefill_s: tuple[float, ...]
    base: InstancePerformance
    decode_batch: tuple[float, ...] = ()
    decode_s: tuple[float, ...] = ()
    batch_cap: int | None = None
    source: str = "measured table"
    table_basis: Basis = Basis.MEASURED
    """How far the table itself may be trusted."""
    notes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, xs, ys in (
            ("prefill", self.prefill_tokens, self.prefill_s),
            ("decode", self.decode_batch, self.decode_s),
        ):
            if len(xs) != len(ys) or len(xs) == 1 or (name == "prefill" and not xs):
                raise DomainError(f"{name} table", "has two or more points of equal number", (len(xs), len(ys)))
            steps = np.diff(np.asarray(xs, dtype=float))
            values = np.asarray([*xs, *ys], dtype=float)
            if not np.all(np.isfinite(values)) or np.any(values < 0) or np.any(steps <= 0):
                raise DomainError(f"{name} table", "is finite, not negative, with rising keys", list(xs))

    @property
    def chip_id(self) -> str:
        return self.base.chip_id

    @property
    def shape(self) -> Shape:
        return self.base.shape

    @property
    def kv(self) -> KvSize:
        return self.base.kv

    @property
    def basis(self) -> Basis:
        return self.table_basis if self.decode_batch else max(self.table_basis, self.base.basis)

    @property
    def prefill_chunk_tokens(self) -> float:
        return self.base.prefill_chunk_tokens

    @property
    def prefill_servers(self) -> int:
        return 1

    def prefill_time_s(self, *, new_tokens: Array, cached_tokens: Array) -> Array:
        """Table at c + m minus table at c: what is cached need not be computed again."""
        new, cached = np.asarray(new_tokens, dtype=float), np.asarray(cached_tokens, dtype=float)
        xs, ys = np.asarray(self.prefill_tokens), np.asarray(self.prefill_s)
        whole, part = interpolate(new + cached, xs, ys), interpolate(cached, xs, ys)
        fixed = interpolate(np.zeros(()), xs, ys)
        return np.maximum(np.where(cached > 0, whole - part + fixed, whole), 0.0)

    def prefill_stop_s(self, *, new_tokens: Array, cached_tokens: Array) -> Array:
        """The table's time, of a whole instance; the share of it that stops decoding is that of ``base``."""
        modelled = self.base.prefill_time_s(new_tokens=new_tokens, cached_tokens=cached_tokens)
        stop = self.base.prefill_stop_s(new_tokens=new_tokens, cached_tokens=cached_tokens) * self.shape.dp
        share = np.where(modelled > 0, stop / np.where(modelled > 0, modelled, 1.0), 0.0)
        return np.asarray(share * self.prefill_time_s(new_tokens=new_tokens, cached_tokens=cached_tokens))

    def decode_step_s(self, *, batch: Array, context_tokens: Array, tokens_per_sequence: Array | float = 1.0) -> Array:
        if not self.decode_batch:
            return self.base.decode_step_s(
                batch=batch, context_tokens=context_tokens, tokens_per_sequence=tokens_per_sequence
            )
        rows = np.asarray(batch, dtype=float) * tokens_per_sequence + 0.0 * np.asarray(context_tokens, dtype=float)
        return interpolate(rows, np.asarray(self.decode_batch), np.asarray(self.decode_s))

    def tokens_per_step(self, *, batch: float) -> float:
        return 1.0 if self.decode_batch else self.base.tokens_per_step(batch=batch)

    def max_batch(self, *, context_tokens: float) -> tuple[int, str]:
        if self.batch_cap is not None:
            return self.batch_cap, "stack"
        return self.base.max_batch(context_tokens=context_tokens)


def interpolate(x: Array, keys: Array, values: Array) -> Array:
    """Read a table between its points, and along its last slope beyond them.

    Formula:     linear between neighbours; outside, the line through the two nearest points, not below 0
    Parameters:  x, any shape; keys rising, values, each at least two
    Returns:     shape of x
    Raises:      nothing
    Holds when:  the table is dense enough that chords do.
    References:  prfaas
    """
    inside = np.interp(x, keys, values)
    low = values[0] + (x - keys[0]) * (values[1] - values[0]) / (keys[1] - keys[0])
    high = values[-1] + (x - keys[-1]) * (values[-1] - values[-2]) / (keys[-1] - keys[-2])
    result: Array = np.maximum(np.where(x < keys[0], low, np.where(x > keys[-1], high, inside)), 0.0)
    return result
