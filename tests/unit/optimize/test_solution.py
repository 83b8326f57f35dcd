"""From what a solver found to a plan: tolerances must not show."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pddplan.domain.plan import Path, PathKind, Plan, Pool, Role, Shape
from pddplan.optimize.solution import plan_of

POOLS = [Pool(name, "a", Role.AGGREGATED, "h100", Shape(), 0) for name in ("used", "closed")]
PATHS = [Path(pool.id, PathKind.AGGREGATED, pool.id) for pool in POOLS]
DATA: Any = SimpleNamespace(
    pools=[SimpleNamespace(id=pool.id, redundant_instances=0) for pool in POOLS],
    lines=[],
    weight=np.array([0.5, 0.5]),
    min_rate_rps=10.0,
    max_rate_rps=10.0,
)


def plan(flow: list[list[float]], *, used: int = 3, rate_rps: float = 10.0) -> Plan:
    candidate: Any = SimpleNamespace(
        flow=np.array(flow), instances={"used": used, "closed": 0}, taken=(), rate_rps=rate_rps
    )
    return plan_of(candidate, DATA, topology="any", pools=POOLS, paths=PATHS, batches={"used": 8, "closed": 8})


def test_nothing_goes_through_a_pool_without_instances() -> None:
    found = plan([[5.0, 4.99], [0.0, 0.01]])
    assert [path.id for path in found.paths] == ["used"]
    assert [pool.id for pool in found.pools] == ["used"]
    assert found.share.tolist() == [[1.0, 1.0]]


def test_what_serves_nothing_has_no_paths() -> None:
    assert plan([[1e-12, 0.0], [0.0, 1e-9]], used=0).paths == ()


@pytest.mark.parametrize("rate_rps", [10.0 * (1 - 1e-7), 10.0 * (1 + 1e-7)])
def test_the_rate_is_the_one_asked_for(rate_rps: float) -> None:
    assert plan([[5.0, 5.0], [0.0, 0.0]], rate_rps=rate_rps).rate_rps == 10.0
