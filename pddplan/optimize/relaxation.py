"""Why no plan exists, and what it would take: each promise and limit relaxed alone, by as little as helps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.domain.sites import Site, Sites
from pddplan.errors import InfeasibleError, Relaxation, SolverError
from pddplan.evaluate.problem import Problem
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.rounds import Found, NothingFound, search_plans
from pddplan.optimize.topologies import TOPOLOGIES, Shapes, Topology
from pddplan.units import MS_PER_S

MOST_TIME_S = 8.0
"""For all relaxations together."""
ANY_PLAN = 0.999
"""A gap this wide stops the search at its first plan: only whether there is one matters here."""
LARGEST_FACTOR = 64.0
"""Promises are relaxed up to this multiple of what was asked."""
_DIGITS = 3

PROMISES: dict[str, tuple[str, str, str]] = {
    "ttft_p50_s": ("TTFT P50", "s", "--ttft-p50"),
    "ttft_p90_s": ("TTFT P90", "s", "--ttft-p90"),
    "ttft_p99_s": ("TTFT P99", "s", "--ttft-p99"),
    "tpot_s": ("TPOT", "ms", "--tpot"),
    "e2e_p50_s": ("E2E P50", "s", "--e2e-p50"),
    "e2e_p90_s": ("E2E P90", "s", "--e2e-p90"),
    "e2e_p99_s": ("E2E P99", "s", "--e2e-p99"),
}
"""Per field of Promises: name, unit shown, option to type."""


_REACHED: dict[str, Callable[[Outcome], float]] = {
    "ttft_p50_s": lambda o: o.ttft.p50,
    "ttft_p90_s": lambda o: o.ttft.p90,
    "ttft_p99_s": lambda o: o.ttft.p99,
    "tpot_s": lambda o: o.tpot.p90 if o.tpot is not None else o.tpot_s,
    "e2e_p50_s": lambda o: o.e2e.p50,
    "e2e_p90_s": lambda o: o.e2e.p90,
    "e2e_p99_s": lambda o: o.e2e.p99,
}


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Everything that makes a question; relaxing changes one part of it."""

    problem: Problem
    topology: Topology
    objective: Objective
    limits: Limits
    shapes: Shapes

    def answer(self, *, time_limit_s: float) -> Found | None:
        """Any plan that answers the question, or None."""
        limits = replace(self.limits, gap=ANY_PLAN, time_limit_s=time_limit_s)
        try:
            found = search_plans(
                self.problem, self.topology, objective=self.objective, limits=limits, shapes=self.shapes
            )
        except SolverError:
            return None
        return found if isinstance(found, Found) else None

    def with_promise(self, field: str, value: float | None) -> Question:
        """The question with one promise changed."""
        workload = self.problem.workload
        promises = replace(workload.promises, **{field: value})
        return replace(self, problem=replace(self.problem, workload=replace(workload, promises=promises)))

    def with_sites(self, sites: Sites) -> Question:
        """The question with other places."""
        return replace(self, problem=replace(self.problem, sites=sites))


def infeasible(
    nothing: NothingFound, problem: Problem, topology: Topology, *, objective: Objective, limits: Limits, shapes: Shapes
) -> InfeasibleError:
    """The error that says what conflicts and which single relaxation, each as small as possible, gives a plan."""
    question = Question(problem, topology, objective, limits, shapes)
    deadline = time.perf_counter() + min(MOST_TIME_S, limits.time_limit_s)
    found: list[Relaxation] = []
    for attempt in (_promises, _rate, _chips, _budget, _power, _all_chips):
        found.extend(attempt(question, deadline))
    conflicts = [relaxation.limit for relaxation in found]
    what = f"{topology.name}: {nothing.why}"
    others = _other_topologies(question, deadline)
    if others:
        what += f"; topology {' or '.join(others)} would (--topology {others[0]})"
    elif not found:
        what += "; no single promise or limit is to blame"
    return InfeasibleError(what, conflicts=conflicts, relaxations=found)


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


def round_up(value: float, digits: int = _DIGITS) -> float:
    """Round to a few digits, never below the value."""
    if value <= 0 or not math.isfinite(value):
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.{digits + 2}g}")


def _time_left(deadline: float) -> float:
    return max(deadline - time.perf_counter(), 0.2)


def _promises(question: Question, deadline: float) -> Iterator[Relaxation]:
    for field, (name, unit, option) in PROMISES.items():
        asked = getattr(question.problem.workload.promises, field)
        if asked is None or time.perf_counter() > deadline:
            continue
        free = question.with_promise(field, None).answer(time_limit_s=_time_left(deadline))
        if free is None:
            continue  # even without this promise there is no plan

        def feasible(value: float, field: str = field) -> bool:
            return question.with_promise(field, value).answer(time_limit_s=_time_left(deadline)) is not None

        reached = _REACHED[field](free.outcome) * (1.0 + 1e-6)
        needed = smallest_feasible(asked, feasible, deadline=deadline, start=reached if reached > asked else None)
        if needed is not None:
            shown = MS_PER_S if unit == "ms" else 1.0
            typed = round_up(needed * shown)
            yield Relaxation(name, asked * shown, typed, unit, f"{option} {typed:g}")


