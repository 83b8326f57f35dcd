"""Columns of many requests that need not fit in memory: kept in a scratch file beyond a limit, read back in chunks."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.errors import InputError, Problem
from pddplan.units import MIB

MEMORY_BYTES = 32 * MIB
"""Rows of one store beyond this wait in a scratch file. It has no name, so nothing is left however the program ends."""
ROWS_AT_ONCE = 2**18
"""Rows read back at a time: fixed, so that sums do not depend on how rows came."""

Records = NDArray[np.void]
"""Rows with named columns."""


class RowStore:
    """Rows with named columns, appended once and read back any number of times, also by several threads."""

    def __init__(self, columns: Sequence[tuple[str, str]], *, memory_bytes: int = MEMORY_BYTES) -> None:
        """Columns are names and numpy types, such as ``("time", "f8")``."""
        self.dtype = np.dtype(list(columns))
        self.count = 0
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115 (lives with the store)
            max_size=memory_bytes, prefix="pddplan-rows-"
        )
        self._close = weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()

    def append(self, **columns: NDArray[Any]) -> None:
        """Further rows; columns that are left out are 0."""
        rows = np.zeros(next(iter(columns.values())).size, dtype=self.dtype)
        for name, values in columns.items():
            rows[name] = values
        self.append_rows(rows)

    def append_rows(self, rows: Records) -> None:
        """Further rows, with all columns."""
        with self._lock, scratch_errors():
            self._file.seek(0, 2)
            self._file.write(np.ascontiguousarray(rows).data)
        self.count += rows.size

    def read(self, start: int, stop: int) -> Records:
        """Rows from ``start`` to ``stop``."""
        stop = min(stop, self.count)
        size = self.dtype.itemsize
        with self._lock, scratch_errors():
            self._file.seek(start * size)
            data = self._file.read(max(stop - start, 0) * size)
        return np.frombuffer(data, dtype=self.dtype)

    def chunks(self, rows: int = ROWS_AT_ONCE) -> Iterator[Records]:
        """All rows, so many at a time."""
        for start in range(0, self.count, rows):
            yield self.read(start, start + rows)

    def column(self, name: str) -> NDArray[Any]:
        """One column as a whole, in memory."""
        parts = [chunk[name].copy() for chunk in self.chunks()]
        return np.concatenate(parts) if parts else np.empty(0, dtype=self.dtype[name])

    def discard(self) -> None:
        """Let go of memory and scratch file."""
        self._close()


@contextlib.contextmanager
def scratch_errors() -> Iterator[None]:
    """Failures of a scratch file in words.

    Raises:  InputError when the disk is full, or the folder of scratch files cannot be used.
    """
    try:
        yield
    except OSError as error:
        raise InputError(
            Problem(
                what=f"scratch files in {tempfile.gettempdir()} cannot be written: {error.strerror or error}",
                fix="free some space there, or name another folder with the environment variable TMPDIR",
            )
        ) from None


def merged(streams: Sequence[Iterator[NDArray[Any]]], key: Callable[[NDArray[Any]], Array]) -> Iterator[NDArray[Any]]:
    """Several ascending streams of chunks as one; equal keys in the order of the streams.

    Parameters:  key, gives the values of a chunk to order by
    """
    waiting: dict[int, NDArray[Any]] = {}
    for number, stream in enumerate(streams):
        _refill(waiting, number, stream)
    while waiting:
        bound, owner = min((float(key(chunk)[-1]), number) for number, chunk in waiting.items())
        taken = []
        for number in sorted(waiting):
            chunk = waiting.pop(number)
            cut = int(np.searchsorted(key(chunk), bound, side="right" if number <= owner else "left"))
            taken.append(chunk[:cut])
            if cut < chunk.size:
                waiting[number] = chunk[cut:]
            else:
                _refill(waiting, number, streams[number])
        together = np.concatenate(taken)
        yield together[np.argsort(key(together), kind="stable")]


def _refill(waiting: dict[int, NDArray[Any]], number: int, stream: Iterator[NDArray[Any]]) -> None:
    chunk = next((chunk for chunk in stream if chunk.size), None)
    if chunk is not None:
        waiting[number] = chunk


def sorted_rows(rows: RowStore, name: str, *, rows_at_once: int = ROWS_AT_ONCE) -> RowStore:
    """The rows in ascending order of a column, equal ones in the order they came; the old store is let go."""
    runs, result = _like(rows), _like(rows)
    for chunk in rows.chunks(rows_at_once):
        runs.append_rows(chunk[np.argsort(chunk[name], kind="stable")])
    rows.discard()
    starts = range(0, runs.count, rows_at_once)
    piece = max(rows_at_once // max(len(starts), 1), 1024)

    def run(start: int) -> Iterator[Records]:
        stop = min(start + rows_at_once, runs.count)
        for at in range(start, stop, piece):
            yield runs.read(at, min(at + piece, stop))

    for chunk in merged([run(start) for start in starts], lambda part: part[name]):
        result.append_rows(chunk)
    runs.discard()
    return result


def _like(rows: RowStore) -> RowStore:
    return RowStore([(name, rows.dtype[name].str) for name in rows.dtype.names or ()])
