"""Files to write that are links, read-only, the command's own input, one and the same, or no files at all."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fuzz_targets import _CONFIG
from pddplan.cli.app import COMMANDS, load_command
from pddplan.cli.main import run
from pddplan.cli.outputs import OUTPUT_FLAGS
from pddplan.errors import InputError
from pddplan.files import append, check_target, write_atomically
from pddplan.optimize import Limits
from pddplan.report.sweep_file import RowWriter, done_before, part_of
from pddplan.studies.axes import parse_axis
from pddplan.studies.sweep import Sweep
from tests.samples import sizing

TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:17:{n:02d}.97,{480 + n},{10 + n}\n" for n in range(50)
)
IMPORT = ["workload", "import", "t.csv", "-m", "deepseek-v3", "--assume-hit-rate", "0.5", "--out"]
WRITERS = [
    ["export", "plan.json", "--out"], ["export", "--schema", "chip", "--out"], ["hardware", "list", "--csv"],
    ["model", "list", "--csv"], ["model", "import", "config.json", "--out"], ["wan", "check", "--csv"], IMPORT,
    ["simulate", "plan.json", "--requests", "300", "--csv"],
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with one input of each kind."""
    from pddplan.report.json_plan import save_plan

    monkeypatch.chdir(tmp_path)
    save_plan(sizing(), "plan.json")
    Path("config.json").write_text(json.dumps(_CONFIG))
    Path("t.csv").write_text(TRACE)
    return tmp_path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"plan.json", "config.json", "t.csv"}


def leaves(command: Any) -> Iterator[Any]:
    for inner in getattr(command, "commands", {}).values():
        yield from leaves(inner)
    if not getattr(command, "commands", {}):
        yield command


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_that_writes_is_looked_at_first(name: str) -> None:
    for command in leaves(load_command(name, COMMANDS[name])):
        for param in command.params:
            says_so = (getattr(param, "help", "") or "").lower()
            if "write" in says_so.split() and "file" in str(param.metavar).lower():
                assert OUTPUT_FLAGS.intersection(param.opts), f"{command.name} {param.opts}"
        assert type(command).__name__ == "WritingCommand", command.name


@pytest.mark.parametrize("command", WRITERS, ids=lambda c: " ".join(c[:2]))
def test_links_are_followed_to_where_they_point(command: list[str], place: Path) -> None:
    Path("real").write_text("old")
    Path("link").symlink_to("real")
    Path("nowhere").symlink_to("made")
    assert run([*command, "link"]) == 0
    assert run([*command, "nowhere"]) == 0
    assert Path("link").is_symlink()
    assert Path("nowhere").is_symlink()
    assert Path("real").read_text() == Path("made").read_text() != "old"
    assert names(place) == {"real", "link", "nowhere", "made"}


@pytest.mark.parametrize("command", WRITERS, ids=lambda c: " ".join(c[:2]))
def test_standard_output_by_its_other_name(command: list[str], place: Path, capfdbinary: Any) -> None:
    """A file behind it must not be replaced, or what is printed next is lost."""
    assert run([*command, "-"]) == 0
    by_dash = capfdbinary.readouterr().out
    assert run([*command, "/dev/stdout"]) == 0
    assert capfdbinary.readouterr().out == by_dash
    assert names(place) == set()


@pytest.mark.parametrize(
    "command",
    [
        ["export", "plan.json", "--out", "plan.json"],
        ["export", "plan.json", "--out", "link"],
        ["model", "import", "config.json", "--out", "./config.json"],
        [*IMPORT, "t.csv"],
        ["simulate", "plan.json", "--requests", "300", "--csv", "plan.json"],
        ["size", "--sites", "sites.yaml", "--csv", "sites.yaml"],
        ["size", "--out", "x", "--csv", "./x"],
        ["size", "--out", "x", "--html", "y", "--xlsx", "dangling"],
    ],
    ids=" ".join,
)
def test_an_input_or_another_output_is_not_replaced(command: list[str], place: Path, capsys: Any) -> None:
    Path("link").symlink_to("plan.json")
    Path("dangling").symlink_to("y")
    Path("sites.yaml").write_text("schema: sites/1\n")
    before = {path: path.read_bytes() for path in place.iterdir() if path.exists()}
    assert run(command) == 2
    assert "read here" in (said := capsys.readouterr().err) or "the same file" in said
    assert {path: path.read_bytes() for path in place.iterdir() if path.exists()} == before


