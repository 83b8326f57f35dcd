"""What one forward pass asks of one chip: ideal seconds at datasheet rates, before any efficiency.

Splitting the work from the efficiencies keeps the closed form in one place (``forward_pass``), lets the optimiser
evaluate many operating points at once, and lets a fit try other efficiencies without counting FLOPs again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from pddplan.domain.chip import Chip
from pddplan.domain.llm import (
    CompressedAttention,
    DenseFeedForward,
    GroupedAttention,
    LatentAttention,
    LayerGroup,
    Llm,
    MoeFeedForward,
    NumberFormat,
    WeightFormats,
)
from pddplan.domain.plan import Shape
from pddplan.domain.workload import Array
from pddplan.errors import InputError, Problem
from pddplan.performance.communication import Group, direct_copies, group_of
from pddplan.performance.kv import KvSize, kv_size
from pddplan.performance.parameters import WeightBytes, feed_forward_parameters, weight_bytes, weight_formats
from pddplan.performance.work import attention_flops, linear_flops_per_token

ACTIVATION_BYTES = 2.0
"""Activations travel between layers and are kept in bf16."""

COMPUTE_CLASSES = ("bf16", "fp8", "fp4")
"""Rates that products run at; int8 shares the 8-bit class, mxfp4 the 4-bit class."""

_WIDER = {
    "fp4": ("fp4", "bf16"),
    "mxfp4": ("fp4", "bf16"),
    "fp8": ("fp8", "bf16"),
    "int8": ("int8", "fp8", "bf16"),
}
"""Where a chip lacks a type, weights are widened on the fly; 4-bit ones to 16 bits, as engines do."""

HIDDEN_VISITS = 8.0
"""Reads and writes of the residual stream per layer: two norms with their additions."""
ATTENTION_VISITS = 2.0
"""Each of queries, keys, values and outputs is written once and read once outside products."""
QUERY_NORM_FAMILIES = frozenset(
    (
        *("qwen3", "qwen3_moe", "qwen3_next", "qwen3_5_moe_text", "gemma3_text", "gemma4_text", "glm4_moe"),
        *("llama4_text", "minimax_m2", "minimax_m3", "step3p5", "olmo2", "olmo3"),
    )
)
"""Architectures that normalise queries and keys of every head before they are rotated."""
WIDTH_VISITS = 3.0
"""Reads and writes of inner activations: two in, one out for a gated product."""


@dataclass(frozen=True, slots=True, eq=False)
class PassLoad:
    """Work of one pass on one chip. Fields broadcast against each other; all are arrays or floats."""

    decode: Array
    """1 for decoding passes (captured graph, absorbed MLA), 0 for prefill passes."""
    sequences: Array
    """Sequences of one attention rank (each has its own scheduler)."""
    rows: Array
    """Tokens of one attention rank."""
    workers: Array
    """Chips that one scheduler sends its inputs to."""
    layers: Array
    mixers: Array
    """Attention (or recurrent) layers."""
    products: Array
    """Matrix products that every token passes, one after another."""
    moe_layers: Array
    query_norms: Array
    """Attention layers that normalise queries and keys, or the latents they are made from."""
    quantised_products: Array
    """Products whose activations are packed into 8 or 4 bits first."""
    gemm_bf16_s: Array
    """Products that every token passes, at the dense peak of their class; so the next two."""
    gemm_fp8_s: Array
    gemm_fp4_s: Array
    gemm_memory_s: Array
    """Their weights, read once at full memory bandwidth."""
    head_rows: Array
    head_compute_s: Array
    head_memory_s: Array
    attention_compute_s: Array
    """Scores and weighted sums (and indexer), at the bf16 peak."""
    kv_memory_s: Array
    """Cached keys, values and states read at full memory bandwidth."""
    latent: Array
    """1 where attention works on shared latents (MLA), which compute may bind in decoding."""
    attention_rows_s: Array
    """Queries, keys, values and outputs of the new tokens moved once, at full memory bandwidth."""
    experts_bf16_s: Array
    experts_fp8_s: Array
    experts_fp4_s: Array
    experts_memory_s: Array
    tokens_per_expert: Array
    """Mean tokens of an expert that has any."""
    copies_s: Array
    """Reading or writing all routed copies of the tokens once, at full memory bandwidth."""
    expert_ranks: Array
    experts: Array
    """Routed experts of a layer."""
    top_k: Array
    elementwise_s: Array
    """Norms, activations, rotations: bytes of activations at full memory bandwidth."""
    reduce_bytes: Array
    """Of one all-reduce after attention or feed-forward."""
    reduce_count: Array
    reduce_group: Group
    dispatch_bytes: Array
    """One copy of each token of a chip, on its way to experts, per layer."""
    combine_bytes: Array
    """The same, coming back."""
    copies_inside: Array
    """Of each token, to chips of the same scale-up domain that hold one of its experts."""
    copies_outside: Array
    exchange_count: Array
    """Layers that dispatch and combine."""
    exchange_group: Group


@dataclass(frozen=True, slots=True)
class _Experts:
    """Routed experts of one kind, on one chip."""

    layers: int
    experts: int
    top_k: int
    flops_per_token: float
    """All layers, divided over the chips of the instance."""
    bytes: float
    """All layers, all experts, one chip's share."""
    inner: int
    """Width of the routed copies."""


