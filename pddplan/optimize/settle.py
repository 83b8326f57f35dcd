"""Search, bring the mix of traffic up to date from the plan found, and search again until nothing moves."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pddplan.domain.outcome import Outcome, SolverReport
from pddplan.domain.plan import Plan
from pddplan.evaluate.problem import Problem
from pddplan.optimize.build import sized, unsized
from pddplan.optimize.cells import root_cell
from pddplan.optimize.judge import Candidate, Judge, score_of
from pddplan.optimize.mending import Judged, judged, mended, stretched
from pddplan.optimize.mix import mix_of_plan
from pddplan.optimize.no_plan import impossible
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.points import Points
from pddplan.optimize.repair import smaller_fleet
from pddplan.optimize.search import BEST_FOUND, INTERRUPTED, MOST_RUNNERS_UP, Search, SearchResult
from pddplan.optimize.solver import solver_name
from pddplan.optimize.splits import MOST_FLEETS, split_plans
from pddplan.optimize.starts import MOST_STARTS
from pddplan.optimize.tidy import tidied

MOST_ROUNDS = 6
"""Rounds in which the mix of each pool is brought up to date from the plan found."""
ROUNDS_AFTER_PLAN = 2
NODES_AFTER_PLAN = 20
"""Once a plan is found, further rounds only look whether its own mix of traffic allows a better one."""
SAME_WORK = 0.01
SAME_TAIL = 0.02
"""Mixes whose work and uncovered tails differ by less than these fractions need no further round."""
FIRST_SHARE = 0.6
"""Of the time left, what a round may take while no plan is found: its plan may ask for another round."""
LEAST_TIME_S = 0.2
UNPROVEN = 1.0
"""Gap of a plan of which nothing is proven."""
SPLITS_SEARCHED = 4
NODES_FROM_SPLIT = 200
"""Fleets that part the traffic from which a search starts, and the cells each may look at."""
FLEETS_TO_OPEN, FLEETS_BESIDE_PROOF = 12, 6
"""Such fleets worked out to start from, and those that a plan which is proven under its own mix is held against."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A plan as found: its outcome, and the model and numbers it came from."""

    outcome: Outcome
    points: Points
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class NothingFound:
    """No plan: because there is none (``proven``), because none was found, or because time ran out before that."""

    proven: bool
    why: str
    out_of_time: bool = False


NONE_EXISTS = "no plan keeps every promise within the limits"
NONE_FOUND = "no plan found that keeps every promise within the limits; that there is none is not proven"


