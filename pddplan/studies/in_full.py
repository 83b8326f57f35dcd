"""Everything worth asking about one plan, for a page that shows it in full: simulation, bathtub, sensitivity."""

from __future__ import annotations

from dataclasses import dataclass

from pddplan import api
from pddplan.errors import PddplanError
from pddplan.simulate.check import Ask
from pddplan.simulate.result import SimulationResult
from pddplan.sizing import Sizing
from pddplan.studies.curve import SIZED_AT, BathtubStudy, bathtub_study
from pddplan.studies.sureness import Sureness, how_sure

REQUESTS = 100_000
SAMPLES = 64


@dataclass(frozen=True, slots=True, eq=False)
class Studies:
    """What was asked beside the plan itself; None = not asked, or no answer (then a remark says why)."""

    simulated: SimulationResult | None = None
    bathtub: BathtubStudy | None = None
    sure: Sureness | None = None
    remarks: tuple[str, ...] = ()


def studies_of(sizing: Sizing, *, requests: int = REQUESTS, samples: int = SAMPLES, sized: bool = True) -> Studies:
    """Simulate a plan, draw its bathtub and vary what it leans on; a part that cannot be had is left out.

    ``sized``: size large fleets at some hit rates for the bathtub, as ``bcr curve`` does.
    """
    from pddplan.profiles.token_prices import token_price_for

    inputs, outcome = sizing.inputs, sizing.outcome
    simulated = bathtub = sure = None
    remarks: list[str] = []
    try:
        _, simulated = api.simulate_plan(api.problem_of(inputs), outcome.plan, Ask(requests=requests))
    except PddplanError as error:
        remarks.append(f"not simulated: {error}")
    try:
        price, assumed = token_price_for(inputs.workload.llm)
        bathtub = bathtub_study(inputs, outcome, price=price, price_assumed=assumed, sized_at=SIZED_AT if sized else ())
    except PddplanError as error:
        remarks.append(f"no curve over hit rates: {error}")
    try:
        baseline = sizing.baseline.plan if sizing.baseline is not None else None
        sure = how_sure(inputs, outcome.plan, samples=samples, baseline=baseline)
    except PddplanError as error:
        remarks.append(f"no sensitivity: {error}")
    return Studies(simulated, bathtub, sure, tuple(remarks))
