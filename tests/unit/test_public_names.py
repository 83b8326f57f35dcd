"""What ``import pddplan`` offers: the same to programs, type checkers and readers."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import pddplan
from pddplan.errors import PddplanError

NAMES = sorted(set(pddplan.__all__) - {"__version__"})


def test_type_checkers_see_what_programs_get() -> None:
    """They do not run ``__getattr__``: without these imports every name would be Any to them."""
    tree = ast.parse(Path(pddplan.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pddplan.")
        for alias in node.names
    }
    assert sorted(seen) == NAMES
    for name, module in seen.items():
        assert getattr(pddplan, name).__module__ == module, name
    assert (Path(pddplan.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_public_names_are_described_and_typed(name: str) -> None:
    found = getattr(pddplan, name)
    assert inspect.getdoc(found)
    if inspect.isfunction(found):
        signature = inspect.signature(found)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pddplan.nothing
    assert issubclass(pddplan.InfeasibleError, PddplanError)
