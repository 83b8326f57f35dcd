"""Model configs as hubs never meant them."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_mutations import VALUES, monsters
from benchmarks.fuzz_targets import _CONFIG, _MIXED_CONFIG, _MOE_CONFIG
from tests.hostile.conftest import READERS, Survives

CONFIGS = [_CONFIG, _MOE_CONFIG, _MIXED_CONFIG]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32 - 1))
def test_spoiled_configs_are_read_or_refused(survives: Survives, seed: int) -> None:
    survives("config.json", READERS["config.json"].case(random.Random(seed)))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c["model_type"])
@settings(max_examples=100)
@given(data=st.data())
def test_any_value_may_stand_anywhere(survives: Survives, config: dict[str, object], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(config)))
    value = data.draw(values | st.sampled_from(VALUES))
    survives("config.json", json.dumps({**config, key: value}).encode())


@pytest.mark.parametrize("what", ["empty", "deep lists", "deep JSON mapping", "many JSON keys", "one JSON key twice",
                                  "UTF-16", "NUL bytes", "list of numbers", "a word"])  # fmt: skip
def test_odd_files_are_refused_in_words(survives: Survives, what: str) -> None:
    assert "fix: " in survives("config.json", monsters()[what]())


def test_sound_configs_are_read(survives: Survives) -> None:
    for config in CONFIGS:
        assert survives("config.json", json.dumps(config).encode()) == ""