@dataclass(frozen=True, slots=True, eq=False)
class _Settling:
    """One question, asked of candidates under one mix after the other."""

    problem: Problem
    topology: str
    objective: Objective
    limits: Limits
    started: float

    @property
    def deadline(self) -> float:
        return self.started + self.limits.time_limit_s

    @property
    def spent_s(self) -> float:
        return time.perf_counter() - self.started

    @property
    def left_s(self) -> float:
        return self.deadline - time.perf_counter()

    def remixed(self, points: Points, plan: Plan) -> Points:
        """The same candidates under the mix that a plan has (not sized yet: often nobody searches them)."""
        mix = mix_of_plan(self.problem, plan, before=points.mix, paths=points.paths, pools=points.pools)
        return unsized(
            self.problem,
            points.pools,
            points.paths,
            mix,
            objective=self.objective,
            limits=self.limits,
            bound=points.bound,
        )

    def rounds(self, points: Points, start: Sequence[Candidate], *, max_nodes: int) -> Found | NothingFound:
        """Search, bring the mix up to date from the plan found, and search again until nothing moves."""
        objective, limits = self.objective, self.limits
        best: Found | None = None
        last: SearchResult | None = None
        further = 0
        for _ in range(MOST_ROUNDS):
            if further >= ROUNDS_AFTER_PLAN:
                break
            further += best is not None
            remaining = self.left_s
            if best is not None and remaining <= LEAST_TIME_S:
                break
            search = Search(
                points,
                search_objective(objective),
                max(remaining if best is not None else FIRST_SHARE * remaining, LEAST_TIME_S),
                limits.gap if math.isinf(points.bound) else max(limits.gap, limits.acceptable_gap),
                acceptable_gap=max(limits.gap, limits.acceptable_gap),
                known_bound=points.bound,
                most_starts=points.path_count if limits.every_shape else MOST_STARTS,
                max_nodes=max_nodes if best is None else min(NODES_AFTER_PLAN, max_nodes),
                start=start,
            )
            result = search.run()
            if result.best is None:
                if last is not None:
                    break
                return _nothing(result, limits)
            value, last = (last.value if last is not None else math.nan), result
            judge = Judge(points)
            own = judged(points, tidied(judge, smaller_fleet(judge, result.best)), topology=self.topology)
            settles = own.short <= 0
            basis = self._kept(points, own)
            kept = self._or_runner_up(points, basis, search)
            if kept is not None and kept.short <= 0:
                if kept is not own:  # looked at in passing until now
                    kept = judged(points, kept.candidate, topology=self.topology)
                found = _found(points, kept, search, result, seconds=time.perf_counter() - self.started)
                if best is None or better(found.outcome, best.outcome, objective):
                    best = found
            if result.status == INTERRUPTED or (settles and _close(result.value, value, max(limits.gap, 1e-9))):
                break
            basis = basis or own  # not a runner-up: its mix may be the one that was searched
            updated = self.remixed(points, basis.outcome.plan)
            if settles and same_numbers(points, updated, result.best):
                break
            points, start = sized(updated, limits=limits), (basis.candidate,)
        return best if best is not None else NothingFound(proven=False, why=NONE_FOUND)

    def _kept(self, points: Points, own: Judged) -> Judged | None:
        """A plan as found where it keeps its promises, at the most it may serve; else mended; None in vain."""
        if own.short <= 0:
            return stretched(points, own, topology=self.topology)
        return mended(points, own, topology=self.topology, deadline=self._to_mend_until)

    @property
    def _to_mend_until(self) -> float:
        return max(self.deadline, time.perf_counter() + LEAST_TIME_S)

    def _or_runner_up(self, points: Points, kept: Judged | None, search: Search) -> Judged | None:
        """A plan that the search liked less may be better than a mended one: it keeps its promises as it is."""
        until = self._to_mend_until
        score = search.score(kept.candidate) if kept is not None else -math.inf
        for candidate in sorted(search.runners_up, key=search.score, reverse=True)[:MOST_RUNNERS_UP]:
            if search.score(candidate) <= score or time.perf_counter() > until:
                break
            other = judged(points, smaller_fleet(search.judge, candidate), topology=self.topology)
            if other.short <= 0:
                return stretched(points, other, topology=self.topology)
        return kept

    def fleets(self, points: Points, known: Found | NothingFound, *, most: int) -> list[tuple[Points, Judged]]:
        """Fleets for traffic whole and in two parts that may be better than a plan known; the best first."""
        kind = search_objective(self.objective)
        least, cost = -math.inf, math.inf
        if isinstance(known, Found):
            least = score_of(known.candidate, kind)
            least += self.limits.gap * abs(least)
            cost = known.candidate.monthly_cost if kind == "cost" else math.inf
        starts = split_plans(
            points,
            lambda plan: sized(self.remixed(points, plan), limits=self.limits),
            topology=self.topology,
            deadline=self.deadline,
            score=lambda candidate: score_of(candidate, kind),
            least=least,
            cheaper_than=cost,
            most=most,
        )
        order = sorted(enumerate(starts), key=lambda entry: (*self._rank(entry[1][1]), entry[0]))
        return [start for _, start in order]

    def parted(self, points: Points, known: Found | NothingFound) -> Found | NothingFound:
        """The best plan of what is known and of searches from fleets that part the traffic.

        A plan known that is proven under its own mix is held against a few such fleets only, without a search from
        those that are no better.
        """
        best = known
        proven = isinstance(known, Found) and not open_gap(known, self.limits)
        most = FLEETS_BESIDE_PROOF if proven else MOST_FLEETS
        for own, start in self.fleets(points, known, most=most)[:SPLITS_SEARCHED]:
            if start.short <= 0:
                if not self._ahead(start.outcome, best):
                    break
                best = self._as_found(own, start, known)
            elif proven:
                break
            found = self.rounds(own, (start.candidate,), max_nodes=min(self.limits.max_nodes, NODES_FROM_SPLIT))
            if isinstance(found, Found) and self._ahead(found.outcome, best):
                best = self._said_of(found, known)
            if isinstance(found, Found) and isinstance(best, Found) and interrupted(found.outcome):
                return _stopped(best)
            if self.left_s <= LEAST_TIME_S:
                break
        return best

    def opening(self, points: Points, known: Found | None) -> Found | None:
        """The best of a plan known and of fleets that part the traffic, without a search."""
        before: Found | NothingFound = known or NothingFound(proven=False, why=NONE_FOUND)
        for own, start in self.fleets(points, before, most=FLEETS_TO_OPEN)[:1]:
            if start.short <= 0 and self._ahead(start.outcome, before):
                return self._as_found(own, start, before)
        return known

    def _as_found(self, points: Points, start: Judged, known: Found | NothingFound) -> Found:
        """A fleet that keeps its promises as a plan, of which no more is proven than of what is known."""
        most = stretched(points, start, topology=self.topology)
        kept = judged(points, most.candidate, topology=self.topology)
        unproven = SolverReport(solver_name(), BEST_FOUND, UNPROVEN, round(self.spent_s, 3))
        found = Found(replace(kept.outcome, solver=unproven), points, levelled(points, kept.candidate))
        return self._said_of(found, known)

    def _said_of(self, found: Found, known: Found | NothingFound) -> Found:
        """A plan, with what was proven before another one was known: bounds of all plans stay where they are."""
        if not isinstance(known, Found) or known.outcome.solver is None:
            return found
        before, now = (value_of(plan.outcome, self.objective) for plan in (known, found))
        return replace(found, outcome=replace(found.outcome, solver=restated(known.outcome.solver, before, now)))

    def _ahead(self, outcome: Outcome, best: Found | NothingFound) -> bool:
        return not isinstance(best, Found) or better(outcome, best.outcome, self.objective)

    def _rank(self, start: Judged) -> tuple[float, float]:
        """What keeps its promises first, the best of them first; else what falls least short."""
        return max(start.short, 0.0), -value_of(start.outcome, self.objective)


