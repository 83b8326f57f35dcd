"""Parquet files that may be damaged: polars panics at some and, at a few, ends the whole process."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pddplan.errors import InputError, Problem
from pddplan.files import STANDARD_ERROR, muted
from pddplan.traces.formats import DEEPEST_KEY

ROWS_AT_ONCE = 200_000
MOST_ROWS = 20_000_000
"""A few kilobytes can say that one row repeats a billion times."""

_TRIAL = """
import sys
import polars as pl
path, rows, *names = sys.argv[1:]
scan = pl.scan_parquet(path)
for start in range(0, scan.select(pl.len()).collect().item(), int(rows)):
    scan.select(names or scan.collect_schema().names()).slice(start, int(rows)).collect()
"""


@contextlib.contextmanager
def parquet_in_words(where: str) -> Iterator[None]:
    """Turn what polars says about a Parquet file into an InputError.

    A panic is no Exception, and is also written to standard error past Python.
    """
    import polars as pl

    try:
        with muted(STANDARD_ERROR):
            yield
    except pl.exceptions.PanicException:
        raise _refusal("it is damaged", where) from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _refusal(str(error).strip().split("\n", 1)[0][:200], where) from None


def row_count(path: Path) -> int:
    """Rows of a file.

    Raises:  InputError when there are more than a trace has.
    """
    import polars as pl

    with parquet_in_words(str(path)):
        rows = int(pl.scan_parquet(path).select(pl.len()).collect().item())
    if rows > MOST_ROWS:
        what = f"holds {rows:,} rows, and at most {MOST_ROWS:,} are read"
        raise InputError(Problem(what=what, fix="cut out a shorter time", where=str(path)))
    return rows


def parquet_fields(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Columns, those inside others as ``outer.inner``, each with the way to it."""
    import polars as pl

    found: dict[str, tuple[str, ...]] = {}
    levels: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), schema)]
    for path, inner in levels:
        for name, kind in inner.items():
            way = (*path, name)
            found.setdefault(".".join(way), way)
            if isinstance(kind, pl.Struct) and len(way) <= DEEPEST_KEY:
                levels.append((way, {field.name: field.dtype for field in kind.fields}))
    return found


def refuse_deadly(path: Path, names: Sequence[str]) -> None:
    """Let another process read these columns first: a size that is damaged can end the process that trusts it.

    Raises:  InputError when it did not survive. Everything else polars can say by itself, later.
    """
    command = [sys.executable, "-c", _TRIAL, str(path), str(ROWS_AT_ONCE), *names]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode < 0:
        raise _refusal("it is damaged", str(path))


def _refusal(what: str, where: str) -> InputError:
    return InputError(Problem(what=f"cannot be read as Parquet: {what}", fix="check the file", where=where))
