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
from typing import TYPE_CHECKING

from pddplan.errors import InfeasibleError, InputError, Problem, ProblemList, did_you_mean

if TYPE_CHECKING:
    from pddplan.performance.predict import Prediction
    from pddplan.domain.chip import Chip
    from pddplan.domain.outcome import Outcome
    from pddplan.domain.plan import Plan, Pool, Role, Shape
    from pddplan.domain.sites import Sites
    from pddplan.domain.workload import Workload
    from pddplan.evaluate.line_check import LineCheck
    from pddplan.evaluate.problem import Instance
    from pddplan.evaluate.problem import Problem as Question
    from pddplan.evaluate.settings import Settings
    from pddplan.optimize import Limits, Objective
    from pddplan.performance.efficiency import Efficiency
    from pddplan.profiles.latency_table import LatencyTable
    from pddplan.simulate.check import Ask
    from pddplan.simulate.result import SimulationResult
    from pddplan.sizing import Inputs, Sizing

DEFAULT_WORKLOAD = "agentic-64k"
DEFAULT_TOPOLOGY = "pdd"


def load_inputs(
    workload: str | Path | Workload = DEFAULT_WORKLOAD,
    sites: str | Path | Sites | None = None,
    *,
    rps: float | None = None,
    ttft_p50_s: float | None = None,
    ttft_p90_s: float | None = None,
    ttft_p99_s: float | None = None,
    tpot_s: float | None = None,
    link_gbps: float | None = None,
    llm: str | None = None,
    stack: str | None = None,
    weights_dtype: str | None = None,
    kv_dtype: str | None = None,
    speculation_depth: int = 0,
    tables: bool = True,
    settings: Settings | None = None,
) -> Inputs:
    """Read the files of a question; numbers given here override those in the files.

    Raises:  InputError for anything missing or malformed in any of the files.
    """
    from pddplan.domain import workload as traffic
    from pddplan.evaluate.settings import Settings
    from pddplan.profiles.chip_profile import load_chips
    from pddplan.profiles.latency_table import load_tables
    from pddplan.profiles.llm_profile import load_llm
    from pddplan.profiles.sites_profile import load_sites
    from pddplan.profiles.workload_profile import load_workload
    from pddplan.sizing import Inputs

    asked = workload if isinstance(workload, traffic.Workload) else load_workload(workload)
    if llm is not None:
        asked = replace(asked, llm=llm)
    promised = {"ttft_p50_s": ttft_p50_s, "ttft_p90_s": ttft_p90_s, "ttft_p99_s": ttft_p99_s, "tpot_s": tpot_s}
    promises = replace(asked.promises, **{name: value for name, value in promised.items() if value is not None})
    asked = replace(asked, promises=promises)
    if rps is not None:
        asked = asked.at_rate(rps)
    places = sites if sites is not None and not isinstance(sites, (str, Path)) else load_sites(sites)
    if link_gbps is not None:
        places = with_link(places, link_gbps)
    chips = load_chips(sorted({chip for site in places.sites.values() for chip in site.chips}))
    model = load_llm(asked.llm)
    return Inputs(
        workload=asked,
        sites=places,
        chips=chips,
        llm=model,
        tables=tuple(table for chip in chips.values() for table in load_tables(chip, model)) if tables else (),
        efficiencies={chip_id: _efficiency(chip, stack) for chip_id, chip in chips.items()},
        settings=settings or Settings(),
        weights_dtype=weights_dtype,
        kv_dtype=kv_dtype,
        speculation_depth=speculation_depth,
    )


def problem_of(inputs: Inputs) -> Question:
    """What the evaluator, the optimiser and the simulator work on."""
    from pddplan.evaluate.problem import Problem as Question
    from pddplan.performance.instance import instance_performance

    def instance(pool: Pool) -> Instance:
        chip, efficiency = inputs.chips[pool.chip], inputs.efficiencies[pool.chip]
        weights, kv = pool.weights_dtype or inputs.weights_dtype, pool.kv_dtype or inputs.kv_dtype
        for table in inputs.tables:
            if _is_of(table, chip) and table.shape == pool.shape and table.suits(weights_dtype=weights, kv_dtype=kv):
                return table.instance(
                    chip=chip, llm=inputs.llm, efficiency=efficiency, weights_dtype=weights, kv_dtype=kv
                )
        return instance_performance(
            chip=chip,
            llm=inputs.llm,
            shape=pool.shape,
            efficiency=efficiency,
            weights_dtype=weights,
            kv_dtype=kv,
            speculation_depth=inputs.speculation_depth,
        )

    return Question(
        workload=inputs.workload,
        sites=inputs.sites,
        chips=inputs.chips,
        llm=inputs.llm,
        instance=instance,
        settings=inputs.settings,
    )


