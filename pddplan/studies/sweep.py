"""Size again and again while inputs vary: a grid of questions, run side by side, one tidy row per question."""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pddplan.domain.outcome import Outcome
from pddplan.errors import InfeasibleError, InputError, PddplanError, Problem, SolverError, did_you_mean
from pddplan.optimize import TOPOLOGIES, Limits, Objective, size
from pddplan.questions import known_chip, problem_of, settings_of, shapes_of, with_link
from pddplan.sizing import Inputs
from pddplan.studies.perturb import scale_outputs, with_hit_rate
from pddplan.units import MS_PER_S

MOST_POINTS = 100_000
BACKENDS = ("loky", "threading", "dask", "ray", "serial")

Value = float | str


@dataclass(frozen=True, slots=True)
class Axis:
    """One input and the values it takes."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One question of a sweep and its answer; ``figures`` has the columns of ``FIGURES``."""

    values: tuple[Value, ...]
    status: str
    why_not: str
    figures: Mapping[str, float | str]


FIGURES: tuple[str, ...] = (
    "topology",
    "rate_rps",
    "goodput_rps",
    "bcr",
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
    "tpot_s",
    "relay_token_share",
    "solver_gap",
    "solver_seconds",
)
"""Columns of a row beside the inputs that vary."""


def _hit_rate(inputs: Inputs, value: Value) -> Inputs:
    return replace(inputs, workload=with_hit_rate(inputs.workload, _fraction(value, "hit_rate")))


def _link(inputs: Inputs, value: Value) -> Inputs:
    return replace(inputs, sites=with_link(inputs.sites, _positive(value, "link")))


def _rps(inputs: Inputs, value: Value) -> Inputs:
    return replace(inputs, workload=inputs.workload.at_rate(_positive(value, "rps")))


def _scv(inputs: Inputs, value: Value) -> Inputs:
    arrival = replace(inputs.workload.arrival, scv=_positive(value, "scv"), dispersion={})
    return replace(inputs, workload=replace(inputs.workload, arrival=arrival))


def _output_factor(inputs: Inputs, value: Value) -> Inputs:
    return replace(inputs, workload=scale_outputs(inputs.workload, _positive(value, "output_factor")))


def _promise(field: str, *, scale: float = 1.0) -> Callable[[Inputs, Value], Inputs]:
    def change(inputs: Inputs, value: Value) -> Inputs:
        made: dict[str, Any] = {field: _positive(value, field) / scale}
        promises = replace(inputs.workload.promises, **made)
        return replace(inputs, workload=replace(inputs.workload, promises=promises))

    return change


def _rtt(inputs: Inputs, value: Value) -> Inputs:
    rtt_s = _positive(value, "rtt") / MS_PER_S
    lines = {name: replace(line, rtt_s=rtt_s) for name, line in inputs.sites.lines.items()}
    return replace(inputs, sites=replace(inputs.sites, lines=lines))


def _price(inputs: Inputs, chip: str, value: Value) -> Inputs:
    """The same rent for a chip at every site that offers it."""
    chip_id, price = known_chip(inputs.sites, chip), _positive(value, f"price.{chip}")
    sites = {
        site.id: replace(
            site,
            chips={
                name: replace(own, price_per_chip_hour=price) if name == chip_id else own
                for name, own in site.chips.items()
            },
        )
        for site in inputs.sites.sites.values()
    }
    return replace(inputs, sites=replace(inputs.sites, sites=sites))


def _setting(inputs: Inputs, name: str, value: Value) -> Inputs:
    changed = getattr(settings_of([f"{name}={value}"]), name)
    return replace(inputs, settings=replace(inputs.settings, **{name: changed}))


LEVERS: Mapping[str, Callable[[Inputs, Value], Inputs]] = {
    "hit_rate": _hit_rate,
    "link": _link,
    "rps": _rps,
    "scv": _scv,
    "rtt": _rtt,
    "output_factor": _output_factor,
    "ttft_p50": _promise("ttft_p50_s"),
    "ttft_p90": _promise("ttft_p90_s"),
    "ttft_p99": _promise("ttft_p99_s"),
    "tpot": _promise("tpot_s", scale=MS_PER_S),
}
"""What may vary, beside ``topology``, ``price.<chip>`` and ``settings.<name>``.

TPOT and RTT in ms, link in Gbit/s, others in base units."""


PRICE, SETTING = "price.", "settings."
_FAMILIES = {PRICE: "price.<chip>", SETTING: "settings.<name>"}


def _family(name: str) -> str | None:
    """Which family of names a name is of, if any."""
    return next((stem for stem in _FAMILIES if name.startswith(stem) and len(name) > len(stem)), None)


