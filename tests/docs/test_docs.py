"""Documentation that lies is worse than none: generated parts are current, commands run, links lead somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pddplan.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SCRIPTS = [ROOT / "docs" / name for name in ("quickstart.md", "json.md")]


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


def commands(page: Path) -> list[str]:
    """Lines of a page's console blocks that start with ``$ pddplan``."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ pddplan")]


@pytest.mark.parametrize("page", SCRIPTS, ids=lambda p: p.name)
def test_commands_of_a_page_run_one_after_the_other(page: Path, tmp_path: Path) -> None:
    """In an empty folder with the sites file that the page tells the reader to write."""
    shutil.copy(ROOT / "workloads" / "sites" / "two-sites.yaml", tmp_path / "my-sites.yaml")
    found = commands(page)
    assert found
    for line in found:
        arguments = shlex.split(line)[1:]
        if not app.COMMANDS[arguments[0]].exists:
            continue
        done = subprocess.run(
            [sys.executable, "-m", "pddplan", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
