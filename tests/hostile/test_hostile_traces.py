"""Traces cut off, packed badly, out of time, or made to fill the memory."""

from __future__ import annotations

import gzip
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_mutations import monsters
from benchmarks.fuzz_targets import _azure, _mooncake
from pddplan.errors import InputError
from pddplan.traces import parquet, source
from pddplan.traces.arrival_pattern import dispersion_of_counts
from pddplan.units import MIB
from tests.hostile.conftest import READERS, Survives

KINDS = ("trace.jsonl", "trace.csv", "trace.json", "trace.gz")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_spoiled_traces_are_read_or_refused(survives: Survives, kind: str, seed: int) -> None:
    survives(kind, READERS[kind].case(random.Random(seed)))


@pytest.mark.parametrize("kind", KINDS)
def test_sound_traces_are_read(survives: Survives, kind: str) -> None:
    for data in READERS[kind].seeds:
        assert survives(kind, data) == ""


@pytest.mark.parametrize("when", ["1e308", "-1e308", "1e30", "99999999999999999999", "-9e18"])
def test_a_time_from_another_age_is_named(survives: Survives, when: str) -> None:
    lines = _mooncake().decode().splitlines()
    lines[3] = lines[3].replace('"timestamp": 2100', f'"timestamp": {when}')
    said = survives("trace.jsonl", "\n".join(lines).encode())
    assert "span" in said or "time" in said


def test_few_requests_over_decades_take_no_memory() -> None:
    import numpy as np

    times = np.array([0.0, 1.0, 2.0, 1e9])
    assert dispersion_of_counts(times, 1.0) == pytest.approx(1.0, abs=1e-6)


