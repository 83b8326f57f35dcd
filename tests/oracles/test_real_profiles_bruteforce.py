"""The optimiser against brute force on bundled chips and models (see ``real_cases``); a few quick seeds of many."""

from __future__ import annotations

import math
from functools import cache

import pytest

from pddplan.domain.outcome import Outcome
from tests.oracles.real_cases import drawn, verdict
from tests.oracles.real_space import BETTER, Search, real_space
from tests.oracles.wide_space import found_by_optimiser

SEEDS = (0, 2, 6, 7, 8, 11, 12, 13, 14, 16, 17, 18, 19)
question = cache(drawn)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_plan_is_better(seed: int) -> None:
    found, finished = verdict(question(seed))
    assert finished
    assert found.kind == "equal or better"


def test_brute_force_finds_a_plan_where_none_is_known() -> None:
    case = question(7)
    search = Search(real_space(case), steps=2, left=2_000, best=-math.inf)
    search.run()
    found = found_by_optimiser(case)
    assert isinstance(found, Outcome)
    assert search.plan is not None
    assert found.cost.monthly_total == pytest.approx(-search.best, rel=BETTER)


def test_the_seeds_cover_topologies_and_objectives() -> None:
    cases = [question(seed) for seed in SEEDS]
    assert {case.topology for case in cases} >= {"colocated", "pd", "pd-hetero", "cross-dc", "cross-dc-drc"}
    assert {case.objective.kind for case in cases} == {"cost", "bcr", "rps"}
