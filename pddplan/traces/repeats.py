"""Requests that come at the same instant, and rows that are there twice: counted for the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from pddplan.traces.blocks import fingerprints
from pddplan.traces.scratch import Records
from pddplan.traces.trace import Trace

MOST_COMPARED = 100_000
"""Rows whose blocks are compared in all, when duplicates are counted."""
MOST_AT_ONCE = 2**16
"""Rows of one instant that are looked at."""


def count_repeats(trace: Trace) -> Counter[str]:
    """How often requests share an instant, and how many rows are duplicates; nothing without times."""
    counts: Counter[str] = Counter()
    if not trace.has_time or trace.count < 2:
        return counts
    last = None
    for rows in trace.rows.chunks():
        times = rows["time"] if last is None else np.append(last, rows["time"])
        counts["requests at the same instant as the one before"] += int((np.diff(times) == 0).sum())
        last = times[-1]
    to_compare = MOST_COMPARED
    for rows in _instants(trace):
        order = np.lexsort((rows["output"], rows["input"], rows["time"]))
        alike = np.ones(rows.size - 1, dtype=bool)
        for name in ("time", "input", "output"):
            alike &= np.diff(rows[name][order]) == 0
        if trace.blocks is None:
            if not trace.has_session:
                counts["rows alike in time and lengths (kept)"] += int(alike.sum())
            continue
        group = np.concatenate(([0], np.cumsum(~alike)))
        members = np.flatnonzero(np.append(alike, False) | np.append(False, alike))[:to_compare]
        to_compare -= members.size
        compared = rows[order[members]]
        prints = fingerprints(*trace.blocks.gather(compared["start"], compared["blocks"].astype(np.int64)))
        pairs = np.unique(np.stack((group[members], prints)), axis=1)
        counts["exact duplicates of another row (kept)"] += members.size - pairs.shape[1]
    return counts


def _instants(trace: Trace) -> Iterator[Records]:
    """Rows in pieces that do not cut an instant in two; of a crowded instant only the first MOST_AT_ONCE."""
    carried = trace.rows.read(0, 0)
    for chunk in trace.rows.chunks():
        rows = np.concatenate((carried, chunk))
        starts = np.flatnonzero(np.append(True, np.diff(rows["time"]) != 0))
        rank = np.arange(rows.size) - np.repeat(starts, np.diff(np.append(starts, rows.size)))
        rows = rows[rank < MOST_AT_ONCE]
        cut = int(np.searchsorted(rows["time"], rows["time"][-1], side="left"))
        if cut:
            yield rows[:cut]
        carried = rows[cut:]
    yield carried
