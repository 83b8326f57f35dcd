"""The list of what a plan leans on: values and ranges, of nothing that the plan does not take."""

from __future__ import annotations

import pytest

from pddplan import api
from pddplan.profiles.efficiency_profile import validated_error
from pddplan.report.assumptions import of_plan, of_sites
from pddplan.sizing import Sizing


@pytest.fixture(scope="module")
def sizing() -> Sizing:
    return api.size(topology="cross-dc-drc", link_gbps=10, compare=False)


def test_speeds_carry_the_error_of_validation(sizing: Sizing) -> None:
    error = validated_error(moe=True)
    rows = [row for row in of_plan(sizing) if row.name.startswith("speed of")]
    assert rows
    assert all(row.range.endswith(f"-{1 + error:.3g}") for row in rows)


def test_numbers_of_the_sites_file_have_values_in_the_unit_of_their_key(sizing: Sizing) -> None:
    rows = {row.name: row for row in of_sites(sizing)}
    assert rows["lines.a-b.rtt_ms"].value == "10.0 ms"
    assert rows["lines.a-b.rtt_ms"].range == "2.00-40.0"
    assert rows["lines.a-b.tcp_window_mib"].value == "6.00 MiB"
    tier = rows["lines.a-b: 10 Gbit/s a month"]
    assert (tier.value, tier.range, tier.basis) == ("2,450", "1,500-4,000", "published")
    assert rows["sites.a.chips.h100-sxm.price_per_chip_hour"].value == "1.88"
    assert rows["finance.hours_per_month"].value == "730"


def test_tiers_and_chips_not_taken_are_left_out(sizing: Sizing) -> None:
    names = [row.name for row in of_sites(sizing)]
    assert [name for name in names if "Gbit/s" in name] == ["lines.a-b: 10 Gbit/s a month"]
    alone = api.size(topology="colocated", compare=False)
    assert not [row.name for row in of_sites(alone) if row.name.startswith("lines.")]
