"""From a question to the best plan: integer programs over operating points, with proof and explanation."""

from pddplan.optimize.changes import Nearness, moves
from pddplan.optimize.objective import Limits, Objective
from pddplan.optimize.settle import interrupted
from pddplan.optimize.size import baseline, find, one_site, size, unbeaten
from pddplan.optimize.topologies import TOPOLOGIES

__all__ = [
    "TOPOLOGIES",
    "Limits",
    "Nearness",
    "Objective",
    "baseline",
    "find",
    "interrupted",
    "moves",
    "one_site",
    "size",
    "unbeaten",
]
