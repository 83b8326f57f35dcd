"""Result files of load-test clients, spoiled."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_mutations import VALUES, monsters
from tests.hostile.conftest import READERS, Survives

KINDS = ("benchmark.json", "benchmark.jsonl", "benchmark.txt")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150)
@given(seed=st.integers(0, 2**32 - 1))
def test_spoiled_results_are_read_or_refused(survives: Survives, kind: str, seed: int) -> None:
    survives(kind, READERS[kind].case(random.Random(seed)))


@pytest.mark.parametrize("kind", KINDS)
def test_sound_results_are_read(survives: Survives, kind: str) -> None:
    for data in READERS[kind].seeds:
        assert survives(kind, data) == ""


@pytest.mark.parametrize("what", ["deep lists", "deep JSON mapping", "empty", "high bytes", "UTF-16", "zip"])
def test_odd_files_are_refused_in_words(survives: Survives, what: str) -> None:
    for kind in KINDS:
        assert "fix: " in survives(kind, monsters()[what]())


@pytest.mark.parametrize("value", VALUES, ids=lambda v: repr(v)[:20])
def test_any_value_in_a_request_row(survives: Survives, value: Any) -> None:
    row = {"input_toks": 500, "output_toks": 90, "queued_ts": 1.0, "first_token_ts": 1.5, "last_token_ts": 3.0}
    for key in row:
        survives("benchmark.jsonl", json.dumps({**row, key: value}).encode() + b"\n" + json.dumps(row).encode())
