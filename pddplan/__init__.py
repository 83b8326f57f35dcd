"""pddplan: capacity planning for LLM serving split over chips and datacenters.

Functions of the API are available here: ``pddplan.size(...)``, ``pddplan.load_plan(...)``.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing has it: an interrupt while typing is imported here would end in a traceback
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Inputs": "pddplan.sizing",
    "Sizing": "pddplan.sizing",
    "evaluate_plan": "pddplan.api",
    "load_inputs": "pddplan.api",
    "load_plan": "pddplan.api",
    "load_plan_inputs": "pddplan.api",
    "problem_of": "pddplan.api",
    "save_plan": "pddplan.report.json_plan",
    "Ask": "pddplan.simulate.check",
    "simulate_plan": "pddplan.api",
    "size": "pddplan.api",
    "size_inputs": "pddplan.api",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    """Import the API when it is first used, so that ``import pddplan`` costs nothing."""
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pddplan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
