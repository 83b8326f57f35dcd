"""Given fleets: what so many chips of these kinds at these sites serve, and several workloads that share them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pddplan import api
from pddplan.domain.outcome import Cost, Outcome
from pddplan.domain.plan import Plan, Role
from pddplan.domain.sites import Sites
from pddplan.economics.costs import ROLE_IDLE, bcr, cost_item
from pddplan.economics.unit_costs import chip_unit_costs
from pddplan.errors import InfeasibleError, InputError, Problem, SolverError, did_you_mean
from pddplan.optimize import TOPOLOGIES, Limits, Objective
from pddplan.optimize import size as optimum
from pddplan.sizing import Inputs

ROUGH_GAP, ROUGH_TIME_LIMIT_S = 0.1, 6.0
"""Whether a rate has any plan is all that is asked."""
_RATE_STEPS = 14
_RATE_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True)
class Fleet:
    """A topology and the chips it may use, per site and kind."""

    name: str
    topology: str
    chips: Mapping[tuple[str, str], int]


def parse_fleet(text: str) -> Fleet:
    """Read ``TOPOLOGY SITE:CHIP=CHIPS ...``.

    Raises:  InputError saying what cannot be read.
    """
    parts = text.split()
    if not parts:
        raise _unreadable(text)
    topology, *rest = parts
    if topology not in TOPOLOGIES:
        raise InputError(
            Problem(
                what=f"topology {topology!r} is unknown{did_you_mean(topology, TOPOLOGIES)}",
                fix=f"start with one of: {', '.join(TOPOLOGIES)}",
                where="--fleet",
            )
        )
    chips: dict[tuple[str, str], int] = {}
    for part in rest:
        place, _, number = part.partition("=")
        site, _, chip = place.partition(":")
        if not (site and chip and number.isascii() and number.isdigit() and len(number) <= 9) or (site, chip) in chips:
            raise _unreadable(text)
        chips[site, chip] = int(number)
    if not chips:
        raise _unreadable(text)
    return Fleet(text, topology, chips)


def _unreadable(text: str) -> InputError:
    return InputError(
        Problem(
            what=f"cannot read the fleet {text!r}",
            fix="write 'TOPOLOGY SITE:CHIP=CHIPS ...', for example 'pdd a:h100-sxm=43 b:h200-sxm=32'",
            where="--fleet",
        )
    )


def restricted(sites: Sites, chips: Mapping[tuple[str, str], int]) -> Sites:
    """The same sites with exactly these chips on offer.

    Raises:  InputError for a site or chip that the sites file does not have.
    """
    for site_id, chip_id in chips:
        if site_id not in sites.sites:
            raise InputError(
                Problem(
                    what=f"site {site_id!r} is unknown{did_you_mean(site_id, sites.sites)}",
                    fix=f"use one of: {', '.join(sites.sites)}",
                    where="--fleet",
                )
            )
        if chip_id not in sites.sites[site_id].chips:
            offered = sites.sites[site_id].chips
            raise InputError(
                Problem(
                    what=f"site {site_id!r} does not offer {chip_id!r}{did_you_mean(chip_id, offered)}",
                    fix=f"use one of: {', '.join(offered)}; or add the chip to the sites file",
                    where="--fleet",
                )
            )
    return replace(
        sites,
        sites={
            site_id: replace(
                site,
                chips={
                    chip_id: replace(own, max_chips=chips[site_id, chip_id])
                    for chip_id, own in site.chips.items()
                    if chips.get((site_id, chip_id), 0) > 0
                },
            )
            for site_id, site in sites.sites.items()
        },
    )


def fleet_outcome(inputs: Inputs, fleet: Fleet, *, limits: Limits) -> Outcome:
    """Most goodput of a given fleet; chips that the plan leaves idle are paid for all the same.

    Raises:  InputError for unknown names, InfeasibleError if the fleet cannot keep the promises at any rate.
    """
    asked = replace(inputs, sites=restricted(inputs.sites, fleet.chips))
    question, shapes = api.problem_of(asked), api.shapes_of(asked)
    if not any(
        shape.chips <= count
        for (_, chip_id), count in fleet.chips.items()
        for role in Role
        for shape in shapes(chip_id, role)
    ):
        raise InfeasibleError(f"no instance of {inputs.llm.name} fits on any of these chips in these numbers")

    def sized(objective: Objective) -> Outcome:
        rough = replace(limits, gap=ROUGH_GAP, time_limit_s=min(limits.time_limit_s, ROUGH_TIME_LIMIT_S))
        return optimum(question, topology=fleet.topology, objective=objective, limits=rough, shapes=shapes, relax=False)

    try:
        outcome = optimum(
            question, topology=fleet.topology, objective=Objective(kind="rps"), limits=limits, shapes=shapes
        )
    except SolverError:
        outcome = largest_rate(sized, inputs.workload.arrival.rate_rps)
    cost = with_idle_chips(outcome, asked, fleet)
    return replace(outcome, cost=cost, bcr=bcr(outcome.goodput_rps, cost))


def largest_rate(sized: Callable[[Objective], Outcome], start_rps: float) -> Outcome:
    """Plan for the largest rate that has one, to about two per cent, by asking for one rate after the other.

    Slower than asking for the most goodput, but it cannot lose its way when plans and the traffic they see do not
    settle.

    Raises:  InfeasibleError or SolverError if no rate down to a 64th of the start has a plan.
    """
    low, high, best = 0.0, math.inf, None
    rate, failure = start_rps, None
    for _ in range(_RATE_STEPS):
        try:
            best = sized(Objective(kind="cost", rate_rps=rate))
            low = rate
        except (InfeasibleError, SolverError) as error:
            high, failure = rate, error
        if best is None and high < start_rps / 64 and failure is not None:
            raise failure
        if high - low <= _RATE_TOLERANCE * low:
            break
        rate = 2 * low if math.isinf(high) else high / 2 if low == 0 else (low + high) / 2
    if best is None:
        raise failure if failure is not None else SolverError("no rate was tried", fix="report this")
    return best


def with_idle_chips(outcome: Outcome, inputs: Inputs, fleet: Fleet) -> Cost:
    """Cost of a plan plus the chips of the fleet that stand idle."""
    items = list(outcome.cost.items)
    for (site_id, chip_id), count in fleet.chips.items():
        idle = count - chips_at(outcome.plan, site_id, chip_id)
        if idle > 0:
            units = chip_unit_costs(inputs.sites, site_id, chip=inputs.chips[chip_id])
            items += [
                replace(
                    cost_item(u, idle, site=site_id, role=ROLE_IDLE, name=chip_id, currency=outcome.cost.currency),
                    item=f"{chip_id}: idle, {u.item}",
                )
                for u in units
            ]
    return Cost(outcome.cost.currency, math.fsum(item.monthly_cost for item in items), tuple(items))


def chips_at(plan: Plan, site_id: str, chip_id: str) -> int:
    """Chips of one kind that a plan uses at a site."""
    return sum(pool.chips for pool in plan.pools if pool.site == site_id and pool.chip == chip_id)
