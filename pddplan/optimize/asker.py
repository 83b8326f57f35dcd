"""Asking the question of a plan again with something changed: what explanations are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan, Role, Shape
from pddplan.errors import InfeasibleError, InputError, SolverError
from pddplan.evaluate.problem import Problem
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.settle import value_of
from pddplan.optimize.size import size
from pddplan.optimize.topologies import TOPOLOGIES, Shapes

TIME_PER_QUESTION_S = 60.0
"""Never reached but by large questions: searches end by cells, so that the answers are the same on any machine."""
NODES_PER_QUESTION = 15
NODES_IN_WIDEST = 3
"""All paths at once make programs of which each takes a second."""
WIDEST = "any"
SEARCHED_WELL = 2e-3
"""Gaps below this are not worth a word."""
SAME = 5e-3
"""Costs closer than this fraction are called the same (searches stop at a gap)."""


def cost(outcome: Outcome) -> float:
    """Monthly cost of an outcome's plan."""
    return outcome.cost.monthly_total


def chips(outcome: Outcome) -> int:
    """Chips of all pools of an outcome's plan."""
    return sum(pool.chips for pool in outcome.plan.pools)


@dataclass(frozen=True, slots=True, eq=False)
class Asker:
    """The question that a plan answers."""

    problem: Problem
    plan: Plan
    goal: Objective
    """Least cost at the plan's rate, or most requests within a budget or inventory."""
    limits: Limits
    shapes: Shapes

    @staticmethod
    def of(problem: Problem, plan: Plan, *, objective: Objective | None, limits: Limits, shapes: Shapes) -> Asker:
        """A plan's question. Without an objective, or where the plan could choose its rate, least cost at its rate."""
        named = plan if plan.topology in TOPOLOGIES else replace(plan, topology="any")
        most = objective is not None and objective.kind == "rps"
        goal = objective if most and objective is not None else Objective("cost", rate_rps=plan.rate_rps)
        bounded = replace(
            limits,
            time_limit_s=TIME_PER_QUESTION_S,
            acceptable_gap=0.01,
            prove_shapes=False,
        )
        return Asker(problem, named, goal, bounded, shapes)

    def limits_for(self, topology: str, *, nodes: int = NODES_PER_QUESTION) -> Limits:
        """Limits of a search of a topology by cells."""
        return replace(self.limits, max_nodes=min(nodes, NODES_IN_WIDEST) if topology == WIDEST else nodes)

    @property
    def most_requests(self) -> bool:
        """Whether more requests are wanted, not less money."""
        return self.goal.kind == "rps"

    def value(self, outcome: Outcome) -> float:
        """What is wanted more of: requests per second, or money kept."""
        return value_of(outcome, self.goal)

    def gain(self, found: Outcome, base: Outcome) -> float:
        """How much better one plan is than another, in money a month or requests per second."""
        return self.value(found) - self.value(base)

    def same(self, found: Outcome, base: Outcome) -> bool:
        """True where two plans are as good as each other, as far as searches can tell."""
        return abs(self.gain(found, base)) <= SAME * abs(self.value(base))

    def open_gain(self, outcome: Outcome, base: Outcome | None = None) -> float:
        """How much better plans of the shapes searched may still be than this one, or than ``base`` if that is better.

        0 where it is next to nothing.
        """
        gap = outcome.solver.gap if outcome.solver is not None else 0.0
        if gap < SEARCHED_WELL:
            return 0.0
        value = self.value(outcome)
        reached = value if base is None else max(value, self.value(base))
        most = value + gap * abs(value)
        return max(min(most, 0.0) if value < 0 else most, reached) - reached

    def ask(
        self,
        problem: Problem | None = None,
        *,
        topology: str | None = None,
        objective: Objective | None = None,
        limits: Limits | None = None,
        shapes: Shapes | None = None,
        start: Outcome | None = None,
    ) -> Outcome | str:
        """The best plan of a changed question, or why there is none. ``start`` is a plan that may answer it."""
        name = topology or self.plan.topology
        within = limits or self.limits_for(name)
        try:
            return size(
                problem or self.problem,
                topology=name,
                objective=objective or self.goal,
                limits=within,
                shapes=shapes or self.shapes,
                relax=False,
                known=start.plan if start is not None else None,
            )
        except (InfeasibleError, SolverError, InputError) as error:
            return str(error).split("\n", maxsplit=1)[0]


def only_shapes_of(plan: Plan) -> Shapes:
    """The instance shapes that a plan has, and no others."""

    def shapes(chip: str, role: Role) -> list[Shape]:
        return list(dict.fromkeys(pool.shape for pool in plan.pools if (pool.chip, pool.role) == (chip, role)))

    return shapes