def shapes_of(inputs: Inputs) -> Callable[[str, Role], Sequence[Shape]]:
    """Parallel layouts that the model fits into, per chip and role; best first."""
    from pddplan.performance.shape import candidate_shapes

    classes = inputs.workload.classes
    context = float((classes.input_tokens + classes.output_tokens).max())
    memo: dict[tuple[str, str], Sequence[Shape]] = {}

    def shapes(chip_id: str, role: Role) -> Sequence[Shape]:
        key = (chip_id, str(role))
        if key not in memo:
            chip = inputs.chips[chip_id]
            found = candidate_shapes(
                chip,
                inputs.llm,
                efficiency=inputs.efficiencies[chip_id],
                weights_dtype=inputs.weights_dtype,
                kv_dtype=inputs.kv_dtype,
                context_tokens=context,
            )
            timed = [table.shape for table in inputs.tables if _is_of(table, chip)]
            memo[key] = list(dict.fromkeys([*timed, *found]))
        return memo[key]

    return shapes


def size(
    workload: str | Path | Workload = DEFAULT_WORKLOAD,
    sites: str | Path | Sites | None = None,
    *,
    topology: str = DEFAULT_TOPOLOGY,
    objective: str | None = None,
    budget_per_month: float | None = None,
    inventory: bool = False,
    chips: Sequence[str] | None = None,
    redundant_instances: int = 0,
    max_utilization: float = 0.95,
    time_limit_s: float = 30.0,
    compare: bool = True,
    rps: float | None = None,
    ttft_p50_s: float | None = None,
    ttft_p90_s: float | None = None,
    ttft_p99_s: float | None = None,
    tpot_s: float | None = None,
    link_gbps: float | None = None,
    llm: str | None = None,
    stack: str | None = None,
    weights_dtype: str | None = None,
    kv_dtype: str | None = None,
    speculation_depth: int = 0,
    tables: bool = True,
    settings: Settings | None = None,
) -> Sizing:
    """Find the best plan for a workload, and what it must be compared with.

    ``objective`` is ``cost`` (serve the whole rate for least money: the best BCR at that rate; the default), ``bcr``
    (choose the rate too, up to the workload's) or ``rps`` (most goodput within budget and inventory; the default
    when a budget or ``inventory`` is given).

    Raises:  InputError, InfeasibleError with relaxations, SolverError.
    """
    kind = objective or ("rps" if budget_per_month is not None or inventory else "cost")
    if kind == "rps" and rps is not None:
        raise InputError(
            Problem(
                what="--rps fixes the rate, so there is no most goodput to look for",
                fix="leave --rps away, or use --objective cost",
            )
        )
    clock = _Clock()
    with clock("load"):
        inputs = load_inputs(
            workload,
            sites,
            rps=rps,
            ttft_p50_s=ttft_p50_s,
            ttft_p90_s=ttft_p90_s,
            ttft_p99_s=ttft_p99_s,
            tpot_s=tpot_s,
            link_gbps=link_gbps,
            llm=llm,
            stack=stack,
            weights_dtype=weights_dtype,
            kv_dtype=kv_dtype,
            speculation_depth=speculation_depth,
            tables=tables,
            settings=settings,
        )
    with clock("import solver"):
        from pddplan.optimize import Limits, Objective
    goal = Objective(
        kind=kind,
        rate_rps=inputs.workload.arrival.rate_rps if kind == "cost" or rps is not None else None,
        budget_per_month=budget_per_month,
    )
    limits = Limits(
        max_utilization=max_utilization,
        redundant_instances=redundant_instances,
        allowed_chips=tuple(known_chip(inputs.sites, chip) for chip in chips) if chips else None,
        time_limit_s=time_limit_s,
    )
    return size_inputs(inputs, topology=topology, objective=goal, limits=limits, compare=compare, clock=clock)


