"""What a question leaves open: rates between the smallest and the largest that may be asked."""

from __future__ import annotations

from dataclasses import replace

from pddplan.optimize import Limits, Objective
from pddplan.optimize.objective import LARGEST_RATE_RPS
from pddplan.optimize.question_limits import rate_range
from pddplan.questions import problem_of
from tests import samples


def test_without_inventory_the_rate_stays_within_what_may_be_asked() -> None:
    """A chip that costs next to nothing buys 1e16 requests per second, beyond what a solver can count."""
    inputs = samples.inputs()
    sites = {
        name: replace(
            site,
            chips={c: replace(own, max_chips=None, price_per_chip_hour=1e-9) for c, own in site.chips.items()},
        )
        for name, site in inputs.sites.sites.items()
    }
    problem = problem_of(replace(inputs, sites=replace(inputs.sites, sites=sites)))
    objective = Objective(kind="rps", budget_per_month=1e9)
    lowest, highest = rate_range(problem, samples.plan().pools, objective=objective, limits=Limits())
    assert 0 < lowest < highest == LARGEST_RATE_RPS
