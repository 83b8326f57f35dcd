"""Studies see straight-line instances, so that their tests do not move when the performance model does."""

from __future__ import annotations

import pytest

from pddplan import api
from tests.unit.studies.study_samples import linear_question


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "problem_of", linear_question)