def interrupted(outcome: Outcome) -> bool:
    """True where Ctrl-C ended the search for a plan."""
    return outcome.solver is not None and outcome.solver.status == INTERRUPTED


def settled(
    problem: Problem,
    topology: str,
    points: Points,
    *,
    objective: Objective,
    limits: Limits,
    started: float,
    start: Sequence[Candidate] = (),
) -> Found | NothingFound:
    """The best plan of the candidates under the traffic it has itself; never one that breaks a promise there."""
    settling = _Settling(problem, topology, objective, limits, started)
    found = settling.rounds(points, start, max_nodes=limits.max_nodes)
    if isinstance(found, Found) or math.isfinite(points.bound):
        return found
    none = impossible(points, time_limit_s=max(settling.left_s, LEAST_TIME_S))
    return NothingFound(proven=True, why=NONE_EXISTS) if none else found  # also where the search ran out of time


def parted(
    problem: Problem,
    topology: str,
    points: Points,
    known: Found | NothingFound,
    *,
    objective: Objective,
    limits: Limits,
    started: float,
) -> Found | NothingFound:
    """What is known, held against fleets that part the traffic: they may be better than any plan under its mix."""
    return _Settling(problem, topology, objective, limits, started).parted(points, known)


def _stopped(found: Found) -> Found:
    """A plan of a search that Ctrl-C ended."""
    solver = found.outcome.solver
    if solver is None:
        return found
    return replace(found, outcome=replace(found.outcome, solver=replace(solver, status=INTERRUPTED)))


def open_gap(found: Found, limits: Limits) -> bool:
    """Whether more is left open than is acceptable, over all shapes where that is known."""
    solver = found.outcome.solver
    if solver is None:
        return False
    return max(solver.gap, solver.gap_over_all or 0.0) > max(limits.gap, limits.acceptable_gap)


def opening(
    problem: Problem,
    topology: str,
    points: Points,
    known: Found | None,
    *,
    objective: Objective,
    limits: Limits,
    started: float,
) -> Found | None:
    """A plan to start from: the best fleet for traffic whole or in two parts, if it is better than one known."""
    return _Settling(problem, topology, objective, limits, started).opening(points, known)


