"""The last look at a plan: what the evaluator lets it do without, or do better with one thing changed.

Searches prove plans under the mix of traffic that they assumed, to within a gap. The plan's own mix may need one
instance less, and among plans of equal goodput a program takes any line. Here each neighbour of the plan (one
instance less or more, one moved, another line option) is judged by the one evaluator.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pddplan.evaluate.problem import Problem
from pddplan.optimize.build import sized, unsized
from pddplan.optimize.judge import Candidate, Judge
from pddplan.optimize.mending import Judged, judged, stretched
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.points import Points
from pddplan.optimize.question import reporting
from pddplan.optimize.repair import smaller_fleet
from pddplan.optimize.search import INTERRUPTED, MOST_RUNNERS_UP, Search
from pddplan.optimize.settle import NODES_AFTER_PLAN, Found, interrupted, levelled, restated, search_objective, value_of

MOST_LOOKS = 200
SHARE_OF_TIME = 0.05
"""Neighbours judged in all, and of the time: what a last look may cost."""
WORTH = 1e-4
"""Gains below this fraction are none."""


@dataclass(slots=True)
class _Looking:
    """A plan on its way to a better neighbour."""

    points: Points
    topology: str
    kind: str
    """``cost``, ``rps`` or ``bcr``, as searched."""
    equal: float
    """Goodput that differs by less than this fraction is the same."""
    reached_rps: float
    """The highest rate so far: what is the same is measured from here, so that small steps do not add up."""
    deadline: float
    looks: int = MOST_LOOKS

    @property
    def least_rps(self) -> float:
        return self.reached_rps * (1.0 - self.equal)

    def best(self, now: Judged, *, wide: bool) -> Judged:
        """Where going from neighbour to better neighbour ends."""
        while (other := self.better(now, wide=wide)) is not None:
            now = other
            self.reached_rps = max(self.reached_rps, now.candidate.rate_rps)
        return now

    def better(self, now: Judged, *, wide: bool) -> Judged | None:
        """The best neighbour of a plan, None if no neighbour is better."""
        best: Judged | None = None
        for group in _neighbours(self.points, now.candidate, wide=wide):
            for other in group:  # of a line's options the cheapest that does is the best
                rate = self.rate_to_win(best or now, other)
                if math.isinf(rate):
                    continue
                if self.looks <= 0 or time.perf_counter() > self.deadline:
                    return best
                self.looks -= 1
                tried = self.at(other, rate)
                if tried is not None:
                    best = stretched(self.points, tried, topology=self.topology)
                    break
        return best

    def rate_to_win(self, now: Judged, other: Candidate) -> float:
        """The rate at which a fleet would be better than a plan; inf if at none."""
        data, cost, rate = self.points.data, now.candidate.monthly_cost, now.candidate.rate_rps
        cheaper = other.monthly_cost < cost * (1.0 - WORTH)
        if self.kind == "cost":
            return rate if cheaper else math.inf
        if cost <= 0:
            return math.inf
        wanted = rate * (1.0 + WORTH) * other.monthly_cost / cost
        if self.kind == "rps":
            wanted = max(wanted, self.least_rps) if cheaper else self.reached_rps * (1.0 + self.equal)
        return wanted if data.min_rate_rps <= wanted <= data.max_rate_rps else math.inf

    def at(self, other: Candidate, rate_rps: float) -> Judged | None:
        """A fleet at a rate as the evaluator sees it, None where it falls short."""
        judge = Judge(self.points)
        scaled = judge.priced(other.instances, other.taken, other.flow * (rate_rps / other.rate_rps))
        if not judge.within_limits(scaled):
            return None
        tried = judged(self.points, scaled, topology=self.topology, detail=False)
        return tried if tried.short <= 0 else None


def last_look(
    problem: Problem, topology: str, found: Found, *, objective: Objective, limits: Limits, deadline: float
) -> Found:
    """The plan, or a neighbour of it that is better: of equal goodput the cheapest where most requests are asked for.

    Goodput is equal within the gap of the plan, as far as that is an acceptable one; what saves less of the cost than
    it takes of the goodput is left alone.
    """
    report = found.outcome.solver
    if interrupted(found.outcome) or not found.candidate.flow.any():
        return found
    deadline = max(deadline, time.perf_counter() + SHARE_OF_TIME * limits.time_limit_s)
    gap = report.gap if report is not None else math.inf
    acceptable = max(limits.gap, limits.acceptable_gap)
    kind = search_objective(objective)
    equal = max(min(gap, acceptable), limits.gap, WORTH)
    looking = _Looking(found.points, topology, kind, equal, found.candidate.rate_rps, deadline)
    own = current = Judged(found.candidate, found.outcome, 0.0)
    wide = limits.prove_shapes and gap > acceptable
    try:
        most = stretched(found.points, own, topology=topology)  # candidates of parts are not yet
        looking.reached_rps = most.candidate.rate_rps
        current = looking.best(most, wide=wide)
        if kind == "rps" and limits.prove_shapes:
            cheapest = _cheapest(problem, looking, current, limits=limits)
            current = looking.best(cheapest, wide=wide) if cheapest is not current else current
        if current is own:
            return found
        kept = judged(found.points, current.candidate, topology=topology)
    except KeyboardInterrupt:
        return reporting(found, status=INTERRUPTED)
    outcome = kept.outcome
    if report is not None:
        before, now = (value_of(plan, objective) for plan in (found.outcome, outcome))
        outcome = replace(outcome, solver=restated(report, before, now))
    return Found(outcome, found.points, levelled(found.points, current.candidate))


def _cheapest(problem: Problem, looking: _Looking, now: Judged, *, limits: Limits) -> Judged:
    """The cheapest plan that a short search finds at hardly less than a plan's rate; the plan itself if none saves."""
    points, rate = looking.points, looking.least_rps
    floor = Objective("cost", rate_rps=rate)
    asked = unsized(problem, points.pools, points.paths, points.mix, objective=floor, limits=limits)
    judge = Judge(sized(asked, limits=limits))
    share = rate / now.candidate.rate_rps
    start = judge.priced(now.candidate.instances, now.candidate.taken, now.candidate.flow * share)
    search = Search(
        asked,
        "cost",
        max(looking.deadline - time.perf_counter(), 0.0),
        limits.gap,
        most_starts=0,
        max_nodes=min(NODES_AFTER_PLAN, limits.max_nodes),
        start=(start,),
    )
    result = search.run()
    if result.status == INTERRUPTED:  # the search keeps Ctrl-C to itself
        raise KeyboardInterrupt
    if result.best is None:
        return now
    for candidate in sorted(search.runners_up, key=search.score, reverse=True)[:MOST_RUNNERS_UP]:
        other = smaller_fleet(judge, candidate)
        wanted = looking.rate_to_win(now, other)
        kept = looking.at(other, wanted) if math.isfinite(wanted) else None
        if kept is not None:
            return stretched(points, kept, topology=looking.topology)
    return now


