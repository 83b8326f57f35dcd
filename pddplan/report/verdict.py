"""The comparison that heads every report: plan against baseline, in ratios and money."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Role
from pddplan.domain.provenance import Basis
from pddplan.optimize.objective import Limits
from pddplan.report.numbers import count, money, percent, short
from pddplan.sizing import Sizing
from pddplan.units import MONTHS_PER_YEAR

SAME = 5e-3
"""BCRs closer than this fraction are called the same: prices and speeds are not known any better."""
ANY = "any"
"""The topology that allows every path."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a plan gains over another that answers the same question."""

    bcr_gain: float
    """BCR of the plan over that of the other, less one."""
    cost_difference_fraction: float
    """Cost per served request of the plan over that of the other, less one; negative = cheaper."""
    yearly_saving: float
    """Money saved a year by the plan at its own rate, the other one scaled to that rate; negative = dearer."""

    @property
    def wins(self) -> bool:
        return self.bcr_gain >= SAME

    @property
    def ties(self) -> bool:
        return abs(self.bcr_gain) < SAME


def compare(plan: Outcome, other: Outcome) -> Comparison | None:
    """Compare two outcomes; None when one of them serves nothing within its promises.

    Formula:     gain = BCR / BCR' - 1;  saving = 12 * (cost' * rate / rate' - cost)
    Parameters:  plan and other, evaluated under the same promises
    Returns:     Comparison
    Raises:      nothing.
    Holds when:  both costs are in one currency; the other plan scales with the rate (it is sized at the same one).
    References:  definition
    """
    if min(plan.goodput_rps, other.goodput_rps, plan.cost.monthly_total, other.cost.monthly_total) <= 0:
        return None
    scaled = other.cost.monthly_total * plan.goodput_rps / other.goodput_rps
    return Comparison(
        bcr_gain=plan.bcr / other.bcr - 1,
        cost_difference_fraction=plan.cost.monthly_total / scaled - 1,
        yearly_saving=MONTHS_PER_YEAR * (scaled - plan.cost.monthly_total),
    )


def bcr_words(outcome: Outcome) -> str:
    """BCR with its unit; where nothing has to be paid there is no ratio."""
    if math.isinf(outcome.bcr):
        return "BCR without bound: what is used is paid for already"
    return f"BCR {short(outcome.bcr)} req/s per 1,000 {outcome.cost.currency} a month"


def second_site(plan: Outcome, alone: Outcome | None) -> str:
    """What the second site and its line bring over the best split plan at one site; nothing to say without one."""
    difference = compare(plan, alone) if alone is not None else None
    if alone is None or difference is None:
        return ""
    currency = plan.cost.currency
    other = f"a split at one site ({alone.plan.pools[0].site}: {money(alone.cost.monthly_total, currency)} a month)"
    saved = money(abs(difference.yearly_saving), currency)
    if difference.ties:
        return f"THE SECOND SITE BRINGS NOTHING over {other}."
    if difference.wins:
        return f"The second site and its line save {saved} a year over {other}."
    return f"THE SECOND SITE LOSES: {saved} a year dearer than {other}."


def unproven_baseline(sizing: Sizing) -> str:
    """How far the aggregated baseline can be trusted to be the cheapest; "" where it is the plan, or is not there."""
    base = sizing.baseline
    if base is None or base is sizing.outcome:
        return ""
    text = (
        "the aggregated baseline is the cheapest fleet of one kind of instances or of mixed kinds that a short search"
    )
    gap = base.solver.gap_over_all if base.solver is not None else None
    text += " found" if gap is None or gap < SAME else f" found; up to {percent(gap)} cheaper is not ruled out"
    return f"{text}: the same question to pddplan bcr compare looks longer"


def promises_made(sizing: Sizing) -> bool:
    """Whether anything was promised; without promises any wait will do, and a plan only has to carry the load."""
    return bool(tuple(sizing.inputs.workload.promises.made()))