def _found(points: Points, kept: Judged, search: Search, result: SearchResult, *, seconds: float) -> Found:
    """The plan with what was proven: how far the search's bound lies above what the plan really reaches."""
    score, status = search.score(kept.candidate), result.status
    bound = result.value + result.gap * abs(result.value)
    if math.isfinite(points.bound):  # candidates were left out: only this bound speaks for all
        bound = points.bound
    gap = max((bound - score) / abs(score), 0.0) if score else result.gap
    if status == "optimal" and gap > max(search.gap, search.acceptable_gap) and math.isinf(points.bound):
        status = BEST_FOUND  # the proof was of a plan that kept its promises under another mix only
    report = SolverReport(result.solver, status, gap, round(seconds, 3))
    return Found(replace(kept.outcome, solver=report), points, levelled(points, kept.candidate))


def levelled(points: Points, candidate: Candidate) -> Candidate:
    """A candidate that knows its operating points."""
    if candidate.levels is not None:
        return candidate
    base = points.routes(root_cell(points.data).best(), used=candidate.used)
    return replace(candidate, levels=Judge(points).levels_of(candidate, base))


def in_terms_of(points: Points, found: Found) -> Candidate | None:
    """A plan of other candidates as one of these; None where it uses a path that is not among them."""
    row_of = {path.id: row for row, path in enumerate(points.paths)}
    flow = np.zeros((points.path_count, found.candidate.flow.shape[1]))
    for path, flows in zip(found.points.paths, found.candidate.flow, strict=True):
        if path.id in row_of:
            flow[row_of[path.id]] = flows
        elif flows.any():
            return None
    counts = {pool.id: found.candidate.instances.get(pool.id, 0) for pool in points.pools}
    return replace(found.candidate, instances=counts, flow=flow, levels=None)


def search_objective(objective: Objective) -> str:
    """At a given rate the best ratio is the least cost."""
    return "cost" if objective.kind == "bcr" and objective.rate_rps is not None else objective.kind


def same_numbers(before: Points, after: Points, candidate: Candidate) -> bool:
    """True when two mixes give the plan's paths the same work and coverage at its operating point, nearly.

    Pools that the plan does not use keep the mix assumed before, so only its own paths can differ.
    """
    levels = candidate.levels
    if levels is None:
        return False
    for one, other in zip(*(points.routes(levels, used=candidate.used) for points in (before, after)), strict=True):
        used = one.allowed > 0
        for pool, work in one.work.items():
            if (abs(work - other.work[pool]) > SAME_WORK * work + 1e-9)[used].any():
                return False
        for row, covered in one.coverage.items():
            if (abs(covered - other.coverage[row]) > SAME_TAIL * (1 - covered) + 1e-5)[used].any():
                return False
    return True


def _nothing(result: SearchResult, limits: Limits) -> NothingFound:
    if result.status == "infeasible":
        return NothingFound(proven=False, why=NONE_FOUND)
    return NothingFound(proven=False, why=f"no plan found within {limits.time_limit_s:g} s", out_of_time=True)


def value_of(outcome: Outcome, objective: Objective) -> float:
    """What the objective makes of a plan: larger is better."""
    if search_objective(objective) == "cost":
        return -outcome.cost.monthly_total
    return outcome.bcr if objective.kind == "bcr" else outcome.goodput_rps


def better(one: Outcome, other: Outcome, objective: Objective) -> bool:
    """Whether a plan is better than another one."""
    return value_of(one, objective) > value_of(other, objective)


def _close(one: float, other: float, gap: float) -> bool:
    return math.isfinite(other) and abs(one - other) <= gap * abs(other)


def bound_of(outcome: Outcome, objective: Objective) -> float:
    """Score that no plan exceeds by what was proven of a plan; inf where nothing was (a cost is never below 0)."""
    value = value_of(outcome, objective)
    gap = UNPROVEN if outcome.solver is None else outcome.solver.gap
    return math.inf if gap >= UNPROVEN and value > 0 else value + gap * abs(value)


def restated(report: SolverReport, before: float, now: float) -> SolverReport:
    """What was proven of a plan of one value, said of a plan of another: bounds stay where they are."""

    def gap_to(gap: float | None) -> float | None:
        if gap is None or not now or (gap >= UNPROVEN and before > 0):
            return gap
        return max((before + gap * abs(before) - now) / abs(now), 0.0)

    return replace(report, gap=gap_to(report.gap) or 0.0, gap_over_all=gap_to(report.gap_over_all))
