"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pddplan import files
from pddplan.errors import InputError
from pddplan.files import write_atomically


def test_writes_text_and_bytes(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a.txt", "héllo\n")
    write_atomically(tmp_path / "b.bin", b"\x00\xff")
    assert (tmp_path / "a.txt").read_bytes() == "héllo\n".encode()
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\xff"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b.bin"]


def test_failure_keeps_the_old_file_and_leaves_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "plan.json"
    target.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(InputError) as caught:
        write_atomically(target, "new")
    assert caught.value.problems[0].what == "cannot write the file: the disk is full"
    assert caught.value.exit_code == 2
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]


def test_missing_folder_folder_as_target_and_bad_names(tmp_path: Path) -> None:
    cases = {
        tmp_path / "no" / "x.json": "there is no folder",
        tmp_path: "this is a folder",
        Path("a\0b"): "not a usable file name",
        tmp_path / ("x" * 300): "too long",
    }
    for path, words in cases.items():
        with pytest.raises(InputError) as caught:
            write_atomically(path, "x")
        assert words in caught.value.problems[0].what, path
        assert caught.value.problems[0].fix


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(InputError) as caught:
            write_atomically(tmp_path / "x", "x")
    finally:
        tmp_path.chmod(0o700)
    assert "permission denied" in caught.value.problems[0].what


def test_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    real = tmp_path / "real.txt"
    real.write_text("old")
    real.chmod(0o640)
    link = tmp_path / "link.txt"
    link.symlink_to(real)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o640


def test_new_files_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "x", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_dash_is_standard_output_and_devices_are_written(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_atomically("-", "out\n")
    write_atomically("/dev/null", "gone")
    assert capfdbinary.readouterr().out == b"out\n"
