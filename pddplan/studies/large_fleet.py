"""A plan made large: how full pools may run under the same promises when whole instances hardly matter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem as Question
from pddplan.optimize import Limits
from pddplan.studies.perturb import at_rate

_MOST_DOUBLINGS = 7


@dataclass(frozen=True, slots=True)
class _Counts:
    """Instances per pool and lines per leased line, in the order of the plan."""

    pools: tuple[int, ...]
    lines: tuple[int, ...]


def fitted(question: Question, plan: Plan, scale: int) -> Outcome | None:
    """Smallest fleet of the plan's kind that keeps all promises at ``scale`` times its rate; None if none does.

    Shapes, batches, tiers and routing stay; counts are doubled until the promises hold, then each is taken down by
    bisection, prefill first. Inventory is not looked at.
    """
    rate = plan.rate_rps * scale

    def judged(counts: _Counts) -> Outcome:
        pools = tuple(replace(pool, instances=n) for pool, n in zip(plan.pools, counts.pools, strict=True))
        lines = tuple(replace(line, count=n) for line, n in zip(plan.lines, counts.lines, strict=True))
        return evaluate(question, at_rate(replace(plan, pools=pools, lines=lines), rate), detail=False)

    counts = _Counts(
        tuple(pool.instances * scale for pool in plan.pools), tuple(line.count * scale for line in plan.lines)
    )
    for _ in range(_MOST_DOUBLINGS):
        if will_do(judged(counts)):
            break
        counts = _Counts(tuple(2 * n for n in counts.pools), tuple(2 * n for n in counts.lines))
    else:
        return None
    for kind in ("pools", "lines"):
        for index, count in enumerate(getattr(counts, kind)):
            if count:
                counts = _least(counts, kind, index, judged=judged)
    return judged(counts)


def _least(counts: _Counts, kind: str, index: int, *, judged: Callable[[_Counts], Outcome]) -> _Counts:
    """Counts with the smallest value of one of them, at least 1, that will do; they must do as given."""
    values = getattr(counts, kind)

    def with_value(value: int) -> _Counts:
        return replace(counts, **{kind: tuple(value if i == index else n for i, n in enumerate(values))})

    low, high = 0, values[index]
    while high - low > max(1, math.floor(high * _RELATIVE_STEP)):
        middle = (low + high) // 2
        if will_do(judged(with_value(middle))):
            high = middle
        else:
            low = middle
    return with_value(high)


def will_do(outcome: Outcome) -> bool:
    """All promises are kept, and nothing is busier than the optimiser would plan it."""
    limits = Limits()
    return (
        outcome.keeps_promises
        and all(load.utilization <= limits.max_utilization for load in outcome.pools)
        and all(load.utilization <= limits.max_line_utilization for load in outcome.lines)
    )


_RELATIVE_STEP = 0.01
"""Counts are found to one per cent: the curve is not read closer."""
