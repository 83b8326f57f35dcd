"""The one place where a solver runs: muted, bounded, its status mapped and its integers made whole.

HiGHS is taken where highspy is installed, CBC otherwise. Some builds print a banner whatever their options say,
so the output descriptor itself is pointed elsewhere while a solver runs; ``--json`` stays pure JSON.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pddplan.errors import SolverError
from pddplan.files import STANDARD_OUTPUT, muted

if TYPE_CHECKING:
    import pulp

INTEGER_TOLERANCE = 1e-5
"""How far from a whole number an integer variable may come back; beyond it the answer is not trusted."""
SMALL_PROGRAM = 6_000
"""Programs with at most this many variables are solved quicker without a start from heuristics."""
_WITHOUT_HEURISTICS = {
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_pscost_minreliable": 0,
}


_PRIMAL_FEASIBLE = 2
"""HiGHS: the solution kept satisfies all rows."""


class SolveStatus(StrEnum):
    """What a solver said, in the only four words the rest of the package needs."""

    OPTIMAL = "optimal"
    TIME_LIMIT = "time limit"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"


@dataclass(frozen=True, slots=True)
class Solved:
    """Values of all variables by name, the value reached and the value proven unreachable."""

    solver: str
    status: SolveStatus
    objective: float
    bound: float
    """Best value that could still exist: equal to ``objective`` when proven optimal."""
    values: Mapping[str, float]
    seconds: float

    @property
    def has_plan(self) -> bool:
        return bool(self.values)


LARGEST_COEFFICIENT = 1e15
"""HiGHS leaves out rows with larger ones without a word."""


def solver_name() -> str:
    """Name of the solver that will run: ``HiGHS``, or ``CBC`` where highspy is missing."""
    import pulp

    return "HiGHS" if pulp.HiGHS().available() else "CBC"


def solve(
    program: pulp.LpProblem,
    *,
    time_limit_s: float,
    gap: float = 0.0,
    absolute_gap: float | None = None,
    relax_integers: bool = False,
) -> Solved:
    """Solve one program and return whole integers, never a half-checked answer.

    Raises SolverError when no solver is installed, or the solver stops for a reason other than
    optimal, infeasible, unbounded or out of time.
    """
    import pulp

    started = time.perf_counter()
    name = solver_name()
    if any(abs(c) > LARGEST_COEFFICIENT for row in program.constraints.values() for c in row.values()):
        raise SolverError(
            f"the question has numbers beyond what {name} can calculate with",
            fix="correct absurd lengths, rates, prices or limits",
        )
    limit = max(time_limit_s, 0.05)
    with muted(STANDARD_OUTPUT):
        if name == "HiGHS":
            quick = _WITHOUT_HEURISTICS if program.numVariables() <= SMALL_PROGRAM else {}
            engine: Any = (_interruptible() if not quick else pulp.HiGHS)(
                msg=False,
                mip=not relax_integers,
                timeLimit=limit,
                gapRel=gap,
                gapAbs=absolute_gap,
                threads=1,
                random_seed=0,
                **quick,
            )
        else:
            engine = pulp.PULP_CBC_CMD(
                msg=False, mip=not relax_integers, timeLimit=limit, gapRel=gap, threads=1, options=["randomS 1"]
            )
            if not engine.available():
                raise SolverError("no solver is installed", fix="pip install highspy")
        try:
            program.solve(engine)
        except pulp.PulpSolverError as error:
            raise SolverError(f"{name} failed: {error}", fix="try again with --time-limit raised") from error
    seconds = time.perf_counter() - started
    status = _status(program, out_of_time=seconds >= 0.95 * limit)
    if status in (SolveStatus.INFEASIBLE, SolveStatus.UNBOUNDED):
        return Solved(name, status, math.nan, math.nan, {}, seconds)
    values = _values(program, whole=not relax_integers) if _has_solution(program, status) else {}
    if not values:
        return Solved(name, SolveStatus.TIME_LIMIT, math.nan, _bound(program, math.nan), {}, seconds)
    objective = _clean(float(program.objective.value()))
    bound = objective if status is SolveStatus.OPTIMAL and gap == 0 and not absolute_gap else _bound(program, objective)
    return Solved(name, status, objective, bound, values, seconds)


def _interruptible() -> Any:
    """HiGHS that stops at Ctrl-C instead of after its time limit (slower to start: for large programs)."""
    import pulp

    class Interruptible(pulp.HiGHS):  # type: ignore[misc,unused-ignore]
        def callSolver(self, lp: Any) -> None:  # noqa: N802 - the name is PuLP's
            lp.solverModel.HandleKeyboardInterrupt = True
            lp.solverModel.solve()
            if "Interrupt" in str(lp.solverModel.getModelStatus()):  # HiGHS keeps the signal to itself
                raise KeyboardInterrupt

    return Interruptible


def _status(program: pulp.LpProblem, *, out_of_time: bool) -> SolveStatus:
    import pulp

    if program.sol_status == pulp.LpSolutionIntegerFeasible:
        return SolveStatus.TIME_LIMIT
    known = {
        pulp.LpStatusOptimal: SolveStatus.OPTIMAL,
        pulp.LpStatusInfeasible: SolveStatus.INFEASIBLE,
        pulp.LpStatusUnbounded: SolveStatus.UNBOUNDED,
    }
    if program.status in known:
        return known[program.status]
    if out_of_time or program.status == pulp.LpStatusNotSolved:  # stopped without a proof, whatever stopped it
        return SolveStatus.TIME_LIMIT
    # Presolve sometimes cannot tell the two apart; our programs are bounded by demand, so it is infeasible.
    if program.status == pulp.LpStatusUndefined:
        return SolveStatus.INFEASIBLE
    raise SolverError(
        f"the solver stopped with status {pulp.LpStatus.get(program.status, program.status)!r}",
        fix="try again with --time-limit raised, or with fewer kinds of chips",
    )


def _has_solution(program: pulp.LpProblem, status: SolveStatus) -> bool:
    """False when the solver stopped before it had any plan (its variables then read zero)."""
    if status is SolveStatus.OPTIMAL:
        return True
    engine = getattr(program, "solverModel", None)
    if engine is not None and hasattr(engine, "getInfo"):
        return int(engine.getInfo().primal_solution_status) == _PRIMAL_FEASIBLE
    return bool(program.sol_status == 2)


def _values(program: pulp.LpProblem, *, whole: bool) -> dict[str, float]:
    import pulp

    values: dict[str, float] = {}
    for variable in program.variables():
        value = variable.varValue
        if value is None:
            return {}
        if whole and variable.cat == pulp.LpInteger:
            near = round(value)
            if abs(value - near) > INTEGER_TOLERANCE * max(1.0, abs(value)):
                raise SolverError(
                    f"the solver returned {value!r} for the integer {variable.name}",
                    fix="report this; the coefficients of the program span too many orders of magnitude",
                )
            value = float(near)
        elif variable.lowBound is not None:
            value = max(value, variable.lowBound)  # feasibility tolerance may leave it a hair below
        values[variable.name] = _clean(value)
    return values


def _bound(program: pulp.LpProblem, objective: float) -> float:
    """Proven bound of the objective, in the program's own sense."""
    engine = getattr(program, "solverModel", None)
    info = engine.getInfo() if engine is not None and hasattr(engine, "getInfo") else None
    if info is None:
        return objective
    dual = float(info.mip_dual_bound)
    if not math.isfinite(dual) or not any(v.cat == "Integer" for v in program.variables()):
        return objective
    return (-dual if program.sense == -1 else dual) + float(program.objective.constant)


def _clean(value: float) -> float:
    """Turn the -0.0 that solvers like to return into 0.0."""
    return value + 0.0
