"""Fronts: no plan beats another, and the axes are checked."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from pddplan.domain.outcome import Outcome, SolverReport
from pddplan.errors import InputError
from pddplan.optimize import Limits
from pddplan.questions import load_inputs, problem_of, shapes_of
from pddplan.report.front import drawing, front_csv, front_json, render
from pddplan.report.text_table import Paint, Screen
from pddplan.studies import pareto as pareto_module
from pddplan.studies.pareto import front
from tests import samples

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
    header, *rows = csv.reader(front_csv(found).splitlines())
    assert header[:3] == ["monthly_cost", "ttft_p99_s", "promised_ttft_p99_s"]
    assert len(set(header)) == len(header)
    assert [float(row[0]) for row in rows] == pytest.approx([point.x for point in found.points])
    drawn = "\n".join(drawing(found, Screen(width=80, paint=Paint(), ascii_only=False)))
    assert all(str(number) in drawn for number in range(1, len(found.points) + 1))


@pytest.mark.parametrize("open_gap", [0.5, 0.0])
def test_a_start_that_leaves_the_proof_open_does_not_stand_for_the_whole_topology(
    monkeypatch: pytest.MonkeyPatch, open_gap: float
) -> None:
    plan = samples.outcome()
    dear = replace(plan, cost=replace(plan.cost, monthly_total=2.0 * plan.cost.monthly_total))

    def size(*_: object, known: object, **__: object) -> Outcome:
        return replace(
            dear if known else plan, solver=SolverReport("any", "best found", open_gap if known else 0.0, 0.0)
        )

    monkeypatch.setattr(pareto_module, "size", size)
    monkeypatch.setattr(pareto_module, "unbeaten", lambda *_, **__: False)
    inputs, measure = load_inputs("agentic-64k"), pareto_module.MEASURES["ttft-p99"]
    sized = pareto_module._Sized(problem_of(inputs), shapes_of(inputs), measure, "pd", LIMITS, [(0.0, dear)])
    got = sized.at(2.0 * measure.of(dear))
    assert got is not None
    assert got.cost.monthly_total == (plan if open_gap else dear).cost.monthly_total


def test_either_axis_may_be_named_first() -> None:
    asked = {"topology": "pd", "limits": LIMITS, "points": 2}
    one, other = (
        front(load_inputs("agentic-64k"), x=x, y=y, **asked) for x, y in (("chips", "tpot"), ("tpot", "chips"))
    )
    assert (one.x, one.y) == (other.x, other.y) == ("chips", "tpot")
    assert [point.x for point in one.points] == [point.x for point in other.points]


@pytest.mark.parametrize(("x", "y", "points"), [("money", "tpot", 4), ("cost", "ttft", 4), ("cost", "tpot", 1)])
def test_unknown_axes_are_refused(x: str, y: str, points: int) -> None:
    with pytest.raises(InputError):
        front(load_inputs("agentic-64k"), x=x, y=y, topology="pd", limits=LIMITS, points=points)
