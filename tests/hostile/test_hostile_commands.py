"""The command line in the hands of a sloppy user: absurd options, closed pipes, full disks, an interrupt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pddplan.cli.main import run
from tests.samples import sizing

SIZE = ["size", "--no-compare", "--time-limit", "5"]
REFUSED = [
    *([*SIZE, option, value] for option in ("--rps", "--budget", "--link", "--ttft-p99", "--tpot", "--max-utilization")
      for value in ("0", "-1", "nan", "inf", "-inf", "", "x", "1e999")),
    *([*SIZE, "--rps", value] for value in ("1e300", "1e-300")),
    *([*SIZE, "--link", value] for value in ("1e300", "41")),
    *([*SIZE, option, value] for option in ("--topology", "--chip", "--shape", "--model", "--stack", "--weights",
                                            "--kv", "--workload", "--sites", "--objective", "--profiles")
      for value in ("no-such-thing", "a" * 5000, "/no/such/file.yaml", "nul\0byte", "~no-such-user/x.yaml")),
    *([*SIZE, option, ""] for option in ("--topology", "--chip", "--shape", "--model", "--stack", "--workload")),
    [*SIZE, "--mtp", "-1"], [*SIZE, "--mtp", "1e9"], [*SIZE, "--spare", "-1"], [*SIZE, "--set", "x"],
    [*SIZE, "--set", "rdma_latency_s=nan"], [*SIZE, "--set", "rdma_latency_s=1e308"],
    [*SIZE, "--json", "--csv", "-"], [*SIZE, "--csv", "-", "--out", "-"],
    ["wan", "check", "--link", "1e300"], ["wan", "check", "--rps", "1e300"], ["wan", "check", "--lines", "0"],
    ["wan", "check", "--kv-bytes-per-token", "1e-300"], ["wan", "check", "--kv-bytes-per-token", "1e300"],
    ["wan", "check", "--ceiling", "nan"], ["wan", "check", "--line", ""],
    ["workload", "show", "x" * 5000], ["workload", "show", "nul\0.csv"], ["workload", "show", "/dev/null"],
    ["workload", "show", "agentic-64k", "--scale-to-rps", "1e300"], ["hardware", "show", "\udcff"],
    ["hardware", "compare", ""], ["model", "show", "\ud800"], ["model", "import", "/dev/null"], ["export"],
    ["diff", "/dev/null", "/dev/null"], ["validate", "/dev/null"], ["predict", "/dev/null"], ["no-such-command"],
    ["calibrate", "/dev/null", "--chip", "h100-sxm", "--model", "llama-3.1-8b"],
    ["simulate", "/dev/null"], ["explain", "/dev/null"],
]  # fmt: skip


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda a: " ".join(a)[-40:].replace("\0", "0"))
def test_absurd_options_are_refused_in_words(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert said.err.strip() or said.out.strip()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def plan_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from pddplan.report.json_plan import save_plan

    path = tmp_path_factory.mktemp("plans") / "plan.json"
    save_plan(sizing(), path)
    return path


WRITERS = [
    ["export", "PLAN", "--out"],
    ["simulate", "PLAN", "--requests", "500", "--csv"],
    ["wan", "check", "--csv"],
    ["export", "--schema", "chip", "--out"],
    ["model", "import", "CONFIG", "--out"],
]


@pytest.mark.parametrize("target", ["/dev/full", "/no/such/folder/x", "/", "/proc/x", "a" * 300])
@pytest.mark.parametrize("command", WRITERS, ids=lambda c: " ".join(c[:2]))
def test_what_cannot_be_written_is_said(
    command: list[str], target: str, plan_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from benchmarks.fuzz_targets import _CONFIG

    (tmp_path / "config.json").write_text(json.dumps(_CONFIG))
    monkeypatch.chdir(tmp_path)
    swap = {"PLAN": str(plan_path), "CONFIG": str(tmp_path / "config.json")}
    assert run([*(swap.get(word, word) for word in command), target]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


def shell(arguments: list[str], **settings: object) -> subprocess.Popen[bytes]:
    code = "from pddplan.cli.main import main; main()"
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, **settings)  # type: ignore[call-overload,no-any-return]


def test_a_full_disk_behind_standard_output() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("wb") as full:
        process = shell(["hardware", "list"], stdout=full)
        _, said = process.communicate(timeout=600)
    assert process.returncode == 2
    assert b"cannot write to standard output" in said
    assert b"Traceback" not in said


def test_a_reader_that_leaves_early() -> None:
    process = shell(["hardware", "list", "--json"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=600) in (0, 141)
    assert said == b""


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_streams_closed_by_the_caller(closed: int) -> None:
    words = ["validate", "-"] if closed == 0 else ["hardware", "show", "no-such-chip"]
    script = f'exec "$0" "$@" {closed}{"<" if closed == 0 else ">"}&-'
    code = "from pddplan.cli.main import main; main()"
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable, "-c", code, *words], capture_output=True, timeout=600, check=False
    )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


INTERRUPTED_AT = """
import os, signal
import {module} as owner
inner = owner.{function}
def interrupted(*given, **named):
    os.kill(os.getpid(), signal.SIGINT)
    return inner(*given, **named)
owner.{function} = interrupted
from pddplan.cli.main import main
main()
"""
"""The signal comes at a known moment, however slow the machine is."""

WHILE_A_COMPILED_MODULE_LOADS = """
import os, signal
from importlib.machinery import ExtensionFileLoader
loads = ExtensionFileLoader.exec_module
def fails(loader, module):
    if not module.__name__.startswith("numpy"):
        return loads(loader, module)
    ExtensionFileLoader.exec_module = loads
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise ImportError("initialization failed") from None  # what compiled modules make of it
    raise AssertionError("no interrupt")
from pddplan.cli.main import main
ExtensionFileLoader.exec_module = fails
main()
"""


@pytest.mark.parametrize(
    "script",
    [INTERRUPTED_AT.format(module="pddplan.simulate.run", function="draw_requests"), WHILE_A_COMPILED_MODULE_LOADS],
    ids=["while it simulates", "while a compiled module loads"],
)
def test_an_interrupt_ends_without_traceback(script: str, plan_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", script, "simulate", str(plan_path)], capture_output=True, timeout=600, check=False
    )
    assert process.returncode == 130
    assert process.stderr == b"interrupted\n"
    assert process.stdout == b""
