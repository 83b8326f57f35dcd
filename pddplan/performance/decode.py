"""Decoding: one step of a batch, and what speculation with the model's own MTP blocks gains."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pddplan.domain.workload import Array
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.forward_pass import PassTime, pass_time
from pddplan.performance.load import PassModel


def decode_pass(
    model: PassModel,
    *,
    batch: ArrayLike,
    context_tokens: ArrayLike,
    efficiency: Efficiency,
    tokens_per_sequence: ArrayLike = 1.0,
) -> PassTime:
    """Time of one step that gives every sequence of a batch its next token(s), by part.

    Formula:     one forward pass of b e tokens over context x on tp chips, times pp stages
    Parameters:  model; batch b on the whole instance; context_tokens x, shapes that broadcast; efficiency;
                 tokens_per_sequence e (more than one: verifying drafts, or extending a hand-over)
    Returns:     PassTime of the broadcast shape [s]
    Raises:      nothing
    Holds when:  sequences have equal context (the pass is linear in the sum of contexts).
    References:  performance_terms
    """
    load = model.load(sequences=batch, new_tokens=tokens_per_sequence, cached_tokens=context_tokens, decode=True)
    return pass_time(load, efficiency)


def speculation_gain(
    step_s: ArrayLike, verify_s: ArrayLike, *, depth: int, acceptance: float, draft_share: float
) -> Array:
    """How many times faster tokens come with drafts than without.

    Formula:     max(1, (1 + a + ... + a^d) t_1 / (t_{1+d} + d s t_1))
    Parameters:  step_s t_1 of a plain step, verify_s t_{1+d} of a step over 1 + d tokens, broadcast [s];
                 depth d; acceptance a; draft_share s: cost of one draft relative to a plain step
    Returns:     broadcast shape, >= 1 (an engine that loses by drafting stops)
    Raises:      nothing
    Holds when:  acceptance of one draft does not depend on the batch.
    References:  leviathan2023, deepseek-v3
    """
    plain, verify = np.asarray(step_s, dtype=float), np.asarray(verify_s, dtype=float)
    tokens = sum(acceptance**i for i in range(depth + 1))
    result: Array = np.maximum(tokens * plain / (verify + depth * draft_share * plain), 1.0)
    return result
