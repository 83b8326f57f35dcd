"""The closed form of one forward pass: every term named, one set of efficiencies for all models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pddplan.domain.workload import Array
from pddplan.performance.communication import allreduce_time_s, exchange_time_s
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.load import PassLoad


@dataclass(frozen=True, slots=True, eq=False)
class PassTime:
    """Seconds of one pass by part; ``total`` is their sum."""

    gemm: Array
    attention: Array
    experts: Array
    communication: Array
    elementwise: Array
    overhead: Array

    @property
    def device(self) -> Array:
        """All but the engine's own overhead: what an operator benchmark adds up."""
        return self.gemm + self.attention + self.experts + self.communication + self.elementwise

    @property
    def total(self) -> Array:
        return self.device + self.overhead

    def main_terms(self) -> dict[str, Array]:
        """Parts by name, in the order they are printed."""
        return {
            "gemm": self.gemm,
            "attn": self.attention,
            "moe": self.experts,
            "comm": self.communication,
            "other": self.elementwise,
            "overhead": self.overhead,
        }


def soft_max(first: Array, second: Array, *, sharpness: float | Array) -> Array:
    """Roofline with a rounded corner: two resources that overlap, but not perfectly.

    Formula:     (a^p + b^p)^(1/p)
    Parameters:  first a, second b >= 0, shapes that broadcast [s]; sharpness p >= 1 (p = 1 adds, large p is max)
    Returns:     broadcast shape [s], between max(a, b) and a + b
    Raises:      nothing
    Holds when:  a and b are times of the same work on two resources.
    References:  roofline
    """
    high, low = np.maximum(first, second), np.minimum(first, second)
    ratio = low / np.maximum(high, 1e-300)
    result: Array = high * (1.0 + ratio**sharpness) ** (1.0 / np.asarray(sharpness))
    return result


def gemm_time_s(load: PassLoad, efficiency: Efficiency) -> Array:
    """Time of all products that every token passes, head included.

    Formula:     softmax(sum over classes F/(P e) (1 + q_0/q), W/(BW m)) + the same for the head + a per product
                 + z per product whose activations are packed into 8 or 4 bits
    Parameters:  load (ideal seconds F/P and W/BW; q tokens per rank); efficiency (e per class, q_0, m, a, z)
    Returns:     shape of the pass [s]
    Raises:      nothing
    Holds when:  weights do not stay in cache between passes.
    References:  performance_terms
    """
    e = efficiency
    compute = load.gemm_bf16_s / e.gemm_mfu_bf16 + load.gemm_fp8_s / e.gemm_mfu_fp8 + load.gemm_fp4_s / e.gemm_mfu_fp4
    compute = compute * (1.0 + e.gemm_padding_tokens / np.maximum(load.rows, 1e-9))
    layers = soft_max(compute, load.gemm_memory_s / e.weights_mbu, sharpness=e.roofline_sharpness)
    head = load.head_compute_s / e.gemm_mfu_bf16 * (1.0 + e.gemm_padding_tokens / np.maximum(load.head_rows, 1e-9))
    head = soft_max(head, load.head_memory_s / e.weights_mbu, sharpness=e.roofline_sharpness)
    return layers + head + load.products * e.gemm_overhead_s + load.quantised_products * e.quantise_overhead_s


def attention_time_s(load: PassLoad, efficiency: Efficiency) -> Array:
    """Time of scores and weighted sums over the cache.

    Formula:     decoding softmax(KV/(BW m), F/(P e_l)) + a L;  prefill F/(P e) + KV/(BW m) + A/(BW m_a) + a' L
    Parameters:  load (F/P, KV/BW, A/BW of queries, keys, values); efficiency (m, e, e_l for latents, a, a')
    Returns:     shape of the pass [s]
    Raises:      nothing
    Holds when:  kernels skip masked pairs.
    References:  performance_terms
    """
    e = efficiency
    kv = load.kv_memory_s / e.kv_mbu
    decode_mfu = np.where(load.latent > 0, e.latent_decode_mfu, e.attention_mfu)
    decode = soft_max(kv, load.attention_compute_s / decode_mfu, sharpness=e.roofline_sharpness)
    decode = decode + load.mixers * e.attention_overhead_s
    prefill = load.attention_compute_s / e.attention_mfu + kv + load.attention_rows_s / e.elementwise_mbu
    prefill = prefill + load.mixers * e.attention_prefill_overhead_s
    return np.where(load.decode > 0, decode, prefill)


