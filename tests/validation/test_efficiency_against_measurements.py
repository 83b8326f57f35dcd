"""The bundled efficiencies against public measurements.

Limits are what was reached plus a margin; docs/validation.md holds the tables, also of what a fit has not seen.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pddplan import api
from pddplan.performance.predict import Prediction
from pddplan.performance.scores import Score, score_of, section_of

LIMITS = {
    "aiconfigurator_static": (0.14, 0.06),
    "argonne_static": (0.13, 0.06),
    "distserve_fitted": (0.15, 0.08),
    "inferencex_closed_loop": (0.10, 0.06),
    "nvidia_closed_loop": (0.12, 0.05),
    "splitwise_static": (0.20, 0.10),
    "trtllm_v0_9_static": (0.15, 0.08),
    "trtllm_v1_0_offline_max": (0.14, 0.08),
    "inferencex_dsr1_closed_loop": (0.20, 0.08),
}
"""MAPE and size of the bias at most, by file."""


def scored(predictions: list[Prediction]) -> Score:
    found = score_of(
        (p.value, p.row.measurement.value, p.row.where)
        for p in predictions
        if p.value and p.row.measurement and p.row.measurement.value and section_of(p.row.measurement) == "scored"
    )
    assert found is not None
    return found


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_file(shared_dir: Path, name: str) -> None:
    folder = shared_dir / "validation"
    path = folder / f"{name}.csv"
    if not path.is_file():
        pytest.skip("no measurements beside the checkout")
    predictions = api.predict_table(path, profiles=[folder])
    assert all(p.value is not None or p.remark for p in predictions)
    score, (mape, bias) = scored(predictions), LIMITS[name]
    assert score.mape <= mape
    assert abs(score.bias) <= bias


def test_production_averages_are_of_the_right_order(shared_dir: Path) -> None:
    folder = shared_dir / "validation"
    if not (folder / "published_fleet.csv").is_file():
        pytest.skip("no measurements beside the checkout")
    for p in api.predict_table(folder / "published_fleet.csv", profiles=[folder]):
        assert p.value is not None
        assert p.row.measurement is not None
        assert p.row.measurement.value is not None
        assert 0.2 <= p.value / p.row.measurement.value <= 5
