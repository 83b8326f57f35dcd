"""Which promises hold while one leased line is lost, requests being routed as the plan says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pddplan.domain.outcome import Outcome, Percentiles
from pddplan.domain.plan import LinePlan, Plan
from pddplan.domain.sites import Line
from pddplan.domain.workload import Promise
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem

NO_LINE_GBPS = 1e-6
"""What is left of a bundle without a line, for the evaluator: any request drowns it."""


@dataclass(frozen=True, slots=True)
class LineLoss:
    """A plan while one line of a bundle is lost."""

    line: str
    left: int
    """Lines of the bundle that are left."""
    share: float
    """Requests that are routed over this bundle."""
    passes: bool
    """Whether what is left carries them."""
    kept: tuple[str, ...]
    broken: tuple[str, ...]
    """Promises, by name."""
    ttft: Percentiles


def line_losses(problem: Problem, outcome: Outcome) -> tuple[LineLoss, ...]:
    """For each bundle that a plan takes: the promises that hold with one of its lines lost, and those that do not.

    Formula:     the evaluator on the plan with one line fewer; requests over a bundle that does not carry them (any
                 more) never end, so a promise to a share q of requests breaks where they are more than 1 - q of them
    Parameters:  outcome, a plan as evaluated
    Returns:     one entry per bundle that requests use, in the order of the plan
    Raises:      nothing.
    Holds when:  nobody routes anew while the line is lost; lines fail one at a time.
    References:  definition
    """
    plan = outcome.plan
    used = {path.line for path in plan.paths if outcome.path_share.get(path.id, 0.0) > 0}
    return tuple(_lost(problem, outcome, taken) for taken in plan.lines if taken.count > 0 and taken.line in used)


def _lost(problem: Problem, outcome: Outcome, taken: LinePlan) -> LineLoss:
    plan, left = outcome.plan, taken.count - 1
    less = replace(taken, count=left) if left else replace(taken, gbps=NO_LINE_GBPS)
    without = replace(plan, lines=tuple(less if own.line == taken.line else own for own in plan.lines))
    reached = evaluate(
        problem if left else _with_dead_line(problem, problem.sites.lines[taken.line]),
        without,
        cost=outcome.cost,
        detail=False,
    )
    load = next(own for own in reached.lines if own.line == taken.line)
    passes = load.utilization < 1.0
    late = {violation.limit for violation in reached.violations}
    made = problem.workload.promises.made()
    broken = tuple(
        promise.name
        for promise in made
        if promise.name in late
        or (not passes and _share_over(problem, plan, taken.line, promise) > 1.0 - promise.kind.quantile)
    )
    return LineLoss(
        line=taken.line,
        left=left,
        share=sum(outcome.path_share.get(path.id, 0.0) for path in plan.paths if path.line == taken.line),
        passes=passes,
        kept=tuple(promise.name for promise in made if promise.name not in broken),
        broken=broken,
        ttft=reached.ttft,
    )


def _with_dead_line(problem: Problem, line: Line) -> Problem:
    """The same question with a tier that carries next to nothing."""
    dead = replace(line, tiers=(*line.tiers, replace(line.tiers[0], gbps=NO_LINE_GBPS)))
    return replace(problem, sites=replace(problem.sites, lines={**problem.sites.lines, line.id: dead}))


def _share_over(problem: Problem, plan: Plan, line: str, promise: Promise) -> float:
    """Share of the requests a promise is made to that cross a bundle of lines."""
    classes = problem.workload.classes
    crossing = np.array([path.line == line for path in plan.paths])
    weight = classes.weight * classes.members(promise.group)
    return float(weight @ plan.share[crossing].sum(axis=0)) / max(float(weight.sum()), np.finfo(float).tiny)
