"""What stands beside every plan: the aggregated baseline, and when it takes the plan's place."""

from __future__ import annotations

from dataclasses import replace

from pddplan.api import _is_beaten
from tests import samples


def test_a_topology_that_allows_aggregated_fleets_does_not_lose_to_one() -> None:
    sizing = samples.sizing()
    assert sizing.baseline is not None
    cheap, dear = sorted([sizing.baseline, sizing.outcome], key=lambda outcome: outcome.cost.monthly_total)
    enough = replace(cheap, goodput_rps=dear.goodput_rps)
    assert _is_beaten(replace(sizing, topology="any", outcome=dear, baseline=enough))
    assert not _is_beaten(replace(sizing, topology="pdd", outcome=dear, baseline=enough))
    assert not _is_beaten(replace(sizing, topology="any", outcome=enough, baseline=dear))
    assert not _is_beaten(replace(sizing, topology="any", outcome=dear, baseline=replace(enough, goodput_rps=0.0)))
