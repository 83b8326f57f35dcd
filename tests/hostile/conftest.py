"""What tests with hostile files share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.fuzz_targets import Target, targets
from pddplan.errors import PddplanError

READERS = {target.name: target for target in targets()}

Survives = Callable[[str, bytes], str]


def survive(target: Target, data: bytes, folder: Path) -> str:
    """Read a file; the message of a refusal, empty when it was accepted. Anything else is a failure."""
    path = folder / f"case{target.suffix}"
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            target.read(path)
        except PddplanError as error:
            message = str(error)
            assert message.strip()
            return message
        finally:
            path.unlink()
    return ""


@pytest.fixture(scope="module")
def survives(tmp_path_factory: pytest.TempPathFactory) -> Survives:
    """``survives("chip.yaml", data)``: what the reader said, or nothing when it took the file."""
    folder = tmp_path_factory.mktemp("hostile")
    return lambda name, data: survive(READERS[name], data, folder)
