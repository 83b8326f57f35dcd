"""Reading a bathtub curve: valley, break-even, where the workload stands, and why there are notches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array, RequestClasses
from pddplan.economics.bathtub import BathtubCurve
from pddplan.economics.hit_rate import Spread, miss_tokens_at
from pddplan.errors import DomainError

_REACH = 0.02
"""A notch recovers within this much hit rate; the tub itself does not."""


@dataclass(frozen=True, slots=True)
class Notch:
    """A dip of the curve. ``predicted_hit_rate`` None = no chunk boundary explains it."""

    hit_rate: float
    depth_fraction: float
    """How far below its surroundings."""
    predicted_hit_rate: float | None
    full_chunks: int | None
    explanation: str


@dataclass(frozen=True, slots=True)
class Boundary:
    """A hit rate at which one class misses whole chunks only."""

    hit_rate: float
    class_index: int
    full_chunks: int


@dataclass(frozen=True, slots=True)
class BathtubReading:
    """What the curve says in numbers."""

    valley_hit_rate: float
    valley_relative: float
    break_even_hit_rate: float | None
    """Hit rate above the valley from which on caching pays more than none; None = never."""
    notches: tuple[Notch, ...]
    now_hit_rate: float
    now_relative: float
    in_valley: bool
    """Benefit now is below that of no caching at all."""


def chunk_boundaries(input_tokens: float, chunk_tokens: float) -> Array:
    """Hit rates at which the missing tokens of one length fill whole chunks; just below each, a small tail appears.

    Formula:     h_k = 1 - k C / L, k = 1 .. floor(L / C)
    Parameters:  input_tokens L > 0; chunk_tokens C > 0
    Returns:     falling hit rates, shape (floor(L / C),)
    Raises:      DomainError unless both are positive.
    Holds when:  prefill runs in chunks of C and the tail gets a pass of its own.
    References:  pdd-report, A4
    """
    if not (input_tokens > 0 and chunk_tokens > 0):
        raise DomainError("input and chunk", "must be greater than 0", (input_tokens, chunk_tokens))
    count = np.arange(1, int(np.floor(input_tokens / chunk_tokens + 1e-9)) + 1)
    return np.asarray(np.maximum(1.0 - count * chunk_tokens / input_tokens, 0.0))


def predicted_notches(
    classes: RequestClasses, hit_rates: Array, *, chunk_tokens: float, spread: Spread = Spread.AS_NOW
) -> tuple[Boundary, ...]:
    """Where the curve of a mix should have notches: every class has its own, weighted by how common it is.

    Formula:     h at which m_i(h) = k C, between the two grid points around it; chunk_boundaries for one class
    Parameters:  classes; hit_rates, rising grid; chunk_tokens C > 0; spread
    Returns:     boundaries by falling weight of their class, then rising hit rate
    Raises:      DomainError as chunk_boundaries.
    Holds when:  as chunk_boundaries.
    References:  pdd-report, A4
    """
    if not chunk_tokens > 0:
        raise DomainError("chunk", "must be greater than 0", chunk_tokens)
    missed = miss_tokens_at(classes, hit_rates, spread=spread) / chunk_tokens
    found = []
    for index in np.argsort(-classes.weight, kind="stable"):
        chunks = missed[:, index]
        for point in np.flatnonzero(np.ceil(chunks[:-1] - 1e-9) > np.ceil(chunks[1:] - 1e-9)):
            whole = np.ceil(chunks[point] - 1e-9) - 1
            if whole < 1:
                continue
            drop = chunks[point] - chunks[point + 1]
            step = (chunks[point] - whole) / drop * (hit_rates[point + 1] - hit_rates[point])
            found.append(Boundary(float(hit_rates[point] + step), int(index), int(whole)))
    return tuple(found)


def read_curve(
    curve: BathtubCurve,
    *,
    now_hit_rate: float,
    now_benefit: float,
    boundaries: tuple[Boundary, ...] = (),
    chunk_tokens: float | None = None,
    packed: BathtubCurve | None = None,
    min_depth_fraction: float = 0.002,
) -> BathtubReading:
    """Valley, notches, break-even and present place on a curve.

    Formula:     valley = argmin; break-even: first h beyond the valley with B(h) >= B(0), interpolated;
                 notch: local minimum of B / B_packed that rises by min_depth within 2 points of hit rate above it
    Parameters:  curve; now_hit_rate and now_benefit of the workload; boundaries from predicted_notches and their
                 chunk_tokens; packed, the same curve with all tails packed: without it only dips that stand out
                 against the slope of the tub are found; min_depth_fraction
    Returns:     BathtubReading
    Raises:      nothing.
    Holds when:  the grid is finer than the notches.
    References:  pdd-report, A4
    """
    relative = np.where(np.isfinite(curve.relative), curve.relative, np.inf)
    valley = int(np.argmin(relative))
    above = np.flatnonzero(relative[valley:] >= 1.0) + valley
    pays = above.size > 0 and relative[valley] < 1
    return BathtubReading(
        valley_hit_rate=float(curve.hit_rate[valley]),
        valley_relative=float(relative[valley]),
        break_even_hit_rate=_crossing(curve.hit_rate, relative, int(above[0])) if pays else None,
        notches=_notches(
            curve.hit_rate,
            relative if packed is None else _quotient(curve.benefit, packed.benefit),
            boundaries,
            chunk_tokens,
            min_depth_fraction,
        ),
        now_hit_rate=now_hit_rate,
        now_relative=float(now_benefit / curve.benefit[0]),
        in_valley=bool(now_benefit < curve.benefit[0]),
    )


def _quotient(above: Array, below: Array) -> Array:
    both = np.isfinite(above) & np.isfinite(below) & (below > 0)
    return np.asarray(np.divide(above, below, out=np.ones_like(above), where=both))


def _crossing(rates: Array, values: Array, index: int) -> float:
    before, after = values[index - 1], values[index]
    if index == 0 or not np.isfinite(after) or after == before:
        return float(rates[index])
    step = (1.0 - before) / (after - before)
    return float(rates[index - 1] + step * (rates[index] - rates[index - 1]))


def _notches(
    rates: Array, values: Array, boundaries: tuple[Boundary, ...], chunk_tokens: float | None, min_depth: float
) -> tuple[Notch, ...]:
    found = []
    if rates[-1] == 1:  # nothing missed, no pass at all: the end of the curve, not the far side of a notch
        rates, values = rates[:-1], values[:-1]
    inner = values[1:-1]
    for found_index in np.flatnonzero((inner < values[:-2]) & (inner <= values[2:])) + 1:
        index = int(found_index)
        after = (rates > rates[index]) & (rates <= rates[index] + max(_REACH, rates[index + 1] - rates[index]))
        depth = float(values[after].max() / values[index] - 1.0)
        if depth >= min_depth:
            near = sorted(
                (b for b in boundaries if rates[index - 1] <= b.hit_rate <= rates[index] + _REACH),
                key=lambda b: abs(b.hit_rate - rates[index]),
            )
            found.append(_explained(float(rates[index]), depth, near, chunk_tokens))
    return tuple(found)


def _explained(hit_rate: float, depth: float, near: list[Boundary], chunk_tokens: float | None) -> Notch:
    if not near:
        return Notch(hit_rate, depth, None, None, "no chunk boundary near")
    boundary = near[0]
    chunks = boundary.full_chunks
    return Notch(
        hit_rate,
        depth,
        boundary.hit_rate,
        chunks,
        f"just below {boundary.hit_rate:.1%} hits the missing tokens exceed {chunks} full "
        f"chunk{'s' if chunks > 1 else ''} of {chunk_tokens:,.0f}: the small tail gets a pass of its own",
    )
