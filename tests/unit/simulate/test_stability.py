"""When a stage is called unstable."""

import numpy as np

from pddplan.simulate.stability import grows, verdict


def test_a_ramp_grows_and_noise_does_not() -> None:
    rng = np.random.default_rng(0)
    assert grows(np.linspace(0, 100, 200) + rng.normal(0, 3, 200))
    assert not grows(50 + rng.normal(0, 10, 200))
    assert not grows(np.zeros(200))
    assert not grows(np.arange(5.0))


def test_overload_is_named_with_its_factor() -> None:
    sentence = verdict("P", 1.2, queue=None)
    assert sentence is not None
    assert "1.20 times" in sentence
    assert verdict("P", float("nan"), queue=None) is not None


def test_growth_below_nearly_full_is_chance() -> None:
    ramp = np.linspace(0, 100, 200)
    assert verdict("P", 0.5, queue=ramp) is None
    assert verdict("P", 0.95, queue=ramp) is not None
    assert verdict("P", 0.95, queue=np.ones(200)) is None
