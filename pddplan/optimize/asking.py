"""Asking a question again with one thing changed: what relaxations are made of."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from pddplan.domain.sites import Site, Sites
from pddplan.domain.workload import Promise
from pddplan.errors import Relaxation, SolverError
from pddplan.evaluate.problem import Problem
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.rounds import Found, search_plans
from pddplan.optimize.settle import interrupted
from pddplan.optimize.topologies import Shapes, Topology
from pddplan.units import MS_PER_S

ANY_PLAN = 0.999
"""A gap this wide stops the search at its first plan: only whether there is one matters here."""
LARGEST_FACTOR = 64.0
"""Promises are relaxed up to this multiple of what was asked."""
DIGITS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Everything that makes a question; relaxing changes one part of it."""

    problem: Problem
    topology: Topology
    objective: Objective
    limits: Limits
    shapes: Shapes

    def answer(self, *, time_limit_s: float, gap: float = ANY_PLAN) -> Found | None:
        """Any plan that answers the question (or one within a gap of the best), or None.

        Raises:  KeyboardInterrupt when Ctrl-C ended the search: there are more questions of this kind.
        """
        limits = replace(self.limits, gap=gap, time_limit_s=time_limit_s)
        try:
            found = search_plans(
                self.problem, self.topology, objective=self.objective, limits=limits, shapes=self.shapes
            )
        except SolverError:
            return None
        if not isinstance(found, Found):
            return None
        if interrupted(found.outcome):
            raise KeyboardInterrupt
        return found

    def with_limit(self, promise: Promise, limit_s: float | None) -> Question:
        """The question with one promise changed, or (None) taken back."""
        workload = self.problem.workload
        promises = workload.promises.with_limit(promise.kind, limit_s, group=promise.group)
        return replace(self, problem=replace(self.problem, workload=replace(workload, promises=promises)))

    def with_sites(self, sites: Sites) -> Question:
        """The question with other places."""
        return replace(self, problem=replace(self.problem, sites=sites))


def smallest_feasible(
    asked: float, feasible: Callable[[float], bool], *, deadline: float, start: float | None = None
) -> float | None:
    """Smallest value above ``asked`` at which something is feasible, to three digits and on the safe side.

    ``start`` is a value known to be feasible; without it the value is doubled until it is. Then the bracket is
    halved, in ratio. None when even LARGEST_FACTOR times the value is not enough.
    """
    low, high = asked, start if start is not None else asked * 2.0
    while start is None and not feasible(high):
        low, high = high, high * 2.0
        if high > asked * LARGEST_FACTOR or time.perf_counter() > deadline:
            return None
    if start is not None and round_up(high) != high and not feasible(high):
        return None
    while high - low > 2e-3 * high and time.perf_counter() < deadline:
        middle = math.sqrt(low * high) if high > 2.0 * low else 0.5 * (low + high)
        low, high = (low, middle) if feasible(middle) else (middle, high)
    return round_up(high)


def round_up(value: float, digits: int = DIGITS) -> float:
    """Round to a few digits, never below the value."""
    if value <= 0 or not math.isfinite(value):
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.{digits + 2}g}")


def time_left(deadline: float) -> float:
    return max(deadline - time.perf_counter(), 0.2)


def with_chips(sites: Sites, site: Site, chip: str, most: int | None) -> Sites:
    chips = {**site.chips, chip: replace(site.chips[chip], max_chips=most)}
    return replace(sites, sites={**sites.sites, site.id: replace(site, chips=chips)})


def relaxed_promise(promise: Promise, needed_s: float) -> Relaxation:
    """A promise made easier, in the unit and with the option that users have for it."""
    in_ms = promise.kind.latency == "tpot"
    shown, unit = (MS_PER_S, "ms") if in_ms else (1.0, "s")
    typed = round_up(needed_s * shown)
    option = "tpot" if in_ms else promise.kind.name.lower().replace(" ", "-")
    plain = not promise.group and promise.kind.latency != "e2e"
    said = (
        f"--{option} {typed:g}" if plain else f"--promise {promise.group}{':' * bool(promise.group)}{option}={typed:g}"
    )
    return Relaxation(promise.name, promise.limit_s * shown, typed, unit, said)


def relaxed_chips(site: str, chip: str, asked: int, needed: int) -> Relaxation:
    """More chips of a kind at a site."""
    hint = f"sites.{site}.chips.{chip}.max_chips: {needed}"
    return Relaxation(f"{chip} at site {site}", float(asked), float(needed), "chips", hint)


def relaxed_all_chips(asked: int, needed: int) -> Relaxation:
    """More chips of all kinds together."""
    return Relaxation("chips in all", float(asked), float(needed), "chips", f"--max-chips {needed}")


def relaxed_budget(asked: float, needed: float, currency: str) -> Relaxation:
    """More money a month."""
    typed = round_up(needed)
    return Relaxation("budget", asked, typed, f"{currency}/month", f"--budget {typed:g}")


def relaxed_power(site: str, asked_kw: float, needed_kw: float) -> Relaxation:
    """More power at a site."""
    typed = round_up(needed_kw)
    return Relaxation(f"power of site {site}", asked_kw, typed, "kW", f"--power {site}={typed:g}")


def relaxed_rate(asked_rps: float, reached_rps: float) -> Relaxation:
    """Fewer requests per second."""
    unit = 10.0 ** (math.floor(math.log10(reached_rps)) - DIGITS + 1)
    typed = math.floor(reached_rps / unit) * unit
    return Relaxation("rate", asked_rps, typed, "req/s", f"--rps {typed:g}")
