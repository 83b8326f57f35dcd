"""The optimiser against brute force on bundled chips and models (see ``real_cases``); a few quick seeds of many."""

from __future__ import annotations

from functools import cache

import pytest

from tests.oracles.real_cases import drawn, verdict

SEEDS = (0, 2, 6, 7, 8, 11, 12, 13, 14, 16, 17, 18, 19)
question = cache(drawn)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_plan_is_better(seed: int) -> None:
    found, finished = verdict(question(seed))
    assert finished
    assert found.kind == "equal or better"


def test_the_seeds_cover_topologies_and_objectives() -> None:
    cases = [question(seed) for seed in SEEDS]
    assert {case.topology for case in cases} >= {"colocated", "pd", "pd-hetero", "cross-dc", "cross-dc-drc"}
    assert {case.objective.kind for case in cases} == {"cost", "bcr", "rps"}
