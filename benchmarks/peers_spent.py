"""What a program costs: wall and processor time, peak memory, and how a cost grows with the size of a question.

Processor time is what to compare on a machine that others use too; wall time is given beside it.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pddplan.units import KIB, MEGA

BYTES_PER_RSS_UNIT = 1 if sys.platform == "darwin" else KIB
"""What ``getrusage`` counts memory in."""


@dataclass(frozen=True, slots=True)
class Spent:
    """One run of a program, or the median of several."""

    wall_s: float
    cpu_s: float
    """User and system time, children included."""
    peak_mb: float
    code: int
    output: str
    errors: str


def run(command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None) -> Spent:
    """Run a program to its end.

    The peak of a child counts what its parent held when it forked, so call this before anything large is imported.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        child = subprocess.Popen(
            [str(part) for part in command], stdout=out, stderr=errors, env={**os.environ, **(environment or {})}
        )
        _, status, used = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        return Spent(
            wall_s=wall_s,
            cpu_s=used.ru_utime + used.ru_stime,
            peak_mb=used.ru_maxrss * BYTES_PER_RSS_UNIT / MEGA,
            code=child.returncode,
            output=out.read().decode("utf-8", "replace"),
            errors=errors.read().decode("utf-8", "replace"),
        )


def median_run(command: Sequence[str | Path], repeats: int, *, environment: Mapping[str, str] | None = None) -> Spent:
    """Medians of several runs, with the output of the last; a first run warms the file cache and is not counted."""
    runs = [run(command, environment=environment) for _ in range(repeats + 1)][1:]
    return Spent(
        wall_s=statistics.median(r.wall_s for r in runs),
        cpu_s=statistics.median(r.cpu_s for r in runs),
        peak_mb=statistics.median(r.peak_mb for r in runs),
        code=max(r.code for r in runs),
        output=runs[-1].output,
        errors=runs[-1].errors,
    )


@dataclass(frozen=True, slots=True)
class Growth:
    """Processor time over the size of a question, and the exponent p of time ~ size^p."""

    axis: str
    points: tuple[tuple[int, float], ...]
    exponent: float
    """Least squares over all points, on logarithms; a constant part makes it smaller."""
    last_exponent: float
    """Between the two largest points, where a constant part weighs least."""


def growth(axis: str, sizes: Sequence[int], cost: Callable[[int], float]) -> Growth:
    """Measure a cost at several sizes and fit its exponent."""
    points = tuple((size, cost(size)) for size in sizes)
    logs = [(math.log(size), math.log(max(seconds, 1e-9))) for size, seconds in points]
    (x0, y0), (x1, y1) = logs[-2:]
    slope, _ = statistics.linear_regression([x for x, _ in logs], [y for _, y in logs])
    return Growth(axis, points, slope, (y1 - y0) / (x1 - x0))