def test_what_cannot_be_written_is_said_before_the_work(place: Path, monkeypatch: Any, capsys: Any) -> None:
    import pddplan.api

    monkeypatch.setattr(pddplan.api, "size_inputs", lambda *_, **__: pytest.fail("sized all the same"))
    for option in ("--out", "--csv", "--xlsx", "--html"):
        assert run(["size", option, "no/such/folder"]) == 2
        assert "there is no folder" in capsys.readouterr().err
    assert names(place) == set()


@contextlib.contextmanager
def nobody() -> Iterator[Path]:
    """A folder of everybody's, seen as somebody without rights."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        am_root = os.geteuid() == 0
        if am_root:
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            if am_root:
                os.seteuid(0)


def test_read_only_files_and_folders_stay_as_they_are() -> None:
    with nobody() as folder:
        kept, closed = folder / "kept", folder / "closed"
        kept.write_text("old")
        kept.chmod(0o444)
        closed.mkdir(mode=0o555)
        for target in (kept, closed / "new"):
            for write in (check_target, lambda path: write_atomically(path, "new"), lambda path: append(path, "new")):
                with pytest.raises(InputError, match="permission denied"):
                    write(target)
        assert kept.read_text() == "old"
        assert {path.name for path in folder.rglob("*")} == {"kept", "closed"}
        closed.chmod(0o777)


def test_checking_a_target_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    for name in ("old", "new"):
        check_target(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "old"


SWEEP = ["sweep", "--vary", "rps=5", "--backend", "serial", "--topology", "pd", "--csv"]


def test_sweeps_into_devices_and_homes(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    for target in ("-", "/dev/null", "~/x.csv"):
        assert run([*SWEEP, target]) == 0
    assert capsys.readouterr().out.startswith("rps,status")
    assert [path.name for path in tmp_path.rglob("*")] == ["home", "x.csv"]
    assert not part_of(Path("/dev/null")).exists()


@pytest.mark.parametrize("rows", [b"", b"\xff\xfe", b"a,b\n1,2\n", b'rps,"', b"\0", b"x" * 200_000], ids=repr)
def test_a_sweep_does_not_go_on_from_what_is_no_table_of_it(rows: bytes, tmp_path: Path) -> None:
    target = tmp_path / "x.csv"
    part_of(target).write_bytes(rows)
    with pytest.raises(InputError):
        done_before(target, Sweep((parse_axis("rps=1,2"),), Limits(), fingerprints={(): "0"}))


def test_a_disk_that_fills_up_during_a_sweep_is_said(tmp_path: Path, monkeypatch: Any) -> None:
    import pddplan.files

    writer = RowWriter(tmp_path / "x.csv", [parse_axis("rps=1,2")], [])
    monkeypatch.setattr(Path, "open", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match="disk is full"):
        pddplan.files.append(writer.part or "", "row\n")


READY = """
import os
import pddplan.cli.main as main
listen = main._on_signals
def ready(*given, **named):
    listen(*given, **named)
    main._on_signals = listen
    os.write(1, b"!")
main._on_signals = ready
main.main()
"""
"""Says when it listens to signals: before that, Python itself ends with its own words."""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("delay_s", [0.02, 0.06, 0.25, 0.8])
def test_a_signal_at_any_moment_ends_without_traceback(number: int, code: int, delay_s: float, place: Path) -> None:
    words = ["simulate", "plan.json", "--requests", "20000000", "--csv", "out.csv"]
    told = subprocess.Popen(
        [sys.executable, "-c", READY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert told.stdout is not None
    assert told.stdout.read(1) == b"!"
    time.sleep(delay_s)
    told.send_signal(number)
    out, said = told.communicate(timeout=600)
    assert b"Traceback" not in said
    assert out == b""
    assert told.returncode == code
    assert names(place) == set()


def test_the_second_interrupt_leaves_at_once() -> None:
    """Searches answer the first with their best plan, and commands of many searches go on with the next."""
    program = (
        "import time, os, pddplan.cli.main as m\n"
        "def work(*_):\n"
        "    for mark in (b'1', b'2'):\n"
        "        try:\n"
        "            os.write(1, mark)\n"
        "            time.sleep(600)\n"
        "        except KeyboardInterrupt: pass\n"
        "    return 0\n"
        "m.run = work; m.main()"
    )
    told = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    assert told.stdout is not None
    for mark in (b"1", b"2"):
        assert told.stdout.read(1) == mark
        told.send_signal(signal.SIGINT)
    _, said = told.communicate(timeout=600)
    assert (told.returncode, said) == (130, b"")
