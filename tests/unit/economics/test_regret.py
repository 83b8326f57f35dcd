"""Minimax regret by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pddplan.economics.regret import regret_table
from pddplan.errors import DomainError


def test_by_hand() -> None:
    got = regret_table(["bold", "safe"], ["calm", "busy"], benefit=np.array([[10.0, 0.0], [8.0, 5.0]]))
    assert got.regret.tolist() == [[0, 5], [2, 0]]
    assert got.worst == pytest.approx([1.0, 0.2])
    assert got.robust == "safe"


def test_order_of_scenarios_does_not_matter() -> None:
    benefit = np.array([[10.0, 0.0, 3.0], [8.0, 5.0, 2.0]])
    got = regret_table(["a", "b"], ["x", "y", "z"], benefit=benefit)
    turned = regret_table(["a", "b"], ["z", "y", "x"], benefit=benefit[:, ::-1])
    assert got.worst == pytest.approx(turned.worst)


@pytest.mark.parametrize("benefit", [np.zeros((1, 2)), np.array([[np.nan, 1.0], [1.0, 1.0]]), np.empty((0, 0))])
def test_bad_tables_are_refused(benefit: np.ndarray) -> None:
    with pytest.raises(DomainError):
        regret_table(["a", "b"], ["x", "y"], benefit=benefit)
