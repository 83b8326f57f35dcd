"""pddplan: capacity planning for LLM serving split over chips and datacenters.

The functions of ``pddplan.api`` are available here: ``pddplan.size(...)``, ``pddplan.load_plan(...)``.
"""

from typing import Any

__version__ = "0.1.0"

_API = (
    "Inputs",
    "Sizing",
    "evaluate_plan",
    "load_inputs",
    "load_plan",
    "problem_of",
    "save_plan",
    "size",
    "size_inputs",
)
__all__ = [*_API, "__version__"]


def __getattr__(name: str) -> Any:
    """Import the API when it is first used, so that ``import pddplan`` costs nothing."""
    if name in _API:
        from pddplan import api, sizing

        return getattr(sizing if name in ("Inputs", "Sizing") else api, name)
    raise AttributeError(f"module 'pddplan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_API])
