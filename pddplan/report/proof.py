"""What was proven of a plan, in a sentence: over which candidates, and how close."""

from __future__ import annotations

from pddplan.domain.outcome import SolverReport
from pddplan.report.numbers import percent

TIME_LIMIT = "time limit"
INTERRUPTED = "interrupted"
STOPPED = {TIME_LIMIT: " stopped at the time limit", INTERRUPTED: " stopped by Ctrl-C"}
"""Statuses of searches that were cut short, in words."""
NOTHING = 1e-9
"""Gaps below this are rounding."""
SMALL = 1e-3
"""Gaps up to this are called none in tables."""
WAITS = "waits as this plan's mix of requests makes them"
"""What every bound of a search takes as given (docs/milp.md): fleets of other mixes are tried, not excluded."""
AS_GOOD_AS_NONE = 1.0
"""A plan of which no more is said than that another could be twice as good is not called proven at all."""


def searched(solver: SolverReport) -> str:
    """How far the search came, and what that proves."""
    return f"{solver.name}{STOPPED.get(solver.status, '')}: {proof(solver)} under these formulas, with {WAITS}"


def proof(solver: SolverReport) -> str:
    """The claim that the solver's bounds allow, and no larger one."""
    over_all = solver.gap_over_all
    if solver.shapes_possible == 0 or solver.shapes_searched == solver.shapes_possible:
        return _claim(solver.gap, "proven to be the best plan")
    if over_all is not None and over_all <= max(solver.gap, NOTHING):
        return _claim(over_all, "proven to be the best plan of any instance shapes")
    few = f"the {solver.shapes_searched} of {solver.shapes_possible} instance shapes searched"
    if solver.gap >= AS_GOOD_AS_NONE:
        searched = f"not proven best of {few}"
    elif solver.gap > NOTHING:
        searched = f"no plan of {few} can be more than {percent(solver.gap)} better"
    else:
        searched = f"proven to be the best plan of {few}"
    if over_all is None or over_all >= AS_GOOD_AS_NONE:
        return f"{searched}; not proven for the others"
    return f"{searched}; no plan of any shapes can be more than {percent(over_all)} better"


PROOF_KEY = "proof: proven best, or how much better another plan of that topology could be; open = no such bound"
"""What tables say of ``closeness``."""


def closeness(solver: SolverReport) -> str:
    """The same in a word or two: proven best, how much better another plan of any shapes could be, or no such bound."""
    alone = solver.shapes_possible == 0 or solver.shapes_searched == solver.shapes_possible
    gap = solver.gap if alone else solver.gap_over_all
    if gap is None or gap >= AS_GOOD_AS_NONE:
        return "open"
    return "proven" if gap <= SMALL else f"to {percent(gap)}"


def _claim(gap: float, best: str) -> str:
    if gap >= AS_GOOD_AS_NONE:
        return "not proven: another plan could be much better"
    return best if gap <= NOTHING else f"no plan can be more than {percent(gap)} better"
