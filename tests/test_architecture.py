"""What may import what (house rules 2 and 3), and what must stay cheap to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "pddplan"

# Left to right: a layer imports only what stands left of it, or in its own package.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "units", "files"),
    ("domain",),
    ("performance", "queueing"),
    ("network",),
    ("paths",),
    ("economics",),
    ("evaluate",),
    ("optimize", "simulate"),
    ("sizing", "records"),
    ("record_check",),
    ("plan_file", "questions"),
    ("api",),
    ("studies",),
    ("report",),
    ("cli",),
)
# Beside the chain: input files and traces turn into domain records. They may use the input records of performance.
INPUT_PACKAGES = {"profiles", "traces"}
INPUTS_MAY_USE = {"errors", "units", "files", "domain", "performance", "profiles", "traces"}

DOORS = {
    "yaml": {"profiles"},
    "pydantic": {"profiles"},
    "pulp": {"optimize"},
    "highspy": {"optimize"},
    "rich": {"report"},
    "xlsxwriter": {"report"},
    "typer": {"cli"},
    "click": set(),
    "polars": {"traces", "profiles"},
    "zstandard": {"traces"},
    "pandas": set(),
    "pint": set(),
    "pytest": set(),
}


def modules() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Dotted names that a module imports anywhere in it, except for type checking only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        node
        for guard in ast.walk(tree)
        if isinstance(guard, ast.If) and isinstance(guard.test, ast.Name) and guard.test.id == "TYPE_CHECKING"
        for node in ast.walk(guard)
    }
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield (f"{node.module}.{alias.name}" if node.module == "pddplan" else node.module), node.lineno


def part_of(path: Path) -> str:
    """Top-level part of the package that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def layer(part: str) -> int | None:
    return next((i for i, parts in enumerate(LAYERS) if part in parts), None)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_left(path: Path) -> None:
    part = part_of(path)
    if part in ("__init__", "__main__"):
        return
    wrong = []
    for name, line in imports(path):
        if not name.startswith("pddplan."):
            continue
        other = name.split(".")[1]
        if other in (part, "__version__"):
            continue
        if part in INPUT_PACKAGES:
            allowed = other in INPUTS_MAY_USE
        elif other in INPUT_PACKAGES:
            # profiles are read from the question upwards; a simulation may replay a trace
            lowest = "simulate" if other == "traces" else "sizing"
            allowed = (layer(part) or 0) >= (layer(lowest) or 0)
        else:
            mine, theirs = layer(part), layer(other)
            allowed = mine is not None and theirs is not None and theirs < mine
            allowed = allowed or (mine == 0 and theirs == 0)
        if not allowed:
            wrong.append(f"{path.relative_to(PACKAGE)}:{line}: {part} imports {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_third_parties_have_one_door(path: Path) -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}: {name} belongs in {sorted(DOORS[name.split('.')[0]])}"
        for name, line in imports(path)
        if name.split(".")[0] in DOORS and part_of(path) not in DOORS[name.split(".")[0]]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_modules_have_a_story_and_stay_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 500, "beyond five hundred lines: what wants out?"
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "a module starts by saying what it is about"


def test_importing_the_package_and_the_command_line_is_cheap() -> None:
    code = (
        "import sys, pddplan, pddplan.api, pddplan.cli.app, pddplan.cli.main, pddplan.cli.options;"
        "heavy = {'numpy', 'scipy', 'pulp', 'polars', 'pydantic', 'yaml', 'rich', 'matplotlib', 'highspy'};"
        "found = sorted(heavy & set(sys.modules)); assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_conversion_factors_stand_in_units_alone() -> None:
    factors = {8.0, 1000.0, 1024.0, 3600.0, 86_400.0, 1e9, 1e12}
    wrong = []
    for path in modules():
        if part_of(path) == "units":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div))):
                continue
            wrong += [
                f"{path.relative_to(PACKAGE)}:{side.lineno}: {side.value}"
                for side in (node.left, node.right)
                if isinstance(side, ast.Constant) and type(side.value) in (int, float) and side.value in factors
            ]
    assert not wrong, "write these in units.py:\n" + "\n".join(wrong)
