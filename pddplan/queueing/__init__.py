"""Waits of pools from two moments of arrivals and services."""

from pddplan.queueing.erlang import erlang_b, erlang_c, erlang_c_real
from pddplan.queueing.flows import burstiness, departure_scv, split_scv, superposed_scv
from pddplan.queueing.moments import Moments, mix_moments
from pddplan.queueing.priority import shortest_first_wait
from pddplan.queueing.residual import FirstFree, first_free
from pddplan.queueing.wait import NO_WAIT, Wait, delay_probability, pool_wait

__all__ = [
    "NO_WAIT",
    "FirstFree",
    "Moments",
    "Wait",
    "burstiness",
    "delay_probability",
    "departure_scv",
    "erlang_b",
    "erlang_c",
    "erlang_c_real",
    "first_free",
    "mix_moments",
    "pool_wait",
    "shortest_first_wait",
    "split_scv",
    "superposed_scv",
]
