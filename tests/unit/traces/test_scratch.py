"""Rows in scratch files: read back as written, sorted without fitting in memory, gone however the program ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.errors import InputError
from pddplan.traces.scratch import RowStore, merged, sorted_rows

COLUMNS = (("key", "f8"), ("place", "i4"))


def store_of(keys: list[float], *, memory_bytes: int = 10**6, piece: int = 7) -> RowStore:
    store = RowStore(COLUMNS, memory_bytes=memory_bytes)
    for start in range(0, len(keys), piece):
        part = np.array(keys[start : start + piece])
        store.append(key=part, place=np.arange(start, start + part.size))
    return store


@pytest.mark.parametrize("memory_bytes", [1, 10**6])
def test_rows_come_back_as_written(memory_bytes: int) -> None:
    store = store_of([float(k) for k in range(50)], memory_bytes=memory_bytes)
    assert store.count == 50
    assert store.column("key").tolist() == list(range(50))
    assert [rows["place"].tolist() for rows in store.chunks(20)] == [[*range(20)], [*range(20, 40)], [*range(40, 50)]]
    assert store.read(48, 99)["place"].tolist() == [48, 49]


@given(st.lists(st.integers(0, 12).map(float), max_size=120), st.integers(1, 50))
def test_sorting_in_pieces_is_a_stable_sort(keys: list[float], rows_at_once: int) -> None:
    got = sorted_rows(store_of(keys), "key", rows_at_once=rows_at_once)
    assert got.column("place").tolist() == np.argsort(np.array(keys), kind="stable").tolist()


@given(st.lists(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=4), max_size=4))
def test_streams_merge_with_ties_in_their_order(pieces: list[list[list[int]]]) -> None:
    whole = [sorted(value for chunk in chunks for value in chunk) for chunks in pieces]

    def stream(number: int) -> Iterator[np.ndarray]:
        start = 0
        for chunk in pieces[number]:
            part = whole[number][start : start + len(chunk)]
            start += len(chunk)
            yield np.array([(value, number) for value in part], dtype=[("key", "f8"), ("stream", "i4")])

    chunks = list(merged([stream(number) for number in range(len(pieces))], lambda rows: rows["key"]))
    got = [tuple(row) for chunk in chunks for row in chunk.tolist()]
    assert got == sorted((float(value), number) for number, values in enumerate(whole) for value in values)


class Full:
    """A file on a full disk."""

    def seek(self, *_: int) -> None:
        pass

    def write(self, _: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    store = RowStore(COLUMNS)
    monkeypatch.setattr(store, "_file", Full())
    with pytest.raises(InputError) as caught:
        store.append(key=np.zeros(1))
    assert "No space left on device" in caught.value.problems[0].what
    assert "TMPDIR" in caught.value.problems[0].fix


def test_a_folder_that_is_not_there_is_said_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    store = RowStore(COLUMNS, memory_bytes=1)
    with pytest.raises(InputError, match="TMPDIR"):
        store.append(key=np.zeros(5))


_WAIT = """
import time
import numpy as np
from pddplan.traces.scratch import RowStore
store = RowStore([("key", "f8")], memory_bytes=1)
store.append(key=np.zeros(100))
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files in use have names there")
def test_nothing_is_left_behind_even_when_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", _WAIT], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert list(tmp_path.iterdir()) == []
        process.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 10
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
    assert list(tmp_path.iterdir()) == []
