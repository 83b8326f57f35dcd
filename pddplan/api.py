"""Everything the command line can do, as functions: load a question, size it, evaluate a plan, keep and reload both.

    import pddplan
    sizing = pddplan.size("agentic-64k", rps=11.5, ttft_p99_s=14.4)
    print(sizing.outcome.bcr)
    pddplan.save_plan(sizing, "plan.json")

Heavy imports stay inside the functions, so that importing this module costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from pddplan.errors import InfeasibleError, InputError, Problem, SolverError, did_you_mean
from pddplan.questions import DEFAULT_WORKLOAD as DEFAULT_WORKLOAD
from pddplan.questions import Given as Given
from pddplan.questions import check_rate as check_rate
from pddplan.questions import default_topology as default_topology
from pddplan.questions import known_chip as known_chip
from pddplan.questions import load_inputs as load_inputs
from pddplan.questions import problem_of as problem_of
from pddplan.questions import settings_of as settings_of
from pddplan.questions import shapes_of as shapes_of
from pddplan.questions import with_link as with_link
from pddplan.questions import with_shapes as with_shapes
from pddplan.questions import without_cache as without_cache

if TYPE_CHECKING:
    from pddplan.domain.outcome import Outcome
    from pddplan.domain.plan import Plan, Shape
    from pddplan.domain.sites import Sites
    from pddplan.domain.workload import Workload
    from pddplan.evaluate.line_check import LineCheck
    from pddplan.evaluate.problem import Problem as Question
    from pddplan.optimize import Limits, Nearness, Objective
    from pddplan.performance.predict import Prediction
    from pddplan.profiles.calibrating import Calibration
    from pddplan.simulate.check import Ask
    from pddplan.simulate.result import SimulationResult
    from pddplan.sizing import Inputs, Sizing

NOTABLE_PEAK = 1.05
"""Peaks up to this multiple of the mean need no remark."""
LINE_RANGE = (1e-6, 1e9)
"""Rates [Gbit/s] and sizes of KV [bytes per token] that a line is checked for."""
COMPARISON_SHARE = 0.2
COMPARISON_S = 10.0
"""Of the time limit this share is kept for plans to compare with, but no more than these seconds."""
COMPARISON_NODES = 40
"""Cells looked at for such a plan: it need not be proven the best one."""
LEAST_COMPARISON_S = 0.1
OUT_OF_TIME = "the time limit was used up: not everything was compared"
INTERRUPTED = "interrupted: this is the best plan found until then"


class Asked(Given, total=False):
    """What ``size`` may be given: parts of the question, and limits (see ``optimize.Limits``)."""

    redundant_instances: int | None
    max_utilization: float | None
    max_line_utilization: float | None
    max_chips: int | None
    survive_line_loss: bool | None
    time_limit_s: float | None


def size(
    workload: str | Path | Workload | Inputs = DEFAULT_WORKLOAD,
    sites: str | Path | Sites | None = None,
    *,
    topology: str | None = None,
    objective: str | None = None,
    budget_per_month: float | None = None,
    inventory: bool = False,
    chips: Sequence[str] | None = None,
    limits: Limits | None = None,
    keep: Plan | None = None,
    within: float | None = None,
    compare: bool = True,
    **given: Unpack[Asked],
) -> Sizing:
    """Find the best plan for a workload, and what it must be compared with.

    ``objective`` is ``cost`` (serve the whole rate for least money: the best BCR at that rate; the default), ``bcr``
    (choose the rate too, up to the workload's) or ``rps`` (most goodput within budget and inventory; the default
    when a budget or ``inventory`` is given). Among plans that cost at most ``within`` more (a share), the one with
    fewest changes to the plan ``keep`` is taken, or without it the one with fewest kinds of chips. ``given`` may hold
    the keys of ``Asked``; its limits override ``limits``.

    Raises:  InputError, InfeasibleError with relaxations, SolverError.
    """
    kind = objective or ("rps" if budget_per_month is not None or inventory else "cost")
    rps = given.get("rps")
    if kind == "rps" and rps is not None:
        raise InputError(
            Problem(
                what="--rps fixes the rate, so there is no most goodput to look for",
                fix="leave --rps away, or use --objective cost",
            )
        )
    own = Asked.__annotations__.keys() - Given.__annotations__.keys()
    clock = _Clock()
    with clock("load"):
        question = {name: value for name, value in given.items() if name not in own}
        inputs = load_inputs(workload, sites, **question)  # type: ignore[arg-type]
    with clock("import solver"):
        from pddplan.optimize import Limits, Nearness, Objective
        from pddplan.optimize.changes import WITHIN
    goal = Objective(
        kind=kind,
        rate_rps=inputs.workload.arrival.rate_rps if kind == "cost" or rps is not None else None,
        budget_per_month=budget_per_month,
    )
    said: dict[str, Any] = {name: given[name] for name in own if given.get(name) is not None}  # type: ignore[literal-required]
    if chips:
        said["allowed_chips"] = tuple(known_chip(inputs.sites, chip) for chip in chips)
    bounds = replace(limits or Limits(), **said)
    near = None if keep is None and within is None else Nearness(keep, WITHIN if within is None else within)
    return size_inputs(
        inputs, topology=topology, objective=goal, limits=bounds, nearness=near, compare=compare, clock=clock
    )


def size_inputs(
    inputs: Inputs,
    *,
    topology: str | None = None,
    objective: Objective | None = None,
    limits: Limits | None = None,
    nearness: Nearness | None = None,
    compare: bool = True,
    clock: _Clock | None = None,
) -> Sizing:
    """Same as ``size`` for records already loaded."""
    from pddplan import optimize
    from pddplan.sizing import Sizing

    clock = clock or _Clock()
    topology = default_topology(inputs.sites) if topology is None else topology
    goal = objective or optimize.Objective(kind="cost", rate_rps=inputs.workload.arrival.rate_rps)
    bounds = limits or optimize.Limits()
    problem, shapes = problem_of(inputs), shapes_of(inputs)
    reserved_s = min(COMPARISON_SHARE * bounds.time_limit_s, COMPARISON_S) if compare else 0.0
    own = replace(bounds, time_limit_s=bounds.time_limit_s - reserved_s)
    with clock("optimise"):
        # one question: Ctrl-C is a wish to see its best plan so far
        outcome = optimize.find(
            problem, topology=topology, objective=goal, limits=own, shapes=shapes, nearness=nearness
        ).outcome
    if compare:
        sizing = compared(
            inputs, outcome, topology=topology, objective=goal, limits=bounds, clock=clock, problem=problem
        )
        if _is_beaten(sizing):  # by a plan that this topology allows too: the search goes on from there
            assert sizing.baseline is not None
            with clock("optimise"):
                outcome = optimize.find(
                    problem,
                    topology=topology,
                    objective=goal,
                    limits=own,
                    shapes=shapes,
                    nearness=nearness,
                    known=sizing.baseline.plan,
                ).outcome
            sizing = replace(sizing, outcome=outcome)
    else:
        sizing = Sizing(
            inputs=inputs, topology=topology, outcome=outcome, objective=goal, limits=bounds, timings_s=clock.spent_s
        )
    sizing = with_line_losses(sizing, problem)
    if nearness is None or nearness.plan is None:
        return sizing
    return replace(sizing, moves=optimize.moves(nearness.plan, outcome.plan))


def with_line_losses(sizing: Sizing, question: Question | None = None) -> Sizing:
    """The same answer with what it says of lost lines; ``question`` is that of its inputs where it is at hand."""
    from pddplan.evaluate.line_loss import line_losses

    return replace(sizing, line_losses=line_losses(question or problem_of(sizing.inputs), sizing.outcome))


def _is_beaten(sizing: Sizing) -> bool:
    """Whether the aggregated baseline is cheaper than a plan of a topology that allows it as well."""
    from pddplan.domain.plan import Role
    from pddplan.optimize.topologies import find_topology

    base, plan = sizing.baseline, sizing.outcome
    return (
        base is not None
        and Role.AGGREGATED in find_topology(sizing.topology).roles
        and base.cost.monthly_total < plan.cost.monthly_total
        and base.goodput_rps >= plan.goodput_rps
    )


def _peak_remark(workload: Workload, rate_rps: float) -> list[str]:
    """That a plan is sized for a mean rate, where the traffic is known to peak above it."""
    peak_rps = workload.arrival.rate_rps * workload.arrival.peak_to_mean
    if peak_rps <= NOTABLE_PEAK * rate_rps:
        return []
    return [
        f"sized for {rate_rps:.3g} req/s; the busiest minutes of this traffic bring {peak_rps:.3g} req/s: "
        f"--rps {peak_rps:.3g} plans for them"
    ]


def compared(
    inputs: Inputs,
    outcome: Outcome,
    *,
    topology: str | None = None,
    objective: Objective | None = None,
    limits: Limits | None = None,
    clock: _Clock | None = None,
    problem: Question | None = None,
) -> Sizing:
    """A plan beside what it must be compared with: the aggregated baseline, and the plan without any cache.

    ``problem`` is that of the inputs where it is at hand, with what it remembers.
    """
    from pddplan import optimize
    from pddplan.sizing import Sizing

    clock, bounds = clock or _Clock(), limits or optimize.Limits()
    topology = topology or outcome.plan.topology
    goal = objective or optimize.Objective(kind="cost")
    sizing = Sizing(
        inputs=inputs,
        topology=topology,
        outcome=outcome,
        objective=objective,
        limits=limits,
        remarks=tuple(_peak_remark(inputs.workload, outcome.plan.rate_rps)),
        timings_s=clock.spent_s,
    )
    if optimize.interrupted(outcome):
        return replace(sizing, remarks=(*sizing.remarks, INTERRUPTED))
    same_rate = replace(goal, kind="cost", rate_rps=outcome.plan.rate_rps, budget_per_month=None)
    question = problem or problem_of(inputs)
    try:
        for part in (_with_baseline, _with_one_site, _without_any_cache):
            left_s = bounds.time_limit_s - sum(clock.spent_s.values())
            if left_s < LEAST_COMPARISON_S:
                return replace(sizing, remarks=(*sizing.remarks, OUT_OF_TIME))
            # what is done is bounded by nodes, so that slow machines compare with the same plans
            limited = replace(bounds, time_limit_s=left_s)
            try:
                sizing = part(sizing, question, objective=same_rate, limits=limited, clock=clock)
            except InputError as error:  # what rivals alone need to know does not take the plan away
                remark = f"a comparison is missing: {error.problems[0].what}; {error.problems[0].fix}"
                sizing = replace(sizing, remarks=(*sizing.remarks, remark))
    except KeyboardInterrupt:
        return replace(sizing, remarks=(*sizing.remarks, INTERRUPTED))
    return sizing


def _with_baseline(
    sizing: Sizing, question: Question, *, objective: Objective, limits: Limits, clock: _Clock
) -> Sizing:
    from pddplan import optimize

    if sizing.topology == "colocated":
        return replace(sizing, baseline=sizing.outcome)
    with clock("baseline"):
        found = optimize.baseline(
            question, sizing.outcome, objective=objective, limits=limits, shapes=shapes_of(sizing.inputs)
        )
    if found is None:
        nothing = "no aggregated plan keeps these promises at this rate, so there is nothing to compare with"
        return replace(sizing, remarks=(*sizing.remarks, nothing))
    return replace(sizing, baseline=found)


def _with_one_site(
    sizing: Sizing, question: Question, *, objective: Objective, limits: Limits, clock: _Clock
) -> Sizing:
    from pddplan import optimize

    if not any(line.count > 0 for line in sizing.outcome.plan.lines):
        return sizing
    with clock("one site"):
        alone = optimize.one_site(question, sizing.outcome, limits=limits, shapes=shapes_of(sizing.inputs))
    return replace(sizing, one_site=alone)


def _without_any_cache(
    sizing: Sizing, question: Question, *, objective: Objective, limits: Limits, clock: _Clock
) -> Sizing:
    from pddplan import optimize

    # plans made by hand may name their own topology
    allowed = sizing.topology if sizing.topology in optimize.TOPOLOGIES else "any"
    with clock("no cache"):
        try:
            cold = optimize.size(
                question.under(without_cache(question.workload)),
                topology=allowed,
                objective=objective,
                limits=replace(limits, max_nodes=COMPARISON_NODES, prove_shapes=False),
                shapes=shapes_of(sizing.inputs),
                relax=False,
            )
        except SolverError:
            remark = "at 0 % hit rate no plan was found in time"
            return replace(sizing, remarks=(*sizing.remarks, remark))
        except InfeasibleError as error:
            return replace(sizing, remarks=(*sizing.remarks, f"at 0 % hit rate {error.what}"))
    return replace(sizing, cold=cold)


def evaluate_plan(inputs: Inputs, plan: Plan) -> Outcome:
    """What a plan does with the traffic, what it costs, which promises it keeps."""
    from pddplan.evaluate.evaluate import evaluate

    return evaluate(problem_of(inputs), plan)


def simulate_plan(
    problem: Question, plan: Plan, ask: Ask | None = None, *, progress: Callable[[float], None] | None = None
) -> tuple[Outcome, SimulationResult]:
    """Evaluate a plan and replay requests through it, drawn or from a trace.

        problem, plan = pddplan.load_plan("plan.json")
        outcome, simulated = pddplan.simulate_plan(problem, plan, Ask(requests=200_000, seeds=4))

    Raises:  InputError for what cannot be simulated.
    """
    from pddplan.simulate.check import Ask, check_plan

    return check_plan(problem, plan, ask or Ask(), progress=progress)


def load_plan(path: str | Path) -> tuple[Question, Plan]:
    """Read a plan file back, ready for ``evaluate``, ``simulate`` and ``explain``.

    Raises:  InputError if it is no plan file, or a damaged one.
    """
    inputs, plan = load_plan_inputs(path)
    return problem_of(inputs), plan


def load_plan_inputs(path: str | Path) -> tuple[Inputs, Plan]:
    """Read a plan file back as records."""
    from pddplan.plan_file import read_plan_file

    return read_plan_file(path)


def check_line(
    workload: str | Path | Workload = DEFAULT_WORKLOAD,
    sites: str | Path | Sites | None = None,
    *,
    line: str | None = None,
    gbps: float | None = None,
    count: int = 1,
    drc: bool = True,
    ceiling: float | None = None,
    rps: float | None = None,
    llm: str | None = None,
    kv_dtype: str | None = None,
    kv_bytes_per_token: float | None = None,
) -> LineCheck:
    """KV traffic of a workload against a leased line: bytes, rates, headroom, transfer times per tier.

    ``kv_bytes_per_token`` replaces the model's own KV size.

    Raises:  InputError for anything missing or malformed, or for a line that the sites do not have.
    """
    from pddplan.domain import workload as traffic
    from pddplan.evaluate.line_check import CEILING, UniformKv, check_line
    from pddplan.performance.kv import kv_size
    from pddplan.profiles.llm_profile import load_llm
    from pddplan.profiles.sites_profile import load_sites
    from pddplan.profiles.workload_profile import load_workload

    asked = workload if isinstance(workload, traffic.Workload) else load_workload(workload)
    asked = asked if llm is None else replace(asked, llm=llm)
    asked = asked if rps is None else asked.at_rate(rps)
    check_rate(asked.arrival.rate_rps, where="--rps" if rps is not None else f"{asked.name}: arrival.rate_rps")
    for value, option, unit in ((gbps, "--link", "Gbit/s"), (kv_bytes_per_token, "--kv-bytes-per-token", "bytes")):
        if value is not None and not LINE_RANGE[0] <= value <= LINE_RANGE[1]:
            what = f"must lie between {LINE_RANGE[0]:g} and {LINE_RANGE[1]:g} {unit}, got {value:g}"
            raise InputError(Problem(what=what, fix="correct it", where=option))
    places = sites if sites is not None and not isinstance(sites, (str, Path)) else load_sites(sites)
    if line is None and len(places.lines) == 1:
        line = next(iter(places.lines))
    if line is None or line not in places.lines:
        known = ", ".join(places.lines) or "none"
        first = next(iter(places.lines), None)
        fix = f"name one of them: --line {first}" if first else "add a line to the sites file"
        said = "no line is named" if line is None else f"there is no line {line!r}{did_you_mean(line, places.lines)}"
        raise InputError(Problem(what=f"{said}; lines of the sites file: {known}", fix=fix, where="--line"))
    kv = kv_size(load_llm(asked.llm), kv_dtype) if kv_bytes_per_token is None else UniformKv(kv_bytes_per_token)
    limit = CEILING if ceiling is None else ceiling
    return check_line(asked, kv, places.lines[line], gbps=gbps, count=count, drc=drc, ceiling=limit)


class _Clock:
    """Seconds spent per named stage."""

    def __init__(self) -> None:
        self.spent_s: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.spent_s[stage] = self.spent_s.get(stage, 0.0) + time.perf_counter() - start


def check_file(path: str | Path) -> str:
    """Check a YAML or plan file as far as that goes without running anything; returns what it is.

    Raises:  InputError with every fault of the file.
    """
    if str(path).lower().endswith(".json"):
        from pddplan.plan_file import SCHEMA, read_plan_file

        read_plan_file(path)
        return SCHEMA
    from pddplan.profiles.kinds import check_document
    from pddplan.profiles.yaml_source import load

    return check_document(load(path))


def predict_table(
    path: str | Path, *, profiles: Sequence[str | Path] = (), stack: str | None = None
) -> list[Prediction]:
    """Predict every row of a measurement table; a row that cannot be predicted says why.

    ``profiles``: folders with YAML profiles, Hugging Face configs, or ``chips.csv`` and ``models.csv`` tables.

    Raises:  InputError when the table cannot be read.
    """
    from pddplan.performance.measurement import read_measurements
    from pddplan.performance.predict import predict_rows
    from pddplan.profiles.catalog import ProfileCatalog

    catalog = ProfileCatalog(dirs=tuple(Path(d) for d in profiles), stack=stack)
    return predict_rows(read_measurements(Path(path)), catalog)


def calibrate(
    files: Sequence[str | Path],
    *,
    chip: str,
    llm: str,
    stack: str = "",
    shape: Shape | None = None,
    weights_dtype: str | None = None,
    kv_dtype: str | None = None,
    profiles: Sequence[str | Path] = (),
) -> Calibration:
    """Fit the efficiencies of a chip under a stack to benchmark results; the result holds an overlay profile.

    Raises:  InputError for unreadable files, unknown names, and files without usable runs.
    """
    from pddplan.profiles import calibrating

    return calibrating.calibrate(
        [Path(f) for f in files],
        chip=chip,
        llm=llm,
        stack=stack,
        shape=shape,
        weights_dtype=weights_dtype,
        kv_dtype=kv_dtype,
        profiles=[Path(d) for d in profiles],
    )


def ttft_curve(inputs: Inputs, plan: Plan, *, longest_s: float, points: int = 120) -> list[tuple[float, float]]:
    """Share of requests whose first token has left by a time: pairs of (seconds, share) up to ``longest_s``."""
    import numpy as np

    from pddplan.evaluate.flows import system

    solved = system(problem_of(inputs), plan)
    total = float(solved.flow_rps.sum())
    pairs = []
    for time_s in np.linspace(0.0, longest_s, points):
        covered = sum(
            float(np.dot(flow, result.ttft.cdf(float(time_s))))
            for flow, result in zip(solved.flow_rps, solved.results, strict=True)
        )
        pairs.append((float(time_s), covered / total if total > 0 else 0.0))
    return pairs