def experts_imbalance(load: PassLoad, efficiency: Efficiency, *, parts: Array | None = None) -> Array:
    """Load of the fullest expert-parallel rank relative to the mean.

    Formula:     min(1 + v sqrt(R/E) sqrt(2 ln R), R min(1, E/(R k)))
    Parameters:  load (R ranks, E experts, k per token); efficiency gives v, the spread of load among experts;
                 parts R: other parts than ranks that experts are spread over, such as nodes
    Returns:     shape of the pass, >= 1
    Raises:      nothing
    Holds when:  a rank's load is the sum of E/R independent expert loads; no expert takes more than every token.
    References:  performance_terms
    """
    ranks, experts = load.expert_ranks if parts is None else parts, np.maximum(load.experts, 1.0)
    spread = efficiency.experts_load_cv * np.sqrt(ranks / experts) * np.sqrt(2.0 * np.log(np.maximum(ranks, 1.0)))
    worst = ranks * np.minimum(1.0, experts / ranks / np.maximum(load.top_k, 1.0))
    return np.maximum(np.minimum(1.0 + spread, worst), 1.0)


def experts_time_s(load: PassLoad, efficiency: Efficiency) -> Array:
    """Time of routed experts on the fullest rank.

    Formula:     softmax(i F/(P e e_x g) (1 + t_0/t), W cov/(BW m_x g)) + i v A/(BW m_a) + a_x L_moe
    Parameters:  load (F/P, W cov/BW, t tokens per active expert, A/BW of one visit to all routed copies);
                 efficiency (g: rate of 8-bit experts, else 1); i experts_imbalance
    Returns:     shape of the pass [s]
    Raises:      nothing
    Holds when:  experts are chosen independently (see expert_coverage).
    References:  performance_terms
    """
    e = efficiency
    compute = load.experts_bf16_s / e.gemm_mfu_bf16 + load.experts_fp8_s / e.gemm_mfu_fp8
    compute = (compute + load.experts_fp4_s / e.gemm_mfu_fp4) / e.experts_mfu
    compute = compute * (1.0 + e.experts_padding_tokens / np.maximum(load.tokens_per_expert, 1.0))
    rate = np.where(load.experts_fp8_s > 0, e.experts_8bit_rate, 1.0)
    compute = compute / rate
    imbalance = experts_imbalance(load, e)
    copies = load.copies_s * e.experts_visits / e.elementwise_mbu
    memory = load.experts_memory_s / (e.experts_mbu * rate)
    work = soft_max(compute * imbalance, memory, sharpness=e.roofline_sharpness)
    return work + copies * imbalance + load.moe_layers * e.experts_overhead_s


def elementwise_time_s(load: PassLoad, efficiency: Efficiency) -> Array:
    """Time of norms, additions and activations.

    Formula:     A/(BW m_a) + a L
    Parameters:  load (A/BW); efficiency (m_a, a)
    Returns:     shape of the pass [s]
    Raises:      nothing
    Holds when:  element-wise work is not fused into products.
    References:  performance_terms
    """
    return load.elementwise_s / efficiency.elementwise_mbu + load.layers * efficiency.elementwise_overhead_s


def communication_time_s(load: PassLoad, efficiency: Efficiency, *, others_s: Array) -> Array:
    """Time of all collectives of a pass, as far as compute does not hide it.

    Formula:     count * all-reduce(2 d q bytes among tp) + E - hidden, E = L_moe * (dispatch + combine among tp dp)
    Parameters:  load; efficiency; others_s: all other work of the pass, shape of the pass [s]
    Returns:     shape of the pass [s]
    Raises:      nothing
    Holds when:  all-reduces are not hidden; for the exchange see hidden_exchange_s.
    References:  performance_terms
    """
    e = efficiency
    reduces = load.reduce_count * allreduce_time_s(load.reduce_bytes, load.reduce_group, efficiency=e)
    inside, outside = fullest_copies(load, e)
    dispatch, combine = (
        exchange_time_s(size, load.exchange_group, inside=inside, outside=outside, efficiency=e)
        for size in (load.dispatch_bytes, load.combine_bytes)
    )
    exchange = load.exchange_count * (dispatch + combine)
    result: Array = reduces + exchange - hidden_exchange_s(exchange, others_s, load, efficiency=e)
    return result


