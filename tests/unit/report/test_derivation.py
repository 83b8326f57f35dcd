"""Numbers of a derivation in the unit people read."""

from __future__ import annotations

import pytest

from pddplan.report.derivation import shown


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (6.2e-68, "", "0"),
        (8e-66, "s", "0 s"),
        (0.25, "s", "250 ms"),
        (4.03e9, "bytes", "4.03 GB"),
        (1.25e9, "bytes/s", "10.0 Gbit/s"),
        (1e-6, "", "1.00e-06"),
        (48.0, "chips", "48 chips"),
    ],
)
def test_shown(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text
