"""What the validation page says about scatter agrees with drawn errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_spread_between_and_within_configurations_is_found_again() -> None:
    from fit_efficiency_scatter import scatter

    draw = np.random.default_rng(7)
    keys = np.repeat(np.arange(400), draw.integers(2, 30, 400))
    errors = 0.3 * draw.standard_normal(400)[keys] + 0.1 * draw.standard_normal(keys.size)
    found = scatter(errors, keys)
    assert found.configurations == 400
    assert found.between == pytest.approx(0.3, rel=0.1)
    assert found.within == pytest.approx(0.1, rel=0.05)


def test_the_error_of_a_mean_is_that_of_many_draws() -> None:
    from fit_efficiency_scatter import scatter

    draw = np.random.default_rng(11)
    keys = np.repeat(np.arange(12), 10)
    samples = [0.2 * draw.standard_normal(12)[keys] + 0.1 * draw.standard_normal(keys.size) for _ in range(400)]
    spread = float(np.std([sample.mean() for sample in samples]))
    said = float(np.mean([scatter(sample, keys).standard_error for sample in samples]))
    assert said == pytest.approx(spread, rel=0.1)


def test_one_configuration_tells_no_scatter() -> None:
    from fit_efficiency_scatter import scatter

    found = scatter(np.array([0.1, 0.2]), np.array(["a", "a"]))
    assert np.isnan(found.between)
    assert np.isnan(found.standard_error)
