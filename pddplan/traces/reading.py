"""From a file to a ``Trace``: recognise, read, clean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.files import home_path
from pddplan.traces import formats, servegen, session_readers
from pddplan.traces.bundled import bundled_traces
from pddplan.traces.cleaning import MAX_SKIP_FRACTION, Cleaner
from pddplan.traces.parquet import parquet_fields, parquet_in_words
from pddplan.traces.recognise import Recognised, recognise, with_parquet_columns
from pddplan.traces.rows import Rows
from pddplan.traces.source import BLOCK_BYTES, PARQUET_MAGIC, Progress, Source, open_source
from pddplan.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a trace file is to be read; None and ``auto`` mean: find out and say so."""

    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column of each role, for files of no known format."""
    time_unit: str | None = None
    block_tokens: int | None = None
    strict: bool = False
    """Stop at the first bad row."""
    max_skip_fraction: float = MAX_SKIP_FRACTION
    block_bytes: int = BLOCK_BYTES
    """Bytes parsed at a time; results do not depend on it."""
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with a recognised file."""

    rows: Iterator[Rows]
    time_unit: str
    integers_are_ms: bool = False
    block_tokens: int | None = None
    zero_output_failed: bool = False
    drawn_times: str | None = None
    calendar: Callable[[], bool] = lambda: False
    """Whether times were calendar texts; known once rows were read."""


def read_trace(path: str | Path, options: ReadOptions | None = None) -> Trace:
    """Read a trace of any known format: a file, ``-`` for standard input, or the name of a bundled one.

    Raises:  InputError with file and line for what cannot be used.
    """
    options = options or ReadOptions()
    _check(options)
    path = bundled_traces().get(str(path), path)
    if str(path) != "-" and servegen.is_profile(home_path(path)):
        return servegen.read_profile(path)
    with open_source(path, progress=options.progress) as source:
        return read_source(source, options)


def read_source(source: Source, options: ReadOptions) -> Trace:
    """Read a trace from an open source."""
    found = (
        recognise(source.head(), name=source.name, wanted=options.format, columns=options.columns)
        if not _is_parquet(source)
        else _parquet(source, options)
    )
    if found.format == formats.SERVEGEN:
        if source.path is None:
            raise InputError(
                Problem(
                    what="a client profile is two files, which standard input cannot give",
                    fix="give the path of one of them",
                    where=source.name,
                )
            )
        return servegen.read_profile(source.path)
    plan = _plan(source, found, options)
    cleaner = Cleaner(
        name=source.name,
        strict=options.strict,
        max_skip_fraction=options.max_skip_fraction,
        block_tokens=options.block_tokens or plan.block_tokens,
        zero_output_failed=plan.zero_output_failed,
    )
    try:
        for rows in plan.rows:
            cleaner.take(rows)
    except BaseException:
        cleaner.discard()
        raise
    if source.byte_order_mark:
        cleaner.oddities["byte-order mark at the start"] += 1
    if source.missing_newline:
        cleaner.oddities["no line end after the last row"] += 1
    if source.truncated_archive:
        cleaner.oddities["packed file ends in the middle (read as far as it goes)"] += 1
    notes: tuple[str, ...] = ()
    if plan.drawn_times is not None:
        notes = (plan.drawn_times,)
    if found.table is not None and "appended" in found.table.columns:
        parts = [{**found.table.optional, **found.table.columns}.get(role) for role in ("appended", "hit", "written")]
        notes = (*notes, f"input tokens are {' + '.join(part for part in parts if part)}")
    if cleaner.block_tokens is not None and options.block_tokens is None and plan.block_tokens is None:
        notes = (
            *notes,
            f"block size {cleaner.block_tokens} tokens, from the number of ids; --block-tokens overrules",
        )
    return cleaner.finish(
        sha256=source.sha256,
        file_format=found.format,
        how_recognised=found.why,
        notes=notes,
        time_unit=options.time_unit or "auto",
        usual_unit=plan.time_unit,
        integers_are_ms=plan.integers_are_ms,
        calendar_time=plan.calendar(),
        drawn_times=plan.drawn_times,
    )


def _plan(source: Source, found: Recognised, options: ReadOptions) -> Plan:
    if found.format == formats.WEKA:
        block_tokens = options.block_tokens or session_readers.weka_block_tokens(source)
        return Plan(
            rows=session_readers.weka_rows(source, found, block_tokens=block_tokens),
            time_unit="s",
            block_tokens=block_tokens,
            drawn_times=session_readers.HOW_STARTS_ARE_DRAWN,
        )
    if found.format == formats.TRACELAB_ROUNDS:
        rows = session_readers.tracelab_rows(source, found, block_bytes=options.block_bytes)
        return Plan(rows=rows, time_unit="s", calendar=lambda: True)
    from pddplan.traces.table_reader import TableReader

    reader = TableReader(source, found, block_bytes=options.block_bytes)
    table = reader.table
    return Plan(
        rows=reader.rows(),
        time_unit="auto" if table.time_unit == "iso" else table.time_unit,
        integers_are_ms=table.id == "mooncake",
        block_tokens=table.block_tokens,
        zero_output_failed=table.zero_output_failed,
        calendar=lambda: reader.text_times,
    )


def _is_parquet(source: Source) -> bool:
    return source.head().startswith(PARQUET_MAGIC)


def _parquet(source: Source, options: ReadOptions) -> Recognised:
    import polars as pl

    if source.path is None:
        raise InputError(
            Problem(
                what="Parquet cannot be read from standard input", fix="give the path of the file", where=source.name
            )
        )
    with parquet_in_words(source.name):
        names = list(parquet_fields(pl.scan_parquet(source.path).collect_schema()))
    found = Recognised(container="parquet", format="", why="")
    return with_parquet_columns(found, names, name=source.name, columns=options.columns)


def _check(options: ReadOptions) -> None:
    if options.time_unit is not None and options.time_unit not in formats.TIME_UNITS:
        raise InputError(
            Problem(
                what=f"unknown time unit {options.time_unit!r}{did_you_mean(options.time_unit, formats.TIME_UNITS)}",
                fix=f"use one of: {', '.join(formats.TIME_UNITS)}",
                where="--time-unit",
            )
        )
    if options.block_tokens is not None and not 1 <= options.block_tokens <= 10**6:
        raise InputError(
            Problem(what=f"a block of {options.block_tokens} tokens", fix="give 1 to 1,000,000", where="--block-tokens")
        )
    if not 0 <= options.max_skip_fraction <= 1:
        raise InputError(
            Problem(what=f"cannot skip a share of {options.max_skip_fraction}", fix="give 0 to 1", where="--max-skip")
        )
