"""Why no plan exists, and what it would take: each promise and limit relaxed alone, by as little as helps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from pddplan.domain.sites import Site
from pddplan.domain.workload import Promise
from pddplan.economics.unit_costs import chip_power_w
from pddplan.errors import InfeasibleError, Relaxation, SolverError
from pddplan.evaluate.problem import Problem
from pddplan.optimize.asking import (
    Question,
    relaxed_all_chips,
    relaxed_budget,
    relaxed_chips,
    relaxed_power,
    relaxed_promise,
    relaxed_rate,
    round_up,
    smallest_feasible,
    time_left,
    with_chips,
)
from pddplan.optimize.joint import joint_relaxations
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.rounds import Found, NothingFound, search_plans
from pddplan.optimize.topologies import TOPOLOGIES, Shapes, Topology
from pddplan.units import WATTS_PER_KW

MOST_JOINT_TIME_S = 6.0
"""For finding the smallest set of relaxations."""
MOST_TIME_S = 8.0
"""For all relaxations together."""


def infeasible(
    nothing: NothingFound, problem: Problem, topology: Topology, *, objective: Objective, limits: Limits, shapes: Shapes
) -> InfeasibleError:
    """The error that says what conflicts and which relaxation, as small as possible, gives a plan.

    Single relaxations first; where none but a lower rate helps, the smallest set that helps together.
    """
    question = Question(problem, topology, objective, limits, shapes)
    deadline = time.perf_counter() + min(MOST_TIME_S, limits.time_limit_s)
    found: list[Relaxation] = []
    for attempt in (_chips, _all_chips, _budget, _power, _reserves, _rate, _promises):  # the quick ones first
        found.extend(attempt(question, deadline))
    joint: tuple[Relaxation, ...] = ()
    if all(relaxation.limit == "rate" for relaxation in found):
        together = joint_relaxations(question, time.perf_counter() + min(MOST_JOINT_TIME_S, limits.time_limit_s))
        if len(together) > 1:
            joint = together
        else:
            said = {relaxation.limit for relaxation in found}
            found.extend(relaxation for relaxation in together if relaxation.limit not in said)
    what = f"{topology.name}: {nothing.why}"
    others = _other_topologies(question, deadline)
    if others:
        what += f"; topology {' or '.join(others)} would (--topology {others[0]})"
    elif joint:
        what += "; no single promise or limit is to blame" if not found else ""
    elif not found:
        what += "; no relaxation of promises and limits was found that helps"
    conflicts = [relaxation.limit for relaxation in (*found, *joint)]
    return InfeasibleError(what, conflicts=conflicts, relaxations=found, joint=joint)


def _promises(question: Question, deadline: float) -> Iterator[Relaxation]:
    for promise in question.problem.workload.promises.made():
        if time.perf_counter() > deadline:
            continue
        free = question.with_limit(promise, None).answer(time_limit_s=time_left(deadline))
        if free is None:
            continue  # even without this promise there is no plan

        def feasible(value: float, promise: Promise = promise) -> bool:
            return question.with_limit(promise, value).answer(time_limit_s=time_left(deadline)) is not None

        asked, reached = promise.limit_s, free.outcome.reached_s(promise) * (1.0 + 1e-6)
        needed = smallest_feasible(asked, feasible, deadline=deadline, start=reached if reached > asked else None)
        if needed is not None:
            yield relaxed_promise(promise, needed)


def _rate(question: Question, deadline: float) -> Iterator[Relaxation]:
    asked = question.objective.rate_rps
    if asked is None and question.objective.kind == "cost":
        asked = question.problem.workload.arrival.rate_rps
    if asked is None or time.perf_counter() > deadline:
        return
    most = replace(question, objective=replace(question.objective, kind="rps", rate_rps=asked))
    limits = replace(question.limits, gap=0.01, time_limit_s=time_left(deadline))
    try:
        found = search_plans(most.problem, most.topology, objective=most.objective, limits=limits, shapes=most.shapes)
    except SolverError:
        return
    if isinstance(found, Found) and found.outcome.goodput_rps > 0:
        eased = relaxed_rate(asked, found.outcome.goodput_rps)
        if eased.needed < asked:
            yield eased


def _chips(question: Question, deadline: float) -> Iterator[Relaxation]:
    sites = question.problem.sites
    for site in sites.sites.values():
        for chip in site.chips.values():
            if chip.max_chips is None or time.perf_counter() > deadline:
                continue
            found = question.with_sites(with_chips(sites, site, chip.chip, None)).answer(
                time_limit_s=time_left(deadline)
            )
            if found is None:
                continue

            def needed(most: int, site: Site = site, chip: str = chip.chip) -> int | None:
                smaller = question.with_sites(with_chips(sites, site, chip, most)).answer(
                    time_limit_s=time_left(deadline)
                )
                return None if smaller is None else _chips_used(smaller, site.id, chip)

            step = min(p.shape.chips for p in found.outcome.plan.pools)
            high = _fewest(chip.max_chips, _chips_used(found, site.id, chip.chip), needed, step, deadline)
            yield relaxed_chips(site.id, chip.chip, chip.max_chips, high)


def _budget(question: Question, deadline: float) -> Iterator[Relaxation]:
    asked = question.objective.budget_per_month
    if asked is None or time.perf_counter() > deadline:
        return
    free = replace(question, objective=replace(question.objective, budget_per_month=None, kind="cost"))
    limits = replace(question.limits, gap=0.01, time_limit_s=time_left(deadline))
    try:
        found = search_plans(free.problem, free.topology, objective=free.objective, limits=limits, shapes=free.shapes)
    except SolverError:
        return
    if isinstance(found, Found):
        yield relaxed_budget(asked, found.outcome.cost.monthly_total, found.outcome.cost.currency)


def _fewest(asked: int, high: int, used: Callable[[int], int | None], step: int, deadline: float) -> int:
    """Fewest chips between what was asked and what a plan uses; ``used`` says what a plan with at most so many uses."""
    low = asked
    while high - low > step and time.perf_counter() < deadline:
        middle = (low + high) // 2
        found = used(middle)
        low, high = (middle, high) if found is None else (low, min(found, middle))
    return high


def _power(question: Question, deadline: float) -> Iterator[Relaxation]:
    problem, sites = question.problem, question.problem.sites
    for site in sites.sites.values():
        limit = site.power_limit_kw
        if limit is None or time.perf_counter() > deadline:
            continue

        def limited(value: float | None, site: Site = site) -> Question:
            places = {**sites.sites, site.id: replace(site, power_limit_kw=value)}
            return question.with_sites(replace(sites, sites=places))

        free = limited(None).answer(time_limit_s=time_left(deadline))
        if free is None:
            continue

        def feasible(value: float, limited: Callable[[float], Question] = limited) -> bool:
            return limited(value).answer(time_limit_s=time_left(deadline)) is not None

        drawn = sum(
            chip_power_w(problem.chips[pool.chip], site, finance=sites.finance) * pool.chips / WATTS_PER_KW
            for pool in free.outcome.plan.pools
            if pool.site == site.id
        )
        needed = smallest_feasible(limit, feasible, deadline=deadline, start=round_up(drawn)) if drawn > limit else None
        if needed is not None:
            yield relaxed_power(site.id, limit, needed)


def _all_chips(question: Question, deadline: float) -> Iterator[Relaxation]:
    asked = question.limits.max_chips
    if asked is None or time.perf_counter() > deadline:
        return

    def needed(most: int | None) -> int | None:
        limited = replace(question, limits=replace(question.limits, max_chips=most))
        found = limited.answer(time_limit_s=time_left(deadline))
        return None if found is None else sum(pool.chips for pool in found.outcome.plan.pools)

    most = needed(None)
    if most is not None:
        yield relaxed_all_chips(asked, _fewest(asked, most, needed, 1, deadline))


def _reserves(question: Question, deadline: float) -> Iterator[Relaxation]:
    """Less room kept free: spare instances, ceilings, a line that may be lost."""
    limits = question.limits

    def has_plan(eased: Limits) -> bool:
        return (
            time.perf_counter() < deadline
            and replace(question, limits=eased).answer(time_limit_s=time_left(deadline)) is not None
        )

    if limits.survive_line_loss and has_plan(replace(limits, survive_line_loss=False)):
        yield Relaxation("survival of a lost line", 1.0, 0.0, "lines lost", "--no-survive-line-loss")
    spare = limits.redundant_instances
    if spare and has_plan(replace(limits, redundant_instances=0)):
        low, high = 0, spare
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if has_plan(replace(limits, redundant_instances=middle)) else (low, middle)
        yield Relaxation("spare instances per pool", float(spare), float(low), "instances", f"--spare {low}")
    usual = Limits()
    ceilings: tuple[tuple[str, str, float, float, Callable[[float], Limits]], ...] = (
        (
            "ceiling of pools",
            "--max-utilization",
            limits.max_utilization,
            usual.max_utilization,
            lambda value: replace(limits, max_utilization=value),
        ),
        (
            "ceiling of lines",
            "--max-line-utilization",
            limits.max_line_utilization,
            usual.max_line_utilization,
            lambda value: replace(limits, max_line_utilization=value),
        ),
    )
    for name, option, asked, highest, eased in ceilings:
        if asked < highest and has_plan(eased(highest)):

            def feasible(value: float, eased: Callable[[float], Limits] = eased) -> bool:
                return has_plan(eased(value))

            needed = smallest_feasible(asked, feasible, deadline=deadline, start=highest)
            if needed is not None:
                yield Relaxation(name, asked, needed, "utilization", f"{option} {needed:g}")


def _other_topologies(question: Question, deadline: float) -> list[str]:
    found: list[str] = []
    for name, topology in TOPOLOGIES.items():
        if name in (question.topology.name, "any") or time.perf_counter() > deadline or len(found) == 2:
            continue
        if replace(question, topology=topology).answer(time_limit_s=time_left(deadline)) is not None:
            found.append(name)
    return found


def _chips_used(found: Found, site: str, chip: str) -> int:
    return sum(pool.chips for pool in found.outcome.plan.pools if (pool.site, pool.chip) == (site, chip))
