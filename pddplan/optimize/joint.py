"""The smallest set of promises and limits to relax together, where no single one helps: amounts in the user's units."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.domain.sites import Sites
from pddplan.domain.workload import Promise, Promises
from pddplan.errors import Relaxation
from pddplan.evaluate.evaluate import evaluate
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
    with_chips,
)
from pddplan.optimize.build import build
from pddplan.optimize.elastic import (
    RATE,
    ElasticSearch,
    Limit,
    Soft,
    budget_limit,
    chip_limit,
    power_limit,
    rate_limit,
)
from pddplan.optimize.formulation import MONEY
from pddplan.optimize.objective import Objective
from pddplan.optimize.points import Points
from pddplan.optimize.promise_rows import rows_of
from pddplan.optimize.question_limits import SMALLEST_SHARE, on_usable_lines
from pddplan.optimize.settle import LEAST_TIME_S
from pddplan.optimize.solution import searched_plan

NO_LIMIT_KW = 1e9
SHARE_FOR_PROGRAM = 0.5
"""Of the time; the rest goes into making the amounts smaller."""
ALIKE = 1e-3
RATE_GAP = 0.02
"""How near to the most a rate that is to be relaxed is found."""


@dataclass(frozen=True, slots=True, eq=False)
class _Loosened:
    """One limit of the question that may be relaxed: in the program, and back in the user's words."""

    limit: Limit
    relaxed: Callable[[float], Relaxation]
    """From what the plan uses."""
    apply: Callable[[Question, float], Question]
    """The question with as much allowed."""


def joint_relaxations(question: Question) -> tuple[Relaxation, ...]:
    """Promises and limits that give a plan when relaxed together; empty where none was found in time.

    An elastic program (optimize.elastic) names the set and a plan; the evaluator says what that plan reaches; then
    promises are put back or tightened one after the other for as long as a plan remains and time is left.
    """
    soft = _loosened(question)
    found = _elastic_plan(question, soft)
    if found is None:
        return ()
    outcome, usage = found
    exceeded = [own for own in soft if _exceeds(own.limit, usage[own.limit.key])]
    margin = 1.0 + question.problem.settings.tail_margin
    needed: dict[Promise, float] = {}
    for promise in question.problem.workload.promises.made():
        reached_s = outcome.reached_s(promise) * (margin if promise.kind.is_tail else 1.0)
        if reached_s > promise.limit_s * (1 + 1e-9):
            needed[promise] = relaxed_promise_s(reached_s)
    kept = _needed_limits(question, needed, exceeded, usage)
    slower = _slower(question, kept, usage) if needed else None
    if slower is not None:  # a lower rate instead of easier promises: fewer things to relax
        needed = {}
        usage = {**usage, RATE: slower}
    eased = _eased(question, needed, kept, usage)
    return (
        *_tightened(eased, needed, limits=len(kept)),
        *(own.relaxed(usage[own.limit.key]) for own in kept),
    )


def _slower(question: Question, kept: list[_Loosened], usage: dict[str, float]) -> float | None:
    """The rate at which all promises hold with the other limits relaxed, where the rate is to be relaxed anyway."""
    rate = next((own.limit.asked for own in kept if own.limit.key == RATE), None)
    if rate is None:
        return None
    eased = _eased(question, {}, [own for own in kept if own.limit.key != RATE], usage)
    found = replace(eased, objective=replace(eased.objective, kind="rps", rate_rps=rate)).answer(gap=RATE_GAP)
    return found.outcome.goodput_rps if found is not None and found.outcome.goodput_rps > 0 else None


def _exceeds(limit: Limit, used: float) -> bool:
    return (limit.asked - used if limit.least else used - limit.asked) > ALIKE * limit.scale


def _eased(
    question: Question, needed: dict[Promise, float], exceeded: list[_Loosened], usage: dict[str, float]
) -> Question:
    """The question with all these relaxations."""
    for own in exceeded:
        question = own.apply(question, usage[own.limit.key])
    for promise, limit_s in needed.items():
        question = question.with_limit(promise, limit_s)
    return question


def _needed_limits(
    question: Question,
    needed: dict[Promise, float],
    exceeded: list[_Loosened],
    usage: dict[str, float],
) -> list[_Loosened]:
    """Limits without which the other relaxations give no plan; all of them when time runs out."""
    kept = list(exceeded)
    for own in exceeded:
        others = [other for other in kept if other is not own]
        if (needed or others) and _eased(question, needed, others, usage).answer() is not None:
            kept = others
    return kept


def relaxed_promise_s(reached_s: float) -> float:
    """A limit that what was reached keeps, in few digits."""
    return round_up(reached_s * (1.0 + 1e-6))


def _tightened(eased: Question, needed: dict[Promise, float], *, limits: int) -> list[Relaxation]:
    """Each promise put back to what was asked where the others suffice, else as near to it as they allow.

    ``limits`` are relaxed beside the promises. A promise relaxed alone was looked for before, as near as it may be.
    """
    kept = dict(needed)
    for promise in needed:
        if len(kept) + limits > 1 and eased.with_limit(promise, promise.limit_s).answer() is not None:
            eased = eased.with_limit(promise, promise.limit_s)
            del kept[promise]
    for promise, limit_s in kept.items():
        kept[promise] = _nearest(eased, promise, limit_s) if len(kept) + limits > 1 else limit_s
        eased = eased.with_limit(promise, kept[promise])
    return [relaxed_promise(promise, limit_s) for promise, limit_s in kept.items()]


