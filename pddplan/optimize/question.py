"""One question with its clock: candidates and searches of it, never worse than a plan known before."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

from pddplan.evaluate.problem import Problem
from pddplan.optimize.build import build
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.points import Points
from pddplan.optimize.search import BEST_FOUND
from pddplan.optimize.settle import UNPROVEN, Found, NothingFound, better, bound_of, in_terms_of, settled, value_of
from pddplan.optimize.topologies import Shapes, Topology


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is asked, and since when."""

    problem: Problem
    topology: Topology
    objective: Objective
    limits: Limits
    shapes: Shapes
    started: float

    def left_s(self) -> float:
        return self.limits.time_limit_s - (time.perf_counter() - self.started)

    def within(self, share: float) -> Question:
        """The same question in a share of the time left."""
        until_s = self.limits.time_limit_s - (1.0 - share) * self.left_s()
        return replace(self, limits=replace(self.limits, time_limit_s=until_s))

    def points(
        self, *, also: frozenset[str] = frozenset(), only: frozenset[str] | None = None, hasty: bool = False
    ) -> Points | None:
        return build(
            self.problem,
            self.topology,
            objective=self.objective,
            limits=self.limits,
            shapes=self.shapes,
            also=also,
            only=only,
            hasty=hasty,
        )

    def best(
        self, points: Points, known: Found | None, *, share: float = 1.0, nodes: int | None = None
    ) -> Found | NothingFound:
        """Search these candidates in a share of the time, from a plan known before; never worse than that one."""
        most = self.limits.max_nodes
        start = in_terms_of(points, known) if known is not None else None
        found = settled(
            self.problem,
            self.topology.name,
            points,
            objective=self.objective,
            limits=replace(
                self.limits,
                time_limit_s=share * self.limits.time_limit_s,
                max_nodes=most if nodes is None else min(most, nodes),
            ),
            started=self.started,
            start=(start,) if start is not None else (),
        )
        if known is None or (isinstance(found, Found) and not better(known.outcome, found.outcome, self.objective)):
            return found
        return as_known(known, found, self.objective)


def as_known(known: Found, found: Found | NothingFound, objective: Objective) -> Found:
    """A plan known before, with what the search of more candidates proved about it."""
    status, gap = BEST_FOUND, UNPROVEN  # nothing is proven about candidates that no search has finished with
    if isinstance(found, Found) and found.outcome.solver is not None:
        status, bound = found.outcome.solver.status, bound_of(found.outcome, objective)
        reached = value_of(known.outcome, objective)
        gap = max((bound - reached) / abs(reached), 0.0) if reached and math.isfinite(bound) else UNPROVEN
    return reporting(known, status=status, gap=gap)


def reporting(found: Found, **changes: Any) -> Found:
    """A plan with changes to what is said about its proof."""
    solver = found.outcome.solver
    if solver is None:
        return found
    return replace(found, outcome=replace(found.outcome, solver=replace(solver, **changes)))
