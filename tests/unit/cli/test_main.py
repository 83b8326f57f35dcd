"""Exit codes, messages and the table of commands."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pddplan import __version__
from pddplan.cli import app, main
from pddplan.cli.main import run
from pddplan.errors import InfeasibleError, InputError, Problem, Relaxation, SolverError


def _raise(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return lambda: fail


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"pddplan {__version__}\n"
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert "Usage: pddplan" in out
    for name, entry in app.COMMANDS.items():
        if entry.exists:
            assert f"\n  {name} " in out


def test_no_arguments_show_help_and_are_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "Usage: pddplan" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sise"], "there is no command 'sise'; did you mean 'size'?"),
        (["--bla"], "No such option"),
        (["size", "--topolgy", "pd"], "--topology"),
        (["size", "--rps", "many"], "Invalid value for '--rps'"),
        (["size", "--rps", "nan"], "--rps must be a finite number greater than 0"),
        (["size", "--rps", "-1"], "--rps must be a finite number greater than 0"),
        (["size", "--tpot", "inf"], "--tpot must be a finite number"),
        (["size", "--json", "--csv", "-"], "more than one output goes to standard output"),
        (["size", "--workload", "nowhere.yaml"], "there is no such file"),
        (["size", "--workload", "agentic-46k"], "did you mean 'agentic-64k'?"),
        (["size", "--sites", "nowhere"], "unknown sites 'nowhere'"),
        (["size", "--profiles", "/nowhere"], "no such folder of profiles"),
        (["size", "--link", "33"], "line 'a-b' has no tier of 33 Gbit/s"),
        (["size", "--chip", "h10-sxm"], "did you mean 'h100-sxm'?"),
        (["size", "--set", "overlp=layerwise"], "did you mean 'overlap'?"),
        (
            ["size", "--set", "overlap=none", "--set", "rdma_latency_s=slow"],
            "rdma_latency_s must be a number, got 'slow'",
        ),
        (["size", "--set", "overlap=always"], "overlap must be one of"),
        (["size", "--rps", "1e308"], "must lie between 0.0001 and 1e+07 requests per second"),
        (["size", "--rps", "1e-300"], "must lie between 0.0001 and 1e+07 requests per second"),
        (["size", "--shape", "8xTP"], "'8xTP' is no instance shape"),
        (["size", "--rps", "1e308", "--objective", "rps"], "--rps fixes the rate"),
    ],
)
def test_bad_usage_exits_2_with_a_message(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_expected_failures_have_their_exit_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    relaxation = Relaxation("TTFT P99", 10.0, 14.2, "s", "--ttft-p99 14.2")
    cases: list[tuple[BaseException, int, str]] = [
        (InputError(Problem("w", "f", "x.yaml:1")), 2, "error: x.yaml:1\n  w\n  fix: f\n"),
        (
            InfeasibleError("no way", conflicts=["P99 and the line"], relaxations=[relaxation]),
            3,
            "no plan: no way\n  conflict: P99 and the line\n  any one of these makes it possible:\n"
            "    TTFT P99: 10 -> 14.2 s   (--ttft-p99 14.2)\n",
        ),
        (
            InfeasibleError(
                "pd: no plan keeps it", relaxations=[Relaxation("rate", 5.0, 4.99987, "req/s", "--rps 4.99")]
            ),
            3,
            "pd: no plan keeps it\n  any one of these makes it possible:\n"
            "    rate: 5 -> 4.99987 req/s   (--rps 4.99)\n",
        ),
        (SolverError("gave up", fix="more time"), 4, "error: gave up\n  fix: more time\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ]
    for error, code, text in cases:
        monkeypatch.setattr(app, "build", _raise(error))
        assert run([]) == code
        assert capsys.readouterr().err == text


def test_bugs_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "build", _raise(ValueError("a bug")))
    with pytest.raises(ValueError, match="a bug"):
        run([])


def test_all_problems_are_told() -> None:
    text = main.message(InputError([Problem("a", "b"), Problem("c", "d", "e")]))
    assert text == "error: a\n  fix: b\nerror: e\n  c\n  fix: d"


@pytest.mark.parametrize("name", [n for n, e in app.COMMANDS.items() if e.exists])
def test_every_command_has_help_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"pddplan {name}" in out


def test_help_is_quick() -> None:
    """Processor time of the best of three calls, so that other work on the machine does not matter (bar: 0.2 s)."""
    best = float("inf")
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "pddplan", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert best < 0.3


def test_a_reader_that_leaves_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "pddplan", "--help"], stdout=write_end, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write_end)
    assert done.returncode == main.EXIT_BROKEN_PIPE
    assert done.stderr == ""
