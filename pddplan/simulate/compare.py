"""Closed form beside simulation: one row per quantity that both know."""

from __future__ import annotations

from dataclasses import dataclass

from pddplan.domain.outcome import Outcome, Percentiles
from pddplan.domain.workload import Promises
from pddplan.simulate.result import Estimates, SimulationResult
from pddplan.simulate.statistics import Estimate

OPTIMISTIC_P99_FRACTION = 0.05
"""A closed form this much below the simulated P99 is called optimistic."""
OFF_FRACTION = 0.10
EVERYONE = "all requests"
_NAMES = ("p50", "p90", "p99", "mean")


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity, twice."""

    group: str
    quantity: str
    unit: str
    closed_form: float
    simulated: Estimate

    @property
    def relative_error(self) -> float | None:
        """Closed form over simulation, less one; None where the simulated value is zero or unknown."""
        if not self.simulated.value or self.simulated.value != self.simulated.value:
            return None
        return self.closed_form / self.simulated.value - 1.0

    @property
    def mark(self) -> str:
        """``optimistic`` or ``off`` beyond what chance explains, else ``ok`` (``within margin`` when chance may)."""
        error = self.relative_error
        if error is None or error == float("inf"):  # the closed form says that the stage does not keep up
            return ""
        if self.simulated.covers(self.closed_form):
            return "ok" if abs(error) <= OFF_FRACTION else "within margin"
        if self.quantity.endswith("P99") and error < -OPTIMISTIC_P99_FRACTION:
            return "optimistic"
        return "ok" if abs(error) <= OFF_FRACTION else "off"


@dataclass(frozen=True, slots=True)
class PromiseCheck:
    """One promise, as planned and as simulated."""

    limit: str
    promised_s: float
    closed_form_s: float
    simulated: Estimate

    @property
    def verdict(self) -> str:
        """``kept`` or ``broken``; ``too close to call`` when the margin reaches over the promise."""
        if self.simulated.low <= self.promised_s < self.simulated.high:
            return "too close to call"
        return "kept" if self.simulated.value <= self.promised_s else "broken"


def promise_checks(promises: Promises, outcome: Outcome, result: SimulationResult) -> tuple[PromiseCheck, ...]:
    """Every promise of the workload against the simulation."""
    checks = []
    for promise in promises.made():
        measured = result.by_class.get(promise.group) if promise.group else result
        if measured is not None:  # requests of a trace do not say which traffic class they are
            simulated = getattr(getattr(measured, promise.kind.latency), promise.kind.statistic)
            checks.append(PromiseCheck(promise.name, promise.limit_s, outcome.reached_s(promise), simulated))
    return tuple(checks)


def comparison(outcome: Outcome, result: SimulationResult) -> tuple[Row, ...]:
    """Every quantity that the evaluator and the simulation both give, in the order of the journey."""
    rows = _latency(EVERYONE, "TTFT", outcome.ttft, result.ttft)
    if outcome.tpot is not None:
        rows += _latency(EVERYONE, "TPOT", outcome.tpot, result.tpot)
    else:
        rows.append(Row(EVERYONE, "TPOT mean", "s", outcome.tpot_s, result.tpot.mean))
    rows += _latency(EVERYONE, "E2E", outcome.e2e, result.e2e)
    rows.append(Row(EVERYONE, "tokens made by relay", "share", outcome.relay_token_share, result.relay_token_share))
    for path, simulated in result.ttft_by_path.items():
        if len(result.ttft_by_path) > 1 and path in outcome.ttft_by_path:
            rows += _latency(path, "TTFT", outcome.ttft_by_path[path], simulated)
    for group, met in result.by_class.items():
        if group in outcome.by_class:
            for name, latency in (("TTFT", "ttft"), ("TPOT", "tpot"), ("E2E", "e2e")):
                rows += _latency(group, name, getattr(outcome.by_class[group], latency), getattr(met, latency))
    loads = {load.pool: load for load in outcome.pools}
    for pool in result.pools:
        load = loads.get(pool.pool)
        if load is None:
            continue
        rows.append(Row(pool.pool, "utilization", "share", load.utilization, pool.utilization))
        rows.append(Row(pool.pool, "wait mean", "s", load.wait.mean, pool.wait.mean))
        rows.append(Row(pool.pool, "wait P99", "s", load.wait.p99, pool.wait.p99))
        if pool.batch is not None and load.batch is not None:
            rows.append(Row(pool.pool, "batch per instance", "sequences", load.batch, pool.batch))
    lines = {load.line: load for load in outcome.lines}
    for line in result.lines:
        taken = lines.get(line.line)
        if taken is not None:
            rows.append(Row(line.line, "utilization", "share", taken.utilization, line.utilization))
            rows += _latency(line.line, "transfer", taken.transfer, line.transfer)
    return tuple(rows)


def _latency(group: str, name: str, closed: Percentiles, simulated: Estimates) -> list[Row]:
    rows = []
    for stat in _NAMES:
        shown = "mean" if stat == "mean" else stat.upper()
        rows.append(Row(group, f"{name} {shown}", "s", getattr(closed, stat), getattr(simulated, stat)))
    return rows
