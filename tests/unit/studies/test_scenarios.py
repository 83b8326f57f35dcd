"""Regret across scenarios, with hand-made optima."""

from __future__ import annotations

import numpy as np
import pytest

from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.errors import InputError
from pddplan.evaluate.evaluate import evaluate
from pddplan.report.bcr_regret import regret_csv, regret_json, render, verdict
from pddplan.report.text_table import Paint, Screen
from pddplan.studies import scenarios as scenarios_module
from pddplan.studies.scenarios import (
    ALL_AT_ONCE,
    AS_PLANNED,
    Scenario,
    all_at_once,
    default_scenarios,
    parse_scenario,
    regret_study,
)
from tests.unit.studies.study_samples import inputs, split_plan

pytestmark = pytest.mark.usefixtures("linear")


def test_parse() -> None:
    got = parse_scenario("busy: demand=1.3, missing tokens=1.2")
    assert got == Scenario("busy", {"demand": 1.3, "missing tokens": 1.2})


@pytest.mark.parametrize("text", ["", "busy", "busy:", ": demand=1", "busy: demand", "busy: demand=x", "b: demand=nan"])
def test_unreadable_scenarios_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="cannot read the scenario"):
        parse_scenario(text)


def test_usual_scenarios_cover_the_usual_troubles() -> None:
    got = default_scenarios(inputs(), split_plan())
    assert got[0] == Scenario(AS_PLANNED, {})
    assert {s.name for s in got} >= {"fewer hits", "more demand", "slow prefill", "dear lines"}
    joint = all_at_once(got)
    assert joint.name == ALL_AT_ONCE
    assert joint.values["demand"] == 1.1


def test_the_larger_plan_regrets_less_when_promises_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small plan is best as planned and breaks under load; a large one holds everywhere and costs more."""
    question = api.problem_of(inputs())
    small = evaluate(question, split_plan(prefill=4, decode=4, rate_rps=4.0))
    assert small.keeps_promises

    def optimum(asked: object, *, objective: object, **_: object) -> Outcome:
        rate = objective.rate_rps  # type: ignore[attr-defined]
        size = {"prefill": 4, "decode": 4} if rate < 7 else {"prefill": 16, "decode": 12}
        return evaluate(asked, split_plan(rate_rps=rate, **size))  # type: ignore[arg-type]

    monkeypatch.setattr(scenarios_module, "optimum", optimum)
    busy = [Scenario("busy", {"demand": 2.5})]
    strict = regret_study(inputs(), small, topology="cross-dc-drc", scenarios=busy)
    assert strict.regret.scenarios == (AS_PLANNED, "busy")
    assert strict.regret.plans == (AS_PLANNED, f"busy, {ALL_AT_ONCE}")
    assert strict.holds.tolist() == [[True, False], [True, True]]
    assert strict.regret.robust == f"busy, {ALL_AT_ONCE}"
    assert strict.regret.worst[0] == 1.0
    carried = regret_study(inputs(), small, topology="cross-dc-drc", scenarios=busy, carried=True)
    assert carried.regret.worst[0] < 1.0
    text = render(strict, Screen(100, Paint(), ascii_only=True))
    assert max(len(line) for line in text.splitlines()) <= 100
    assert verdict(strict).startswith("Plan 2 is the most robust")
    assert len(regret_csv(strict).splitlines()) == 5
    assert np.array(regret_json(strict)["plans"][0]["bcr"]).shape == (2,)


def test_scenarios_must_name_known_factors_once() -> None:
    outcome = evaluate(api.problem_of(inputs()), split_plan())
    with pytest.raises(InputError, match="did you mean 'demand'"):
        regret_study(inputs(), outcome, topology="pd", scenarios=[Scenario("x", {"deman": 1.0})])
    with pytest.raises(InputError, match="same name"):
        regret_study(inputs(), outcome, topology="pd", scenarios=[Scenario("x", {"demand": 1.0})] * 2)
