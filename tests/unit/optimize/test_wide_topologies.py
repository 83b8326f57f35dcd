"""Topologies that contain others are never dearer; the order in which places and chips are listed changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pddplan.domain.outcome import Outcome
from pddplan.domain.sites import Site, SiteChip, Sites
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Objective, size
from pddplan.optimize.rounds import PARTS
from tests.unit.optimize.small_question import classes, line, question, shapes

ROLES = ("P", "RLD", "MD", "AGG")


def asked(*, rate_rps: float, turned: bool = False) -> Problem:
    """Two kinds of chips at one site and one at another; ``turned`` lists everything the other way round."""
    chips = {"fast": SiteChip("fast", roles=ROLES), "big": SiteChip("big", price_per_chip_hour=2.1, roles=ROLES)}
    places = {
        "a": Site("a", dict(reversed(chips.items())) if turned else chips),
        "b": Site("b", {"big": SiteChip("big", price_per_chip_hour=1.9, roles=("MD", "AGG"))}),
    }
    sites = Sites("wide", dict(reversed(places.items())) if turned else places, {"ab": line()})
    mix = classes((0.3, 0.7), (64_000, 16_000), (20_000, 900), (800, 300))
    return question(rate_rps, sites=sites, mix=mix)


def sized(problem: Problem, topology: str) -> Outcome:
    return size(problem, topology=topology, objective=Objective("cost"), shapes=shapes, relax=False)


@pytest.mark.parametrize("rate_rps", [1.5, 4.0])
def test_a_wider_topology_is_never_dearer(rate_rps: float) -> None:
    problem = asked(rate_rps=rate_rps)
    cost = {name: sized(problem, name).cost.monthly_total for name in ("any", *PARTS["any"], "prfaas")}
    assert cost["any"] <= min(cost.values()) * (1 + 1e-9)
    for wide in ("pdd", "prfaas"):
        assert cost[wide] <= min(cost.get(part, float("inf")) for part in PARTS[wide]) * (1 + 1e-9)


def test_order_of_places_and_chips_changes_nothing() -> None:
    one, other = (sized(asked(rate_rps=2.5, turned=turned), "any") for turned in (False, True))
    assert one.cost.monthly_total == pytest.approx(other.cost.monthly_total, rel=1e-9)
    counts = [{pool.id: pool.instances for pool in outcome.plan.pools} for outcome in (one, other)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("topology", ["colocated", "pd", "cross-dc-drc", "pdd"])
def test_a_moment_is_enough_for_some_plan(topology: str) -> None:
    """No site alone has the chips, and there is hardly any time: a plan exists all the same, with an honest gap."""
    problem = asked(rate_rps=6.0)
    stocked = {
        site.id: replace(site, chips={c: replace(own, max_chips=64) for c, own in site.chips.items()})
        for site in problem.sites.sites.values()
    }
    problem = replace(problem, sites=replace(problem.sites, sites=stocked))
    hasty = size(
        problem, topology=topology, objective=Objective("cost"), limits=Limits(time_limit_s=1e-3), shapes=shapes
    )
    calm = sized(problem, topology)
    assert hasty.keeps_promises
    assert hasty.solver is not None
    assert calm.cost.monthly_total >= hasty.cost.monthly_total * (1 - hasty.solver.gap) * (1 - 1e-9)
