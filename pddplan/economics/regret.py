"""Regret of plans across scenarios: what each loses against the best one could have done, had one known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import DomainError


@dataclass(frozen=True, slots=True, eq=False)
class Regret:
    """Plans in rows, scenarios in columns."""

    plans: tuple[str, ...]
    scenarios: tuple[str, ...]
    benefit: Array
    regret: Array
    """Best benefit of the scenario less the plan's, shape (plans, scenarios)."""

    @property
    def worst(self) -> Array:
        """Largest regret of each plan, as a share of the best benefit of that scenario."""
        best = self.benefit.max(axis=0)
        share = np.divide(self.regret, best[None, :], out=np.zeros_like(self.regret), where=best[None, :] > 0)
        return np.asarray(share.max(axis=1))

    @property
    def robust(self) -> str:
        """Plan with the smallest worst regret; of equals the one with the smallest regret in all, then the first."""
        total = self.regret.sum(axis=1)
        return self.plans[int(np.lexsort((np.arange(total.size), total, self.worst))[0])]


def regret_table(plans: Sequence[str], scenarios: Sequence[str], *, benefit: Array) -> Regret:
    """Regret of every plan in every scenario.

    Formula:     r_ps = max_q b_qs - b_ps; robust plan = argmin_p max_s r_ps / max_q b_qs
    Parameters:  plans and scenarios, names; benefit, shape (plans, scenarios), e.g. BCR, 0 where a promise breaks
    Returns:     Regret
    Raises:      DomainError if shapes do not match or a benefit is not finite.
    Holds when:  no scenario is more likely than another; the candidates contain each scenario's own best plan.
    References:  savage1951
    """
    table = np.asarray(benefit, dtype=float)
    if table.shape != (len(plans), len(scenarios)) or not table.size:
        raise DomainError("benefit", "must have one row per plan and one column per scenario", table.shape)
    if not np.all(np.isfinite(table)):
        raise DomainError("benefit", "must be finite", table.tolist())
    return Regret(tuple(plans), tuple(scenarios), table, table.max(axis=0)[None, :] - table)
