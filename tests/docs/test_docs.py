"""Documentation that lies is worse than none: generated parts are current, commands run, links lead somewhere."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

import pytest

from pddplan.cli import app
from pddplan.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SCRIPTS = [ROOT / "docs" / name for name in ("quickstart.md", "json.md", "editors.md")]
QUESTIONS = sorted((ROOT / "docs" / "questions").glob("*.md"))
QUICK = ["--time-limit", "5"]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def titles(text: str) -> list[str]:
    """Section titles of the report shown in the README; its numbers may differ with the solver's release."""
    return re.findall(r"^[A-Z][A-Z ]{3,}(?=   |$)", text, re.MULTILINE)


def test_generated_pages_are_current(generator: ModuleType) -> None:
    drifted = []
    for path, text in generator.pages().items():
        kept = path.read_text("utf-8") if path.exists() else ""
        same = titles(kept) == titles(text) if path.name == "README.md" else kept == text
        if not same:
            drifted.append(path.name)
    assert not drifted, "run: make docs"


def test_every_command_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, entry in app.COMMANDS.items():
        if entry.exists:
            assert f"## pddplan {name}" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    dead = [
        target
        for target in re.findall(r"\]\(([^)#\s]+)", text)
        if not target.startswith(("http://", "https://", "mailto:")) and not (page.parent / target).exists()
    ]
    assert not dead


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        waiting += [(page.parent / target).resolve() for target in targets if "://" not in target]
    assert not set(PAGES) - reached


def commands(page: Path) -> list[str]:
    """Lines of a page's console blocks that start with ``$ pddplan``; blocks marked ``console slow`` are left out."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ pddplan")]


@pytest.mark.parametrize("page", [*QUESTIONS, *SCRIPTS], ids=lambda p: p.name)
def test_slow_commands_are_spelled_right(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that no test runs: command and options exist."""
    blocks = re.findall(r"```console slow\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for line in (line.strip() for block in blocks for line in block.splitlines()):
        arguments = shlex.split(line.removeprefix("$ pddplan"))
        words = [a for a in arguments[:2] if not a.startswith("-") and "." not in a]
        assert run([*words, "--help"]) == 0
        known = capsys.readouterr().out
        assert all(a in known for a in arguments if a.startswith("--")), line


@pytest.mark.parametrize("page", QUESTIONS, ids=lambda p: p.name)
def test_commands_of_a_question_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in commands(page):
        assert run(shlex.split(line)[1:]) == 0, line


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda p: p.name)
def test_examples_run(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells that are expressions are what a notebook would show: they must have a page to show."""
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(script))
    shown = [node.value.id for node in ast.parse(script.read_text(encoding="utf-8")).body if is_name(node)]
    assert shown
    for name in shown:
        assert "<table" in names[name]._repr_html_()
    assert names["prices"][10.0] <= names["prices"][4.0] * 1.001
    assert names["prices"][4.0] <= names["prices"][2.0] * 1.001


def is_name(node: ast.stmt) -> TypeGuard[Any]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Name)


@pytest.mark.parametrize("page", SCRIPTS, ids=lambda p: p.name)
def test_commands_of_a_page_run_one_after_the_other(page: Path, tmp_path: Path) -> None:
    """In an empty folder, with the sites file that the reader has by then unless the page itself makes it."""
    found = commands(page)
    if not any(line.startswith("pddplan sites copy") for line in found):
        shutil.copy(ROOT / "workloads" / "sites" / "two-sites.yaml", tmp_path / "my-sites.yaml")
    assert found
    for line in found:
        arguments = shlex.split(line)[1:]
        if not app.COMMANDS[arguments[0]].exists:
            continue
        if arguments[0] == "size":
            arguments += QUICK  # a shorter search of the same plan file is enough for the commands after it
        done = subprocess.run(
            [sys.executable, "-m", "pddplan", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_every_default_and_every_key_of_a_plan_is_explained() -> None:
    for name in ("defaults.md", "json.md"):
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
        place = 2 if name == "defaults.md" else 1
        silent = [row[0].strip("| `") for row in rows if not row[place].strip(" |")]
        assert rows
        assert not silent, name