@given(st.lists(st.floats(0, 500), min_size=4, max_size=60), st.sampled_from([1.0, 3.0, 10.0]))
def test_dispersion_counts_empty_windows_too(times: list[float], window: float) -> None:
    import numpy as np

    ordered = np.sort(np.array(times))
    windows = int((ordered[-1] - ordered[0]) / window)
    place = ((ordered - ordered[0]) / window).astype(int)
    counts = np.bincount(place[place < windows], minlength=windows)
    found = dispersion_of_counts(ordered, window)
    if found is not None:
        assert found == pytest.approx(counts.var() / counts.mean(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("make", [lambda data: gzip.compress(data, mtime=0), monsters.__globals__["_zstd"]])
def test_bombs_are_unpacked_piece_by_piece(make: object) -> None:
    packed = make(bytes(80 * MIB))  # type: ignore[operator]
    with pytest.raises(InputError, match="longer than"):
        list(source.from_bytes(packed).blocks())
    pieces = source.from_bytes(packed)
    assert max(len(piece) for piece in iter(pieces._next, b"")) <= 40 * MIB


@settings(max_examples=20)
@given(st.binary(max_size=3000), st.integers(1, 4), st.sampled_from([0, 1, 7, 100]))
def test_what_was_packed_comes_out(data: bytes, members: int, padding: int) -> None:
    packed = gzip.compress(data, mtime=0) * members + bytes(padding)
    opened = source.from_bytes(packed)
    assert b"".join(opened._chunks()).removeprefix(b"") == (data * members).removeprefix(source.BYTE_ORDER_MARK)
    assert not opened.truncated_archive


@settings(max_examples=20)
@given(st.binary(min_size=1, max_size=3000), st.integers(1, 3))
def test_zstd_frames_come_out(data: bytes, frames: int) -> None:
    packed = monsters.__globals__["_zstd"](data) * frames
    opened = source.from_bytes(packed)
    assert b"".join(opened._chunks()) == (data * frames).removeprefix(source.BYTE_ORDER_MARK)


def test_a_quotation_mark_left_open_takes_no_quadratic_time() -> None:
    data = b'a,b\n"' + b"1,2\n" * 300_000
    start = time.process_time()
    assert source._last_line_end(data, quotes=True) == 4
    assert source._last_line_end(b'"x\ny"\n"', quotes=True) == 6
    assert time.process_time() - start < 2


@settings(max_examples=60)
@given(st.text(alphabet='a"\n', max_size=30))
def test_lines_end_outside_of_quotes(text: str) -> None:
    data = text.encode()
    wanted = max((i + 1 for i, c in enumerate(text) if c == "\n" and text[:i].count('"') % 2 == 0), default=-1)
    assert source._last_line_end(data, quotes=True) == wanted


def test_a_field_of_megabytes_is_named(survives: Survives) -> None:
    assert "fix: " in survives("trace.csv", b"a,b\n" + b"," * 300_000)
    assert "fix: " in survives("trace.csv", b"x" * 300_000 + b",b\n1,2\n")


@pytest.mark.parametrize(
    "what", ["empty", "blank", "NUL bytes", "high bytes", "deep lists", "zip", "parquet", "a word"]
)
def test_odd_files_are_refused_in_words(survives: Survives, what: str) -> None:
    for kind in ("trace.csv", "trace.jsonl"):
        assert "fix: " in survives(kind, monsters()[what]())


def test_every_cut_of_a_packed_trace_is_read_or_refused(survives: Survives) -> None:
    packed = gzip.compress(_azure(), mtime=0)
    for end in range(1, len(packed), 9):
        survives("trace.gz", packed[:end])


@pytest.mark.parametrize("key", ["timestamp", "hash_ids", "input_length"])
def test_half_a_character_is_no_reason_to_fall_over(survives: Survives, key: str) -> None:
    import json

    rows = [json.loads(line) for line in _mooncake().splitlines()]
    rows[2][key] = ["\ud800"] if key == "hash_ids" else "\ud800"
    survives("trace.jsonl", "\n".join(json.dumps(row) for row in rows).encode())


@pytest.mark.parametrize("gap", [0.0, 5e-324, 1e-300, 1e-9])
def test_requests_at_one_instant_have_no_pattern(gap: float) -> None:
    import numpy as np

    from pddplan.traces.arrival_pattern import arrival_pattern, gap_scv
    from pddplan.traces.arrivals import clock_grid_s

    times = np.array([0.0, 0.0, 0.0, gap, gap, 2 * gap])
    assert np.isfinite(gap_scv(times))
    assert clock_grid_s(times) is None
    for rate in (None, 0.3 / max(gap, 1e-3), 100.0):
        pattern = arrival_pattern(times, rate_rps=rate)
        assert pattern is None or np.isfinite(pattern.scv)


def test_gaps_below_a_microsecond_are_no_step_of_a_clock(survives: Survives) -> None:
    """Requests logged twice, and two of them 0.7 microseconds apart: rounded to 1, which no gap is near to."""
    rows = "".join(f"{t:.7f},480,10\n" * 2 for t in (0.0, 1.0, 1.0000007, 3.5, 4.7, 9.1))
    assert survives("trace.csv", ("timestamp,input_tokens,output_tokens\n" + rows).encode()) == ""


@pytest.mark.parametrize(("place", "byte"), [(14, 81), (14, 79), (16, 100), (1285, 81), (1435, 171), (2911, 87)])
def test_damaged_parquet_is_refused_and_nothing_panics(
    place: int, byte: int, survives: Survives, capfd: pytest.CaptureFixture[str]
) -> None:
    """At these polars panics, which is no Exception and is written past Python, or ends the process."""
    data = bytearray(READERS["trace.parquet"].seeds[0])
    data[place] = byte
    assert "panic" not in survives("trace.parquet", bytes(data)).lower()
    assert capfd.readouterr().err == ""


def test_more_rows_than_a_trace_has_are_refused(survives: Survives, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes can say that one row repeats a billion times."""
    monkeypatch.setattr(parquet, "MOST_ROWS", 39)
    assert "holds 40 rows, and at most 39" in survives("trace.parquet", READERS["trace.parquet"].seeds[0])