@dataclass(frozen=True, slots=True, eq=False)
class PassModel:
    """A model on a chip in a shape: everything about a pass that does not depend on its tokens."""

    llm: Llm
    chip: Chip
    shape: Shape
    kv: KvSize
    weights: WeightBytes
    gemm_seconds_per_token: tuple[float, float, float]
    gemm_bytes: float
    head_seconds_per_row: float
    head_bytes: float
    expert_class: int
    expert_peak: float
    experts: tuple[_Experts, ...]
    elementwise_bytes_per_token: float
    attention_bytes_per_token: float
    latent: bool
    mixers: int
    feed_forwards: int
    products: int
    query_norms: int
    quantised_products: int
    dispatch_bytes_per_value: float
    reduce_group: Group
    exchange_group: Group

    def load(self, *, sequences: ArrayLike, new_tokens: ArrayLike, cached_tokens: ArrayLike, decode: bool) -> PassLoad:
        """Work of a pass over ``sequences`` sequences with ``new_tokens`` new and ``cached_tokens`` cached tokens each.

        Formula:     per attention rank and chip: products 2 N q / tp, weights W / tp, KV b S_read(c) / min(tp, heads);
                     experts 2 k N_e q / n and their weights times coverage 1 - (1 - k/E)^q, n = tp dp chips;
                     messages 2 d q bytes per all-reduce, q k' d values per dispatch
        Parameters:  sequences b on the whole instance, new_tokens e and cached_tokens c per sequence, broadcast;
                     decode: captured-graph pass (absorbed MLA) or prefill pass
        Returns:     PassLoad with fields of the broadcast shape
        Holds when:  sequences spread evenly over attention ranks and pipeline stages.
        References:  performance_terms, deepseek-v3
        """
        shape, chip = self.shape, self.chip
        batch, new, cached = np.broadcast_arrays(
            np.asarray(sequences, dtype=float),
            np.asarray(new_tokens, dtype=float),
            np.asarray(cached_tokens, dtype=float),
        )
        # a pipeline works on one micro-batch per stage: the pass seen by a sequence has batch / pp companions
        batch = batch / shape.pp if decode else batch
        rank_batch = batch / shape.dp
        rank_batch = np.maximum(rank_batch, np.minimum(batch, 1.0))  # a rank with work has at least one sequence
        rows = rank_batch * new
        tokens = batch * new
        bandwidth = chip.memory_bandwidth_bytes_per_s
        one = np.ones_like(rows)
        scores = attention_flops(self.llm, new_tokens=new, cached_tokens=cached, absorbed=decode)
        kv_read = self.kv.rank_read_bytes(cached, ranks=shape.tp)
        expert_s = [0.0 * one, 0.0 * one, 0.0 * one]
        expert_bytes, active, copies = 0.0 * one, 0.0 * one, 0.0 * one
        group = shape.tp * shape.dp
        ranks = max(shape.ep, 1)
        for kind in self.experts:
            coverage = expert_coverage(tokens, experts=kind.experts, top_k=kind.top_k)
            expert_bytes = expert_bytes + kind.bytes * coverage
            expert_s[self.expert_class] = expert_s[self.expert_class] + kind.flops_per_token * tokens / self.expert_peak
            active = np.maximum(active, tokens * kind.top_k / (kind.experts * np.maximum(coverage, 1e-12)))
            # every chip of a tensor-split expert sees all its tokens; expert-parallel ranks share them out
            copies = copies + tokens * kind.top_k / ranks * kind.inner * kind.layers * ACTIVATION_BYTES
        moe_layers = float(sum(kind.layers for kind in self.experts))
        top_k = max((kind.top_k for kind in self.experts), default=0)
        exchanging = shape.dp > 1 and bool(self.experts)
        inside, outside = (0.0, 0.0)
        if exchanging:
            domain = int(self.exchange_group.domain)
            inside, outside = direct_copies(group, domain, top_k=top_k, decode=decode)
        sent_values = rows / shape.tp * self.llm.hidden if exchanging else 0.0 * rows
        head_rows = rows if decode else rank_batch
        reduces = self.mixers + self.feed_forwards - (moe_layers if exchanging else 0.0)
        return PassLoad(
            decode=one * float(decode),
            sequences=rank_batch,
            rows=rows,
            workers=one * float(shape.tp * shape.pp),
            layers=one * self.llm.layer_count,
            mixers=one * self.mixers,
            products=one * self.products,
            moe_layers=one * moe_layers,
            query_norms=one * self.query_norms,
            quantised_products=one * self.quantised_products,
            gemm_bf16_s=rows * self.gemm_seconds_per_token[0],
            gemm_fp8_s=rows * self.gemm_seconds_per_token[1],
            gemm_fp4_s=rows * self.gemm_seconds_per_token[2],
            gemm_memory_s=one * self.gemm_bytes / bandwidth,
            head_rows=head_rows,
            head_compute_s=head_rows * self.head_seconds_per_row,
            head_memory_s=one * self.head_bytes / bandwidth,
            attention_compute_s=rank_batch * scores / shape.tp / chip.peak_flop_per_s["bf16"],
            kv_memory_s=rank_batch * kv_read / bandwidth,
            latent=one * float(self.latent),
            attention_rows_s=rows * self.attention_bytes_per_token / bandwidth,
            experts_bf16_s=expert_s[0],
            experts_fp8_s=expert_s[1],
            experts_fp4_s=expert_s[2],
            experts_memory_s=expert_bytes / bandwidth,
            tokens_per_expert=active,
            copies_s=copies / bandwidth,
            expert_ranks=one * ranks,
            experts=one * max((kind.experts for kind in self.experts), default=1),
            top_k=one * max(top_k, 1),
            elementwise_s=rows * self.elementwise_bytes_per_token / bandwidth,
            reduce_bytes=rows * self.llm.hidden * ACTIVATION_BYTES,
            reduce_count=one * (reduces if shape.tp > 1 else 0.0),
            reduce_group=self.reduce_group,
            dispatch_bytes=sent_values * self.dispatch_bytes_per_value,
            combine_bytes=sent_values * ACTIVATION_BYTES,
            copies_inside=one * inside,
            copies_outside=one * outside,
            exchange_count=one * (moe_layers if exchanging else 0.0),
            exchange_group=self.exchange_group,
        )


