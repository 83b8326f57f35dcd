"""Latencies of a plan against what was promised: one list for the terminal and the page."""

from __future__ import annotations

from dataclasses import dataclass

from pddplan.domain.workload import PROMISE_KINDS, Promise
from pddplan.sizing import Sizing

TOUCHING = 1e-9
"""Limits are met up to this rounding."""


@dataclass(frozen=True, slots=True)
class Latency:
    """One latency, and the promise made on it, if any."""

    name: str
    predicted_s: float
    promised_s: float | None

    @property
    def verdict(self) -> str:
        """``kept``, ``BROKEN``, or nothing where nothing was promised."""
        if self.promised_s is None:
            return ""
        return "kept" if self.predicted_s <= self.promised_s * (1 + TOUCHING) else "BROKEN"


def latencies(sizing: Sizing) -> list[Latency]:
    """TTFT and TPOT always, what else was promised after them, promises to traffic classes last."""
    outcome = sizing.outcome
    promised = {promise.name: promise for promise in sizing.inputs.workload.promises.made()}
    found = []
    for kind in PROMISE_KINDS:
        if kind.latency != "e2e" or kind.name in promised:
            limit = promised.get(kind.name)
            shown = "TPOT" if kind.latency == "tpot" and outcome.tpot is None else kind.name  # only a mean is known
            reached = outcome.reached_s(limit or Promise(kind, 0.0))
            found.append(Latency(shown, reached, limit.limit_s if limit else None))
        if kind.name == "TTFT P99":
            found.append(Latency("TTFT mean", outcome.ttft.mean, None))
    classes = [promise for promise in promised.values() if promise.group]
    return found + [Latency(promise.name, outcome.reached_s(promise), promise.limit_s) for promise in classes]
