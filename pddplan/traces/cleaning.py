"""What is wrong or odd about rows: refused or handled on purpose, and counted either way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from pddplan.errors import InputError, Problem
from pddplan.traces.blocks import BlockNumbers, BlockStore
from pddplan.traces.rows import Flags, Ints, Rows
from pddplan.traces.times import LONGEST_SPAN_S, UNITS_PER_S, resolve_unit
from pddplan.traces.trace import Trace
from pddplan.units import SECONDS_PER_DAY

MAX_SKIP_FRACTION = 0.01
"""Default share of rows that may be left out before the file is refused."""
LARGEST_TOKENS = 1e8
SHOWN_PROBLEMS = 5
PROBE_TOKENS = 16
MOST_COMPARED = 100_000
"""Pairs of rows whose blocks are compared when duplicates are counted."""
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
    _kept: list[Rows] = field(default_factory=list)
    _numbers: BlockNumbers = field(default_factory=BlockNumbers)
    _store: BlockStore | None = None

    def take(self, rows: Rows) -> None:
        """Judge some rows and keep the good ones.

        Raises:  InputError at the first bad row when ``strict``.
        """
        self.rows_seen += rows.count + len(rows.bad)
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
        if rows.ids is not None and rows.offsets is not None:
            if self._store is None:
                self._store = BlockStore()
            self._store.append(np.diff(rows.offsets), self._numbers.number(rows.ids))
        self._kept.append(_compact(rows))

    def discard(self) -> None:
        """Give up: nothing will be finished."""
        if self._store is not None:
            self._store.discard()

    def finish(
        self,
        *,
        sha256: str,
        file_format: str,
        how_recognised: str,
        notes: tuple[str, ...] = (),
        time_unit: str = "s",
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
        inputs, outputs = _joined(self._kept, "input_tokens"), _joined(self._kept, "output_tokens")
        if inputs is None or outputs is None or not inputs.size:
            raise InputError(
                [*self._problems[:SHOWN_PROBLEMS]]
                or Problem(what="holds no request", fix="give a trace with at least one request", where=self.name)
            )
        time = _joined(self._kept, "time_s")
        order = np.arange(inputs.size, dtype=np.int64)
        start = None
        if time is not None:
            unit, why = resolve_unit(
                time, wanted="iso" if calendar_time else time_unit, integers_are_ms=integers_are_ms
            )
            if time_unit == "auto" and not calendar_time:
                notes = (*notes, f"times read as {unit} ({why}); --time-unit overrules")
            self._check_span(time, unit)
            order = self._time_order(time)
            time = time[order] / UNITS_PER_S[unit]
            start = float(time[0] % SECONDS_PER_DAY) if calendar_time or "1970" in why else None
            time = time - time[0]
        session, hits = _joined(self._kept, "session"), _joined(self._kept, "hit_tokens")
        self._kept.clear()
        if self._store is not None:
            self._store.close()
        trace = Trace(
            file=self.name.rsplit("/", 1)[-1],
            sha256=sha256,
            format=file_format,
            how_recognised=how_recognised,
            time_s=time,
            clock_start_s=start,
            input_tokens=inputs[order].astype(np.int64),
            output_tokens=outputs[order].astype(np.int64),
            session=None if session is None else session[order].astype(np.int64),
            hit_tokens=None if hits is None else hits[order].astype(np.int64),
            order=order,
            blocks=self._store,
            block_tokens=self.block_tokens if self._store is not None else None,
            skipped=dict(self.skipped),
            oddities={},
            notes=notes,
            drawn_times=drawn_times,
        )
        self._count_repeats(trace)
        return _with_oddities(trace, self.oddities)

    # -- rules -------------------------------------------------------------------------------------------------

    def _check_tokens(self, rows: Rows, keep: Flags) -> None:
        for name, values, least in (("input", rows.input_tokens, 1), ("output", rows.output_tokens, 0)):
            good = (values >= least) & (values <= LARGEST_TOKENS) & (values == np.floor(values))
            rule = f"{name} tokens must be a whole number from {least} to {LARGEST_TOKENS:.0e}"
            self._refuse_all(rows, keep, ~good, rule, values, reason=f"bad {name} tokens")

    def _check_time(self, rows: Rows, keep: Flags) -> None:
        if rows.time_s is not None:
            bad = ~np.isfinite(rows.time_s)
            self._refuse_all(rows, keep, bad, "the time cannot be read", None, reason="bad time")

    def _check_blocks(self, rows: Rows, keep: Flags) -> None:
        if rows.offsets is None:
            return
        lengths = np.diff(rows.offsets)
        if self.block_tokens is None:
            self.block_tokens = self._guess_block(rows, keep, lengths)
        size = self.block_tokens
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
        rule = "cached tokens must lie between 0 and the input tokens"
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
        if self.rows_seen and skipped > self.max_skip_fraction * self.rows_seen:
            listed = "; ".join(f"{reason}: {count:,}" for reason, count in self.skipped.items() if count)
            summary = Problem(
                what=f"{skipped:,} of {self.rows_seen:,} rows cannot be used ({listed}), "
                f"more than {self.max_skip_fraction:.1%}",
                fix="correct the file, check --format and --columns, or allow more with --max-skip 0.1",
                where=self.name,
            )
            raise InputError([summary, *sorted(self._problems, key=_line_of)])

    def _check_span(self, time: np.ndarray, unit: str) -> None:
        with np.errstate(over="ignore"):
            span_s = float(time.max() - time.min()) / UNITS_PER_S[unit]
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

    def _time_order(self, time: np.ndarray) -> Ints:
        backwards = int((np.diff(time) < 0).sum())
        if not backwards:
            return np.arange(time.size, dtype=np.int64)
        self.oddities["rows out of order of time (sorted)"] += backwards
        return np.argsort(time, kind="stable").astype(np.int64)

    def _count_repeats(self, trace: Trace) -> None:
        time = trace.time_s
        if time is None or time.size < 2:
            return
        same = np.diff(time) == 0
        self.oddities["requests at the same instant as the one before"] += int(same.sum())
        order = np.lexsort((trace.output_tokens, trace.input_tokens, time))
        alike = np.ones(time.size - 1, dtype=bool)
        for column in (time, trace.input_tokens, trace.output_tokens):
            alike &= np.diff(column[order]) == 0
        if trace.blocks is None:
            if trace.session is None:
                self.oddities["rows alike in time and lengths (kept)"] += int(alike.sum())
            return
        group = np.concatenate(([0], np.cumsum(~alike)))
        members = np.flatnonzero(np.append(alike, False) | np.append(False, alike))[:MOST_COMPARED]
        prints = trace.blocks.fingerprints(trace.order[order[members]])
        pairs = np.unique(np.stack((group[members], prints)), axis=1)
        self.oddities["exact duplicates of another row (kept)"] += members.size - pairs.shape[1]


def _line_of(problem: Problem) -> int:
    tail = (problem.where or "").rpartition(":")[2]
    return int(tail) if tail.isdigit() else 0


def _with_oddities(trace: Trace, oddities: Counter[str]) -> Trace:
    return replace(trace, oddities={what: count for what, count in oddities.items() if count})


def _compact(rows: Rows) -> Rows:
    """Good rows in little memory: what is not needed any more is dropped, token counts take four bytes."""
    small = np.int32  # LARGEST_TOKENS fits
    return Rows(
        line=np.empty(0, dtype=np.int64),
        input_tokens=rows.input_tokens.astype(small),
        output_tokens=rows.output_tokens.astype(small),
        time_s=rows.time_s,
        session=rows.session,
        hit_tokens=None if rows.hit_tokens is None else rows.hit_tokens.astype(small),
    )


def _joined(kept: list[Rows], name: str) -> np.ndarray | None:
    parts = [getattr(rows, name) for rows in kept]
    if not parts or any(part is None for part in parts):
        return None
    return np.concatenate(parts)


def _shown(value: object) -> str:
    number = float(value)  # type: ignore[arg-type]
    if number != number:
        return "no number"
    return f"{number:.15g}"
