"""What ``pddplan simulate`` prints, as JSON, as CSV and for people."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.closed_form_vs_simulation import NO_COST, Case, build
from pddplan.domain.outcome import Outcome
from pddplan.domain.workload import Promises
from pddplan.evaluate.evaluate import evaluate
from pddplan.report.simulation_data import json_record, series_csv
from pddplan.report.simulation_table import render, sparkline
from pddplan.simulate import Draw, SimulationResult, simulate
from pddplan.simulate.result import Series


@pytest.fixture(scope="module")
def calm() -> tuple[Outcome, SimulationResult]:
    problem, plan = build(Case("skewed", 4, 0.6, 0.5, topology="pdd"))
    return evaluate(problem, plan, cost=NO_COST), simulate(problem, plan, draw=Draw(3000))


@pytest.fixture(scope="module")
def overloaded() -> tuple[Outcome, SimulationResult]:
    problem, plan = build(Case("flat", 4, 1.2, 0.5))
    return evaluate(problem, plan, cost=NO_COST), simulate(problem, plan, draw=Draw(3000))


def test_terminal_text_names_everything(calm: tuple[Outcome, SimulationResult]) -> None:
    text = render(*calm, width=110)
    assert text.startswith("TTFT by closed form against simulation: P50")
    for wanted in ("TTFT P99", "OVER TIME", "P queue", "a-b transfers", "RLD load"):
        assert wanted in text
    assert "unstable" not in text
    assert max(len(line) for line in text.splitlines()) <= 110
    assert text == "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def test_narrow_and_plain_screens(calm: tuple[Outcome, SimulationResult]) -> None:
    text = render(*calm, width=60, ascii_only=True)
    assert text.isascii()
    assert "TTFT P99" in text


def test_promises_come_first(calm: tuple[Outcome, SimulationResult]) -> None:
    text = render(*calm, promises=Promises(ttft_p90_s=100.0, ttft_p99_s=0.1), width=110)
    assert text.startswith("The simulation breaks promises: TTFT P99 is")
    assert "(100 ms promised)" in text
    assert render(*calm, promises=Promises(ttft_p90_s=100.0), width=110).startswith("In simulation all promises are")
    record = json_record(*calm, promises=Promises(ttft_p99_s=0.1))
    assert [check["verdict"] for check in record["promises"]] == ["broken"]


def test_what_is_underestimated_beside_ttft_is_said_first(calm: tuple[Outcome, SimulationResult]) -> None:
    outcome, result = calm
    assert "TPOT" not in render(outcome, result, width=200).split("\n\n")[0]
    assert outcome.tpot is not None
    hasty = replace(outcome, tpot=replace(outcome.tpot, p90=0.5 * outcome.tpot.p90))
    head = render(hasty, result, width=200).split("\n\n")[0]
    assert "Underestimated beside it: TPOT P90" in head


def test_overload_comes_first_and_last(overloaded: tuple[Outcome, SimulationResult]) -> None:
    text = render(*overloaded, width=100)
    assert text.startswith("The simulated system does not keep up")
    assert "unstable: P: work arrives at 1.2" in text


@pytest.mark.parametrize("which", ["calm", "overloaded"])
def test_json_is_plain_and_complete(which: str, request: pytest.FixtureRequest) -> None:
    record = json.loads(json.dumps(json_record(*request.getfixturevalue(which)), allow_nan=False))
    assert record["stable"] is (which == "calm")
    assert {row["quantity"] for row in record["comparison"]} >= {"TTFT P50", "TTFT P90", "TTFT P99"}
    assert record["ttft_s"]["p99"]["value"] > 0
    assert record["series"][0]["values"]


def test_series_csv_has_one_row_per_moment() -> None:
    series = Series("P queue", "requests", np.array([0.0, 1.5]), np.array([0.0, 3.0]))
    assert series_csv([series]) == "time_s,P queue [requests]\n0.000,0\n1.500,3\n"
    assert series_csv([]) == "time_s\n"


def test_sparkline_keeps_peaks() -> None:
    assert sparkline([0, 0, 8, 0], width=2) == "▁█"
    assert sparkline([0, 0, 0], width=10) == "▁▁▁"
    assert sparkline([], width=10) == ""
    assert sparkline([1, 2], width=10, bars=" #") == "##"
