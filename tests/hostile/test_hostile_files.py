"""Paths that are no files, names that no file system takes, full disks, and two writers at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pddplan.errors import InputError
from pddplan.files import home_path, is_file, is_folder, read_text, write_atomically
from pddplan.performance.benchmark_files import read_benchmark
from pddplan.performance.measurement import read_measurements
from pddplan.plan_file import read_plan_file
from pddplan.profiles.chip_profile import load_chip
from pddplan.profiles.llm_profile import load_llm
from pddplan.profiles.sites_profile import load_sites
from pddplan.profiles.workload_profile import load_workload
from pddplan.traces.reading import read_trace

READERS: dict[str, Callable[[Path], object]] = {
    "benchmark": read_benchmark,
    "measurements": read_measurements,
    "plan": read_plan_file,
    "chip": load_chip,
    "llm": load_llm,
    "sites": load_sites,
    "workload": load_workload,
    "trace": read_trace,
}
ODD_PATHS = ["/dev/null", "/dev/zero", "/proc/self/mem", "/nonexistent/file.yaml", "/", "a" * 5000, "y/" * 3000,
             "nul\0byte.yaml", "~no-such-user-anywhere/x.yaml", "./"]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_PATHS, ids=lambda p: repr(p[:30]))
@pytest.mark.parametrize("reader", sorted(READERS))
def test_odd_paths_are_refused_in_words(reader: str, odd: str) -> None:
    if odd == "/dev/zero" and reader == "trace":
        pytest.skip("read up to the longest line, tested below")
    with pytest.raises(InputError) as caught:
        READERS[reader](odd)  # type: ignore[arg-type]  # as text, as the command line gives some of them
    assert all(problem.what and problem.fix for problem in caught.value.problems)


def test_a_device_without_end_is_no_trace() -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("no /dev/zero here")
    with pytest.raises(InputError):
        read_trace("/dev/zero")


def test_links_are_followed_and_loops_refused(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("é", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to("real.txt")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("gone")
    assert read_text(tmp_path / "link.txt", limit=10) == "é"
    for name in ("loop", "nowhere"):
        assert not is_file(tmp_path / name)
        assert not is_folder(tmp_path / name)
        with pytest.raises(InputError):
            read_text(tmp_path / name, limit=10)
    with pytest.raises(InputError):
        write_atomically(tmp_path / "loop", "x")
    write_atomically(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_home_of_nobody() -> None:
    with pytest.raises(InputError, match="no such user"):
        home_path("~no-such-user-anywhere/x")


def test_a_user_without_home_reads_what_is_bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number of its own."""
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(os, "getuid", lambda: 98_765)
    with pytest.raises(InputError, match="no such user"):
        home_path("~/x")
    assert load_chip("h200-sxm").id == "h200-sxm"


ODD_TARGETS = ["/dev/full", "/proc/x", "/nonexistent/x", "/", "a" * 300, "nul\0byte", "~no-such-user-anywhere/x", ""]


@pytest.mark.parametrize("target", ODD_TARGETS, ids=lambda p: repr(p[:30]))
def test_what_cannot_be_written_is_said(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if target == "/dev/full" and not Path(target).exists():
        pytest.skip("no /dev/full here")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        write_atomically(target, b"x" * 100_000)
    assert all(problem.what and problem.fix for problem in caught.value.problems)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "kept.txt"
    target.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="disk is full"):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["kept.txt"]


@pytest.mark.parametrize("text", ["lone \ud800 surrogate", "\udcff"])
def test_text_that_is_no_text_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        write_atomically(tmp_path / "x.txt", text)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "x.txt", "new")
    assert list(tmp_path.iterdir()) == []


def test_two_processes_writing_one_file_never_mix(tmp_path: Path) -> None:
    """A reader sees one whole version or the other, all the time."""
    target = tmp_path / "shared.txt"
    sizes = {"a": 300_000, "b": 200_000}
    write_atomically(target, "a" * sizes["a"])
    code = (
        "import sys; from pddplan.files import write_atomically\n"
        "for _ in range(40): write_atomically(sys.argv[1], sys.argv[2] * int(sys.argv[3]))"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(target), w, str(n)]) for w, n in sizes.items()]
    seen: set[str] = set()
    mixed: list[int] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            text = target.read_text()
            if text != text[0] * sizes[text[0]]:
                mixed.append(len(text))
            seen.add(text[0])

    reader = threading.Thread(target=look)
    reader.start()
    codes = [writer.wait(timeout=600) for writer in writers]
    done.set()
    reader.join()
    assert codes == [0, 0]
    assert not mixed
    assert seen
    assert [p.name for p in tmp_path.iterdir()] == ["shared.txt"]
