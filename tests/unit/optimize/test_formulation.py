"""One LP golden per kind of constraint: what the program says is seen whole and accepted on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pulp
import pytest

from pddplan.optimize.data import LineOption, OwnedChips, PoolOption, ProgramData, Quantile, Route
from pddplan.optimize.formulation import CONSTRAINTS, Variables, _variables, formulate

CHECKED = {
    "route_all",
    "pool_capacity",
    "pool_spare",
    "pool_max_load",
    "pool_open",
    "one_shape",
    "line_capacity",
    "line_choice",
    "coverage",
    "inventory",
    "owned_chips",
    "power",
    "budget",
}


def pool(name: str, role: str = "P", *, site: str = "a", chip: str = "fast") -> PoolOption:
    return PoolOption(
        id=name,
        site=site,
        chip=chip,
        role=role,
        chips_per_instance=8,
        monthly_cost_per_instance=11_000.0,
        max_utilization=0.95,
        max_instances=9,
        power_kw_per_instance=7.0,
    )


def program() -> ProgramData:
    """Two shapes of prefill, one decode pool, one line with two tiers, two classes."""
    work = np.array([0.5, 0.25])
    decode = np.array([0.3, 0.3])
    covered = {"TTFT P99": np.array([0.9, 1.0])}
    routes = (
        Route("inside", {"p1": work, "md": decode}, np.ones(2), coverage=covered),
        Route("across", {"p2": work, "md": decode}, np.ones(2), "ab", np.array([2e8, 1e8]), covered),
    )
    return ProgramData(
        weight=np.array([0.25, 0.75]),
        pools=(
            replace(pool("p1"), spare_instances=0.5, min_instances=2, max_load=4.0),
            replace(pool("p2"), redundant_instances=1),
            pool("md", "MD"),
        ),
        lines=(LineOption("ab:1x10", "ab", 10, 1, 2450.0, 1e9), LineOption("ab:1x40", "ab", 40, 1, 5240.0, 4e9)),
        routes=routes,
        promises=(Quantile("TTFT P99", 0.99),),
        min_rate_rps=0.0,
        max_rate_rps=6.0,
        chip_limits={("a", "fast"): 64},
        owned=(OwnedChips("a", "fast", 16, 1300.0, 1.05),),
        power_limits_kw={"a": 50.0},
        budget=90_000.0,
        max_chips=96,
    )


def test_every_constraint_has_its_golden() -> None:
    assert {constraint.__name__ for constraint in CONSTRAINTS} == CHECKED


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda c: c.__name__)
def test_lp_golden(constraint: Callable[..., None], golden: Callable[[str, str], None], tmp_path: Path) -> None:
    data = program()
    variables: Variables = _variables(data)
    alone = pulp.LpProblem(constraint.__name__, pulp.LpMinimize)
    alone += 1.0 * variables.rate
    constraint(alone, data, variables)
    alone.writeLP(str(tmp_path / "one.lp"))
    golden(f"lp/{constraint.__name__}.lp", (tmp_path / "one.lp").read_text())


@pytest.mark.parametrize("objective", ["cost", "rps", "ratio", "tidy"])
def test_objective_goldens(objective: str, golden: Callable[[str, str], None], tmp_path: Path) -> None:
    whole, _ = formulate(program(), objective=objective, money_weight=0.08)
    whole.writeLP(str(tmp_path / "one.lp"))
    text = (tmp_path / "one.lp").read_text()
    golden(f"lp/objective_{objective}.lp", text[: text.index("Subject To")])


def test_every_docstring_names_its_row() -> None:
    for constraint in CONSTRAINTS:
        assert constraint.__doc__, constraint.__name__
