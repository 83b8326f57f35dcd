"""How right predictions are: errors by group, with the kinds of rows that must not be mixed kept apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from pddplan.performance.measurement import Measurement
from pddplan.performance.predict import Prediction


@dataclass(frozen=True, slots=True)
class Score:
    """Relative errors of a group of rows."""

    rows: int
    mape: float
    median: float
    bias: float
    p90: float
    worst: float
    worst_where: str


def score_of(pairs: Iterable[tuple[float, float, str]]) -> Score | None:
    """Errors of (predicted, measured, place) triples; None for an empty group.

    Formula:     e = predicted / measured - 1; MAPE = mean |e|, bias = mean e, P90 of |e|, worst = largest |e|
    Parameters:  pairs with measured > 0
    Returns:     Score
    Raises:      nothing
    Holds when:  always.
    References:  performance_terms
    """
    rows = list(pairs)
    if not rows:
        return None
    errors = np.array([predicted / measured - 1.0 for predicted, measured, _ in rows])
    size = np.abs(errors)
    worst = int(np.argmax(size))
    return Score(
        rows=len(rows),
        mape=float(np.mean(size)),
        median=float(np.median(size)),
        bias=float(np.mean(errors)),
        p90=float(np.percentile(size, 90)),
        worst=float(errors[worst]),
        worst_where=rows[worst][2],
    )


def section_of(m: Measurement) -> str:
    """Part of a report a row belongs to: only ``scored`` rows count for the goals."""
    if m.low_quality:
        return "low quality"
    if m.kind == "ttft":
        return "TTFT"
    if m.mode == "fleet_24h":
        return "fleet"
    return "scored"


def phase_of(m: Measurement) -> str:
    """Prefill, decode or serving."""
    if m.kind in ("prefill_latency", "ttft"):
        return "prefill"
    return "decode" if m.kind in ("decode_step", "tpot") else "throughput"


GROUPINGS: Mapping[str, Callable[[Prediction], str]] = {
    "kind and mode": lambda p: f"{_m(p).kind} ({_m(p).mode}{', split' if _m(p).disaggregated else ''})",
    "chip and stack": lambda p: f"{_m(p).chip} / {p.stack}",
    "model": lambda p: _m(p).model,
    "weights": lambda p: _m(p).weights_dtype or "as stored",
    "phase": lambda p: phase_of(_m(p)),
    "source": lambda p: _m(p).source or "?",
}
"""Groupings of a report, by title."""


def scores_by(predictions: Iterable[Prediction], key: Callable[[Prediction], str]) -> dict[str, Score]:
    """Scores per group, groups sorted by name; rows without prediction or value are left out."""
    groups: dict[str, list[tuple[float, float, str]]] = {}
    for p in predictions:
        m = p.row.measurement
        if m is None or m.value is None or p.value is None:
            continue
        groups.setdefault(key(p), []).append((p.value, m.value, p.row.where))
    found = {name: score_of(groups[name]) for name in sorted(groups)}
    return {name: score for name, score in found.items() if score is not None}


def _m(p: Prediction) -> Measurement:
    if p.row.measurement is None:
        raise TypeError("only predicted rows are grouped")
    return p.row.measurement