def stack_loads(loads: Sequence[PassLoad]) -> PassLoad:
    """Many single passes as one PassLoad of arrays, shape (passes,), so that one call prices them all."""

    def column(values: list[object]) -> Array:
        return np.array([float(np.asarray(v).reshape(-1)[0]) for v in values])

    numbers: dict[str, object] = {}
    for name in PassLoad.__slots__:
        values = [getattr(load, name) for load in loads]
        if name.endswith("_group"):
            numbers[name] = Group(**{part: column([getattr(v, part) for v in values]) for part in Group.__slots__})
        else:
            numbers[name] = column(values)
    return PassLoad(**numbers)  # type: ignore[arg-type]


def expert_coverage(tokens: ArrayLike, *, experts: int, top_k: int) -> Array:
    """Share of experts that at least one of so many tokens chooses.

    Formula:     1 - (1 - k/E)^q
    Parameters:  tokens q, any shape [tokens]; experts E; top_k k
    Returns:     same shape, in [0, 1]
    Raises:      nothing
    Holds when:  tokens choose independently and evenly.
    References:  performance_terms
    """
    q = np.asarray(tokens, dtype=float)
    miss = max(1.0 - top_k / experts, 0.0)
    result: Array = 1.0 - miss**q
    return result


@lru_cache(maxsize=512)
def pass_model(
    llm: Llm, chip_key: _ChipKey, shape: Shape, weights_dtype: str | None = None, kv_dtype: str | None = None
) -> PassModel:
    """Precompute a PassModel; ``chip_key`` wraps a Chip so that results can be cached.

    Raises:  InputError on unknown dtypes, or expert-parallel ranks that do not divide the chips.
    """
    chip = chip_key.chip
    if shape.ep > 1 and (shape.tp * shape.dp) % shape.ep:
        raise InputError(
            Problem(
                what=f"{shape.ep} expert-parallel ranks do not divide the {shape.tp * shape.dp} chips of tp x dp",
                fix="choose ep as a divisor of tp x dp",
            )
        )
    formats = weight_formats(llm, weights_dtype)
    weights = weight_bytes(llm, weights_dtype)
    flops = linear_flops_per_token(llm)
    per_class = [0.0, 0.0, 0.0]
    for number_format, amount in (
        (formats.attention, flops.attention),
        (formats.dense, flops.dense),
        (formats.shared_experts, flops.shared_experts),
        (formats.embedding, flops.router + flops.recurrent),
    ):
        index, peak = compute_class(number_format, chip)
        per_class[index] += amount / shape.tp / peak
    _, head_peak = compute_class(formats.head, chip)
    expert_class, expert_peak = compute_class(formats.experts, chip)
    group = shape.tp * shape.dp
    mixers = sum(g.count for g in llm.layers if g.attention is not None)
    return PassModel(
        llm=llm,
        chip=chip,
        shape=shape,
        kv=kv_size(llm, kv_dtype),
        weights=weights,
        gemm_seconds_per_token=(per_class[0], per_class[1], per_class[2]),
        gemm_bytes=(weights.attention + weights.dense + weights.shared_experts) / shape.tp,
        head_seconds_per_row=flops.head / shape.tp / head_peak,
        head_bytes=weights.head / shape.tp,
        expert_class=expert_class,
        expert_peak=expert_peak,
        experts=_experts(llm, formats.experts, group),
        elementwise_bytes_per_token=_elementwise_values(llm, shape) * ACTIVATION_BYTES,
        attention_bytes_per_token=_attention_values(llm, shape) * ACTIVATION_BYTES,
        latent=any(isinstance(g.attention, LatentAttention | CompressedAttention) for g in llm.layers),
        mixers=mixers,
        feed_forwards=sum(g.count for g in llm.layers if g.feed_forward is not None),
        products=sum(g.count * products_of_layer(g) for g in llm.layers),
        query_norms=sum(
            g.count
            for g in llm.layers
            if (llm.family in QUERY_NORM_FAMILIES and isinstance(g.attention, GroupedAttention))
            or isinstance(g.attention, LatentAttention)
        ),
        quantised_products=sum(g.count * _quantised_products(g, formats, chip) for g in llm.layers),
        # activations are quantised before dispatch where the experts take 8 bits or fewer
        dispatch_bytes_per_value=min(formats.experts.bytes_per_value, ACTIVATION_BYTES)
        if COMPUTE_CLASSES[expert_class] != "bf16"
        else ACTIVATION_BYTES,
        reduce_group=group_of(chip, shape.tp),
        exchange_group=group_of(chip, group),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _ChipKey:
    """A chip as cache key, by identity of its record (profiles are loaded once)."""

    chip: Chip

    def __hash__(self) -> int:
        return hash(self.chip.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ChipKey) and other.chip == self.chip


def chip_key(chip: Chip) -> _ChipKey:
    """Wrap a chip for ``pass_model``."""
    return _ChipKey(chip)


def compute_class(number_format: NumberFormat, chip: Chip) -> tuple[int, float]:
    """Index in COMPUTE_CLASSES and dense peak [FLOP/s] at which products of a format run on a chip.

    Raises:  InputError if the chip has no bf16 peak.
    """
    for dtype in _WIDER.get(number_format.compute_dtype, ("bf16",)):
        peak = chip.peak_flop_per_s.get(dtype, 0.0)
        if peak > 0:
            name = {"int8": "fp8", "mxfp4": "fp4"}.get(dtype, dtype)
            return COMPUTE_CLASSES.index(name), peak
    raise InputError(
        Problem(what=f"chip {chip.id} has no bf16 peak", fix="give its dense bf16 TFLOP/s in the chip profile")
    )


def _experts(llm: Llm, number_format: NumberFormat, group: int) -> tuple[_Experts, ...]:
    kinds = []
    for layer in llm.moe:
        moe = layer.feed_forward
        assert isinstance(moe, MoeFeedForward)
        count = feed_forward_parameters(moe, llm.hidden)
        kinds.append(
            _Experts(
                layers=layer.count,
                experts=moe.experts,
                top_k=moe.top_k,
                flops_per_token=2.0 * count.active_experts * layer.count / group,
                bytes=count.experts * number_format.bytes_per_value * layer.count / group,
                inner=moe.latent_width or llm.hidden,
            )
        )
    return tuple(kinds)


def products_of_layer(layer: LayerGroup) -> int:
    """Matrix products of one layer that every token passes one after another (a count, not a formula).

    Attention in and out; MLA: both downs together, q up, both absorptions, out. Feed-forward up with gate, and down.
    A mixture: the router, and its shared experts.
    """
    count = 0
    match layer.attention:
        case None:
            pass
        case LatentAttention() | CompressedAttention():
            count += 5
        case _:
            count += 2
    if isinstance(layer.feed_forward, MoeFeedForward):
        moe = layer.feed_forward
        return count + 1 + 2 * (moe.shared_width > 0) + 2 * (moe.parallel_dense_width > 0)
    return count + 2 * (layer.feed_forward is not None)


def _quantised_products(layer: LayerGroup, formats: WeightFormats, chip: Chip) -> int:
    """Products of one layer whose activations are packed into 8 or 4 bits (a count, not a formula): two per block.

    Those of routed experts are packed when tokens are gathered for them.
    """

    def packed(number_format: NumberFormat) -> int:
        return 2 * (COMPUTE_CLASSES[compute_class(number_format, chip)[0]] != "bf16")

    count = packed(formats.attention) if layer.attention is not None else 0
    if isinstance(layer.feed_forward, MoeFeedForward):
        return count + (layer.feed_forward.shared_width > 0) * packed(formats.shared_experts)
    return count + (packed(formats.dense) if layer.feed_forward is not None else 0)


def _elementwise_values(llm: Llm, shape: Shape) -> float:
    """Values read or written per token by norms, additions and activations, all layers."""
    total = 0.0
    for layer in llm.layers:
        width = 0.0
        if isinstance(layer.feed_forward, DenseFeedForward):
            width = layer.feed_forward.width
        elif isinstance(layer.feed_forward, MoeFeedForward):
            width = layer.feed_forward.shared_width + layer.feed_forward.parallel_dense_width
        total += layer.count * (HIDDEN_VISITS * llm.hidden + WIDTH_VISITS * width / shape.tp)
    return total


def _attention_values(llm: Llm, shape: Shape) -> float:
    """Values of queries, keys, values and outputs per token, read or written by rotation, cache write and scores."""
    total = 0.0
    for layer in llm.layers:
        match layer.attention:
            case GroupedAttention() as a:
                total += (
                    layer.count * a.head_dim * (2 * a.heads / shape.tp + 2 * a.kv_heads / min(shape.tp, a.kv_heads))
                )
            case LatentAttention() as a:
                total += layer.count * 2 * a.heads * (a.nope_dim + a.rope_dim + a.v_dim) / shape.tp
            case None:
                pass
            case other:
                width = other.heads * (other.head_dim if isinstance(other, CompressedAttention) else other.value_dim)
                total += layer.count * 3 * width / shape.tp
    return total * ATTENTION_VISITS
