"""Plans known beforehand, as candidates of a question: of another question, of a narrower one, or the user's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pddplan.domain.outcome import SolverReport
from pddplan.domain.plan import Plan, Pool
from pddplan.optimize.judge import Candidate, Judge
from pddplan.optimize.mending import judged
from pddplan.optimize.points import Points
from pddplan.optimize.search import BEST_FOUND
from pddplan.optimize.settle import UNPROVEN, Found
from pddplan.optimize.solver import solver_name


def kind_of(pool: Pool) -> tuple[str, str, str, str]:
    """What makes pools of two plans the same kind of instances."""
    return (pool.site, pool.role.value, pool.chip, str(pool.shape))


def candidate_id(pool: Pool) -> str:
    """As candidates are called, whatever a plan made by hand calls its pools."""
    return "/".join(kind_of(pool))


def known_ids(plan: Plan | None) -> frozenset[str]:
    """Candidates that a plan is made of."""
    return frozenset(name for pool in plan.pools for name in (pool.id, candidate_id(pool))) if plan else frozenset()


def candidate_of(points: Points, plan: Plan, rate_rps: float) -> Candidate | None:
    """A plan in terms of the program; None where the program has no such pools, paths or lines."""
    spare = {option.id: option.redundant_instances for option in points.data.pools}
    counts = {pool.id: 0 for pool in points.pools}
    known = {pool.id: pool.id if pool.id in counts else candidate_id(pool) for pool in plan.pools}
    for pool in plan.pools:
        if known[pool.id] not in counts:
            return None
        counts[known[pool.id]] += pool.instances - spare[known[pool.id]]
    row_of = {(p.kind, p.prefill, p.relay, p.decode, p.line, p.decode_cache): i for i, p in enumerate(points.paths)}
    flow = np.zeros((points.path_count, points.data.weight.size))
    if plan.share.shape[1] != points.data.weight.size:
        return None
    for path, shares in zip(plan.paths, plan.share, strict=True):
        relay, decode = (known.get(pool) if pool else None for pool in (path.relay, path.decode))
        row = row_of.get((path.kind, known[path.prefill], relay, decode, path.line, path.decode_cache))
        if row is None:
            return None
        flow[row] += rate_rps * points.data.weight * shares
    options = {(o.line, o.gbps, o.count): o.id for o in points.data.lines}
    taken = tuple(options.get((line.line, line.gbps, line.count), "") for line in plan.lines if line.count)
    if "" in taken or min(counts.values()) < 0:
        return None
    return Judge(points).priced(counts, taken, flow)


def as_found(points: Points, plan: Plan, *, topology: str) -> Found | None:
    """A plan known beforehand as an answer of which nothing is proven; None where it is no answer to the question."""
    rate_rps = min(max(plan.rate_rps, points.data.min_rate_rps), points.data.max_rate_rps)
    candidate = candidate_of(points, plan, rate_rps)
    if candidate is None or not Judge(points).within_limits(candidate):
        return None
    own = judged(points, candidate, topology=topology)
    report = SolverReport(solver_name(), BEST_FOUND, UNPROVEN, 0.0)
    return Found(replace(own.outcome, solver=report), points, candidate) if own.short <= 0 else None
