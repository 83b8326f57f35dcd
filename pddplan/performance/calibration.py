"""Fitting efficiencies to measurements: robust least squares on logarithms, with bounds and priors.

Every number is a product of factors, one per level of inheritance (all runs, kind of chip, stack ...):
log value = log start + sum of deviations. A deviation is held near zero by its prior, as strongly as its spread says,
so that a level without data changes nothing and what is left out of a fit falls back on the level above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.errors import DomainError
from pddplan.performance.efficiency import FRACTIONS, HIGHEST_SHARE, NUMBERS, SHARES, Efficiency
from pddplan.performance.forward_pass import PassTime
from pddplan.performance.serving import Quantity, RunLoad, run_times

RESIDUAL_SCALE = 0.15
"""Relative error beyond which a row counts less and less (soft L1)."""
PRIOR_WEIGHT = 0.5
"""How much a prior counts in a fit to runs of one's own, which are few and of one kind."""
PART_WEIGHT = 0.12
"""Weight of a measured part (gemm, attention, ...) next to that of the whole."""
TINY_S = 1e-9
STEP = 1e-4
"""Of a logarithm, for slopes."""
TOLERANCE = 1e-5
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-3, 1e-9, 1e9
DAMPING_UP, DAMPING_DOWN = 4.0, 5.0
LONGEST_STEP = 1.0
"""No logarithm moves further in one step."""
CONFIDENCE_Z = 1.96


