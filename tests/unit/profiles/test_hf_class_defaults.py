"""Every architecture that both know: our count against the parameters of transformers' own class.

``class_defaults.json`` holds, for each configuration class of transformers 5.24.0, the sizes it has by default and the
number of parameters of the causal model built from it (on the meta device, every tensor counted once).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pddplan.performance.parameters import parameters
from pddplan.profiles.hf_config import config_to_llm

CLASSES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("class_defaults.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", CLASSES)
def test_parameters_equal_those_of_the_class(name: str) -> None:
    """Biases, norms of heads and other vectors are not all counted: two in a thousand is the most they make."""
    known = CLASSES[name]
    count = parameters(config_to_llm(known["config"], source="config.json", model_id=name).llm)
    assert count.total - count.tower == pytest.approx(known["parameters"], rel=0.002)
