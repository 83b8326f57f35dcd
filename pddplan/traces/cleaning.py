"""What is wrong or odd about rows: refused or handled on purpose, and counted either way."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import InputError, Problem
from pddplan.traces.blocks import BlockNumbers, BlockStore
from pddplan.traces.repeats import count_repeats
from pddplan.traces.rows import Flags, Ints, Rows
from pddplan.traces.scratch import RowStore, sorted_rows
from pddplan.traces.times import LONGEST_SPAN_S, UNITS_PER_S, RawTimes, resolve_unit
from pddplan.traces.trace import COLUMNS, Trace
from pddplan.units import SECONDS_PER_DAY

MAX_SKIP_FRACTION = 0.01
"""Default share of rows that may be left out before the file is refused, rounded to whole rows."""
LARGEST_TOKENS = 1e8
SHOWN_PROBLEMS = 5
UNREADABLE_TIME = "the time cannot be read (numbers, or calendar times such as 2026-04-23T17:36:21.5Z, can)"
PROBE_TOKENS = 16
COMMON_BLOCK_TOKENS = (512, 64, 16, 128, 256, 32, 1024, 2048)
"""Tried in this order when the format does not say."""


@dataclass(slots=True)
class Cleaner:
    """Takes rows as they come, gives a trace at the end."""

    name: str
    strict: bool = False
    max_skip_fraction: float = MAX_SKIP_FRACTION
    block_tokens: int | None = None
    zero_output_failed: bool = False
    """The format writes 0 output tokens for failed requests."""
    skipped: Counter[str] = field(default_factory=Counter)
    oddities: Counter[str] = field(default_factory=Counter)
    rows_seen: int = 0
    _problems: list[Problem] = field(default_factory=list)
    _kept: RowStore = field(default_factory=lambda: RowStore(COLUMNS))
    _times: RawTimes = field(default_factory=RawTimes)
    _has: dict[str, bool] = field(default_factory=lambda: {"time": True, "session": True, "hit": True})
    """Which columns every row so far had."""
    _numbers: BlockNumbers = field(default_factory=BlockNumbers)
    _store: BlockStore | None = None

    def take(self, rows: Rows) -> None:
        """Judge some rows and keep the good ones.

        Raises:  InputError at the first bad row when ``strict``.
        """
        self.rows_seen += rows.count + len(rows.bad)
        self.oddities["lines of the log that are no requests (left out)"] += rows.others
        for bad in rows.bad:
            if bad.cut_off and not self.strict:
                self.oddities["last line cut off (left out)"] += 1
                self.rows_seen -= 1
                continue
            self._refuse(bad.line, bad.what, reason="unreadable")
        keep = np.ones(rows.count, dtype=bool)
        self._check_tokens(rows, keep)
        self._check_time(rows, keep)
        self._check_blocks(rows, keep)
        self._check_hits(rows, keep)
        if self.strict and self._problems:
            raise InputError(sorted(self._problems, key=_line_of)[:SHOWN_PROBLEMS])
        self._drop_failed(rows, keep)
        rows = rows.take(keep)
        probes = (rows.output_tokens == 1) & (rows.input_tokens <= PROBE_TOKENS)
        self.oddities[f"one-token answers to at most {PROBE_TOKENS} tokens, as of health checks (kept)"] += int(
            probes.sum()
        )
        zero = rows.output_tokens == 0
        if zero.any():
            self.oddities["zero output tokens (counted as 1)"] += int(zero.sum())
            rows.output_tokens[zero] = 1
        self._keep(rows)

    def _keep(self, rows: Rows) -> None:
        columns = {"input": rows.input_tokens, "output": rows.output_tokens}
        for name, values in (("time", rows.time_s), ("session", rows.session), ("hit", rows.hit_tokens)):
            self._has[name] &= values is not None
            if values is not None:
                columns[name] = values
        if rows.ids is not None and rows.offsets is not None:
            if self._store is None:
                self._store = BlockStore()
            lengths = np.diff(rows.offsets)
            columns |= {"start": self._store.count + rows.offsets[:-1], "blocks": lengths}
            self._store.append(self._numbers.number(rows.ids))
        if rows.time_s is not None:
            self._times.take(rows.time_s)
        self._kept.append(**columns)

    def discard(self) -> None:
        """Give up: nothing will be finished."""
        self._kept.discard()
        if self._store is not None:
            self._store.discard()

    def finish(
        self,
        *,
        sha256: str,
        file_format: str,
        how_recognised: str,
        notes: tuple[str, ...] = (),
        time_unit: str = "auto",
        usual_unit: str = "auto",
        integers_are_ms: bool = False,
        calendar_time: bool = False,
        drawn_times: str | None = None,
    ) -> Trace:
        """The trace, in order of time.

        Raises:  InputError when nothing is left, or more rows were left out than allowed.
        """
        try:
            self._check_share()
        except InputError:
            self.discard()
            raise
        if not self._kept.count:
            raise InputError(
                [*self._problems[:SHOWN_PROBLEMS]]
                or Problem(what="holds no request", fix="give a trace with at least one request", where=self.name)
            )
        unit, start, has_time = "s", None, self._has["time"]
        if has_time:
            unit, why = resolve_unit(
                self._times,
                wanted="iso" if calendar_time else time_unit,
                usual=usual_unit,
                integers_are_ms=integers_are_ms,
            )
            if time_unit == "auto" and not calendar_time and drawn_times is None:
                notes = (*notes, f"times read as {unit} ({why}); --time-unit overrules")
            self._check_span(unit)
            if self._times.backwards:
                self.oddities["rows out of order of time (sorted)"] += self._times.backwards
                self._kept = sorted_rows(self._kept, "time")
            if calendar_time or "1970" in why:
                start = self._times.smallest / UNITS_PER_S[unit] % SECONDS_PER_DAY
        if self._store is not None:
            self._store.close()
        trace = Trace(
            file=self.name.rsplit("/", 1)[-1],
            sha256=sha256,
            format=file_format,
            how_recognised=how_recognised,
            rows=self._kept,
            has_time=has_time,
            has_session=self._has["session"],
            has_hits=self._has["hit"],
            units_per_s=UNITS_PER_S[unit],
            first_time=self._times.smallest if has_time else 0.0,
            clock_start_s=start,
            blocks=self._store,
            block_tokens=self.block_tokens if self._store is not None else None,
            skipped=dict(self.skipped),
            notes=notes,
            drawn_times=drawn_times,
        )
        self.oddities.update(count_repeats(trace))
        return replace(trace, oddities={what: count for what, count in self.oddities.items() if count})

    # -- rules -------------------------------------------------------------------------------------------------

    def _check_tokens(self, rows: Rows, keep: Flags) -> None:
        for name, values, least in (("input", rows.input_tokens, 1), ("output", rows.output_tokens, 0)):
            good = (values >= least) & (values <= LARGEST_TOKENS) & (values == np.floor(values))
            rule = f"{name} tokens must be a whole number from {least} to {LARGEST_TOKENS:.0e}"
            self._refuse_all(rows, keep, ~good, rule, values, reason=f"bad {name} tokens")

    def _check_time(self, rows: Rows, keep: Flags) -> None:
        if rows.time_s is not None:
            bad = ~np.isfinite(rows.time_s)
            self._refuse_all(rows, keep, bad, UNREADABLE_TIME, None, reason="bad time")

    def _check_blocks(self, rows: Rows, keep: Flags) -> None:
        if rows.offsets is None:
            return
        lengths = np.diff(rows.offsets)
        if self.block_tokens is None:
            if not keep.any():
                return
            if lengths.any():
                self.block_tokens = self._guess_block(rows, keep, lengths)
        size = self.block_tokens or 1
        if self._store is None and not lengths.any() and (rows.input_tokens[keep] >= size).any():
            self.oddities["empty lists of block ids (of no use)"] += rows.count
            rows.offsets = rows.ids = None
            return
        with np.errstate(invalid="ignore"):
            whole, part = np.floor(rows.input_tokens / size), np.ceil(rows.input_tokens / size)
        bad = (lengths != whole) & (lengths != part)
        rule = f"the number of block ids must be input tokens / {size}, rounded up or down"
        self._refuse_all(rows, keep, bad, rule, lengths, reason="ids do not match the input length")
        without_id = keep & (lengths < part)
        self.oddities["last partial block has no id"] += int(without_id.sum())

    def _check_hits(self, rows: Rows, keep: Flags) -> None:
        if rows.hit_tokens is None:
            return
        bad = ~((rows.hit_tokens >= 0) & (rows.hit_tokens <= rows.input_tokens))
        rule = "cached tokens must lie between 0 and the input tokens (map an input that leaves them out as appended)"
        self._refuse_all(rows, keep, bad, rule, rows.hit_tokens, reason="bad cached tokens")

    def _drop_failed(self, rows: Rows, keep: Flags) -> None:
        failed = np.zeros(rows.count, dtype=bool) if rows.failed is None else rows.failed.copy()
        if self.zero_output_failed:
            failed |= rows.output_tokens == 0
        failed &= keep
        if failed.any():
            self.oddities["failed requests (left out)"] += int(failed.sum())
            keep &= ~failed

    def _guess_block(self, rows: Rows, keep: Flags, lengths: Ints) -> int:
        good = keep & (rows.input_tokens > 0)
        best, share = 0, 0.0
        for size in COMMON_BLOCK_TOKENS:
            tokens = rows.input_tokens[good]
            fits = (lengths[good] == np.floor(tokens / size)) | (lengths[good] == np.ceil(tokens / size))
            found = float(fits.mean()) if fits.size else 0.0
            if found > share:
                best, share = size, found
        if share < 1.0 - self.max_skip_fraction:
            only = _only_block(rows.input_tokens[good], lengths[good])
            if only is not None:
                return only
        if share < 0.5:
            raise InputError(
                Problem(
                    what="no usual block size fits the number of block ids per request",
                    fix="say how many tokens a block holds, for example --block-tokens 48",
                    where=self.name,
                )
            )
        return best

    # -- bookkeeping -------------------------------------------------------------------------------------------

    def _refuse(self, line: int, what: str, *, reason: str) -> None:
        self.skipped[reason] += 1
        if len(self._problems) < SHOWN_PROBLEMS:
            fix = (
                "correct or remove this row" if self.strict else "correct or remove the row; --max-skip sets the share"
            )
            self._problems.append(Problem(what=what, fix=fix, where=f"{self.name}:{line}"))

    def _refuse_all(
        self, rows: Rows, keep: Flags, bad: Flags, rule: str, values: np.ndarray | None, *, reason: str
    ) -> None:
        bad = bad & keep
        if not bad.any():
            return
        places = np.flatnonzero(bad)
        for place in places[: max(SHOWN_PROBLEMS - len(self._problems), 0)]:
            got = "" if values is None else f", got {_shown(values[place])}"
            self._refuse(int(rows.line[place]), f"{rule}{got}", reason=reason)
            self.skipped[reason] -= 1
        self.skipped[reason] += places.size
        keep &= ~bad

    def _check_share(self) -> None:
        skipped = sum(self.skipped.values())
        if skipped > math.floor(self.max_skip_fraction * self.rows_seen + 0.5):
            listed = "; ".join(f"{reason}: {count:,}" for reason, count in self.skipped.items() if count)
            summary = Problem(
                what=f"{skipped:,} of {self.rows_seen:,} rows cannot be used ({listed}), "
                f"more than {self.max_skip_fraction:.1%}",
                fix="correct the file, check --format and --columns, or allow more with --max-skip 0.1",
                where=self.name,
            )
            raise InputError([summary, *sorted(self._problems, key=_line_of)])

    def _check_span(self, unit: str) -> None:
        with np.errstate(over="ignore"):
            span_s = (self._times.largest - self._times.smallest) / UNITS_PER_S[unit]
        if span_s <= LONGEST_SPAN_S:
            return
        self.discard()
        raise InputError(
            Problem(
                what=f"the times, read as {unit}, span {span_s / SECONDS_PER_DAY:.3g} days",
                fix="give the right --time-unit, or remove the row whose time is wrong",
                where=self.name,
            )
        )


def _only_block(tokens: Array, counts: Ints) -> int | None:
    """The one block size for which every row has ceil (or in every row floor) of tokens / size ids; None if not one."""
    many = counts > 1
    if not many.any() or (counts < 1).any():
        return None
    rounded_up = np.ceil(tokens / counts).max(), (np.ceil(tokens[many] / (counts[many] - 1)) - 1).min()
    rounded_down = (np.floor(tokens / (counts + 1)) + 1).max(), np.floor(tokens / counts).min()
    sizes = {int(low) for low, high in (rounded_up, rounded_down) if low == high}
    return sizes.pop() if len(sizes) == 1 else None


def _line_of(problem: Problem) -> int:
    tail = (problem.where or "").rpartition(":")[2]
    return int(tail) if tail.isdigit() else 0


def _shown(value: object) -> str:
    number = float(value)  # type: ignore[arg-type]
    if number != number:
        return "no number"
    return f"{number:.15g}"