def parse_axis(text: str) -> Axis:
    """Read ``name=low:high:points`` (evenly spaced) or ``name=value,value,...``.

    Raises:  InputError naming what is wrong and an example that works.
    """
    name, equals, given = text.partition("=")
    name = name.strip() if name.strip().startswith(tuple(_FAMILIES)) else name.strip().replace("-", "_")
    known = (*LEVERS, "topology", *_FAMILIES.values())
    if not equals or not given.strip() or (name not in LEVERS and name != "topology" and _family(name) is None):
        what = f"{text!r} varies nothing known" if equals else f"{text!r} has no '='"
        raise InputError(
            Problem(
                what=what + did_you_mean(name, known),
                fix=f"write NAME=LOW:HIGH:POINTS or NAME=V1,V2; NAME is one of {', '.join(known)}",
                where="--vary",
            )
        )
    if name == "topology":
        values: tuple[Value, ...] = tuple(part.strip() for part in given.split(","))
        for value in values:
            if value not in TOPOLOGIES:
                raise _bad(text, f"topology {value!r} is unknown{did_you_mean(str(value), TOPOLOGIES)}")
        return Axis(name, values)
    if name.startswith(SETTING):
        setting = name.removeprefix(SETTING)
        texts = [part.strip() for part in given.split(",")]
        if isinstance(getattr(settings_of(()), setting, None), str) or not hasattr(settings_of(()), setting):
            settings_of([f"{setting}={texts[0]}"])  # says which settings there are
            return Axis(name, tuple(texts))
    if ":" in given:
        parts = given.split(":")
        if len(parts) != 3:
            raise _bad(text, "a range has three parts")
        low, high, points = _number(parts[0], text), _number(parts[1], text), _number(parts[2], text)
        if points != int(points) or not 1 <= points <= MOST_POINTS:
            raise _bad(text, f"the number of points must be whole, from 1 to {MOST_POINTS}")
        steps = max(int(points) - 1, 1)
        return Axis(name, tuple(low + (high - low) * i / steps for i in range(int(points))))
    return Axis(name, tuple(_number(part, text) for part in given.split(",")))


def grid(axes: Sequence[Axis]) -> list[tuple[Value, ...]]:
    """Every combination of values, the first axis slowest.

    Raises:  InputError when a name is given twice or there are too many combinations.
    """
    names = [axis.name for axis in axes]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(Problem(f"{twice} is varied twice", fix="give all its values in one --vary", where="--vary"))
    total = math.prod(len(axis.values) for axis in axes)
    if total > MOST_POINTS:
        raise InputError(
            Problem(
                f"{total:,} questions are more than {MOST_POINTS:,}", fix="vary fewer values at a time", where="--vary"
            )
        )
    return list(itertools.product(*(axis.values for axis in axes)))


def question_at(inputs: Inputs, axes: Sequence[Axis], values: Sequence[Value]) -> tuple[Inputs, str | None]:
    """The inputs with all values of one point, and its topology where that varies."""
    topology: str | None = None
    for axis, value in zip(axes, values, strict=True):
        if axis.name == "topology":
            topology = str(value)
        elif axis.name.startswith(PRICE):
            inputs = _price(inputs, axis.name.removeprefix(PRICE), value)
        elif axis.name.startswith(SETTING):
            inputs = _setting(inputs, axis.name.removeprefix(SETTING), value)
        else:
            inputs = LEVERS[axis.name](inputs, value)
    return inputs, topology


def check_axes(inputs: Inputs, axes: Sequence[Axis]) -> None:
    """Refuse what cannot be meant before anything runs; single values that make no sense become rows that say so.

    Raises:  InputError when no value of an axis makes sense.
    """
    for axis in axes:
        faults = []
        for value in axis.values:
            try:
                question_at(inputs, [axis], [value])
            except PddplanError as error:
                faults.append(error)
        if len(faults) == len(axis.values):
            raise faults[0]


WRONG = "wrong question"
_STATUS = {InfeasibleError: "infeasible", SolverError: "no plan in time"}


def answer(
    inputs: Inputs, axes: Sequence[Axis], values: Sequence[Value], *, topology: str, objective: str, limits: Limits
) -> Row:
    """Size one point. A question without a plan is a row too, and so is one that makes no sense."""
    figures: dict[str, float | str] = {"topology": topology}
    try:
        changed, own = question_at(inputs, axes, values)
        rate = changed.workload.arrival.rate_rps
        figures |= {"topology": own or topology, "rate_rps": rate}
        outcome = size(
            problem_of(changed),
            topology=own or topology,
            objective=Objective(objective, rate_rps=rate if objective == "cost" else None),
            limits=limits,
            shapes=shapes_of(changed),
            relax=False,
        )
    except PddplanError as error:
        why = error.problems[0].what if isinstance(error, InputError) else str(error).split("\n", maxsplit=1)[0]
        return Row(tuple(values), _STATUS.get(type(error), WRONG), why, figures)
    return Row(tuple(values), "plan", "", figures_of(outcome))


