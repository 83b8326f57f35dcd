"""YAML profiles of every kind, spoiled: a result or a message, never anything else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import fuzz_mutations as spoil
from pddplan.errors import InputError, did_you_mean
from pddplan.profiles import yaml_source
from tests.hostile.conftest import READERS, Survives

KINDS = sorted(name for name in READERS if name.endswith(".yaml"))


@pytest.mark.parametrize("kind", [*KINDS, "validate"])
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_spoiled_profiles_are_read_or_refused(survives: Survives, kind: str, seed: int) -> None:
    survives(kind, READERS[kind].case(random.Random(seed)))


@pytest.mark.parametrize("kind", KINDS)
def test_sound_profiles_are_read(survives: Survives, kind: str) -> None:
    for data in READERS[kind].seeds[:3]:
        assert survives(kind, data) == ""


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), number=st.sampled_from(spoil.NUMBERS))
def test_absurd_numbers_do_not_reach_a_formula(survives: Survives, kind: str, seed: int, number: str) -> None:
    rng = random.Random(seed)
    data = rng.choice(READERS[kind].seeds)
    places = list(spoil._SCALAR.finditer(data))
    place = rng.choice(places)
    survives(kind, data[: place.start()] + number.encode() + data[place.end() :])


ODD_FILES = ("empty", "blank", "NUL bytes", "high bytes", "UTF-16", "alias bomb", "alias of itself", "deep lists",
             "deep JSON mapping", "one key twice", "a number", "a word", "zip", "many documents")  # fmt: skip


@pytest.mark.parametrize("what", ODD_FILES)
def test_odd_files_are_refused_in_words(survives: Survives, what: str) -> None:
    said = survives("chip.yaml", spoil.monsters()[what]())
    assert "fix: " in said


def test_a_million_values_are_too_many(survives: Survives) -> None:
    assert "values" in survives("sites.yaml", b"a: [" + b"1," * 310_000 + b"1]")
    assert "values" in survives("sites.yaml", b"a: [" + b"{}," * 310_000 + b"{}]")


def test_a_long_line_is_no_misspelt_name(survives: Survives) -> None:
    said = survives("validate", b"schema: " + b"x" * 3_000_000)
    assert "unknown schema" in said
    assert len(said) < 1000
    assert did_you_mean("chip" * 100, ["chip"]) == ""


def test_files_without_end_are_cut_short() -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("no /dev/zero here")
    with pytest.raises(InputError, match="larger than"):
        yaml_source.load("/dev/zero")
