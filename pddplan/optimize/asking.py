"""Asking a question again with one thing changed: what relaxations are made of."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from pddplan.domain.sites import Line, Site, Sites
from pddplan.domain.workload import Promise
from pddplan.errors import Relaxation, SolverError
from pddplan.evaluate.problem import Problem
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.question_limits import on_usable_lines
from pddplan.optimize.rounds import Found, search_plans
from pddplan.optimize.settle import interrupted
from pddplan.optimize.topologies import Shapes, Topology
from pddplan.units import MS_PER_S

ANY_PLAN = 0.999
"""A gap this wide stops the search at its first plan: only whether there is one matters here."""
NODES_PER_ANSWER = 60
"""Questions end by cells, so that relaxations depend on no clock."""
LARGEST_FACTOR = 64.0
"""Promises are relaxed up to this multiple of what was asked."""
CLOSE = 5e-3
"""How near to the smallest value a relaxation is looked for, as a fraction."""
DIGITS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Everything that makes a question; relaxing changes one part of it."""

    problem: Problem
    topology: Topology
    objective: Objective
    limits: Limits
    shapes: Shapes
    deadline: float = math.inf
    """When to stop asking, by time.perf_counter: a guard for large questions."""

    def answer(self, *, gap: float = ANY_PLAN) -> Found | None:
        """Any plan that answers the question (or one within a gap of the best), or None; None too when time is over.

        Raises:  KeyboardInterrupt when Ctrl-C ended the search: there are more questions of this kind.
        """
        left_s = self.deadline - time.perf_counter()
        if left_s <= 0:
            return None
        limits = replace(
            self.limits,
            gap=gap,
            time_limit_s=min(self.limits.time_limit_s, left_s),
            max_nodes=min(self.limits.max_nodes, NODES_PER_ANSWER),
            prove_shapes=False,
        )
        try:
            found = search_plans(
                on_usable_lines(self.problem, limits),
                self.topology,
                objective=self.objective,
                limits=limits,
                shapes=self.shapes,
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
        return replace(self, problem=self.problem.under(replace(workload, promises=promises)))

    def with_sites(self, sites: Sites) -> Question:
        """The question with other places."""
        return replace(self, problem=replace(self.problem, sites=sites))


def smallest_feasible(asked: float, reached: Callable[[float], float | None], *, start: float) -> float:
    """Smallest value above ``asked`` at which something is feasible, to three digits and on the safe side.

    ``reached`` says what a plan for a value comes to (that value or less), or None where there is none; ``start`` is a
    value known to be feasible. The bracket is halved, in ratio as long as it is wide.
    """
    low, high = asked, start
    while high - low > CLOSE * high:
        middle = math.sqrt(low * high) if high > 2.0 * low > 0.0 else 0.5 * (low + high)
        found = reached(middle)
        low, high = (middle, high) if found is None else (low, max(min(found, middle), low))
    return round_up(high)


def round_up(value: float, digits: int = DIGITS) -> float:
    """Round to a few digits, never below the value."""
    if value <= 0 or not math.isfinite(value):
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.{digits + 2}g}")


def with_chips(sites: Sites, site: Site, chip: str, most: int | None) -> Sites:
    """Places with another number of chips of a kind at a site."""
    chips = {**site.chips, chip: replace(site.chips[chip], max_chips=most)}
    return replace(sites, sites={**sites.sites, site.id: replace(site, chips=chips)})


def with_lines(sites: Sites, line: Line, most: int) -> Sites:
    """Places with another number of parallel lines at most."""
    return replace(sites, lines={**sites.lines, line.id: replace(line, max_lines=most)})


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


def relaxed_kinds(asked: tuple[str, ...], more: str) -> Relaxation:
    """One more kind of chip."""
    hint = " ".join(f"--chip {chip}" for chip in (*asked, more))
    return Relaxation("kinds of chips", float(len(asked)), len(asked) + 1.0, "kinds", hint)


def relaxed_lines(line: str, asked: int, needed: int) -> Relaxation:
    """More parallel lines."""
    return Relaxation(f"lines {line}", float(asked), float(needed), "lines", f"lines.{line}.max_lines: {needed}")


def relaxed_budget(asked: float, needed: float, currency: str) -> Relaxation:
    """More money a month."""
    typed = round_up(needed)
    return Relaxation("budget", asked, typed, f"{currency}/month", f"--budget {_plain(typed)}")


def relaxed_power(site: str, asked_kw: float, needed_kw: float) -> Relaxation:
    """More power at a site."""
    typed = round_up(needed_kw)
    return Relaxation(f"power of site {site}", asked_kw, typed, "kW", f"--power {site}={_plain(typed)}")


def relaxed_rate(asked_rps: float, reached_rps: float) -> Relaxation:
    """Fewer requests per second."""
    unit = 10.0 ** (math.floor(math.log10(reached_rps)) - DIGITS + 1)
    typed = float(f"{math.floor(reached_rps / unit) * unit:.{DIGITS + 2}g}")
    return Relaxation("rate", asked_rps, typed, "req/s", f"--rps {_plain(typed)}")


def _plain(value: float) -> str:
    """A number as people type it: without an exponent."""
    return f"{value:.15g}" if value < 1e15 else f"{value:g}"