def figures_of(outcome: Outcome) -> dict[str, float | str]:
    """The columns of FIGURES for one outcome."""
    chips = dict.fromkeys(("P", "RLD", "MD", "AGG"), 0)
    for pool in outcome.plan.pools:
        chips[pool.role.value] += pool.chips
    return {
        "topology": outcome.plan.topology,
        "rate_rps": outcome.plan.rate_rps,
        "goodput_rps": outcome.goodput_rps,
        "bcr": outcome.bcr,
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
        "tpot_s": outcome.tpot_s,
        "relay_token_share": outcome.relay_token_share,
        "solver_gap": outcome.solver.gap if outcome.solver else "",
        "solver_seconds": outcome.solver.seconds if outcome.solver else "",
    }


def run(
    inputs: Inputs,
    axes: Sequence[Axis],
    points: Sequence[tuple[Value, ...]],
    *,
    topology: str,
    objective: str = "cost",
    limits: Limits,
    jobs: int = -1,
    backend: str = "loky",
    address: str | None = None,
) -> Iterator[Row]:
    """Answer all points, side by side; rows come as they are ready, not in order.

    ``backend`` is one of BACKENDS; ``dask`` and ``ray`` use the cluster at ``address`` (a local one without).

    Raises:  InputError for a backend that is unknown or not installed.
    """
    work: dict[str, Any] = {"topology": topology, "objective": objective, "limits": limits}
    if backend not in BACKENDS:
        raise InputError(
            Problem(
                f"backend {backend!r} is unknown{did_you_mean(backend, BACKENDS)}",
                fix=f"use one of {', '.join(BACKENDS)}",
                where="--backend",
            )
        )
    if backend == "serial" or len(points) < 2:
        for values in points:
            yield answer(inputs, axes, values, **work)
        return
    import joblib

    close = _register(backend, address)
    try:
        # a generator needs shared memory or loky; the others hand their rows back in batches
        with joblib.parallel_config(backend=backend, n_jobs=jobs):
            if backend in ("loky", "threading"):
                parallel = joblib.Parallel(return_as="generator_unordered")
                yield from parallel(joblib.delayed(answer)(inputs, axes, values, **work) for values in points)
            else:
                for batch in _batches(points):
                    yield from joblib.Parallel()(
                        joblib.delayed(answer)(inputs, axes, values, **work) for values in batch
                    )
    finally:
        close()


LOCAL_DASK = {"processes": False, "dashboard_address": None}
BATCH = 64
"""Questions sent to a cluster at a time; after each batch the rows are on disk."""


def _batches(points: Sequence[tuple[Value, ...]]) -> Iterator[Sequence[tuple[Value, ...]]]:
    for start in range(0, len(points), BATCH):
        yield points[start : start + BATCH]


def _register(backend: str, address: str | None) -> Callable[[], None]:
    if backend == "dask":
        try:
            distributed = importlib.import_module("distributed")
        except ImportError as error:
            raise _missing(backend, "pip install distributed") from error
        client = distributed.Client(address) if address else distributed.Client(**LOCAL_DASK)
        return lambda: client.close()
    if backend == "ray":
        try:
            ray = importlib.import_module("ray")
            register_ray = importlib.import_module("ray.util.joblib").register_ray
        except ImportError as error:
            raise _missing(backend, "pip install 'ray[default]'") from error
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
        register_ray()
    return lambda: None


def _missing(backend: str, fix: str) -> InputError:
    return InputError(Problem(f"backend {backend} is not installed here", fix=fix, where="--backend"))


def _bad(text: str, what: str) -> InputError:
    return InputError(Problem(f"{what}: {text!r}", fix="for example --vary hit_rate=0.5:0.99:20", where="--vary"))


def _number(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _bad(whole, f"{text.strip()!r} is no number") from None
    if not math.isfinite(value):
        raise _bad(whole, f"{text.strip()!r} is not finite")
    return value


def _positive(value: Value, name: str) -> float:
    if not isinstance(value, float) or not value > 0:
        raise InputError(Problem(f"{name} must be greater than 0, got {value!r}", fix="correct --vary", where="--vary"))
    return value


def _fraction(value: Value, name: str) -> float:
    if not isinstance(value, float) or not 0 <= value <= 1:
        raise InputError(
            Problem(f"{name} must lie between 0 and 1, got {value!r}", fix="correct --vary", where="--vary")
        )
    return value
