"""Discrete-event simulation of a plan: the oracle of the closed forms.

checks, arrivals, statistics           guards, arrival times, margins
fifo, sharing, decoding, relay, mixed  the stages, each exact on whole arrays
scenario, build                        a plan made ready for replay
replay, series, stability, measure, result   requests sent through, and what is said about it
run                                    simulate(): drawn requests, one or several seeds
cache_state, trace_traffic, trace_mode simulate_trace(): a real trace, with the state of the decode-side cache
compare, check                         closed form beside simulation
"""

from pddplan.simulate.check import Ask, check_plan
from pddplan.simulate.result import SimulationResult
from pddplan.simulate.run import Draw, simulate
from pddplan.simulate.trace_mode import TraceTraffic, simulate_trace

__all__ = ["Ask", "Draw", "SimulationResult", "TraceTraffic", "check_plan", "simulate", "simulate_trace"]
