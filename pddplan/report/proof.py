"""What was proven of a plan, in a sentence: over which candidates, and how close."""

from __future__ import annotations

from pddplan.domain.outcome import SolverReport
from pddplan.report.numbers import percent

NOTHING = 1e-9
"""Gaps below this are rounding."""


def proof(solver: SolverReport) -> str:
    """The claim that the solver's bounds allow, and no larger one."""
    over_all = solver.gap_over_all
    if solver.shapes_possible == 0 or solver.shapes_searched == solver.shapes_possible:
        return _claim(solver.gap, "proven to be the best plan")
    if over_all is not None and over_all <= max(solver.gap, NOTHING):
        return _claim(over_all, "proven to be the best plan of any instance shapes")
    few = f"the {solver.shapes_searched} of {solver.shapes_possible} instance shapes searched"
    searched = (
        f"proven to be the best plan of {few}"
        if solver.gap <= NOTHING
        else f"no plan of {few} can be more than {percent(solver.gap)} better"
    )
    if over_all is None:
        return f"{searched}; not proven for the others"
    return f"{searched}; no plan of any shapes can be more than {percent(over_all)} better"


def _claim(gap: float, best: str) -> str:
    return best if gap <= NOTHING else f"no plan can be more than {percent(gap)} better"
