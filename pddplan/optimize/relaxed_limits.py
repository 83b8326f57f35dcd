"""Limits relaxed alone, each by as little as gives a plan: chips, power, lines, kinds of chips, spares, ceilings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from pddplan.domain.sites import Line, Site
from pddplan.economics.unit_costs import chip_power_w
from pddplan.errors import Relaxation
from pddplan.optimize.asking import (
    Question,
    relaxed_all_chips,
    relaxed_chips,
    relaxed_kinds,
    relaxed_lines,
    relaxed_power,
    round_up,
    smallest_feasible,
    with_chips,
    with_lines,
)
from pddplan.optimize.objective import Limits
from pddplan.optimize.rounds import Found
from pddplan.units import WATTS_PER_KW

LINES_FACTOR = 16
"""Lines are relaxed up to this multiple of what was asked: every count is one more option of the program."""


def relaxed_limits(question: Question) -> Iterator[Relaxation]:
    """Every limit beside promises, rate and budget that gives a plan when it alone is relaxed."""
    for attempt in (_chips, _all_chips, _kinds, _power, _lines, _reserves):
        yield from attempt(question)


def _chips(question: Question) -> Iterator[Relaxation]:
    sites = question.problem.sites
    for site in sites.sites.values():
        for chip in site.chips.values():
            if chip.max_chips is None:
                continue
            found = question.with_sites(with_chips(sites, site, chip.chip, None)).answer()
            if found is None:
                continue

            def needed(most: int, site: Site = site, chip: str = chip.chip) -> int | None:
                smaller = question.with_sites(with_chips(sites, site, chip, most)).answer()
                return None if smaller is None else _chips_used(smaller, site.id, chip)

            step = min(p.shape.chips for p in found.outcome.plan.pools)
            high = _fewest(chip.max_chips, _chips_used(found, site.id, chip.chip), needed, step=step)
            yield relaxed_chips(site.id, chip.chip, chip.max_chips, high)


def _fewest(asked: int, high: int, used: Callable[[int], int | None], *, step: int) -> int:
    """Fewest between what was asked and what a plan uses; ``used`` says what a plan with at most so many uses."""
    low = asked
    while high - low > step:
        middle = (low + high) // 2
        found = used(middle)
        low, high = (middle, high) if found is None else (low, min(found, middle))
    return high


def _chips_used(found: Found, site: str, chip: str) -> int:
    return sum(pool.chips for pool in found.outcome.plan.pools if (pool.site, pool.chip) == (site, chip))


def _all_chips(question: Question) -> Iterator[Relaxation]:
    asked = question.limits.max_chips
    if asked is None:
        return

    def needed(most: int | None) -> int | None:
        found = replace(question, limits=replace(question.limits, max_chips=most)).answer()
        return None if found is None else sum(pool.chips for pool in found.outcome.plan.pools)

    most = needed(None)
    if most is not None:
        yield relaxed_all_chips(asked, _fewest(asked, most, needed, step=1))


def _kinds(question: Question) -> Iterator[Relaxation]:
    """One more kind of chip, where only some may be used."""
    allowed = question.limits.allowed_chips
    if allowed is None:
        return
    offered = sorted({chip for site in question.problem.sites.sites.values() for chip in site.chips})
    for chip in offered:
        wider = replace(question, limits=replace(question.limits, allowed_chips=(*allowed, chip)))
        if chip not in allowed and wider.answer() is not None:
            yield relaxed_kinds(allowed, chip)


def _power(question: Question) -> Iterator[Relaxation]:
    problem, sites = question.problem, question.problem.sites
    for site in sites.sites.values():
        limit = site.power_limit_kw
        if limit is None:
            continue

        def drawn(value: float | None, site: Site = site) -> float | None:
            places = {**sites.sites, site.id: replace(site, power_limit_kw=value)}
            found = question.with_sites(replace(sites, sites=places)).answer()
            if found is None:
                return None
            return sum(
                chip_power_w(problem.chips[pool.chip], site, finance=sites.finance) * pool.chips / WATTS_PER_KW
                for pool in found.outcome.plan.pools
                if pool.site == site.id
            )

        most = drawn(None)
        if most is not None and most > limit:
            yield relaxed_power(site.id, limit, smallest_feasible(limit, drawn, start=round_up(most)))


def _lines(question: Question) -> Iterator[Relaxation]:
    sites = question.problem.sites
    for line in sites.lines.values():

        def used(most: int, line: Line = line) -> int | None:
            found = question.with_sites(with_lines(sites, line, most)).answer()
            taken = found.outcome.plan.lines if found is not None else ()
            return None if found is None else max((own.count for own in taken if own.line == line.id), default=0)

        most = used(LINES_FACTOR * line.max_lines)
        if most is not None and most > line.max_lines:
            yield relaxed_lines(line.id, line.max_lines, _fewest(line.max_lines, most, used, step=1))


def _reserves(question: Question) -> Iterator[Relaxation]:
    """Less room kept free: spare instances, ceilings, a line that may be lost."""
    limits = question.limits

    def has_plan(eased: Limits) -> bool:
        return replace(question, limits=eased).answer() is not None

    if limits.survive_line_loss and has_plan(replace(limits, survive_line_loss=False)):
        yield Relaxation("survival of a lost line", 1.0, 0.0, "lines lost", "--no-survive-line-loss")
    spare = limits.redundant_instances
    if spare and has_plan(replace(limits, redundant_instances=0)):
        low, high = 0, spare
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if has_plan(replace(limits, redundant_instances=middle)) else (low, middle)
        yield Relaxation("spare instances per pool", float(spare), float(low), "instances", f"--spare {low}")
    yield from _ceilings(question, has_plan)


def _ceilings(question: Question, has_plan: Callable[[Limits], bool]) -> Iterator[Relaxation]:
    limits, usual = question.limits, Limits()
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

            def feasible(value: float, eased: Callable[[float], Limits] = eased) -> float | None:
                return value if has_plan(eased(value)) else None

            needed = min(smallest_feasible(asked, feasible, start=highest), highest)
            yield Relaxation(name, asked, needed, "utilization", f"{option} {needed:g}")
