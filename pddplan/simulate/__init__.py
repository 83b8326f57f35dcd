"""Discrete-event simulation of a plan: the oracle of the closed forms.

checks, arrivals, statistics   guards, arrival times, margins
fifo, sharing, decoding, relay, mixed   the stages, each exact on whole arrays
scenario, build                a plan made ready for replay
replay, series, stability, measure, result   requests sent through, and what is said about it
run                            simulate(problem, plan)
"""

from pddplan.simulate.result import SimulationResult
from pddplan.simulate.run import Draw, simulate

__all__ = ["Draw", "SimulationResult", "simulate"]
