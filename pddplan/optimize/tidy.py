"""Among plans of equal value, the one that is easiest to run: least traffic over lines, then over relays.

Linear programs leave ties open: when two pools are used whole, many splits of the classes between them are
equally good. The fleet and its operating points stay as found; only shares move. Paths for a handful of requests
are closed where that is possible: nobody runs a router for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pddplan.optimize.data import ProgramData, Route
from pddplan.optimize.formulation import LOAD_MARGIN, formulate, name
from pddplan.optimize.judge import Candidate, Judge
from pddplan.optimize.levels import Levels
from pddplan.optimize.solver import SolveStatus, solve

ROOM = 1e-7
"""Relative room left to the rows, so that rounding does not make the plan found look impossible."""
_TIME_LIMIT_S = 1.0
SPLINTER = 0.02
"""Paths that carry a smaller share than this are left out where the same fleet does without them."""


def tidied(judge: Judge, candidate: Candidate) -> Candidate:
    """The same fleet and rate with tidier shares; the candidate itself where nothing can be gained."""
    levels = candidate.levels
    model = judge.model
    if levels is None or (not model.data.lines and not any(pool.role == "RLD" for pool in model.data.pools)):
        return candidate
    routes = model.routes(levels)
    data = _fixed(model.data, candidate, levels, routes)
    tidier = _reshared(judge, candidate, data, routes)
    if tidier is None:
        tidier = candidate
    roomy = _with_room(data, model.data)  # others must carry it: whether that breaks a promise is judged afterwards
    for row in np.argsort(tidier.flow.sum(axis=1), kind="stable"):
        carried = float(tidier.flow[row].sum())
        if not 0 < carried < SPLINTER * candidate.rate_rps:
            continue
        closed = replace(roomy.routes[row], allowed=0 * roomy.routes[row].allowed)
        without = replace(roomy, routes=(*roomy.routes[:row], closed, *roomy.routes[row + 1 :]))
        found = _reshared(judge, candidate, without, routes)
        if found is not None:
            tidier, roomy = found, without
    return tidier


def _with_room(fixed: ProgramData, data: ProgramData) -> ProgramData:
    """The program of a fixed fleet whose pools and lines may be as busy as any plan's."""
    capacity = {option.id: option.capacity_bytes_per_s for option in data.lines}
    return replace(
        fixed,
        pools=tuple(replace(pool, max_load=np.inf) for pool in fixed.pools),
        lines=tuple(replace(option, capacity_bytes_per_s=capacity[option.id]) for option in fixed.lines),
    )


def _reshared(judge: Judge, candidate: Candidate, data: ProgramData, routes: Sequence[Route]) -> Candidate | None:
    """The shares with least traffic over lines and relays in a program; None where no plan comes of it."""
    program, _ = formulate(data, objective="tidy")
    solved = solve(program, time_limit_s=_TIME_LIMIT_S, relax_integers=True)
    if solved.status is not SolveStatus.OPTIMAL or not solved.has_plan:
        return None
    flow = np.zeros_like(candidate.flow)
    for r, route in enumerate(routes):
        for k in range(flow.shape[1]):
            flow[r, k] = solved.values.get(f"y_{name(route.id)}_{k}", 0.0)
    flow[flow < 1e-9 * candidate.rate_rps] = 0.0
    tidier = judge.priced(candidate.instances, candidate.taken, flow)
    true_levels = judge.levels_of(tidier, routes)
    if not judge.keeps_all(tidier, judge.model.routes(true_levels, used=tidier.used)):
        return None
    return replace(tidier, rate_rps=candidate.rate_rps, levels=true_levels)


def _room(load_bytes_per_s: float) -> float:
    """Capacity of a line that lets this load pass, hardly more."""
    return load_bytes_per_s * (1.0 + ROOM) / (1.0 - LOAD_MARGIN)


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
        replace(o, capacity_bytes_per_s=min(_room(levels.lines[o.line].load_bytes_per_s), o.capacity_bytes_per_s))
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