def _neighbours(points: Points, candidate: Candidate, *, wide: bool) -> Iterator[Iterator[Candidate]]:
    """Fleets that differ in one thing, in groups of which the first that does is the best."""
    judge = Judge(points)
    held = [pool for pool, count in candidate.instances.items() if count > 0]

    def with_counts(**more: int) -> Iterator[Candidate]:
        counts = {pool: count + more.get(pool, 0) for pool, count in candidate.instances.items()}
        yield judge.priced(counts, candidate.taken, candidate.flow)

    spare = [pool for pool in held if candidate.instances[pool] > 1]
    yield from (with_counts(**{pool: -1}) for pool in spare)
    for taken in candidate.taken:
        yield _other_options(judge, candidate, taken)
    if wide:
        yield from (with_counts(**{pool: 1}) for pool in held)
        yield from (with_counts(**{one: -1, other: 1}) for one in spare for other in held if one != other)


def _other_options(judge: Judge, candidate: Candidate, taken: str) -> Iterator[Candidate]:
    """The same fleet with each other tier and number of a line, cheapest first."""
    options = {option.id: option for option in judge.model.data.lines}
    own = sorted((o for o in options.values() if o.line == options[taken].line), key=lambda o: (o.monthly_cost, o.id))
    for option in own:
        if option.id != taken:
            lines = tuple(option.id if o == taken else o for o in candidate.taken)
            yield judge.priced(candidate.instances, lines, candidate.flow)
