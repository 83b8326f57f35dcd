"""Which requests may take which path."""

from __future__ import annotations

import numpy as np

from pddplan.domain.plan import Path, PathKind
from pddplan.domain.workload import OddTraffic
from pddplan.optimize.mix import allowed_classes
from pddplan.traces.tally import odd_share
from tests.unit.optimize.small_question import classes, question


def test_odd_traffic_is_the_same_in_plans_and_in_tallies_also_at_its_limits() -> None:
    """A transfer of just the least is odd, an answer of just the most is not."""
    odd = OddTraffic()
    missing = [odd.min_transfer_tokens, odd.min_transfer_tokens, odd.min_transfer_tokens - 1.0]
    answers = [odd.max_output_tokens - 1.0, odd.max_output_tokens, 10.0]
    mix = classes([0.5, 0.3, 0.2], [64e3] * 3, missing, answers)
    problem = question(1.0, mix=mix)
    allowed = allowed_classes(problem, Path("odd", PathKind.P_RLD, "p", relay="r"))
    assert allowed.tolist() == [1.0, 0.0, 0.0]
    assert odd_share(mix.miss_decode_tokens, np.array(answers), odd, weight=mix.weight) == 0.5
