"""The cheapest aggregated fleet: what splitting must beat, found quickly enough to stand beside every plan.

One kind of instances is tried first, of every shape. Then the program of flows over all shapes says which kinds a
cheaper mixture would use (long prefills on one, short ones on another), and these are searched from the best fleet so
far. It goes on with the next kinds until the program leaves little, or has been asked often enough.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from pddplan.domain.plan import Pool, Role, Shape
from pddplan.evaluate.problem import Problem
from pddplan.optimize.build import considered_pools
from pddplan.optimize.every_shape import every_shape
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.question import reporting
from pddplan.optimize.rounds import search_plans
from pddplan.optimize.search import BEST_FOUND, INTERRUPTED
from pddplan.optimize.settle import LEAST_TIME_S, Found, NothingFound, better, interrupted, value_of
from pddplan.optimize.topologies import Shapes, find_topology

AGGREGATED = "colocated"
NODES_PER_LOOK = 20
MOST_LOOKS = 3
"""Mixtures searched, and the cells each may take: counted, so that slow machines find the same fleet."""
CLOSE_ENOUGH = 0.05
"""After the first mixture: what is compared with need not be proven closer than this fraction."""
SHARE_PER_LOOK = 0.2
"""Of the time, what the program over all shapes may take at a time."""


def cheapest_aggregated(problem: Problem, *, objective: Objective, limits: Limits, shapes: Shapes) -> Found | None:
    """The cheapest aggregated fleet that a short search finds, with how much cheaper one could be; None without any."""
    topology = find_topology(AGGREGATED)
    deadline = time.perf_counter() + limits.time_limit_s

    def searched(known: Found | None, own: Shapes, *, nodes: int) -> Found | NothingFound:
        return search_plans(
            problem,
            topology,
            objective=objective,
            limits=replace(
                limits,
                every_shape=True,
                prove_shapes=False,
                max_nodes=min(limits.max_nodes, nodes),
                time_limit_s=max(deadline - time.perf_counter(), LEAST_TIME_S),
            ),
            shapes=own,
            known=known.outcome.plan if known is not None else None,
        )

    best = _better(None, searched(None, shapes, nodes=0), objective)
    _, pools, _, _ = considered_pools(problem, topology, limits=limits, shapes=shapes)
    every = every_shape(
        problem,
        topology,
        pools,
        objective=objective,
        limits=limits,
        score=value_of(best.outcome, objective) if best is not None else None,
        time_limit_s=SHARE_PER_LOOK * limits.time_limit_s,
        apart=True,
    )
    if every is None or (best is not None and interrupted(best.outcome)):
        return best
    inside, outside = -math.inf, math.inf
    for look in range(MOST_LOOKS + 1):
        enough = CLOSE_ENOUGH if look else limits.acceptable_gap
        if look == MOST_LOOKS or (best is not None and _ahead(best, outside, objective) <= enough):
            break
        if best is not None:
            every.only_better_than(value_of(best.outcome, objective))
        bound = every.bound(time_limit_s=SHARE_PER_LOOK * limits.time_limit_s)
        if bound is None:
            break
        outside = min(outside, bound.score)
        close = best is not None and _ahead(best, outside, objective) <= enough
        if close or not bound.pools or time.perf_counter() > deadline:
            break
        kinds = bound.pools | (frozenset(pool.id for pool in best.outcome.plan.pools) if best else frozenset())
        found = searched(best, _only(shapes, [pool for pool in pools if pool.id in kinds]), nodes=NODES_PER_LOOK)
        inside = max(inside, _most(found, objective))
        best = _better(best, found, objective)
        every.leave_out(kinds)
        if best is not None and interrupted(best.outcome):
            break
    if best is None or math.isinf(outside):
        return best
    gap = max(_ahead(best, max(inside, outside), objective), 0.0)
    status = "optimal" if gap <= max(limits.gap, limits.acceptable_gap) else BEST_FOUND
    status = INTERRUPTED if interrupted(best.outcome) else status
    return reporting(
        best, status=status, gap=gap, gap_over_all=gap, shapes_searched=len(pools), shapes_possible=len(pools)
    )


def _only(shapes: Shapes, pools: Sequence[Pool]) -> Shapes:
    kept = {(pool.role, pool.chip, pool.shape) for pool in pools}

    def own(chip: str, role: Role) -> Sequence[Shape]:
        return [shape for shape in shapes(chip, role) if (role, chip, shape) in kept]

    return own


def _better(best: Found | None, found: Found | NothingFound, objective: Objective) -> Found | None:
    if isinstance(found, NothingFound):
        return best
    return found if best is None or better(found.outcome, best.outcome, objective) else best


def _most(found: Found | NothingFound, objective: Objective) -> float:
    """What no plan of the shapes searched exceeds."""
    if isinstance(found, NothingFound):
        return -math.inf
    reached, report = value_of(found.outcome, objective), found.outcome.solver
    return reached + (report.gap if report is not None else 0.0) * abs(reached)


def _ahead(best: Found, score: float, objective: Objective) -> float:
    reached = value_of(best.outcome, objective)
    return (score - reached) / abs(reached) if reached else 0.0
