"""Calibrating one chip under one stack to a user's own runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import InputError, Problem
from pddplan.performance.calibration import Fit, Observations, Parameter, fit
from pddplan.performance.efficiency import Efficiency
from pddplan.performance.measurement import Measurement
from pddplan.performance.predict import Catalog, Subject, impossible, little_room, run_of, subject_of
from pddplan.performance.scores import Score, score_of
from pddplan.performance.serving import RunLoad, run_times, stack_runs

SPREADS: dict[str, float] = {
    "weights_mbu": 0.15,
    "kv_mbu": 0.15,
    "gemm_mfu_bf16": 0.25,
    "gemm_mfu_fp8": 0.25,
    "gemm_mfu_fp4": 0.25,
    "attention_mfu": 0.25,
    "experts_mfu": 0.4,
    "experts_mbu": 0.3,
    "layer_gap_s": 1.0,
    "step_overhead_s": 1.0,
    "sequence_overhead_s": 1.0,
    "prefill_overhead_s": 1.0,
    "prefill_interference": 0.3,
    "allreduce_efficiency": 0.3,
    "alltoall_efficiency": 0.3,
}
"""What a user's runs may move, and by how much (standard deviation of the logarithm) before they must insist."""
TOLD_SHARE = 0.5
"""A number counts as told by the data when at least this share of what is known of it comes from them."""
MIN_START = 1e-9


@dataclass(frozen=True, slots=True)
class Calibrated:
    """One number after calibration."""

    name: str
    before: float
    after: float
    low: float
    high: float
    told: bool
    """False where the runs say (nearly) nothing about it; such numbers are not written."""


@dataclass(frozen=True, slots=True, eq=False)
class OwnFit:
    """Calibration of one chip and stack."""

    numbers: tuple[Calibrated, ...]
    before: Score
    after: Score
    used: tuple[Measurement, ...]
    left_out: tuple[str, ...]
    """Rows that were not used, each with its reason."""
    doubts: tuple[str, ...]
    """What is odd about the rows that were used."""
    base: Efficiency


def calibrate(measurements: Sequence[Measurement], catalog: Catalog) -> OwnFit:
    """Fit the numbers of one chip and stack to measurements of it.

    Raises:  InputError when no measurement can be used, or they are of more than one chip or stack.
    """
    subjects, runs, left_out = _usable(measurements, catalog)
    doubts = [f"{s.measurement.where}: {s.measurement.kind}: {room}" for s in subjects if (room := little_room(s))]
    if not runs:
        reasons = "; ".join(left_out[:3])
        raise InputError(
            Problem(
                what="no measurement can be used for a fit" + (f": {reasons}" if reasons else ""),
                fix="give runs with TPOT or throughput, token counts and concurrency, below saturation",
            )
        )
    stacks = sorted({f"{s.chip.id} under {s.efficiency.name}" for s in subjects})
    if len(stacks) > 1:
        raise InputError(
            Problem(
                what=f"the measurements are of several systems: {', '.join(stacks)}",
                fix="calibrate one chip and one stack at a time",
            )
        )
    base = subjects[0].efficiency
    values = np.array([s.measurement.value for s in subjects], dtype=float)
    observations = Observations(runs=stack_runs(runs), values=values, weights=np.ones(len(runs)), keys={}, parts={})
    parameters = [
        Parameter(name, max(float(getattr(base, name)), MIN_START), spread) for name, spread in SPREADS.items()
    ]
    result = fit(observations, parameters, base=base, max_evaluations=60)
    return OwnFit(
        numbers=tuple(_number(result, p, base) for p in parameters),
        before=_score(run_times(observations.runs, base)[0], values, subjects),
        after=_score(result.predict(observations), values, subjects),
        used=tuple(s.measurement for s in subjects),
        left_out=tuple(left_out),
        doubts=tuple(doubts),
        base=base,
    )


def _usable(measurements: Sequence[Measurement], catalog: Catalog) -> tuple[list[Subject], list[RunLoad], list[str]]:
    subjects, runs, left_out = [], [], []
    for m in measurements:
        reason = ""
        if m.value is None:
            reason = "; ".join(filter(None, ("no measured value", m.remark)))
        elif m.kind == "ttft" and m.mode == "closed_loop":
            reason = "TTFT under load is mostly waiting"
        elif m.low_quality:
            reason = "marked as low quality"
        elif m.disaggregated:
            reason = "disaggregated: calibrate each side from its own runs"
        if not reason:
            try:
                subject = subject_of(m, catalog)
                run, _ = run_of(subject)
            except InputError as fault:
                reason = "; ".join(p.what for p in fault.problems)
            else:
                reason = impossible(subject)
            if not reason:
                subjects.append(subject)
                runs.append(run)
        if reason:
            left_out.append(f"{m.where}: {m.kind}: {reason}")
    return subjects, runs, left_out


def _number(result: Fit, parameter: Parameter, base: Efficiency) -> Calibrated:
    low, high = result.interval(parameter.name)
    return Calibrated(
        name=parameter.name,
        before=float(getattr(base, parameter.name)),
        after=result.value(parameter.name),
        low=low,
        high=high,
        told=bool(result.told[result.slots[parameter.name, "", ""]] > TOLD_SHARE),
    )


def _score(predicted: Array, values: Array, subjects: Sequence[Subject]) -> Score:
    found = score_of(
        (float(p), float(v), s.measurement.where) for p, v, s in zip(predicted, values, subjects, strict=True)
    )
    if found is None:
        raise TypeError("a fit has at least one row")
    return found
