"""From the numbers of a solved program to a plan that reads like one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pddplan.domain.plan import LinePlan, Path, Plan, Pool, Role
from pddplan.domain.workload import Array
from pddplan.optimize.data import ProgramData
from pddplan.optimize.judge import Candidate
from pddplan.optimize.points import Points

NEGLIGIBLE_SHARE = 1e-6
"""Shares below this are rounding of the solver and go to the largest path of their class."""

LAST_DIGITS = 3
"""Corrections after which shares add up to one to the last digit."""


def plan_of(
    candidate: Candidate,
    data: ProgramData,
    *,
    topology: str,
    pools: Sequence[Pool],
    paths: Sequence[Path],
    batches: Mapping[str, int],
) -> Plan:
    """Turn a candidate into a plan: only what is used, shares that sum to one, batches of decoding pools set.

    A candidate that serves nothing becomes a plan without paths.
    """
    spare = {option.id: option.redundant_instances for option in data.pools}
    # what the solver's tolerance lets trickle through a pool without instances goes where there are some
    stands = [
        all(p is None or candidate.instances.get(p, 0) > 0 for p in (w.prefill, w.relay, w.decode)) for w in paths
    ]
    flow = np.where(np.array(stands)[:, np.newaxis], candidate.flow, 0.0)
    share = shares(flow, data.weight) if flow.any() else np.zeros_like(flow)
    used_rows = [row for row in range(len(paths)) if share[row].any()]
    kept = tuple(
        replace(
            pool,
            instances=candidate.instances[pool.id] + spare[pool.id],
            batch=None if pool.role is Role.PREFILL else batches[pool.id],
            tpot_s=None,  # the batch says it
        )
        for pool in pools
        if candidate.instances.get(pool.id, 0) > 0
    )
    lines = tuple(LinePlan(o.line, o.gbps, o.count) for o in data.lines if o.id in candidate.taken)
    return Plan(
        topology=topology,
        # the flows of a solver add up to the rate asked for within its tolerance, which must not show
        rate_rps=min(max(candidate.rate_rps, data.min_rate_rps), data.max_rate_rps),
        pools=kept,
        lines=lines,
        paths=tuple(paths[row] for row in used_rows),
        share=share[used_rows],
    )


def searched_plan(points: Points, candidate: Candidate, *, topology: str) -> Plan:
    """The plan of a candidate that was found among these points."""
    return plan_of(
        candidate,
        points.data,
        topology=topology,
        pools=points.pools,
        paths=points.paths,
        batches={p.id: points.batch(p.id) for p in points.pools if p.id in points.mix.decode},
    )


def shares(flow: Array, weight: Array) -> Array:
    """Share of each class per path, shape (paths, classes); columns sum to exactly one, dust swept up."""
    total = flow.sum(axis=0)
    share = np.divide(flow, total, out=np.zeros_like(flow), where=total > 0)
    share[share < NEGLIGIBLE_SHARE] = 0.0
    # a class without requests follows the path that carries most
    empty = share.sum(axis=0) <= 0
    if empty.any():
        share[int(np.argmax(flow.sum(axis=1))), empty] = 1.0
    share = share / share.sum(axis=0)
    largest = share.argmax(axis=0), np.arange(weight.size)
    for _ in range(LAST_DIGITS):
        share[largest] += 1.0 - share.sum(axis=0)
    return np.asarray(share)
