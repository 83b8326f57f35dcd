"""pddplan: capacity planning for LLM serving split over chips and datacenters.

Functions of the API are available here: ``pddplan.size(...)``, ``pddplan.load_plan(...)``.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing has it: an interrupt while typing is imported here would end in a traceback
if TYPE_CHECKING:  # for type checkers and editors, which do not run __getattr__
    from typing import Any

    from pddplan.api import (
        calibrate,
        check_file,
        check_line,
        evaluate_plan,
        load_plan,
        load_plan_inputs,
        predict_table,
        simulate_plan,
        size,
        size_inputs,
        ttft_curve,
    )
    from pddplan.errors import InfeasibleError, InputError, PddplanError, SolverError
    from pddplan.optimize.objective import Limits, Objective
    from pddplan.questions import load_inputs, problem_of
    from pddplan.report.json_plan import save_plan
    from pddplan.simulate.check import Ask
    from pddplan.sizing import Inputs, Sizing

__version__ = "0.1.0"

_HOMES = {
    "Ask": "pddplan.simulate.check",
    "InfeasibleError": "pddplan.errors",
    "InputError": "pddplan.errors",
    "Inputs": "pddplan.sizing",
    "Limits": "pddplan.optimize.objective",
    "Objective": "pddplan.optimize.objective",
    "PddplanError": "pddplan.errors",
    "Sizing": "pddplan.sizing",
    "SolverError": "pddplan.errors",
    "calibrate": "pddplan.api",
    "check_file": "pddplan.api",
    "check_line": "pddplan.api",
    "evaluate_plan": "pddplan.api",
    "load_inputs": "pddplan.questions",
    "load_plan": "pddplan.api",
    "load_plan_inputs": "pddplan.api",
    "predict_table": "pddplan.api",
    "problem_of": "pddplan.questions",
    "save_plan": "pddplan.report.json_plan",
    "simulate_plan": "pddplan.api",
    "size": "pddplan.api",
    "size_inputs": "pddplan.api",
    "ttft_curve": "pddplan.api",
}
__all__ = [
    "Ask",
    "InfeasibleError",
    "InputError",
    "Inputs",
    "Limits",
    "Objective",
    "PddplanError",
    "Sizing",
    "SolverError",
    "__version__",
    "calibrate",
    "check_file",
    "check_line",
    "evaluate_plan",
    "load_inputs",
    "load_plan",
    "load_plan_inputs",
    "predict_table",
    "problem_of",
    "save_plan",
    "simulate_plan",
    "size",
    "size_inputs",
    "ttft_curve",
]


def __getattr__(name: str) -> Any:
    """Import the API when it is first used, so that ``import pddplan`` costs nothing."""
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pddplan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
