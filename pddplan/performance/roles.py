"""Which role a chip suits for a model: prefill and decode rates by roofline arithmetic, per chip and per money.

These are upper bounds from datasheet peaks, without efficiencies, communication and overheads: good for comparing
chips, not for sizing. Sizing uses ``performance.instance``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.chip import Chip
from pddplan.domain.llm import Llm, MoeFeedForward
from pddplan.errors import DomainError
from pddplan.performance.kv import kv_size
from pddplan.performance.load import compute_class, expert_coverage
from pddplan.performance.memory import BINARY_CAPACITY
from pddplan.performance.parameters import (
    FORMATS,
    feed_forward_parameters,
    weight_bytes,
    weight_formats,
)
from pddplan.performance.work import attention_flops, linear_flops_per_token
from pddplan.units import SECONDS_PER_HOUR

Array = NDArray[np.float64]

USABLE_FRACTION = 0.9
"""Share of memory that engines use by default."""
WEIGHTS_FRACTION = 0.5
"""A decode group is made large enough that weights take at most so much of its usable memory."""
CHUNK_TOKENS = 8192.0
"""Prefill chunk, over which weights are read once."""
MOST_CHIPS = 1024
CLEAR_LEAD = 1.15
"""A chip suits one role when its lead over the reference is so many times larger there than in the other."""


@dataclass(frozen=True, slots=True)
class RoleRates:
    """Roofline rates of one chip for one model; money fields are None without a price."""

    prefill_tokens_per_s: float
    prefill_bound: str
    """``compute`` or ``bandwidth``."""
    decode_tokens_per_s: float
    decode_bound: str
    """``bandwidth`` or ``compute``: what a decoding step waits for."""
    batch_limit: str
    """``memory`` or ``TPOT``: what keeps the batch from growing."""
    chips: int
    """Chips of the decode group."""
    batch: int
    step_s: float
    prefill_tokens_per_money: float | None
    decode_tokens_per_money: float | None


@dataclass(frozen=True, slots=True)
class RoleAdvice:
    """How a chip compares with a reference chip for a model, and what follows."""

    role: str
    """``prefill``, ``decode`` or ``either``."""
    prefill_ratio: float
    decode_ratio: float
    basis: str
    """``money``; ``chip`` where a price is missing or currencies differ."""
    why: str


def linear_seconds_per_token(chip: Chip, llm: Llm, *, weights_dtype: str | None = None, head: bool = True) -> float:
    """Time one chip takes for the matrix products of one token, at peak.

    Formula:     sum over parts of FLOPs / peak of the part's dtype
    Parameters:  chip; llm; weights_dtype: None = as the checkpoint is stored; head: with the language-model head
    Returns:     [s/token]
    Raises:      InputError if the chip has no bf16 peak.
    Holds when:  every product runs at the dense peak.
    References:  roofline
    """
    flops, formats = linear_flops_per_token(llm), weight_formats(llm, weights_dtype)
    plain = compute_class(FORMATS["bf16"], chip)[1]
    seconds = (flops.router + flops.recurrent) / plain
    parts = ["attention", "dense", "shared_experts", "experts"] + (["head"] if head else [])
    for part in parts:
        amount = getattr(flops, part)
        if amount:
            seconds += amount / compute_class(getattr(formats, part), chip)[1]
    return seconds


def prefill_rate(chip: Chip, llm: Llm, *, context_tokens: float, weights_dtype: str | None = None) -> tuple[float, str]:
    """Prefill tokens per second and chip at the roofline, for prompts of one length without cached prefix.

    Formula:     1 / max(linear seconds + attention FLOPs / (L peak), weights / (chunk BW))
    Parameters:  chip; llm; context_tokens L > 0 [tokens]; weights_dtype
    Returns:     ([tokens/s], ``compute`` or ``bandwidth``)
    Raises:      DomainError if the length is not positive; InputError if the chip has no bf16 peak.
    Holds when:  work is shared out evenly over the chips that hold the weights.
    References:  roofline
    """
    if not context_tokens > 0:
        raise DomainError("context_tokens", "must be greater than 0", context_tokens)
    plain = compute_class(FORMATS["bf16"], chip)[1]
    scores = float(attention_flops(llm, new_tokens=context_tokens, cached_tokens=0.0)) / context_tokens
    compute_s = linear_seconds_per_token(chip, llm, weights_dtype=weights_dtype, head=False) + scores / plain
    weights = weight_bytes(llm, weights_dtype)
    chunk = min(CHUNK_TOKENS, context_tokens)
    read_s = (weights.read_always + weights.experts) / chunk / chip.memory_bandwidth_bytes_per_s
    return (1 / compute_s, "compute") if compute_s >= read_s else (1 / read_s, "bandwidth")


def decode_step_roofline_s(
    chip: Chip,
    llm: Llm,
    *,
    batch: Array,
    context_tokens: float,
    chips: int,
    weights_dtype: str | None = None,
    kv_dtype: str | None = None,
) -> tuple[Array, Array]:
    """Memory and compute time of one decoding step of a group of chips.

    Formula:     memory: (W + W_experts (1 - (1 - k/E)^b) + b R(c)) / (n BW); compute: b (linear s + scores / peak) / n
    Parameters:  chip; llm; batch b, any shape; context_tokens c [tokens]; chips n
    Returns:     two arrays of the shape of batch [s]: memory time, compute time
    Raises:      InputError if the chip has no bf16 peak.
    Holds when:  KV and work are shared out evenly, without copies.
    References:  roofline
    """
    weights, formats = weight_bytes(llm, weights_dtype), weight_formats(llm, weights_dtype)
    moved = np.full(batch.shape, weights.read_always)
    for group in llm.moe:
        moe = group.feed_forward
        if isinstance(moe, MoeFeedForward):
            size = group.count * feed_forward_parameters(moe, llm.hidden).experts * formats.experts.bytes_per_value
            moved = moved + size * expert_coverage(batch, experts=moe.experts, top_k=moe.top_k)
    moved = moved + batch * float(kv_size(llm, kv_dtype).read_bytes(context_tokens))
    plain = compute_class(FORMATS["bf16"], chip)[1]
    scores = float(attention_flops(llm, new_tokens=1.0, cached_tokens=context_tokens, absorbed=True))
    per_token_s = linear_seconds_per_token(chip, llm, weights_dtype=weights_dtype) + scores / plain
    return moved / (chips * chip.memory_bandwidth_bytes_per_s), batch * per_token_s / chips


def role_rates(
    chip: Chip,
    llm: Llm,
    *,
    context_tokens: float,
    tpot_s: float,
    weights_dtype: str | None = None,
    kv_dtype: str | None = None,
) -> RoleRates:
    """Prefill and decode rates of a chip for a model, per chip and per money.

    Formula:     decode: b / (step n), b the most that memory holds and the TPOT allows; n the smallest power of two
                 whose usable memory is twice the weights, doubled until one sequence keeps the TPOT;
                 per money: rate * seconds per hour / price
    Parameters:  chip; llm; context_tokens c > 0 [tokens]; tpot_s > 0 [s]
    Returns:     RoleRates; decode rate 0 where no group keeps the TPOT
    Raises:      InputError if the chip has no bf16 peak; DomainError on lengths and times that are not positive.
    Holds when:  comparing chips; see the module's remark on efficiencies.
    References:  roofline
    """
    if not tpot_s > 0:
        raise DomainError("tpot_s", "must be greater than 0", tpot_s)
    rate, bound = prefill_rate(chip, llm, context_tokens=context_tokens, weights_dtype=weights_dtype)
    usable = chip.memory_bytes * BINARY_CAPACITY * USABLE_FRACTION
    weights = weight_bytes(llm, weights_dtype).resident
    one = float(kv_size(llm, kv_dtype).sequence_bytes(context_tokens))
    chips = 1
    while chips < MOST_CHIPS and chips * usable * WEIGHTS_FRACTION < max(weights, one):
        chips *= 2
    best = (0.0, "bandwidth", "TPOT", 0, float("inf"))
    while chips <= MOST_CHIPS:
        fits = int((chips * usable - weights) // one)
        best = _largest_batch(chip, llm, fits, context_tokens, chips, tpot_s, weights_dtype, kv_dtype)
        if best[3] > 0:
            break
        chips *= 2
    decode, decode_bound, limit, batch, step_s = best
    price = chip.price.low_per_chip_hour if chip.price is not None else None
    return RoleRates(
        prefill_tokens_per_s=rate,
        prefill_bound=bound,
        decode_tokens_per_s=decode,
        decode_bound=decode_bound,
        batch_limit=limit,
        chips=min(chips, MOST_CHIPS),
        batch=batch,
        step_s=step_s,
        prefill_tokens_per_money=rate * SECONDS_PER_HOUR / price if price else None,
        decode_tokens_per_money=decode * SECONDS_PER_HOUR / price if price else None,
    )


def advice(chip: Chip, rates: RoleRates, *, reference: Chip, reference_rates: RoleRates) -> RoleAdvice:
    """Which role a chip suits, compared with a reference chip, and why.

    Formula:     ratio of prefill and of decode tokens per money (per chip where a price is missing) to the reference's;
                 the role whose ratio leads by more than CLEAR_LEAD
    Parameters:  chip, rates; reference, reference_rates
    Returns:     RoleAdvice
    Raises:      nothing
    Holds when:  prices of both are of the same kind of contract.
    References:  roofline
    """
    priced = chip.price is not None and reference.price is not None and chip.price.currency == reference.price.currency
    if priced:
        prefill = _ratio(rates.prefill_tokens_per_money, reference_rates.prefill_tokens_per_money)
        decode = _ratio(rates.decode_tokens_per_money, reference_rates.decode_tokens_per_money)
    else:
        prefill = _ratio(rates.prefill_tokens_per_s, reference_rates.prefill_tokens_per_s)
        decode = _ratio(rates.decode_tokens_per_s, reference_rates.decode_tokens_per_s)
    role = "either"
    if prefill > CLEAR_LEAD * decode:
        role = "prefill"
    elif decode > CLEAR_LEAD * prefill:
        role = "decode"
    per = "per money" if priced else "per chip"
    why = (
        f"{prefill:.2f} x the prefill and {decode:.2f} x the decode tokens {per} of {reference.name}; "
        f"prefill waits for {rates.prefill_bound}, decode for {rates.decode_bound} "
        f"with the batch limited by {rates.batch_limit}"
    )
    return RoleAdvice(role, prefill, decode, "money" if priced else "chip", why)


def _ratio(mine: float | None, other: float | None) -> float:
    return float("inf") if not other else (mine or 0.0) / other


def _largest_batch(
    chip: Chip,
    llm: Llm,
    fits: int,
    context_tokens: float,
    chips: int,
    tpot_s: float,
    weights_dtype: str | None,
    kv_dtype: str | None,
) -> tuple[float, str, str, int, float]:
    """The largest batch that memory and TPOT allow: rate per chip, bound, limit, batch, step."""
    if fits < 1:
        return 0.0, "bandwidth", "memory", 0, float("inf")
    # a thousand candidates, dense where small: steps grow with the batch, so the last that keeps the promise is best
    batch = np.unique(np.floor(np.geomspace(1.0, float(fits), 1000)))
    memory_s, compute_s = decode_step_roofline_s(
        chip,
        llm,
        batch=batch,
        context_tokens=context_tokens,
        chips=chips,
        weights_dtype=weights_dtype,
        kv_dtype=kv_dtype,
    )
    step = np.maximum(memory_s, compute_s)
    kept = np.flatnonzero(step <= tpot_s)
    if not kept.size:
        return 0.0, "bandwidth", "TPOT", 0, float("inf")
    best = int(kept[-1])
    bound = "compute" if compute_s[best] > memory_s[best] else "bandwidth"
    limit = "memory" if best == batch.size - 1 else "TPOT"
    rate = float(batch[best] / (step[best] * chips))
    return rate, bound, limit, int(batch[best]), float(step[best])
