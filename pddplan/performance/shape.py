"""Which layouts of a model on a chip are worth looking at, and which of them fit."""

from __future__ import annotations

from pddplan.domain.chip import Chip
from pddplan.domain.llm import GroupedAttention, LatentAttention, Llm, MoeFeedForward
from pddplan.domain.plan import Shape
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.kv import kv_size
from pddplan.performance.memory import memory_budget, sequences_in_memory, stored_weights

MAX_TENSOR_PARALLEL = 16
MAX_PIPELINE = 8
MIN_EXPERT_ROWS = 64
"""Narrower slices of an expert than this are not worth a matrix product."""


def candidate_shapes(
    chip: Chip,
    llm: Llm,
    *,
    efficiency: Efficiency | None = None,
    weights_dtype: str | None = None,
    kv_dtype: str | None = None,
    max_chips: int = 64,
    context_tokens: float = 8_192.0,
    min_sequences: int = 1,
    drafts: bool = False,
) -> list[Shape]:
    """Layouts that fit, fewest chips first.

    Dense models: TP over powers of two inside the scale-up domain, PP where TP alone does not fit.
    Mixtures of experts also: attention data parallel with experts over all chips (also over nodes), and EP inside TP.

    Returns:  shapes whose weights, activations, reserve and ``min_sequences`` sequences of ``context_tokens`` fit
    Raises:   InputError on unknown dtypes.
    """
    eff = efficiency or Efficiency()
    weights, kv = stored_weights(llm, weights_dtype, drafts=drafts), kv_size(llm, kv_dtype)
    found: list[Shape] = []
    for shape in _layouts(chip, llm, max_chips=max_chips):
        budget = memory_budget(chip, llm, shape=shape, weights=weights, efficiency=eff)
        if sequences_in_memory(budget, kv, shape=shape, tokens=context_tokens) >= min_sequences:
            found.append(shape)
    return sorted(found, key=lambda s: (s.chips, s.pp, s.dp, s.tp, s.ep))


def _layouts(chip: Chip, llm: Llm, *, max_chips: int) -> list[Shape]:
    heads = min(
        (g.attention.heads for g in llm.layers if isinstance(g.attention, GroupedAttention | LatentAttention)),
        default=MAX_TENSOR_PARALLEL,
    )
    domain = max(chip.scaleup_domain_chips, 1)
    tensor = [t for t in _powers(min(domain, MAX_TENSOR_PARALLEL, max_chips)) if heads % t == 0 or t == 1]
    experts = [g.feed_forward for g in llm.moe if isinstance(g.feed_forward, MoeFeedForward)]
    layouts: set[Shape] = set()
    for tp in tensor:
        for pp in _powers(MAX_PIPELINE):
            if pp > 1 and tp < max(tensor):
                continue  # splitting layers inside the domain beats splitting the stack
            if tp * pp <= max_chips:
                layouts.add(Shape(tp=tp, pp=pp))
                if experts and tp > 1 and all(e.experts % tp == 0 for e in experts):
                    layouts.add(Shape(tp=tp, pp=pp, ep=tp))
        if experts:
            for dp in _powers(max_chips // tp):
                chips = tp * dp
                if dp > 1 and tp <= 4 and all(e.experts % chips == 0 for e in experts):
                    layouts.add(Shape(tp=tp, dp=dp, ep=chips))
    narrow = {
        s for s in layouts if experts and s.ep == 1 and min(e.expert_width for e in experts) / s.tp < MIN_EXPERT_ROWS
    }
    return sorted(layouts - narrow, key=lambda s: (s.chips, s.tp, s.dp, s.ep))


def _powers(limit: int) -> list[int]:
    values, value = [], 1
    while value <= limit:
        values.append(value)
        value *= 2
    return values
