"""What a serving stack makes of a chip: the few physical numbers that datasheets do not carry.

One global mechanism serves every chip and model. Numbers are inherited in this order, later ones winning:
global default, vendor, chip, stack (engine and era), measured overlay of the user (``pddplan calibrate``).
There is no number per model: whatever differs between models must follow from their layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from pddplan.domain.provenance import Basis
from pddplan.errors import DomainError


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Efficiencies and overheads of (chip, stack). Rates are shares of the datasheet's dense peak."""

    # --- matrix products (projections, dense feed-forward, head)
    gemm_mfu_bf16: float = 0.80
    """Share of the bf16 peak that large matrix products reach."""
    gemm_mfu_fp8: float = 0.62
    """The same for 8-bit products (fp8, int8)."""
    gemm_mfu_fp4: float = 0.45
    """The same for 4-bit products."""
    gemm_padding_tokens: float = 60.0
    """Tokens a product is padded by: its time goes with q + this, so efficiency saturates with q."""
    weights_mbu: float = 0.80
    """Share of memory bandwidth when weights are streamed."""
    roofline_sharpness: float = 3.0
    """Exponent p of the soft maximum (c^p + m^p)^(1/p) of compute and memory time; large = sharp corner."""

    # --- attention
    attention_mfu: float = 0.58
    """Share of the bf16 peak in prefill attention."""
    latent_decode_mfu: float = 0.40
    """Share of the bf16 peak in decode attention on shared latents (MLA), which compute may bind."""
    kv_mbu: float = 0.88
    """Share of memory bandwidth when KV is read in decoding."""
    elementwise_mbu: float = 0.85
    """Share of memory bandwidth in norms, activations, rotations and quantisation."""

    # --- experts
    experts_mfu: float = 0.80
    """Expert products relative to the share of dense products of their dtype, at many tokens per expert."""
    experts_padding_tokens: float = 40.0
    """Tokens every active expert is padded by."""
    experts_mbu: float = 0.65
    """Share of memory bandwidth when expert weights are streamed."""
    experts_8bit_rate: float = 1.0
    """Both rates of 8-bit experts relative to those of other dtypes; some engines lack good block-scaled kernels."""
    experts_visits: float = 8.0
    """Times each routed copy of a token is read or written: sort, gather, quantise, scatter, sum."""
    experts_load_cv: float = 1.2
    """Coefficient of variation of load among experts; gives the imbalance of expert-parallel ranks."""

    # --- fixed times of kernels, that no roofline explains
    gemm_overhead_s: float = 5e-6
    """Per matrix product (two per attention, two per feed-forward)."""
    attention_overhead_s: float = 12e-6
    """Per attention of a decoding pass."""
    attention_prefill_overhead_s: float = 43e-6
    """Per attention of a prefill pass."""
    experts_overhead_s: float = 23e-6
    """Per mixture-of-experts layer: routing, sorting, gathering."""
    elementwise_overhead_s: float = 7e-6
    """Per layer: norms and activations."""

    # --- what the engine adds around the kernels
    layer_gap_s: float = 2e-6
    """Per layer of a decoding pass: gaps between kernels; large where no graph is captured."""
    prefill_gap_s: float = 2e-6
    """Per layer of a prefill pass."""
    step_overhead_s: float = 1.0e-3
    """Per decode step: scheduler, sampling, host to device."""
    sequence_overhead_s: float = 4e-6
    """Per sequence and decode step: sampling, detokenising, streaming."""
    worker_overhead_s: float = 0.2e-3
    """Per pass and doubling of the chips that work on it: the scheduler's inputs on their way to their processes."""
    query_norm_overhead_s: float = 10e-6
    """Per attention whose queries and keys (or latents) are normalised, between projection and rotation."""
    quantise_overhead_s: float = 2e-6
    """Per product that takes 8- or 4-bit activations: the kernel that scales and packs them, where it is not fused."""
    prefill_overhead_s: float = 4e-3
    """Per prefill pass: scheduler, host to device, first sampling."""
    host_overhead_s: float = 30e-3
    """Per request before its prefill: tokenising, HTTP. Part of TTFT only."""

    # --- communication
    allreduce_latency_s: float = 4e-6
    """Of a small all-reduce inside the scale-up domain (one shot: every chip sends to every chip)."""
    allreduce_ring_latency_s: float = 18e-6
    """Of a large all-reduce (two phases: reduce-scatter, then all-gather)."""
    allreduce_efficiency: float = 0.72
    """Share of the per-direction link rate in all-reduces."""
    alltoall_latency_s: float = 12e-6
    """Of one dispatch or combine inside the scale-up domain."""
    alltoall_efficiency: float = 0.60
    """Share of the per-direction link rate in dispatch and combine."""
    exchange_gather: float = 0.0
    """0: tokens go straight to the chips of their experts; 1: engines without such kernels gather all tokens on all."""
    exchange_overlap: float = 0.0
    """Share of dispatch and combine that hides behind the other half of a batch split in two; 0: not split."""
    nic_latency_s: float = 40e-6
    """Added to a collective that leaves the scale-up domain."""
    nic_efficiency: float = 0.60
    """Share of the NIC rate in collectives over nodes."""

    # --- memory and scheduling
    memory_utilization: float = 0.90
    """Share of memory the engine may fill with weights, activations and KV."""
    memory_reserve_bytes: float = 1.2e9
    """Taken per chip by context, graphs and communication buffers (activations come on top)."""
    redundant_experts: float = 0.0
    """Copies of busy experts that expert-parallel ranks keep, as a share of all experts; they only take memory."""
    max_sequences: float = 1024.0
    """Sequences per attention rank that the stack schedules at most."""
    chunk_tokens: float = 8192.0
    """Tokens of one prefill pass at most."""
    tail_packing: float = 0.0
    """Share of a chunk's unused part that other requests fill (0 reproduces the dips of the bathtub)."""
    prefill_interference: float = 1.0
    """Share of a prefill's time that stops the decoding of others on an aggregated instance."""
    prefill_mixing: float = 0.5
    """Share of a prefill pass's fixed part (weights, launches) that decoding steps carry when both share a pass."""
    prefills_first: float = 0.0
    """1: all waiting prompts pass before decoding goes on (SGLang's default); 0: prompts ride in decoding passes."""
    speculation_acceptance: float = 0.7
    """Chance that a draft token of the model's own MTP blocks is accepted, given that the one before was."""

    # --- identity
    name: str = "default"
    """Which stack, e.g. ``vllm-2025``."""
    basis: Basis = Basis.ASSUMED
    """Weakest basis among the numbers."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Field -> where its number comes from."""