def _rate(question: Question, deadline: float) -> Iterator[Relaxation]:
    asked = question.objective.rate_rps
    if asked is None and question.objective.kind == "cost":
        asked = question.problem.workload.arrival.rate_rps
    if asked is None or time.perf_counter() > deadline:
        return
    most = replace(question, objective=replace(question.objective, kind="rps", rate_rps=asked))
    limits = replace(question.limits, gap=0.01, time_limit_s=_time_left(deadline))
    try:
        found = search_plans(most.problem, most.topology, objective=most.objective, limits=limits, shapes=most.shapes)
    except SolverError:
        return
    if isinstance(found, Found) and found.outcome.goodput_rps > 0:
        reach = found.outcome.goodput_rps
        unit = 10.0 ** (math.floor(math.log10(reach)) - _DIGITS + 1)
        typed = math.floor(reach / unit) * unit
        yield Relaxation("rate", asked, typed, "req/s", f"--rps {typed:g}")


def _chips(question: Question, deadline: float) -> Iterator[Relaxation]:
    sites = question.problem.sites
    for site in sites.sites.values():
        for chip in site.chips.values():
            if chip.max_chips is None or time.perf_counter() > deadline:
                continue
            found = question.with_sites(_with_chips(sites, site, chip.chip, None)).answer(
                time_limit_s=_time_left(deadline)
            )
            if found is None:
                continue
            low, high = chip.max_chips, _chips_used(found, site.id, chip.chip)
            step = min(p.shape.chips for p in found.outcome.plan.pools)
            while high - low > step and time.perf_counter() < deadline:
                middle = (low + high) // 2
                smaller = question.with_sites(_with_chips(sites, site, chip.chip, middle)).answer(
                    time_limit_s=_time_left(deadline)
                )
                if smaller is None:
                    low = middle
                else:
                    high = min(_chips_used(smaller, site.id, chip.chip), middle)
            yield Relaxation(
                f"{chip.chip} at site {site.id}",
                float(chip.max_chips),
                float(high),
                "chips",
                f"sites.{site.id}.chips.{chip.chip}.max_chips: {high}",
            )


def _budget(question: Question, deadline: float) -> Iterator[Relaxation]:
    asked = question.objective.budget_per_month
    if asked is None or time.perf_counter() > deadline:
        return
    free = replace(question, objective=replace(question.objective, budget_per_month=None, kind="cost"))
    limits = replace(question.limits, gap=0.01, time_limit_s=_time_left(deadline))
    try:
        found = search_plans(free.problem, free.topology, objective=free.objective, limits=limits, shapes=free.shapes)
    except SolverError:
        return
    if isinstance(found, Found):
        typed = round_up(found.outcome.cost.monthly_total)
        yield Relaxation("budget", asked, typed, f"{found.outcome.cost.currency}/month", f"--budget {typed:g}")


def _power(question: Question, deadline: float) -> Iterator[Relaxation]:
    sites = question.problem.sites
    for site in sites.sites.values():
        limit = site.power_limit_kw
        if limit is None or time.perf_counter() > deadline:
            continue

        def feasible(value: float, site: Site = site) -> bool:
            places = {**sites.sites, site.id: replace(site, power_limit_kw=value)}
            return (
                question.with_sites(replace(sites, sites=places)).answer(time_limit_s=_time_left(deadline)) is not None
            )

        needed = smallest_feasible(limit, feasible, deadline=deadline)
        if needed is not None:
            yield Relaxation(
                f"power of site {site.id}", limit, needed, "kW", f"sites.{site.id}.power_limit_kw: {needed:g}"
            )


def _all_chips(question: Question, deadline: float) -> Iterator[Relaxation]:
    asked = question.limits.max_chips
    if asked is None or time.perf_counter() > deadline:
        return
    found = replace(question, limits=replace(question.limits, max_chips=None)).answer(time_limit_s=_time_left(deadline))
    if found is not None:
        needed = sum(pool.chips for pool in found.outcome.plan.pools)
        yield Relaxation("chips in all", float(asked), float(needed), "chips", f"--max-chips {needed}")


def _other_topologies(question: Question, deadline: float) -> list[str]:
    found: list[str] = []
    for name, topology in TOPOLOGIES.items():
        if name in (question.topology.name, "any") or time.perf_counter() > deadline or len(found) == 2:
            continue
        if replace(question, topology=topology).answer(time_limit_s=_time_left(deadline)) is not None:
            found.append(name)
    return found


def _with_chips(sites: Sites, site: Site, chip: str, most: int | None) -> Sites:
    chips = {**site.chips, chip: replace(site.chips[chip], max_chips=most)}
    return replace(sites, sites={**sites.sites, site.id: replace(site, chips=chips)})


def _chips_used(found: Found, site: str, chip: str) -> int:
    return sum(pool.chips for pool in found.outcome.plan.pools if (pool.site, pool.chip) == (site, chip))
