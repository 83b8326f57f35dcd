"""Why a plan looks as it does: what binds, what one more unit of it would buy, what else was close, and why not T.

Everything is found by asking again (``asker``), from the plan itself and by cells, so that answers depend on no clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem
from pddplan.optimize.alternatives import Alternative, runners_up, topologies
from pddplan.optimize.asker import SAME, Asker, chips, cost
from pddplan.optimize.limits_used import limits_used
from pddplan.optimize.marginals import Marginal, all_eased, marginals
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.one_fewer import Needed, needed
from pddplan.optimize.topologies import Shapes

__all__ = ["SAME", "Alternative", "Explanation", "Marginal", "chips", "cost", "explain"]

WITHIN = 0.1
"""Alternatives are listed while they are worse by at most this fraction."""


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """All there is to say about a plan."""

    outcome: Outcome
    needs: tuple[Needed, ...]
    """Why its fleet is not smaller."""
    marginals: tuple[Marginal, ...]
    """The most valuable one first."""
    topologies: tuple[Alternative, ...]
    """Every other topology, feasible or not, the best first."""
    runners_up: tuple[Alternative, ...]
    """Different fleets that are nearly as good."""
    remarks: tuple[str, ...]
    carries_rps: float | None = None
    """Most requests per second that the fleet as it is serves within all promises."""
    open_gap: float = 0.0
    """How much better than the plan its own question may still allow, as a fraction; 0 where it is proven."""


def explain(
    problem: Problem,
    plan: Plan,
    *,
    shapes: Shapes,
    objective: Objective | None = None,
    limits: Limits | None = None,
    within: float = WITHIN,
) -> Explanation:
    """Explain a plan: evaluate it again, and ask what would change it.

    ``problem`` is the question the plan answers (its promises, prices and places); ``objective`` and ``limits`` are
    those it was asked with; ``within`` is the share by which another fleet may be worse and still be a runner-up.
    """
    asked = limits or Limits()
    outcome = evaluate(problem, plan)
    asker = Asker.of(problem, plan, objective=objective, limits=asked, shapes=shapes)
    used = limits_used(problem, outcome, limits=asked, objective=asker.goal)
    outcome = replace(outcome, binding=(*outcome.binding, *used))
    eased = all_eased(asker, outcome)
    optimum: Outcome | None = None
    if not _answers(outcome, asked) or not isinstance(eased, Outcome) or asker.gain(eased, outcome) > 0:
        own = asker.ask(start=outcome if _answers(outcome, asked) else None)
        optimum = own if isinstance(own, Outcome) else None
    # compare best with best, so that the gap of an older search is not taken for a gain
    worse = optimum is not None and (not outcome.keeps_promises or asker.gain(optimum, outcome) > 0)
    base = optimum if optimum is not None and worse else outcome
    others = topologies(asker, base)
    found = marginals(asker, base, eased)
    return Explanation(
        outcome=outcome,
        needs=needed(problem, outcome, limits=asked),
        marginals=found.levers,
        topologies=others,
        runners_up=runners_up(asker, base, others, within=within),
        remarks=tuple(_remarks(asker, outcome, optimum)),
        carries_rps=found.carries_rps,
        open_gap=_open_gap(asker, base, optimum, found.levers),
    )


def _open_gap(asker: Asker, base: Outcome, optimum: Outcome | None, levers: Sequence[Marginal]) -> float:
    """How much better the plan's own question may still allow; no more than what an easier one does."""
    left = [asker.open_gain(optimum, base)] if optimum is not None else []
    left += [lever.uncertain for lever in levers if lever.eases and lever.nothing]
    return min(left, default=0.0) / abs(asker.value(base)) if asker.value(base) else 0.0


def _answers(outcome: Outcome, limits: Limits) -> bool:
    """True when a plan keeps what was promised and asked for."""
    full = any(load.utilization > limits.max_utilization for load in outcome.pools)
    many = limits.max_chips is not None and chips(outcome) > limits.max_chips
    return outcome.keeps_promises and not full and not many


def _remarks(asker: Asker, outcome: Outcome, optimum: Outcome | None) -> Iterator[str]:
    for broken in outcome.violations:
        yield f"the plan breaks {broken.limit}: {broken.predicted:.4g} {broken.unit}, promised {broken.promised:.4g}"
    if optimum is None:
        return
    if not outcome.keeps_promises:
        yield f"a plan that keeps all promises costs {cost(optimum):,.0f} per month; what follows is about that one"
    elif asker.gain(optimum, outcome) > 0 and not asker.same(optimum, outcome):
        if asker.most_requests:
            better = (
                f"a plan of the same topology serves {optimum.goodput_rps:.4g} req/s now, not {outcome.goodput_rps:.4g}"
            )
        else:
            better = (
                f"a cheaper plan of the same topology exists now: {cost(optimum):,.0f} against {cost(outcome):,.0f}"
            )
            better += " per month"
        yield f"{better}; what follows is about that one"
