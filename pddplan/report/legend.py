"""The key to a plan's tables: what its roles, the letters of its shapes and its units stand for."""

from __future__ import annotations

from pddplan.domain.outcome import CostItem, Outcome
from pddplan.domain.plan import Role
from pddplan.report.numbers import short

ROLES = {
    Role.AGGREGATED: "prefill and decode together",
    Role.PREFILL: "prefill",
    Role.RELAY: "relay decode",
    Role.DECODE: "main decode",
}
LAYOUT = {"TP": "tensor", "PP": "pipeline", "DP": "attention data", "EP": "expert"}


def key(outcome: Outcome) -> str:
    """Words for the roles and shapes that a plan has, and for none that it has not."""
    pools = outcome.plan.pools
    used = {pool.role for pool in pools}
    shapes = " ".join(str(pool.shape) for pool in pools)
    said = [", ".join(f"{role} {words}" for role, words in ROLES.items() if role in used)]
    layout = [f"{letters} {words}" for letters, words in LAYOUT.items() if letters in shapes]
    if layout:
        said.append(f"shape: {', '.join(layout)} parallel")
    if any(load.batch is not None for load in outcome.pools):
        said.append("batch: running per replica, of at most (set by what)")
    return "; ".join(said)


def unit_price(item: CostItem) -> str:
    """What one unit costs, and for how long: ``1.88 / chip-hour``, ``2,450 / line-month``."""
    return f"{short(item.unit_price)} / {item.unit}-{'month' if item.hours == 1 else 'hour'}"
