"""Size again and again while inputs vary: a grid of questions, run side by side, one tidy row per question."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pddplan import __version__
from pddplan.domain.outcome import Outcome
from pddplan.errors import InfeasibleError, InputError, PddplanError, SolverError
from pddplan.optimize import Limits, Objective, size
from pddplan.questions import default_topology, problem_of, shapes_of
from pddplan.records import to_plain
from pddplan.sizing import Inputs
from pddplan.studies.axes import Axis, grid, with_known_chips
from pddplan.studies.levers import FILES, TOPOLOGY, Value, changed
from pddplan.studies.side_by_side import SERIAL, answers

FINGERPRINT_DIGITS = 12
NO_GAP = 1e-9
"""Gaps below this are what rounding leaves of none."""


@dataclass(frozen=True, slots=True)
class Row:
    """One question of a sweep and its answer; ``figures`` has the columns of ``FIGURES``."""

    values: tuple[Value, ...]
    status: str
    why_not: str
    figures: Mapping[str, float | str]
    question: str = ""
    """Fingerprint of what is asked beside the values."""


PLAN, WRONG, FAULT = "plan", "wrong question", "fault of pddplan"
_STATUS = {InfeasibleError: "infeasible", SolverError: "no plan in time"}
FIGURES: tuple[str, ...] = (
    "topology",
    "rate_rps",
    "goodput_rps",
    "bcr_rps_per_1000_monthly_cost",
    "monthly_cost",
    "currency",
    "chips",
    "chips_prefill",
    "chips_relay",
    "chips_decode",
    "chips_aggregated",
    "line_gbps",
    "wan_gbps",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "tpot_mean_s",
    "tpot_p90_s",
    "e2e_p90_s",
    "relay_token_fraction",
    "solver_status",
    "solver_gap_fraction",
)
"""Columns of a row beside the inputs that vary; nothing that the same question answers otherwise on another day."""
WORDS = ("status", "why_not", "topology", "currency", "solver_status", "question")
"""Columns that hold words; all others hold numbers, except those of axes that take words."""


def figures_of(outcome: Outcome) -> dict[str, float | str]:
    """The columns of FIGURES for one outcome."""
    chips = dict.fromkeys(("P", "RLD", "MD", "AGG"), 0)
    for pool in outcome.plan.pools:
        chips[pool.role.value] += pool.chips
    solver = outcome.solver
    return {
        "topology": outcome.plan.topology,
        "rate_rps": outcome.plan.rate_rps,
        "goodput_rps": outcome.goodput_rps,
        "bcr_rps_per_1000_monthly_cost": outcome.bcr,
        "monthly_cost": outcome.cost.monthly_total,
        "currency": outcome.cost.currency,
        "chips": sum(chips.values()),
        "chips_prefill": chips["P"],
        "chips_relay": chips["RLD"],
        "chips_decode": chips["MD"],
        "chips_aggregated": chips["AGG"],
        "line_gbps": sum(line.gbps * line.count for line in outcome.plan.lines),
        "wan_gbps": sum(line.mean_gbps for line in outcome.lines),
        "ttft_p50_s": outcome.ttft.p50,
        "ttft_p90_s": outcome.ttft.p90,
        "ttft_p99_s": outcome.ttft.p99,
        "tpot_mean_s": outcome.tpot_s,
        "tpot_p90_s": outcome.tpot.p90 if outcome.tpot is not None else outcome.tpot_s,
        "e2e_p90_s": outcome.e2e.p90,
        "relay_token_fraction": outcome.relay_token_share,
        "solver_status": solver.status if solver else "",
        "solver_gap_fraction": (solver.gap if solver.gap > NO_GAP else 0.0) if solver else "",
    }


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """What is asked: a grid of questions, and how each is answered."""

    axes: tuple[Axis, ...]
    limits: Limits
    topology: str | None = None
    """None = what suits the sites of each question."""
    objective: str = "cost"
    bases: Mapping[tuple[Value, ...], Inputs] = field(default_factory=dict)
    """The inputs as files give them, by the values of the axes of FILES."""
    fingerprints: Mapping[tuple[Value, ...], str] = field(default_factory=dict)

    def points(self) -> list[tuple[Value, ...]]:
        """Values of all questions, in the order of the table."""
        return grid(self.axes)

    def base(self, values: Sequence[Value]) -> Inputs:
        """What the files say for one question, before its other levers are moved."""
        return self.bases[self._of_files(values)]

    def fingerprint(self, values: Sequence[Value]) -> str:
        """What a row of a table must carry to be the answer to this question as it is asked now."""
        return self.fingerprints[self._of_files(values)]

    def _of_files(self, values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(value for axis, value in zip(self.axes, values, strict=True) if axis.name in FILES)


def ask(
    load: Callable[[Mapping[str, Value]], Inputs],
    axes: Sequence[Axis],
    *,
    limits: Limits | Callable[[Inputs], Limits],
    topology: str | None = None,
    objective: str = "cost",
) -> Sweep:
    """Read the files of all questions, and refuse what cannot be meant before anything runs.

    ``load`` gives the inputs for values of the axes of FILES, ``limits`` may depend on the first of them.
    Single values that make no sense become rows.

    Raises:  InputError for files that cannot be read, an unknown objective, and axes of which no value makes sense.
    """
    Objective(objective, rate_rps=1.0 if objective == "cost" else None).check()
    own = [axis for axis in axes if axis.name in FILES]
    bases = {values: load({axis.name: value for axis, value in zip(own, values, strict=True)}) for values in grid(own)}
    first = next(iter(bases.values()))
    bounds = limits(first) if callable(limits) else limits
    bounds.check()
    named = tuple(with_known_chips(axes, first.sites))
    for axis in named:
        _check_axis(first, axis)
    varied = any(axis.name == TOPOLOGY for axis in named)
    asked = {
        "version": __version__,
        "topology": None if varied else topology,
        "objective": objective,
        "limits": to_plain(bounds),
    }
    return Sweep(
        axes=named,
        limits=bounds,
        topology=topology,
        objective=objective,
        bases=bases,
        fingerprints={values: _fingerprint({**asked, "inputs": to_plain(base)}) for values, base in bases.items()},
    )


def _fingerprint(plain: Mapping[str, object]) -> str:
    written = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:FINGERPRINT_DIGITS]


def _check_axis(inputs: Inputs, axis: Axis) -> None:
    faults = []
    for value in axis.values:
        try:
            changed(inputs, axis.name, value)
        except InputError as error:
            faults.append(error)
    if len(faults) == len(axis.values):
        raise faults[0]


def question_at(inputs: Inputs, axes: Sequence[Axis], values: Sequence[Value]) -> tuple[Inputs, str | None]:
    """The inputs with all levers of one point moved, and its topology where that varies.

    Raises:  InputError for values that make no sense.
    """
    topology: str | None = None
    for axis, value in zip(axes, values, strict=True):
        topology = str(value) if axis.name == TOPOLOGY else topology
        inputs = changed(inputs, axis.name, value)
    return inputs, topology


def answer(
    inputs: Inputs, axes: Sequence[Axis], values: tuple[Value, ...], *, topology: str, objective: str, limits: Limits
) -> Row:
    """Size one point. A question without a plan is a row too, and so is one that makes no sense or meets a fault."""
    figures: dict[str, float | str] = {"topology": topology, "currency": inputs.sites.finance.currency}
    try:
        asked, own = question_at(inputs, axes, values)
        rate = asked.workload.arrival.rate_rps
        figures |= {"topology": own or topology, "rate_rps": rate}
        outcome = size(
            problem_of(asked),
            topology=own or topology,
            objective=Objective(objective, rate_rps=rate if objective == "cost" else None),
            limits=limits,
            shapes=shapes_of(asked),
            relax=False,
        )
    except PddplanError as error:
        why = error.problems[0].what if isinstance(error, InputError) else str(error).split("\n", maxsplit=1)[0]
        return Row(values, _STATUS.get(type(error), WRONG), why, figures)
    except ImportError:  # how an interrupt surfaces while compiled modules load
        raise
    except Exception as error:  # noqa: BLE001 (one question that meets a fault must not cost the others their answers)
        return Row(values, FAULT, f"{type(error).__name__}: {error}", figures)
    return Row(values, PLAN, "", figures_of(outcome))


def run(
    asked: Sweep,
    points: Sequence[tuple[Value, ...]],
    *,
    jobs: int = -1,
    backend: str = SERIAL,
    address: str | None = None,
) -> Iterator[Row]:
    """Answer points, side by side (see ``answers`` for backends); rows come as they are ready, not in order.

    Each question is answered by itself, so that neither order nor neighbours change a row.

    Raises:  InputError for a backend that is unknown, not installed or not reached.
    """

    def named(values: tuple[Value, ...]) -> dict[str, object]:
        base = asked.base(values)
        topology = asked.topology or default_topology(base.sites)
        return {"inputs": base, "values": values, "topology": topology}

    shared = {"axes": asked.axes, "objective": asked.objective, "limits": asked.limits}
    calls = ({**shared, **named(values)} for values in points)
    for row in answers(answer, calls, count=len(points), jobs=jobs, backend=backend, address=address):
        yield Row(row.values, row.status, row.why_not, row.figures, asked.fingerprint(row.values))