def next_step(sizing: Sizing) -> str:
    """What to type next where the plan may not be the answer yet: no promises, or fewer paths than there are."""
    if not promises_made(sizing):
        return "No promise was made: --ttft-p90, --ttft-p99 [s] and --tpot [ms] make some."
    compared = any(other is not None for other in (sizing.baseline, sizing.one_site))
    return f"--topology {ANY} looks for the cheapest mix of all paths." if compared and sizing.topology != ANY else ""


def whole_instances(outcome: Outcome, limits: Limits | None = None) -> str:
    """Why a kept plan is not smaller although it uses nothing whole: what one instance less would do to each pool."""
    if not outcome.keeps_promises:
        return ""
    spare = limits.redundant_instances if limits is not None else 0
    busy = {load.pool: load.utilization for load in outcome.pools}
    pools = [pool for pool in outcome.plan.pools if pool.instances and pool.id in busy]
    fewer = []
    for pool in pools:
        left = pool.instances - 1 - spare
        load = f"be {percent(busy[pool.id] * pool.instances / left)} busy" if left > 0 else "have none"
        fewer.append(f"{pool.site}/{pool.role} would {load}")
    if not fewer:
        return "nothing is used to its limit"
    reserve = f" and without the {spare} in reserve" if spare else ""
    return f"nothing is used to its limit, but replicas come whole: with one fewer{reserve}, {', '.join(fewer)}"


def shown_plans(sizing: Sizing) -> list[tuple[str, Outcome]]:
    """The plan and what it is compared with, each by the name it has in reports."""
    others = (
        ("aggregated baseline", sizing.baseline),
        ("split at one site", sizing.one_site),
        ("if no token were cached", sizing.cold),
    )
    found = [("this plan", sizing.outcome)]
    return found + [(name, other) for name, other in others if other is not None and other is not sizing.outcome]


def is_aggregated(outcome: Outcome) -> bool:
    """Whether a plan splits nothing."""
    return all(pool.role is Role.AGGREGATED for pool in outcome.plan.pools)


def chips_in(outcome: Outcome, *roles: Role) -> int:
    """Chips of all pools, or of those of some roles."""
    return sum(pool.chips for pool in outcome.plan.pools if not roles or pool.role in roles)


def chips_words(outcome: Outcome, verb: str = "") -> str:
    """The count with its noun, and a verb that agrees: ``80 chips serve``, ``1 chip serves``."""
    chips = chips_in(outcome)
    if chips == 1:
        return f"1 chip {verb}s" if verb else "1 chip"
    return f"{count(chips)} chips {verb}".rstrip()


def fleet_words(outcome: Outcome) -> str:
    """Pools and lines in a line: ``48 h100-sxm P at a, 32 h200-sxm MD at b, 1 x 10 Gbit/s on a-b``."""
    pools = [f"{count(pool.chips)} {pool.chip} {pool.role} at {pool.site}" for pool in outcome.plan.pools if pool.chips]
    lines = [f"{line.count} x {line.gbps:g} Gbit/s on {line.line}" for line in outcome.plan.lines if line.count]
    return ", ".join([*pools, *lines])


def weakest_basis(outcome: Outcome) -> Basis | None:
    """The least trustworthy kind of number that an outcome leans on."""
    return max((item.basis for item in outcome.assumptions), default=None)


def cost_of_pool(outcome: Outcome, pool_index: int) -> float:
    """Monthly cost of one pool: items of its site, role and chip, split by chips where pools share them."""
    pool = outcome.plan.pools[pool_index]
    alike = [p for p in outcome.plan.pools if (p.site, p.role, p.chip) == (pool.site, pool.role, pool.chip)]
    total = sum(
        item.monthly_cost
        for item in outcome.cost.items
        if item.site == pool.site and item.role == str(pool.role) and item.item.split(":")[0] == pool.chip
    )
    chips = sum(p.chips for p in alike)
    return total * pool.chips / chips if chips else 0.0


def cost_of_line(outcome: Outcome, line: str) -> float:
    """Monthly cost of one leased line."""
    return sum(i.monthly_cost for i in outcome.cost.items if i.role == "line" and i.item.split(":")[0] == line)
