"""Lets atheris watch our own modules: which lines a case reached, and what its comparisons looked for."""

from __future__ import annotations

import importlib
import pkgutil

READING = ("pddplan.errors", "pddplan.files", "pddplan.profiles", "pddplan.traces", "pddplan.performance",
           "pddplan.records", "pddplan.record_check", "pddplan.plan_file", "pddplan.questions", "pddplan.api",
           "pddplan.domain", "pddplan.sizing", "pddplan.evaluate", "pddplan.paths")  # fmt: skip
"""What stands between a file and the numbers taken from it."""


def watch() -> None:
    """Import the modules that readers go through, instrumented."""
    import atheris

    with atheris.instrument_imports(include=list(READING), enable_loader_override=False):
        for name in READING:
            module = importlib.import_module(name)
            for inner in pkgutil.iter_modules(getattr(module, "__path__", ())):
                importlib.import_module(f"{name}.{inner.name}")
