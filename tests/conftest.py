"""What all tests share: fixed environment, a deterministic hypothesis profile, and the folder of outside data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# The same examples on every run and machine; HYPOTHESIS_PROFILE=thorough looks further afield.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


SLOWER = 4
"""Searches end when nothing better is left or after so many nodes; their clock must not end them on a busy machine."""


@pytest.fixture(autouse=True, scope="session")
def _patient_clock() -> Iterator[None]:
    """Time limits of searches last four times longer: what a test finds does not depend on the machine."""
    clock = time.perf_counter
    time.perf_counter = lambda: clock() / SLOWER
    yield
    time.perf_counter = clock


@pytest.fixture(autouse=True)
def _fixed_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Fixed width, no colour, and no profiles of the person who runs the tests."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-config"))
    for name in ("PDDPLAN_PROFILES", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept-goldens", action="store_true", help="write tests/golden anew instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden("name.txt", text)``: compare with tests/golden/name.txt, or accept it with --accept-goldens."""

    def compare(name: str, text: str) -> None:
        path = ROOT / "tests" / "golden" / name
        if request.config.getoption("--accept-goldens"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        assert text == kept, f"{path.name} moved; if that is meant: pytest --accept-goldens"

    return compare


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Measurements and traces beside the checkout (or in ``PDDPLAN_SHARED``); tests that need them skip without."""
    folder = Path(os.environ.get("PDDPLAN_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("the shared data folder is not there")
    return folder
