"""Fronts: no plan beats another, and the axes are checked."""

from __future__ import annotations

import pytest

from pddplan.errors import InputError
from pddplan.optimize import Limits
from pddplan.questions import load_inputs
from pddplan.report.front import front_csv, front_json, render
from pddplan.report.text_table import Paint, Screen
from pddplan.studies.pareto import front

LIMITS = Limits(time_limit_s=5.0, max_nodes=20)


def test_front_falls() -> None:
    found = front(load_inputs("agentic-64k"), x="cost", y="ttft-p99", topology="pd", limits=LIMITS, points=4)
    assert len(found.points) >= 2
    for cheaper, dearer in zip(found.points, found.points[1:], strict=False):
        assert cheaper.x <= dearer.x
        assert cheaper.y > dearer.y
    for point in found.points:
        assert point.outcome.keeps_promises
        assert point.promised is None or point.y <= point.promised * (1 + 1e-6)
    text = render(found, Screen(width=100, paint=Paint(), ascii_only=True))
    assert "ttft-p99" in text
    pools = [pool for point in found.points for pool in point.outcome.plan.pools]
    assert all(f"{pool.chip} {pool.role} at {pool.site}" in text for pool in pools)
    assert found.points[-1].promised is None or "pddplan size, with --ttft-p99" in text
    assert len(front_json(found)["points"]) == len(found.points)
    assert len(front_csv(found).splitlines()) == len(found.points) + 1


@pytest.mark.parametrize(("x", "y", "points"), [("money", "tpot", 4), ("cost", "ttft", 4), ("cost", "tpot", 1)])
def test_unknown_axes_are_refused(x: str, y: str, points: int) -> None:
    with pytest.raises(InputError):
        front(load_inputs("agentic-64k"), x=x, y=y, topology="pd", limits=LIMITS, points=points)
