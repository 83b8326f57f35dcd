"""Promises and limits given as texts, to traffic classes and sites; what plan files keep of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pddplan import api
from pddplan.cli.main import run
from pddplan.errors import InputError
from pddplan.plan_file import read_asked

QUICK = ["size", "--workload", "chat-and-agents", "--topology", "pd", "--no-compare"]


def test_promises_as_texts() -> None:
    texts = ["chat:ttft-p99=900ms", "tpot=40", "agents:tpot=0.06s", "e2e-p99=60"]
    promises = api.load_inputs("chat-and-agents", promises=texts).workload.promises
    named = {promise.name: promise.limit_s for promise in promises.made()}
    assert named["chat TTFT P99"] == pytest.approx(0.9)
    assert named["TPOT P90"] == pytest.approx(0.04)
    assert named["agents TPOT P90"] == pytest.approx(0.06)
    assert named["E2E P99"] == 60
    assert named["agents TTFT P90"] == 8  # as the file says


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"promises": ["chta:ttft-p99=2"]}, "did you mean 'chat'"),
        ({"promises": ["ttft-p98=2"]}, "did you mean 'ttft-p9"),
        ({"promises": ["ttft-p99=soon"]}, "finite time"),
        ({"promises": ["ttft-p99=1e400"]}, "finite time"),
        ({"power_kw": ["nowhere=3"]}, "no site 'nowhere'"),
        ({"power_kw": ["a=-3"]}, "kilowatts"),
        ({"power_kw": ["a"]}, "no power is given"),
        ({"power_kw": ["a=3", "a=4"]}, "limited twice"),
        ({"promises": ["chat:tpot=30", "chat:tpot=40"]}, "made twice, by 'chat:tpot=30'"),
        ({"promises": ["tpot=30"], "tpot_s": 0.04}, "made twice, by --tpot"),
        ({"promises": ["ttft-p99=3"], "ttft_p99_s": 4.0}, "made twice, by --ttft-p99"),
    ],
)
def test_texts_that_name_nothing(given: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        api.load_inputs("chat-and-agents", **given)  # type: ignore[arg-type]


def test_unknown_parts_of_a_question_are_refused() -> None:
    with pytest.raises(TypeError, match="ttft_p98_s"):
        api.load_inputs(ttft_p98_s=3.0)  # type: ignore[call-arg]


def test_classes_in_json_and_limits_in_the_plan_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.json"
    assert run([*QUICK, "--promise", "chat:ttft-p99=1.2", "--spare", "1", "--out", str(plan), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["promises"]["by_class"]["chat"]["ttft_p99_s"] == 1.2
    assert data["by_class"]["chat"]["ttft_s"]["p99"] <= 1.2
    _, limits = read_asked(plan)
    assert limits is not None
    assert limits.redundant_instances == 1
    again = tmp_path / "again.json"
    assert run(["size", "--from", str(plan), "--topology", "pd", "--no-compare", "--out", str(again)]) == 0
    kept = read_asked(again)[1]
    assert kept is not None
    assert kept.redundant_instances == 1


def test_a_remark_on_busy_minutes_goes_away_at_the_rate_it_asks_for() -> None:
    inputs = api.load_inputs("weka-agentic")
    peak_rps = inputs.workload.arrival.rate_rps * inputs.workload.arrival.peak_to_mean
    assert api._peak_remark(inputs.workload, inputs.workload.arrival.rate_rps)
    raised = api.load_inputs("weka-agentic", rps=peak_rps).workload
    assert raised.arrival.peak_to_mean == pytest.approx(1.0)
    assert not api._peak_remark(raised, peak_rps)
    lowered = api.load_inputs("weka-agentic", rps=0.5 * inputs.workload.arrival.rate_rps).workload
    assert lowered.arrival.peak_to_mean == inputs.workload.arrival.peak_to_mean