@dataclass(frozen=True, slots=True)
class Deviation:
    """One level at which a number may differ from what it inherits."""

    level: str
    spread: float
    """Prior standard deviation of the logarithm."""
    means: Mapping[str, float] = field(default_factory=dict)
    """Prior factor by key, where something is known beforehand; 1 elsewhere."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of Efficiency that is fitted."""

    name: str
    start: float
    spread: float | None = None
    """Prior standard deviation of the logarithm around ``start``; None = free."""
    deviations: tuple[Deviation, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Observations:
    """Runs with what was measured of them."""

    runs: RunLoad
    """Stacked, shape (runs,)."""
    values: Array
    weights: Array
    keys: Mapping[str, NDArray[Any]]
    """Key of each run at each level; an empty key has no deviation there."""
    parts: Mapping[str, Array] = field(default_factory=dict)
    """Measured seconds of parts where known, 0 elsewhere; names as in PART_TERMS."""

    @property
    def count(self) -> int:
        return int(self.values.size)

    def take(self, index: NDArray[Any]) -> Observations:
        return Observations(
            runs=_take(self.runs, index),
            values=self.values[index],
            weights=self.weights[index],
            keys={level: keys[index] for level, keys in self.keys.items()},
            parts={name: part[index] for name, part in self.parts.items()},
        )


ENGINE_NUMBERS = (
    "step_overhead_s",
    "sequence_overhead_s",
    "prefill_overhead_s",
    "worker_overhead_s",
    "query_norm_overhead_s",
)
"""Numbers that sums of operators do not hold."""

PART_TERMS: Mapping[str, Callable[[PassTime], Array]] = {
    "gemm": lambda t: t.gemm,
    "attn": lambda t: t.attention,
    "gemm+attn": lambda t: t.gemm + t.attention,
    "moe": lambda t: t.experts,
    "moe+comm": lambda t: t.experts + t.communication,
    "comm": lambda t: t.communication,
}
"""Measured parts, and the terms of a pass they are compared with."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Result of a fit."""

    parameters: tuple[Parameter, ...]
    slots: Mapping[tuple[str, str, str], int]
    """(number, level, key) -> place in ``x``; the level of the number itself is ``""``."""
    x: Array
    """Logarithms."""
    deviation: Array
    """Standard deviation of each logarithm, from the curvature at the optimum."""
    told: Array
    """Share of what is known of each logarithm that comes from data; the rest is prior."""
    base: Efficiency
    cost: float
    evaluations: int

    def factor(self, name: str, level: str, key: str) -> float:
        """Factor of a number at one level; 1 where the fit has none."""
        slot = self.slots.get((name, level, key))
        return 1.0 if slot is None else float(np.exp(self.x[slot]))

    def value(self, name: str) -> float:
        """Number at the top level."""
        return float(np.exp(self.x[self.slots[name, "", ""]]))

    def interval(self, name: str, level: str = "", key: str = "") -> tuple[float, float]:
        """95 % interval of a number or factor, under the usual linear approximation."""
        slot = self.slots[name, level, key]
        half = CONFIDENCE_Z * self.deviation[slot]
        return float(np.exp(self.x[slot] - half)), float(np.exp(self.x[slot] + half))

    def without(self, level: str) -> Fit:
        """The same fit with the deviations of one level taken out: what holds for keys that nobody measured."""
        x = self.x.copy()
        x[[slot for (_, where, _), slot in self.slots.items() if where == level]] = 0.0
        return replace(self, x=x)

    def predict(self, observations: Observations) -> Array:
        """Values of runs under the fitted numbers; keys the fit has not seen inherit."""
        view = _view(_slot_rows(self.parameters, self.slots, observations), observations, self.base)
        return run_times(observations.runs, view(self.x))[0]


def fit(
    observations: Observations,
    parameters: Sequence[Parameter],
    *,
    base: Efficiency | None = None,
    start: Fit | None = None,
    max_evaluations: int = 40,
    prior_weight: float = PRIOR_WEIGHT,
) -> Fit:
    """Fit numbers to observations.

    Formula:     minimise sum rho(w log(predicted / measured) / s) over rows and parts
                 + sum rho(p (x - x_0) / spread), rho soft L1; shares stay below 0.98 of the datasheet
    Parameters:  observations; parameters; base: numbers that are not fitted; start: an earlier fit to begin from;
                 prior_weight p: rows of one source err together, so a large fit must lean on its priors
    Returns:     Fit
    Raises:      DomainError without observations or parameters.
    Holds when:  rows are independent given the numbers.
    References:  performance_terms
    """
    if observations.count == 0 or not parameters:
        raise DomainError("observations", "has at least one run, and one number to fit", observations.count)
    reference = base or Efficiency()
    slots, first, spread = _layout(parameters, observations)
    view_rows = _slot_rows(parameters, slots, observations)
    view = _view(view_rows, observations, reference)
    held = np.isfinite(spread)
    logs = np.log(observations.values)

    def data_residuals(x: Array, bumped: str | None = None) -> list[Array]:
        predicted, prefill, decode = run_times(observations.runs, view(x, bumped))
        rows = observations.weights * (np.log(np.maximum(predicted, TINY_S)) - logs) / RESIDUAL_SCALE
        return [rows, *_part_residuals(observations, prefill, decode)]

    def residuals(x: Array) -> Array:
        prior = prior_weight * ((x - first) / np.where(held, spread, 1.0))[held]
        return np.concatenate([*data_residuals(x), prior])

    def jacobian(x: Array) -> Array:
        # a deviation moves the rows of its key just as the number itself does: one evaluation per number is enough
        middle = np.concatenate(data_residuals(x))
        rows_of = [np.arange(observations.count), *_part_rows(observations)]
        row_index = np.concatenate(rows_of)
        result = np.zeros((middle.size + int(held.sum()), x.size))
        for p in parameters:
            slope = (np.concatenate(data_residuals(x, p.name)) - middle) / STEP
            for index in view_rows[p.name]:
                slot = index[row_index]
                known = slot >= 0
                np.add.at(result, (np.nonzero(known)[0], slot[known]), slope[known])
        result[middle.size + np.arange(int(held.sum())), np.nonzero(held)[0]] = prior_weight / spread[held]
        return result

    begin = first if start is None else np.array([_carried(key, slot, first, start) for key, slot in slots.items()])
    solved = _solve(residuals, jacobian, begin, max_steps=max_evaluations)
    return Fit(
        parameters=tuple(parameters),
        slots=slots,
        x=solved.x,
        deviation=_deviations(solved.curvature, solved.residuals, count=solved.x.size),
        told=1.0 - np.where(held, prior_weight / spread, 0.0) ** 2 / np.maximum(np.diag(solved.curvature), 1e-12),
        base=reference,
        cost=solved.cost,
        evaluations=solved.steps,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Solution:
    x: Array
    residuals: Array
    curvature: Array
    cost: float
    steps: int


def _solve(
    residuals: Callable[[Array], Array], jacobian: Callable[[Array], Array], begin: Array, *, max_steps: int
) -> _Solution:
    """Levenberg-Marquardt on a soft-L1 loss.

    Formula:     rho(z) = 2 (sqrt(1 + z) - 1), z = r^2; step (J' w J + d diag) p = -J' w r, w = rho'(z)
    Parameters:  residuals, jacobian: functions of x; begin; max_steps
    Returns:     the best point found, with residuals and curvature J' w J there
    Raises:      nothing
    Holds when:  residuals are smooth.
    References:  marquardt1963
    """
    x, damping = begin.copy(), FIRST_DAMPING
    current = residuals(x)
    cost = _loss(current)
    steps = 0
    while steps < max_steps:
        steps += 1
        slope = jacobian(x)
        weight = 1.0 / np.sqrt(1.0 + current**2)
        weighted = slope * weight[:, None]
        curvature, gradient = slope.T @ weighted, weighted.T @ current
        scale = np.diag(curvature) + 1e-12
        improved = False
        while damping < MOST_DAMPING:
            step = -np.linalg.solve(curvature + np.diag(damping * scale), gradient)
            trial = x + np.clip(step, -LONGEST_STEP, LONGEST_STEP)
            there = residuals(trial)
            if _loss(there) < cost:
                improved = True
                break
            damping *= DAMPING_UP
        if not improved:
            break
        gain = cost - _loss(there)
        x, current, cost = trial, there, _loss(there)
        damping = max(damping / DAMPING_DOWN, LEAST_DAMPING)
        if gain < TOLERANCE * cost:
            break
    slope = jacobian(x)
    weight = 1.0 / np.sqrt(1.0 + current**2)
    return _Solution(x, current, slope.T @ (slope * weight[:, None]), cost, steps)


def _loss(residuals: Array) -> float:
    return float(np.sum(np.sqrt(1.0 + residuals**2) - 1.0))


def _layout(
    parameters: Sequence[Parameter], observations: Observations
) -> tuple[dict[tuple[str, str, str], int], Array, Array]:
    slots: dict[tuple[str, str, str], int] = {}
    first: list[float] = []
    spread: list[float] = []
    for p in parameters:
        slots[p.name, "", ""] = len(first)
        first.append(float(np.log(p.start)))
        spread.append(np.inf if p.spread is None else p.spread)
        for deviation in p.deviations:
            for key in sorted({str(k) for k in observations.keys[deviation.level] if str(k)} | set(deviation.means)):
                slots[p.name, deviation.level, key] = len(first)
                first.append(float(np.log(deviation.means.get(key, 1.0))))
                spread.append(deviation.spread)
    return slots, np.array(first), np.array(spread)


def _slot_rows(
    parameters: Sequence[Parameter], slots: Mapping[tuple[str, str, str], int], observations: Observations
) -> dict[str, list[NDArray[np.int64]]]:
    """For each number the slots that act on each run, one array per level; -1 where a level has no slot for its key."""
    places: dict[str, list[NDArray[np.int64]]] = {}
    for p in parameters:
        rows = [np.full(observations.count, slots[p.name, "", ""])]
        for deviation in p.deviations:
            table = {
                key: slot for (name, level, key), slot in slots.items() if (name, level) == (p.name, deviation.level)
            }
            rows.append(
                np.array([table.get(str(key), -1) for key in observations.keys[deviation.level]], dtype=np.int64)
            )
        places[p.name] = rows
    return places


def _view(
    places: Mapping[str, Sequence[NDArray[np.int64]]], observations: Observations, base: Efficiency
) -> Callable[..., Any]:
    """Function from the vector of logarithms to numbers per run, in the shape of Efficiency."""
    operators = np.isin(observations.runs.quantity, (Quantity.OPERATORS_PREFILL, Quantity.OPERATORS_DECODE))
    fixed = {name: getattr(base, name) for name in NUMBERS}

    def numbers(x: Array, bumped: str | None = None) -> Any:
        padded = np.append(x, 0.0)  # a key without a slot (-1) has deviation 0
        view = dict(fixed)
        for name, rows in places.items():
            logarithm = sum(padded[index] for index in rows)
            value = np.exp(logarithm + (STEP if name == bumped else 0.0))
            view[name] = np.minimum(value, 1.0 if name in FRACTIONS else HIGHEST_SHARE if name in SHARES else np.inf)
        for name in ENGINE_NUMBERS:
            view[name] = np.where(operators, 0.0, view[name])
        return SimpleNamespace(**view)

    return numbers


def _part_rows(observations: Observations) -> list[NDArray[np.int64]]:
    """Rows that the residuals of each part belong to."""
    return [np.nonzero(measured > 0)[0] for measured in observations.parts.values()]


def _part_residuals(observations: Observations, prefill: PassTime, decode: PassTime) -> list[Array]:
    is_decode = observations.runs.quantity == Quantity.OPERATORS_DECODE
    out = []
    for name, measured in observations.parts.items():
        term = PART_TERMS[name]
        predicted = np.where(is_decode, term(decode), term(prefill))
        known = measured > 0
        gap = np.log(np.maximum(predicted[known], TINY_S)) - np.log(measured[known])
        out.append(PART_WEIGHT * gap / RESIDUAL_SCALE)
    return out


def _carried(key: tuple[str, str, str], slot: int, first: Array, start: Fit) -> float:
    known = start.slots.get(key)
    return float(first[slot] if known is None else start.x[known])


def _deviations(curvature: Array, residuals: Array, *, count: int) -> Array:
    """Standard deviations from the curvature; what the data do not touch has none (inf)."""
    freedom = max(residuals.size - count, 1)
    scale = 2.0 * _loss(residuals) / freedom
    covariance = np.linalg.pinv(curvature) * max(scale, 1e-12)
    flat = np.diag(curvature) < 1e-9
    return np.where(flat, np.inf, np.sqrt(np.maximum(np.diag(covariance), 0.0)))


def _take(record: Any, index: NDArray[Any]) -> Any:
    """Rows of a stacked record."""
    parts = {}
    for name in record.__slots__:
        value = getattr(record, name)
        parts[name] = value[index] if isinstance(value, np.ndarray) else _take(value, index)
    return type(record)(**parts)