def size_inputs(
    inputs: Inputs,
    *,
    topology: str = DEFAULT_TOPOLOGY,
    objective: Objective | None = None,
    limits: Limits | None = None,
    compare: bool = True,
    clock: _Clock | None = None,
) -> Sizing:
    """Same as ``size`` for records already loaded."""
    from pddplan import optimize
    from pddplan.sizing import Sizing

    clock = clock or _Clock()
    goal = objective or optimize.Objective(kind="cost", rate_rps=inputs.workload.arrival.rate_rps)
    bounds = limits or optimize.Limits()
    problem, shapes = problem_of(inputs), shapes_of(inputs)
    with clock("optimise"):
        outcome = optimize.size(problem, topology=topology, objective=goal, limits=bounds, shapes=shapes)
    baseline = cold = None
    remarks: list[str] = []
    if compare:
        same_rate = replace(goal, kind="cost", rate_rps=outcome.plan.rate_rps, budget_per_month=None)
        with clock("baseline"):
            if topology == "colocated":
                baseline = outcome
            else:
                baseline = optimize.baseline(problem, outcome, objective=same_rate, limits=bounds, shapes=shapes)
            if baseline is None:
                remarks.append(
                    "no aggregated plan keeps these promises at this rate, so there is nothing to compare with"
                )
        with clock("no cache"):
            uncached = replace(inputs, workload=without_cache(inputs.workload))
            try:
                cold = optimize.size(
                    problem_of(uncached), topology=topology, objective=same_rate, limits=bounds, shapes=shapes
                )
            except InfeasibleError as error:
                remarks.append(f"at 0 % hit rate no plan keeps the promises: {error.what}")
    return Sizing(
        inputs=inputs,
        topology=topology,
        outcome=outcome,
        baseline=baseline,
        cold=cold,
        remarks=tuple(remarks),
        timings_s=clock.spent_s,
    )


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
    places = sites if sites is not None and not isinstance(sites, (str, Path)) else load_sites(sites)
    if line is None and len(places.lines) == 1:
        line = next(iter(places.lines))
    if line not in places.lines:
        known = ", ".join(places.lines) or "none"
        said = "no line is named" if line is None else f"there is no line {line!r}{did_you_mean(line, places.lines)}"
        raise InputError(
            Problem(what=f"{said}; lines of the sites file: {known}", fix="name one of them", where="--line")
        )
    kv = kv_size(load_llm(asked.llm), kv_dtype) if kv_bytes_per_token is None else UniformKv(kv_bytes_per_token)
    limit = CEILING if ceiling is None else ceiling
    return check_line(asked, kv, places.lines[line], gbps=gbps, count=count, drc=drc, ceiling=limit)


def known_chip(sites: Sites, chip: str) -> str:
    """Id of a chip that some site offers.

    Raises:  InputError naming the chips on offer.
    """
    offered = sorted({chip_id for site in sites.sites.values() for chip_id in site.chips})
    wanted = chip.strip().lower().replace("_", "-").replace(" ", "-")
    if wanted in offered:
        return wanted
    raise InputError(
        Problem(
            what=f"no site offers the chip {chip!r}{did_you_mean(wanted, offered)}",
            fix=f"use one of: {', '.join(offered)}; or add it to the sites file",
            where="--chip",
        )
    )


def without_cache(workload: Workload) -> Workload:
    """The same traffic if no token were ever found in a cache, at either side."""
    classes = workload.classes
    cold = replace(classes, miss_prefill_tokens=classes.input_tokens, miss_decode_tokens=classes.input_tokens)
    return replace(workload, classes=cold)


def with_link(sites: Sites, gbps: float) -> Sites:
    """The same sites with only one tier left on every line.

    Raises:  InputError for lines that do not offer this tier.
    """
    faults = ProblemList()
    lines = {}
    for line_id, line in sites.lines.items():
        tiers = tuple(tier for tier in line.tiers if tier.gbps == gbps)
        if not tiers:
            offered = ", ".join(f"{tier.gbps:g}" for tier in line.tiers)
            faults.add(
                f"line {line_id!r} has no tier of {gbps:g} Gbit/s",
                fix=f"use one of: {offered}; or add the tier to the sites file",
                where="--link",
            )
        lines[line_id] = replace(line, tiers=tiers)
    if not lines:
        faults.add("the sites file has no lines", fix="leave --link away, or add a line", where="--link")
    faults.raise_if_any()
    return replace(sites, lines=lines)


def _is_of(table: LatencyTable, chip: Chip) -> bool:
    from pddplan.profiles.lookup import canonical

    return canonical(table.chip) in {canonical(name) for name in (chip.id, *chip.aliases)}


def _efficiency(chip: Chip, stack: str | None) -> Efficiency:
    from pddplan.profiles.efficiency_profile import load_efficiency

    return load_efficiency(stack, chip)


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


def predict_table(path: str | Path, *, profiles: Sequence[str | Path] = (), stack: str | None = None) -> list[Prediction]:
    """Predict every row of a measurement table; a row that cannot be predicted says why.

    ``profiles``: folders with YAML profiles, Hugging Face configs, or ``chips.csv`` and ``models.csv`` tables.

    Raises:  InputError when the table cannot be read.
    """
    from pddplan.performance.measurement import read_measurements
    from pddplan.performance.predict import predict_rows
    from pddplan.profiles.catalog import ProfileCatalog

    catalog = ProfileCatalog(dirs=tuple(Path(d) for d in profiles), stack=stack)
    return predict_rows(read_measurements(Path(path)), catalog)
