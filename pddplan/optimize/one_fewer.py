"""Why a fleet is not smaller: what breaks with one instance fewer in a pool, or with the next thinner line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan, Pool
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize.objective import Limits

LOAD = "load"
ONLY_ONE = "only one"


@dataclass(frozen=True, slots=True)
class Needed:
    """What would break without one part of a fleet, and how badly."""

    part: str
    """Pool as ``site/role``, or line."""
    less: str
    """What is taken away: ``one replica`` or ``25 -> 10 Gbit/s``."""
    breaks: str
    """Promise, ``load`` (more work than there is capacity for, or than a ceiling allows) or ``only one``."""
    reached: float
    allowed: float
    unit: str


def needed(problem: Problem, outcome: Outcome, *, limits: Limits) -> tuple[Needed, ...]:
    """For each pool and line of a kept plan what one step less breaks, traffic being split as it is.

    Nothing is said of a part whose smaller self would do: there the plan is not as small as it could be.
    """
    if not outcome.keeps_promises:
        return ()
    plan = outcome.plan
    found = [_pool(problem, plan, pool, limits) for pool in plan.pools if pool.instances > 0]
    if not limits.survive_line_loss:
        found += _lines(problem, plan, limits)
    return tuple(one for one in found if one is not None)


def _pool(problem: Problem, plan: Plan, pool: Pool, limits: Limits) -> Needed | None:
    part, less = f"{pool.site}/{pool.role}", "one replica"
    left = pool.instances - 1 - limits.redundant_instances
    if left < 1:
        return Needed(part, less, ONLY_ONE, 0.0, 1.0, "replicas")
    pools = tuple(replace(own, instances=left) if own.id == pool.id else own for own in plan.pools)
    return _broken(problem, replace(plan, pools=pools), limits, part=part, less=less, pool=pool.id)


def _lines(problem: Problem, plan: Plan, limits: Limits) -> Iterator[Needed | None]:
    for taken in plan.lines:
        if not taken.count:
            continue
        thinner = [tier.gbps for tier in problem.sites.lines[taken.line].tiers if tier.gbps < taken.gbps * (1 - 1e-9)]
        if taken.count > 1:
            lower, less = replace(taken, count=taken.count - 1), f"{taken.count} -> {taken.count - 1} lines"
        elif thinner:
            lower, less = replace(taken, gbps=max(thinner)), f"{taken.gbps:g} -> {max(thinner):g} Gbit/s"
        else:
            continue
        lines = tuple(lower if own.line == taken.line else own for own in plan.lines)
        yield _broken(
            problem, replace(plan, lines=lines), limits, part=f"line {taken.line}", less=less, line=taken.line
        )


def _broken(
    problem: Problem,
    plan: Plan,
    limits: Limits,
    *,
    part: str,
    less: str,
    pool: str | None = None,
    line: str | None = None,
) -> Needed | None:
    """What a smaller fleet breaks first: its load, else the promise that is missed by most."""
    outcome = evaluate(problem, plan, detail=False)
    loads = [load.utilization for load in outcome.pools if load.pool == pool]
    loads += [load.utilization for load in outcome.lines if load.line == line]
    ceiling = limits.max_utilization if line is None else limits.max_line_utilization
    load = max(loads, default=0.0)
    broken = [v for v in outcome.violations if math.isfinite(v.predicted) and v.promised > 0]
    if load >= 1.0 or (load > ceiling and not broken):
        return Needed(part, less, LOAD, load, 1.0 if load >= 1.0 else ceiling, "utilization")
    if broken:
        worst = max(broken, key=lambda v: v.predicted / v.promised)
        return Needed(part, less, worst.limit, worst.predicted, worst.promised, worst.unit)
    return None
