"""Whether a question has no plan at all, whatever traffic shares its pools: then, and only then, that is proven.

Searches assume who shares a pool, so what they do not find may still be there. Here nothing is assumed: pools and lines
stand idle, and each decoding pool has the easiest requests of all classes. What has no plan then has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from pddplan.domain.plan import Pool, Role
from pddplan.evaluate.flows import decode_work
from pddplan.evaluate.problem import DecodeWork, Problem
from pddplan.optimize.cells import program_of, root_cell, tightened
from pddplan.optimize.data import Route
from pddplan.optimize.formulation import formulate
from pddplan.optimize.levels import Levels, LineLevel
from pddplan.optimize.points import Points
from pddplan.optimize.solver import SolveStatus, solve

HARDER_WITH_LESS = ("tokens_per_request",)
"""Of what a request asks of a decoding pool: stops are spread over its tokens, so more tokens make it easier."""


def impossible(points: Points, *, time_limit_s: float) -> bool:
    """True when no plan of these candidates keeps the promises within the limits; False when that is not proven."""
    problem = points.problem
    easiest = {pool.id: _easiest(problem, pool) for pool in points.pools if pool.role is not Role.PREFILL}
    eased = Points(problem, points.pools, points.paths, points.data, replace(points.mix, decode=easiest))
    cell = root_cell(points.data)
    routes = _at_best(eased, eased.routes(cell.best()))
    cell_left = tightened(points.data, cell, routes)
    if cell_left is None:
        return True
    program, _ = formulate(program_of(points.data, cell_left, routes), objective="cost")
    solved = solve(program, time_limit_s=time_limit_s, gap=1.0)
    return not solved.has_plan and solved.status is SolveStatus.INFEASIBLE


def _at_best(points: Points, idle: Sequence[Route]) -> list[Route]:
    """Routes on idle lines, with the least work that any line leaves: a slow one leaves more tokens to the relay."""
    thinnest: dict[str, LineLevel] = {}
    for option in sorted(points.data.lines, key=lambda o: (-o.capacity_bytes_per_s, o.id)):
        thinnest[option.line] = LineLevel(option, option.capacity_bytes_per_s)
    slow = points.routes(Levels({}, thinnest))
    return [
        replace(
            quick,
            work={pool: np.minimum(work, other.work.get(pool, work)) for pool, work in quick.work.items()},
            coverage={row: np.fmax(share, other.coverage.get(row, share)) for row, share in quick.coverage.items()},
        )
        for quick, other in zip(idle, slow, strict=True)
    ]


def _easiest(problem: Problem, pool: Pool) -> DecodeWork:
    """The least that requests of any classes ask of a decoding pool, each number by itself."""
    classes = problem.workload.classes
    alone = []
    for k in np.flatnonzero(classes.weight > 0):
        requests = np.zeros((1, classes.count))
        requests[0, k] = 1.0
        tokens = classes.output_tokens[np.newaxis]
        for held in (0.0, 1e-6) if pool.role is Role.RELAY else (0.0,):
            stops = problem.prefill_stop_s(pool)[np.newaxis] if pool.role is Role.AGGREGATED else None
            alone.append(
                decode_work(
                    problem,
                    requests,
                    np.where(held > 0, 0.0, tokens),
                    np.full_like(tokens, held),
                    prefill_s=0.0,
                    stops_s=stops,
                )
            )
    return DecodeWork(
        **{
            spec.name: (max if spec.name in HARDER_WITH_LESS else min)(getattr(work, spec.name) for work in alone)
            for spec in fields(DecodeWork)
        }
    )