def _nearest(eased: Question, promise: Promise, limit_s: float) -> float:
    """The tightest limit of one promise with which there still is a plan, as far as time allows."""
    margin = 1.0 + (eased.problem.settings.tail_margin if promise.kind.is_tail else 0.0)

    def reached(value: float) -> float | None:
        found = eased.with_limit(promise, value).answer()
        return None if found is None else found.outcome.reached_s(promise) * margin * (1.0 + 1e-6)

    highest = reached(limit_s)
    return limit_s if highest is None else smallest_feasible(promise.limit_s, reached, start=min(highest, limit_s))


def _loosened(question: Question) -> list[_Loosened]:
    """Every limit of a question beside its promises."""
    sites, found = question.problem.sites, []
    for site in sites.sites.values():
        limited = [(chip.chip, chip.max_chips) for chip in site.chips.values() if chip.max_chips is not None]
        found += [_chips(site.id, chip, most) for chip, most in limited]
        if site.power_limit_kw is not None:
            found.append(_power(site.id, site.power_limit_kw))
    if question.limits.max_chips is not None:
        asked = question.limits.max_chips
        found.append(
            _Loosened(
                chip_limit(None, None, asked, step=1),
                lambda used: relaxed_all_chips(asked, round(used)),
                lambda q, used: replace(q, limits=replace(q.limits, max_chips=round(used))),
            )
        )
    budget = question.objective.budget_per_month
    if budget is not None:
        currency = sites.finance.currency
        found.append(
            _Loosened(
                budget_limit(budget),
                lambda used: relaxed_budget(budget, used * MONEY, currency),
                lambda q, used: replace(q, objective=replace(q.objective, budget_per_month=round_up(used * MONEY))),
            )
        )
    rate = _fixed_rate(question)
    if rate is not None:
        found.append(
            _Loosened(
                rate_limit(rate),
                lambda used: relaxed_rate(rate, used),
                lambda q, used: replace(q, objective=replace(q.objective, rate_rps=relaxed_rate(rate, used).needed)),
            )
        )
    return found


def _chips(site: str, chip: str, asked: int) -> _Loosened:
    return _Loosened(
        chip_limit(site, chip, asked, step=1),
        lambda used: relaxed_chips(site, chip, asked, round(used)),
        lambda q, used: q.with_sites(with_chips(q.problem.sites, q.problem.sites.sites[site], chip, round(used))),
    )


def _power(site: str, asked_kw: float) -> _Loosened:
    def apply(question: Question, used: float) -> Question:
        return question.with_sites(_with_power(question.problem.sites, site, round_up(used)))

    return _Loosened(power_limit(site, asked_kw), lambda used: relaxed_power(site, asked_kw, used), apply)


def _with_power(sites: Sites, site: str, limit_kw: float) -> Sites:
    return replace(sites, sites={**sites.sites, site: replace(sites.sites[site], power_limit_kw=limit_kw)})


def _fixed_rate(question: Question) -> float | None:
    """The rate that must be served whole; None where the plan may choose it."""
    if question.objective.rate_rps is not None:
        return question.objective.rate_rps
    return question.problem.workload.arrival.rate_rps if question.objective.kind == "cost" else None


def _elastic_plan(question: Question, soft: list[_Loosened]) -> tuple[Outcome, dict[str, float]] | None:
    """A plan of the least relaxations: what it reaches, and what it uses of each limit."""
    problem, rate = question.problem, _fixed_rate(question)
    time_limit_s = max(SHARE_FOR_PROGRAM * (question.deadline - time.perf_counter()), LEAST_TIME_S)
    sites = problem.sites
    for site in sites.sites.values():
        if site.power_limit_kw is not None:
            sites = _with_power(sites, site.id, NO_LIMIT_KW)
        for chip in site.chips.values():
            if chip.max_chips is not None:
                sites = with_chips(sites, sites.sites[site.id], chip.chip, None)
    free = replace(problem.under(replace(problem.workload, promises=Promises())), sites=sites)
    if rate is not None:
        objective = Objective("rps", rate_rps=rate)
    else:
        objective = Objective("cost", rate_rps=SMALLEST_SHARE * problem.workload.arrival.rate_rps)
    limits = replace(question.limits, max_chips=None, time_limit_s=time_limit_s)
    free = on_usable_lines(free, limits)
    points = build(free, question.topology, objective=objective, limits=limits, shapes=question.shapes)
    if points is None:
        return None
    asked = Soft(rows_of(problem), tuple(own.limit for own in soft), problem.workload.classes.weight)
    elastic = Points(
        free,
        points.pools,
        points.paths,
        replace(points.data, promises=(), power_limits_kw={}),
        points.mix,
        rows=asked.ladder(),
    )
    search = ElasticSearch(elastic, asked, time_limit_s=time_limit_s)
    best = search.run().best
    if best is None:
        return None
    plan = searched_plan(elastic, best, topology=question.topology.name)
    if not plan.paths:
        return None
    outcome = evaluate(free, plan)
    usage = {own.limit.key: own.limit.used_by(search.judge, best) for own in soft}
    if "budget" in usage:
        usage["budget"] = outcome.cost.monthly_total / MONEY
    return outcome, usage
