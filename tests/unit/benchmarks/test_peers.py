"""The comparison with peers reads both sides in the same words, and goes without the peer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_exponent_of_a_square_is_two() -> None:
    from peers_spent import growth

    found = growth("n", (10, 20, 40), lambda n: 3.0 * n * n)
    assert found.exponent == pytest.approx(2.0)
    assert found.last_exponent == pytest.approx(2.0)


def test_a_program_is_timed_with_its_exit_code_and_output() -> None:
    from peers_spent import run

    spent = run([sys.executable, "-c", "print('said'); raise SystemExit(3)"])
    assert spent.code == 3
    assert spent.output.strip() == "said"
    assert 0 < spent.cpu_s < 60
    assert 1 < spent.peak_mb < 2000


def test_replicas_of_the_peer_fill_the_chips_asked_for() -> None:
    from peers_questions import HEADLINE, peer_answer, questions

    question = next(q for q in questions() if q.name == HEADLINE)
    layout = {f"({side}){axis}": "1" for side in "pd" for axis in ("pp", "dp", "moe_ep", "tp")}
    row = {"num_total_gpus": "8", "tokens/s": "4000", "ttft": "750", "tpot": "16", **layout}
    answer = peer_answer({**row, "(d)tp": "4", "(p)workers": "4", "(d)workers": "1"}, question)
    assert answer.tokens_per_s_per_chip == pytest.approx(2 * 4000 / 16)
    assert answer.ttft_s == pytest.approx(0.75)
    assert answer.layout == "P 8 x TP1, MD 2 x TP4"


def test_without_peer_and_kept_answers_there_is_no_answer(tmp_path: Path) -> None:
    from peers_questions import ask_peer, peer_rows, questions

    assert ask_peer(None, questions()[0], tmp_path) is None
    assert peer_rows(tmp_path, "disagg") == []
