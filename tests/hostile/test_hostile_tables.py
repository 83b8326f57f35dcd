"""Tables of measurements, chips and models, spoiled."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_mutations import TOKENS, monsters
from benchmarks.fuzz_targets import _measurements
from pddplan.performance.measurement import read_measurements
from tests.hostile.conftest import READERS, Survives

KINDS = ("predict.csv", "chips-and-models.csv")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_spoiled_tables_are_read_or_refused(survives: Survives, kind: str, seed: int) -> None:
    survives(kind, READERS[kind].case(random.Random(seed)))


NOTES = ("prefill_workers", "prefill_gpus", "decode_workers", "decode_gpus", "prefill_tp", "prefill_ep", "gemm", "attn")


@settings(max_examples=80)
@given(st.dictionaries(st.sampled_from(NOTES), st.sampled_from(TOKENS), min_size=1), st.booleans())
def test_notes_may_say_anything(survives: Survives, note: dict[str, str], split: bool) -> None:
    words = ";".join(f"{key}={value}".replace(",", " ").replace('"', " ") for key, value in note.items())
    words = words.replace("\n", " ").replace("\r", " ") + (";disagg" if split else "")
    survives("predict.csv", _measurements().replace(b"mode=closed_loop", words.encode()))


@pytest.mark.parametrize("what", ["empty", "high bytes", "UTF-16", "NUL bytes", "a word", "ten megabytes of commas"])
def test_odd_files_are_refused_in_words(survives: Survives, what: str) -> None:
    assert "fix: " in survives("predict.csv", monsters()[what]())


@pytest.mark.parametrize("column", ["n_layers", "hidden", "n_heads", "n_kv_heads", "head_dim", "vocab"])
@pytest.mark.parametrize("size", ["0.5", "0", "-1", "1e12", "nan"])
def test_half_a_head_is_no_head(survives: Survives, column: str, size: str) -> None:
    header = "model,n_layers,hidden,n_heads,n_kv_heads,head_dim,ffn_inter,vocab"
    values = dict(zip(header.split(","), ["m1", "32", "4096", "32", "8", "128", "14336", "32000"], strict=True))
    values[column] = size
    said = survives("chips-and-models.csv", f"{header}\n{','.join(values.values())}\n".encode())
    if column == "head_dim" and size in ("0", "nan"):
        assert said == ""  # as if left out: hidden / heads
    else:
        assert column in said


@pytest.mark.parametrize("column", ["batch_or_concurrency", "isl_tokens", "osl_tokens"])
@pytest.mark.parametrize("number", ["5e-324", "1e-300", "1e300", "-1e-9"])
def test_numbers_that_vanish_are_no_measurements(column: str, number: str, tmp_path: Path) -> None:
    """5e-324 requests at a time are above zero, and what divides by them overflows."""
    lines = list(csv.DictReader(io.StringIO(_measurements().decode())))
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows([{**line, column: number} for line in lines])
    assert all(f"{column} must be" in (row.reason or "") for row in read_measurements(path))
