"""The one place that says what fits on a chip: weights, activations, reserve, and what is left for KV."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pddplan.domain.chip import Chip
from pddplan.domain.llm import DenseFeedForward, Llm, MoeFeedForward
from pddplan.domain.plan import Shape
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.kv import KvSize
from pddplan.performance.load import ACTIVATION_BYTES
from pddplan.performance.parameters import WeightBytes, layer_parameters, weight_bytes, weight_formats
from pddplan.units import GIB, GIGA

BINARY_CAPACITY = GIB / GIGA
"""Memory is sold in units written GB that hold 2**30 bytes (an "80 GB" chip reports 81,920 MiB)."""
LOGITS_BYTES = 4.0
"""Logits are kept in fp32."""
LOGITS_ROWS = 256.0
"""Sequences whose logits an engine's memory profile run holds at once."""
HIDDEN_BUFFERS = 6.0
WIDTH_BUFFERS = 3.0
"""Buffers of hidden and of inner width alive at the peak of a layer."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Bytes on one chip. ``kv_bytes`` may be negative: then the weights do not fit."""

    usable_bytes: float
    weights_bytes: float
    activation_bytes: float
    reserve_bytes: float

    @property
    def kv_bytes(self) -> float:
        return self.usable_bytes - self.weights_bytes - self.activation_bytes - self.reserve_bytes


def stored_weights(llm: Llm, weights_dtype: str | None = None, *, drafts: bool) -> WeightBytes:
    """Weights that an engine loads: of the model, and of its MTP blocks where it drafts with them.

    Formula:     weight_bytes + sum over MTP blocks of their parts and of 2 d d for joining, in the formats of layers
    Parameters:  llm (width d); weights_dtype as weight_bytes; drafts: speculative decoding is on
    Returns:     WeightBytes [bytes]
    Raises:      InputError on an unknown dtype.
    Holds when:  blocks share embedding and head with the model.
    References:  deepseek-v3
    """
    weights, formats = weight_bytes(llm, weights_dtype), weight_formats(llm, weights_dtype)
    if not drafts:
        return weights
    for group in llm.mtp:
        block, count = layer_parameters(group, llm.hidden), group.count
        join = 2 * llm.hidden * llm.hidden
        weights = replace(
            weights,
            attention=weights.attention + count * (block.attention + join) * formats.attention.bytes_per_value,
            dense=weights.dense + count * block.dense * formats.dense.bytes_per_value,
            shared_experts=weights.shared_experts
            + count * block.shared_experts * formats.shared_experts.bytes_per_value,
            experts=weights.experts + count * block.experts * formats.experts.bytes_per_value,
        )
    return weights


def weights_per_chip_bytes(weights: WeightBytes, shape: Shape, *, redundant_experts: float = 0.0) -> float:
    """Weights on one chip.

    Formula:     (all but experts) / (tp pp) + experts (1 + c) / (tp dp pp), c = 0 without expert parallelism
    Parameters:  weights [bytes]; shape; redundant_experts c: copies of busy experts as a share of all
    Returns:     [bytes]
    Raises:      nothing
    Holds when:  attention-parallel ranks copy what is not an expert; expert ranks reuse their chips.
    References:  deepseek-v3
    """
    outside = weights.resident - weights.experts
    experts = weights.experts * (1.0 + (redundant_experts if shape.ep > 1 else 0.0))
    return outside / (shape.tp * shape.pp) + experts / (shape.tp * shape.dp * shape.pp)


def activation_bytes(llm: Llm, shape: Shape, *, chunk_tokens: float) -> float:
    """Peak of activations in a prefill pass on one chip.

    Formula:     C (6 d + 3 w / tp) 2 + rows V 4 / tp
    Parameters:  llm (width d, widest inner layer w, vocabulary V); shape; chunk_tokens C
    Returns:     [bytes]
    Raises:      nothing
    Holds when:  buffers are reused from layer to layer.
    References:  performance_terms
    """
    width = 0
    for layer in llm.layers:
        if isinstance(layer.feed_forward, DenseFeedForward):
            width = max(width, layer.feed_forward.width)
        elif isinstance(layer.feed_forward, MoeFeedForward):
            moe = layer.feed_forward
            width = max(width, moe.shared_width + moe.top_k * moe.expert_width)
    inner = chunk_tokens * (HIDDEN_BUFFERS * llm.hidden + WIDTH_BUFFERS * width / shape.tp) * ACTIVATION_BYTES
    return inner + LOGITS_ROWS * llm.vocab * LOGITS_BYTES / shape.tp


def memory_budget(chip: Chip, llm: Llm, *, shape: Shape, weights: WeightBytes, efficiency: Efficiency) -> MemoryBudget:
    """What one chip holds, and what is left for KV.

    Formula:     KV = u M - weights - activations - reserve
    Parameters:  chip (M bytes); llm; shape; weights; efficiency (utilisation u, reserve, chunk)
    Returns:     MemoryBudget [bytes]
    Raises:      nothing
    Holds when:  the engine takes a fixed share of memory at start.
    References:  performance_terms
    """
    return MemoryBudget(
        usable_bytes=chip.memory_bytes * BINARY_CAPACITY * efficiency.memory_utilization,
        weights_bytes=weights_per_chip_bytes(weights, shape, redundant_experts=efficiency.redundant_experts),
        activation_bytes=activation_bytes(llm, shape, chunk_tokens=efficiency.chunk_tokens),
        reserve_bytes=efficiency.memory_reserve_bytes,
    )


def sequences_in_memory(budget: MemoryBudget, kv: KvSize, *, shape: Shape, tokens: float) -> int:
    """Sequences of a length that the whole instance holds.

    Formula:     dp floor(pp KV / S_rank(x))
    Parameters:  budget of one chip; kv; shape; tokens x held per sequence
    Returns:     sequences, 0 when none fits
    Raises:      nothing
    Holds when:  sequences are spread evenly over attention ranks.
    References:  performance_terms
    """
    per_rank = float(kv.rank_bytes(max(tokens, 1.0), ranks=shape.tp)) / shape.pp
    if budget.kv_bytes <= 0:
        return 0
    return shape.dp * min(math.floor(budget.kv_bytes / max(per_rank, 1.0)), 1_000_000)


def kv_capacity_tokens(budget: MemoryBudget, kv: KvSize, *, shape: Shape) -> float:
    """Tokens that fit in the KV memory of the whole instance, windows and states left out.

    Formula:     dp pp KV / slope of S_rank
    Parameters:  budget of one chip; kv; shape
    Returns:     [tokens]; inf where nothing grows with length
    Raises:      nothing
    Holds when:  sequences are much longer than windows.
    References:  performance_terms
    """
    far = 1_000_000.0
    slope = float(kv.rank_bytes(2 * far, ranks=shape.tp) - kv.rank_bytes(far, ranks=shape.tp)) / far
    if slope <= 0:
        return math.inf
    return max(budget.kv_bytes, 0.0) * shape.dp * shape.pp / slope
