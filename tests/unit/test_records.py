"""Records survive a round trip through plain data; damaged data is refused with its place."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.llm import LatentAttention, LayerGroup, MoeFeedForward, RecurrentKind, RecurrentMixer
from pddplan.domain.plan import Plan, Pool, Role
from pddplan.domain.workload import Workload
from pddplan.errors import InputError
from pddplan.records import TYPE_KEY, from_plain, to_plain
from pddplan.sizing import Inputs
from tests import samples


def test_everything_a_plan_depends_on_survives_json() -> None:
    inputs, plan = samples.inputs(), samples.plan()
    plain = json.loads(json.dumps({"i": to_plain(inputs), "p": to_plain(plan)}, allow_nan=False))
    again, plan_again = from_plain(Inputs, plain["i"], where="x"), from_plain(Plan, plain["p"], where="x")
    assert again.llm == inputs.llm
    assert again.sites == inputs.sites
    assert again.chips == inputs.chips
    assert again.efficiencies == inputs.efficiencies
    assert again.settings == inputs.settings
    assert again.workload.arrival == inputs.workload.arrival
    assert again.workload.promises == inputs.workload.promises
    np.testing.assert_array_equal(again.workload.classes.weight, inputs.workload.classes.weight)
    np.testing.assert_array_equal(plan_again.share, plan.share)
    assert plan_again.pools == plan.pools
    assert plan_again.paths == plan.paths
    assert again.workload.arrival.dispersion == {10.0: 2.1}


def test_choices_between_records_are_named() -> None:
    mla = LayerGroup(3, LatentAttention(8, 512, 64, 128, 128), MoeFeedForward(8, 2, 256))
    kda = LayerGroup(1, RecurrentMixer(RecurrentKind.KDA, 8, 128, 128, 8), None)
    for group in (mla, kda):
        plain = to_plain(group)
        assert plain["attention"][TYPE_KEY] == type(group.attention).__name__
        assert from_plain(LayerGroup, plain, where="x") == group


@given(st.floats(allow_nan=True))
def test_any_number_survives(value: float) -> None:
    pool = samples.outcome().ttft
    plain = json.loads(json.dumps(to_plain({"p50": value, "p90": 0.0, "p99": 0.0, "mean": 0.0}), allow_nan=False))
    again = from_plain(type(pool), plain, where="x").p50
    assert again == value or (math.isnan(again) and math.isnan(value))


def test_faults_name_the_place() -> None:
    plain = to_plain(samples.plan())
    cases: list[tuple[Any, str]] = [
        ({**plain, "rate_rps": "fast"}, "x.rate_rps\n  must be a number, got 'fast'"),
        ({**plain, "pools": {}}, "x.pools\n  must be a list"),
        ({**plain, "share": [[1], [2, 3]]}, "x.share\n  must be a list of numbers"),
        ({**plain, "extra": 1}, "unknown key 'extra'"),
        ({k: v for k, v in plain.items() if k != "paths"}, "x.paths\n  this key is missing"),
        ([], "must be a mapping"),
        ({**plain, "pools": [{**plain["pools"][0], "role": "Q"}]}, "x.pools[0].role\n  must be one of P, RLD, MD, AGG"),
        ({**plain, "pools": [{**plain["pools"][0], "instances": 1.5}]}, "must be a whole number"),
        ({**plain, "pools": [{**plain["pools"][0], "instances": True}]}, "must be a whole number"),
    ]
    for data, words in cases:
        with pytest.raises(InputError) as caught:
            from_plain(Plan, data, where="x")
        assert words in str(caught.value)


def test_optional_and_enum_fields() -> None:
    pool = samples.plan().pools[0]
    assert from_plain(Pool, to_plain(pool), where="x") == pool
    assert to_plain(pool)["role"] == Role.PREFILL.value
    assert to_plain(samples.workload())["odd_traffic"]["max_output_tokens"] == 500.0
    assert from_plain(Workload, to_plain(samples.workload()), where="x").cache_curve is None