def fullest_copies(load: PassLoad, efficiency: Efficiency) -> tuple[Array, Array]:
    """Copies per token that pass the busiest link of a domain and the busiest NIC, where tokens go to their experts.

    Formula:     decoding: inside min(i(R) C_i, d - 1), outside i(R) C_o;
                 prefill: inside min(i(R) C_i, m (d - 1)), outside min(i(m) C_o, m - 1)
    Parameters:  load (C_i, C_o of direct_copies; R ranks in m domains of d); efficiency gives i, see experts_imbalance
    Returns:     (inside, outside), shape of the pass [copies]
    Raises:      nothing
    Holds when:  in prefill a token goes once to each domain, by the NIC of the sender's own place in it, so that only
                 whole domains can be uneven; no chip gets a token twice.
    References:  deepep, lmsys-large-scale-ep
    """
    domain = np.maximum(np.asarray(load.exchange_group.domain, dtype=float), 1.0)
    nodes = np.maximum(load.exchange_group.ranks / domain, 1.0)
    ranks = experts_imbalance(load, efficiency)
    whole = np.minimum(load.copies_outside * experts_imbalance(load, efficiency, parts=nodes), nodes - 1.0)
    passing = np.where(load.decode > 0, 1.0, nodes)  # in prefill chips pass on what other domains send
    inside: Array = np.minimum(load.copies_inside * ranks, passing * (domain - 1.0))
    return inside, np.where(load.decode > 0, load.copies_outside * ranks, whole)


def hidden_exchange_s(exchange_s: Array, others_s: Array, load: PassLoad, *, efficiency: Efficiency) -> Array:
    """What of dispatch and combine runs behind the other half of a batch that is split in two.

    Formula:     max(f min(E, T) - A, 0); A: kernels launched once more, and in decoding weights read once more
    Parameters:  exchange_s E and others_s T of the pass, shape of the pass [s]; load; efficiency (f)
    Returns:     shape of the pass [s]
    Raises:      nothing
    Holds when:  the engine splits batches only where it gains by it; halves compute as fast as the whole otherwise.
    References:  lmsys-large-scale-ep
    """
    e = efficiency
    weights = load.gemm_memory_s / e.weights_mbu + load.experts_memory_s / e.experts_mbu
    again = np.where(load.decode > 0, weights, 0.0) + load.products * e.gemm_overhead_s
    attention = np.where(load.decode > 0, e.attention_overhead_s, e.attention_prefill_overhead_s)
    again = again + load.moe_layers * e.experts_overhead_s + load.mixers * attention
    again = again + load.layers * e.elementwise_overhead_s
    result: Array = np.maximum(e.exchange_overlap * np.minimum(exchange_s, others_s) - again, 0.0)
    return result


def pass_time(load: PassLoad, efficiency: Efficiency) -> PassTime:
    """Time of one forward pass, by part.

    Formula:     gemm + attention + experts + communication + element-wise + engine overhead; decoding: g L + s + h b,
                 prefill: g' L + s'; both: + u per attention with normalised queries + w log2(chips of a scheduler)
    Parameters:  load of the pass; efficiency of (chip, stack)
    Returns:     PassTime, fields of the shape of the pass [s]
    Raises:      nothing
    Holds when:  the parts do not overlap, but for the exchange.
    References:  performance_terms
    """
    e: Any = efficiency
    decode = load.layers * e.layer_gap_s + e.step_overhead_s + load.sequences * e.sequence_overhead_s
    prefill = load.layers * e.prefill_gap_s + e.prefill_overhead_s
    unfused = load.query_norms * e.query_norm_overhead_s
    workers = e.worker_overhead_s * np.log2(load.workers)
    gemm, attention, experts = gemm_time_s(load, e), attention_time_s(load, e), experts_time_s(load, e)
    elementwise = elementwise_time_s(load, e)
    return PassTime(
        gemm=gemm,
        attention=attention,
        experts=experts,
        communication=communication_time_s(load, e, others_s=gemm + attention + experts + elementwise),
        elementwise=elementwise,
        overhead=np.where(load.decode > 0, decode, prefill) + unfused + workers,
    )


def added_time_s(prefill_s: Array, load: PassLoad, efficiency: Efficiency) -> Array:
    """What a prefill pass adds to a decoding step that shares its pass.

    Formula:     T - m min(F, T), F = weights / bandwidth + fixed times of kernels
    Parameters:  prefill_s T of the pass alone [s]; load of the pass; efficiency (m = prefill_mixing)
    Returns:     shape of the pass [s]
    Raises:      nothing
    Holds when:  prompts ride in passes that decode anyway, so that weights are read and kernels launched once for both.
    References:  agrawal2024
    """
    e = efficiency
    fixed = (load.gemm_memory_s + load.head_memory_s) / e.weights_mbu + load.experts_memory_s / e.experts_mbu
    fixed = fixed + load.products * e.gemm_overhead_s + load.mixers * e.attention_prefill_overhead_s
    fixed = fixed + load.moe_layers * e.experts_overhead_s + load.layers * (e.elementwise_overhead_s + e.prefill_gap_s)
    result: Array = prefill_s - e.prefill_mixing * np.minimum(fixed, prefill_s)
    return result
