"""docs/published-systems.md says what its generator lists, and every file that it points to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import published_pdd, published_prfaas
from benchmarks.published_figures import Figure

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "published-systems.md"


def rows() -> dict[str, list[str]]:
    """Cells of all rows of all tables, by the first."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    return {cells[0]: cells for cells in lines}


@pytest.mark.parametrize("figure", [*published_prfaas.FIGURES, *published_pdd.FIGURES], ids=lambda f: f.what)
def test_every_figure_has_its_row_and_holds_there(figure: Figure) -> None:  # type: ignore[type-arg]
    _, published, planner, _, holds, kind = rows()[figure.what]
    assert published == figure.published
    assert kind == figure.kind
    assert holds.startswith("holds by ")
    value = float(planner.split()[0])
    rounding = 0.5 * 10.0**-figure.digits
    assert figure.low - rounding <= value <= figure.high + rounding


def test_every_number_that_is_not_published_is_listed_and_moved() -> None:
    found = rows()
    with published_pdd.profiles():
        inputs = published_pdd.question()
        for own in published_pdd.INPUTS:
            assert float(found[own.name][1].split()[0].replace(",", "")) == pytest.approx(own.value(inputs), rel=1e-3)
            assert {f"{own.name} x {factor}" for factor in (0.8, 1.2)} <= set(found)


def test_files_that_hold_a_claim_are_there() -> None:
    named = set(re.findall(r"`((?:tests|benchmarks|workloads|hardware_profiles)/[\w./-]+)`", PAGE.read_text("utf-8")))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
