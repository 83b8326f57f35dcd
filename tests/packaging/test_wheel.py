"""The wheel works by itself: built, installed into a clean environment, run from another folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(repo_root)], check=True, capture_output=True)
    (built,) = folder.glob("pddplan-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the commands of a clean environment with only the wheel in it.

    The libraries it depends on are lent by the environment that runs the tests, by a path file: path files inside
    a lent folder are not followed, so an editable install of the checkout stays out of sight.
    """
    home = tmp_path_factory.mktemp("clean") / "env"
    venv.create(home, with_pip=False)
    commands = home / ("Scripts" if os.name == "nt" else "bin")
    python = commands / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    purelib = subprocess.run([str(python), "-c", where], check=True, capture_output=True, text=True).stdout.strip()
    lent = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (Path(purelib) / "lent.pth").write_text("\n".join(sorted(lent)) + "\n", encoding="utf-8")
    return commands


def call(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PDDPLAN_PROFILES")}
    return subprocess.run(
        [str(installed / "pddplan"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def test_wheel_carries_profiles_licence_and_type_marker(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "pddplan/py.typed" in names
    for name in ("hardware_profiles/h100-sxm.yaml", "workloads/agentic-64k.yaml", "workloads/sites/two-sites.yaml"):
        assert f"pddplan/bundled/{name}" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith("tests") or "__pycache__" in name]


def test_everything_comes_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = "import pddplan; from pddplan.profiles.lookup import bundled_root; print(pddplan.__file__, bundled_root())"
    done = subprocess.run(
        [str(installed / "python"), "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    for path in done.stdout.split():
        assert Path(path).is_relative_to(installed.parent)


def test_version_and_errors_from_another_folder(installed: Path, tmp_path: Path) -> None:
    assert call(installed, tmp_path, "--version").stdout.startswith("pddplan ")
    wrong = call(installed, tmp_path, "size", "--workload", "nothing-like-it")
    assert wrong.returncode == 2
    assert "agentic-64k" in wrong.stderr


def test_sizes_the_bundled_workload_from_another_folder(installed: Path, tmp_path: Path) -> None:
    done = call(installed, tmp_path, "size", "--json", "--no-compare")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["goodput_rps"] > 0
    assert list(tmp_path.iterdir()) == []
