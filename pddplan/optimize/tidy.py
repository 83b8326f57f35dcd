"""Among plans of equal value, the one that is easiest to run: least traffic over lines, then over relays.

Linear programs leave ties open: when two pools are used whole, many splits of the classes between them are
equally good. The fleet and its operating points stay as found; only shares move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pddplan.optimize.data import ProgramData, Route
from pddplan.optimize.formulation import formulate, name
from pddplan.optimize.judge import Candidate, Judge
from pddplan.optimize.levels import Levels
from pddplan.optimize.solver import SolveStatus, solve

ROOM = 1e-7
"""Relative room left to the rows, so that rounding does not make the plan found look impossible."""
_TIME_LIMIT_S = 1.0


def tidied(judge: Judge, candidate: Candidate) -> Candidate:
    """The same fleet and rate with tidier shares; the candidate itself where nothing can be gained."""
    levels = candidate.levels
    model = judge.model
    if levels is None or (not model.data.lines and not any(pool.role == "RLD" for pool in model.data.pools)):
        return candidate
    routes = model.routes(levels)
    data = _fixed(model.data, candidate, levels, routes)
    program, _ = formulate(data, objective="tidy")
    solved = solve(program, time_limit_s=_TIME_LIMIT_S, relax_integers=True)
    if solved.status is not SolveStatus.OPTIMAL or not solved.has_plan:
        return candidate
    flow = np.zeros_like(candidate.flow)
    for r, route in enumerate(routes):
        for k in range(flow.shape[1]):
            flow[r, k] = solved.values.get(f"y_{name(route.id)}_{k}", 0.0)
    flow[flow < 1e-9 * candidate.rate_rps] = 0.0
    tidier = judge.priced(candidate.instances, candidate.taken, flow)
    true_levels = judge.levels_of(tidier, routes)
    if not judge.keeps_all(tidier, model.routes(true_levels, used=tidier.used)):
        return candidate
    return replace(tidier, rate_rps=candidate.rate_rps, levels=true_levels)


def _fixed(data: ProgramData, candidate: Candidate, levels: Levels, routes: Sequence[Route]) -> ProgramData:
    """The program with the candidate's fleet, in which no operating point gets worse."""
    pools = tuple(
        replace(
            pool,
            min_instances=candidate.instances[pool.id],
            max_instances=candidate.instances[pool.id],
            max_load=levels.pools[pool.id].load * (1 + ROOM),
            redundant_instances=0,
        )
        for pool in data.pools
        if candidate.instances.get(pool.id, 0) > 0
    )
    lines = tuple(
        replace(o, capacity_bytes_per_s=levels.lines[o.line].load_bytes_per_s * (1 + ROOM))
        for o in data.lines
        if o.id in candidate.taken
    )
    kept, open_lines = {pool.id for pool in pools}, {o.line for o in lines}
    usable = tuple(
        r if r.work.keys() <= kept and (r.line is None or r.line in open_lines) else replace(r, allowed=0 * r.allowed)
        for r in routes
    )
    rate = candidate.rate_rps
    return replace(
        data,
        pools=pools,
        lines=lines,
        routes=usable,
        min_rate_rps=rate * (1 - ROOM),
        max_rate_rps=rate,
        chip_limits={},
        owned=(),
        power_limits_kw={},
        budget=None,
        max_chips=None,
    )
