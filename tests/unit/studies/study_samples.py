"""A question with straight-line instances and hand-made plans on it, shared by the tests of studies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import LinePlan, Path, PathKind, Plan, Pool, Role, Shape
from pddplan.domain.sites import Finance
from pddplan.domain.workload import Array
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem as Question
from pddplan.sizing import Inputs
from tests.fakes import LinearInstance, LinearKv

_real_problem_of = api.problem_of


@dataclass(frozen=True, slots=True)
class ContextInstance(LinearInstance):
    """Prefill also reads what is cached: 1e-4 s per missing token, and a little per pair."""

    def prefill_time_s(self, *, new_tokens: Array, cached_tokens: Array) -> Array:
        new = np.asarray(new_tokens, dtype=float)
        return 1e-4 * new + 5e-10 * new * np.asarray(cached_tokens, dtype=float)


@cache
def inputs() -> Inputs:
    return api.load_inputs("agentic-64k")


def linear_question(asked: Inputs) -> Question:
    """The question with the same straight-line instance on every chip (stand-in for ``api.problem_of``)."""

    def instance(pool: Pool) -> ContextInstance:
        return ContextInstance(chip_id=pool.chip, shape=pool.shape, kv=LinearKv(5_000.0))

    return replace(_real_problem_of(asked), instance=instance)


def split_plan(*, prefill: int = 6, decode: int = 6, gbps: float = 100.0, rate_rps: float = 4.0) -> Plan:
    """Prefill on H100 at one site, decode on H200 at the other, one line between them; 16 chips per instance."""
    shape = Shape(tp=8, dp=2, ep=16)
    pools = (
        Pool("P", "a", Role.PREFILL, "h100-sxm", shape, prefill),
        Pool("MD", "b", Role.DECODE, "h200-sxm", shape, decode),
    )
    paths = (Path("direct", PathKind.P_MD, "P", None, "MD", "a-b"),)
    share = np.ones((1, inputs().workload.classes.count))
    return Plan("cross-dc-drc", rate_rps, pools, (LinePlan("a-b", gbps),), paths, share)


def aggregated_plan(*, instances: int = 16, rate_rps: float = 4.0) -> Plan:
    """Everything on H100 instances at one site."""
    pools = (Pool("A", "a", Role.AGGREGATED, "h100-sxm", Shape(tp=8, dp=2, ep=16), instances),)
    paths = (Path("agg", PathKind.AGGREGATED, "A", None, "A"),)
    return Plan("colocated", rate_rps, pools, (), paths, np.ones((1, inputs().workload.classes.count)))


@cache
def outcome_of(kind: str = "split") -> Outcome:
    plan = split_plan() if kind == "split" else aggregated_plan()
    return evaluate(linear_question(inputs()), plan)


def with_finance(**numbers: object) -> Inputs:
    finance: Finance = replace(inputs().sites.finance, **numbers)  # type: ignore[arg-type]
    return replace(inputs(), sites=replace(inputs().sites, finance=finance))