NUMBERS: tuple[str, ...] = tuple(f.name for f in fields(Efficiency) if f.name not in ("name", "basis", "sources"))
"""Names of the numeric fields, in order."""

SHARES = frozenset(
    n
    for n in NUMBERS
    if "mfu" in n or "mbu" in n or n.endswith(("_efficiency", "_mixing")) or n == "memory_utilization"
)
"""Fields that are shares of a datasheet number, above 0."""
FRACTIONS = frozenset(
    (
        *("exchange_gather", "exchange_overlap", "redundant_experts", "tail_packing", "prefills_first"),
        "speculation_acceptance",
    )
)
"""Fields between 0 and 1, both included."""
HIGHEST_SHARE = 0.98
"""No rate comes out above the datasheet's, whatever factors are laid over each other."""


def overlay(
    base: Efficiency, numbers: Mapping[str, float], *, source: str, basis: Basis, name: str | None = None
) -> Efficiency:
    """Lay some numbers over an efficiency record; the rest is inherited.

    Raises:  DomainError for unknown names, non-finite or negative numbers.
    """
    for key, value in numbers.items():
        if key not in NUMBERS:
            raise DomainError(f"efficiency field {key}", "is one of " + ", ".join(NUMBERS), value)
        if not (0.0 <= float(value) < float("inf")) or (key in SHARES | {"experts_8bit_rate"} and value <= 0):
            raise DomainError(f"efficiency field {key}", "is finite and positive", value)
        if key in FRACTIONS and value > 1:
            raise DomainError(f"efficiency field {key}", "is at most 1", value)
    sources = {**base.sources, **dict.fromkeys(numbers, source)}
    return replace(base, **numbers, name=name or base.name, sources=sources, basis=basis)
