"""Draws docs/architecture.md from the real imports: which part of the package uses which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "pddplan"

EVERYWHERE = {"errors", "units", "files", "domain"}
"""Used by nearly everything; their arrows would hide the rest."""


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def used_by(path: Path) -> Iterator[str]:
    """Parts that a module imports, anywhere in it (also for type checking: that is dependence too)."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"pddplan.{a.name}" for a in node.names] if node.module == "pddplan" else [node.module]
        for name in names:
            root, _, rest = name.partition(".")
            other = rest.split(".")[0]
            if root == "pddplan" and other and not other.startswith("__"):
                yield other


def imports() -> dict[str, set[str]]:
    """Part -> parts it uses."""
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        part = part_of(path)
        if part.startswith("__"):
            continue
        found.setdefault(part, set()).update(other for other in used_by(path) if other != part)
    return found


def direct(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Only the arrows that are no shortcut of a longer way."""

    def reach(start: str, seen: frozenset[str]) -> set[str]:
        found: set[str] = set()
        for other in graph.get(start, set()) - seen:
            found |= {other} | reach(other, seen | {start})
        return found

    return {
        part: {other for other in used if not any(other in reach(via, frozenset()) for via in used - {other})}
        for part, used in graph.items()
    }


def sentence(part: str) -> str:
    """First sentence of what a part says of itself; of a package without words, of its modules."""
    own = PACKAGE / f"{part}.py"
    own = own if own.exists() else PACKAGE / part / "__init__.py"
    text = ast.get_docstring(ast.parse(own.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def drawing() -> str:
    graph = {part: used - EVERYWHERE for part, used in imports().items() if part not in EVERYWHERE}
    lines = ["```mermaid", "flowchart TD"]
    lines += [f"  {part}" for part in graph]
    lines += [f"  {part} --> {other}" for part, used in direct(graph).items() for other in sorted(used)]
    return "\n".join([*lines, "```"])


def part_table() -> str:
    graph = imports()
    rows = ["| part | what it is about | uses |", "| --- | --- | --- |"]
    for part, used in graph.items():
        about = sentence(part) or ABOUT.get(part, "")
        rows.append(f"| `{part}` | {about} | {', '.join(sorted(used - EVERYWHERE)) or '-'} |")
    return "\n".join(rows)


ABOUT = {
    "cli": "Command line: parse, call, render; one file per command.",
    "economics": "Cost, BCR, revenue, bathtub, growth, uncertainty: formulas of money.",
    "evaluate": "The one evaluator: a plan and its traffic in, metrics out.",
    "paths": "TTFT, TPOT and occupancy of each way through pools and lines.",
    "performance": "Prefill and decode times, memory and KV of one instance; calibration.",
    "profiles": "YAML files into records: strict reading, schemas, look-up of bundled and own files.",
    "report": "Terminal, CSV, XLSX, JSON, HTML: renders what the evaluator and the studies say.",
}
