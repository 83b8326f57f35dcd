"""The optimiser against brute force over questions of every kind (see ``wide_cases``); a few seeds of many."""

from __future__ import annotations

import pytest

from tests.oracles.wide_cases import GAP, drawn, miss

SEEDS = (1, 2, 4, 7, 15, 1016)  # 1016: only long prefills in a pool of their own keep the promises


@pytest.mark.parametrize("seed", SEEDS)
def test_no_plan_of_whole_classes_is_better(seed: int) -> None:
    assert miss(drawn(seed)) <= 1.1 * GAP


def test_the_seeds_cover_every_kind_of_question() -> None:
    cases = [drawn(seed) for seed in range(40)]
    assert len({case.topology for case in cases}) == 7
    assert {case.objective.kind for case in cases} == {"cost", "bcr", "rps"}
    assert {case.limits.redundant_instances for case in cases} == {0, 1}
