"""Promises as rows of the program: name, share of requests, limit."""

from __future__ import annotations

from pddplan.evaluate.problem import Problem
from pddplan.optimize.data import Quantile
from pddplan.optimize.judge import COVERAGE_MARGIN

TPOT_QUANTILE = 0.9


def promise_rows(problem: Problem) -> list[Quantile]:
    """Promises as rows of the program."""
    promises = problem.workload.promises
    rows = [Quantile(row, q + COVERAGE_MARGIN) for row, q, _ in (*ttft_rows(promises), *e2e_rows(promises))]
    if promises.tpot_s is not None:
        rows.append(Quantile("TPOT P90", TPOT_QUANTILE))  # whole levels, as the evaluator counts them: no margin
    return rows


def ttft_rows(promises: object) -> list[tuple[str, float, float]]:
    """(row name, quantile, limit) of the TTFT promises made."""
    return _rows(promises, "ttft", "TTFT")


def e2e_rows(promises: object) -> list[tuple[str, float, float]]:
    """(row name, quantile, limit) of the E2E promises made."""
    return _rows(promises, "e2e", "E2E")


def _rows(promises: object, stem: str, label: str) -> list[tuple[str, float, float]]:
    found = []
    for percent in (50, 90, 99):
        limit = getattr(promises, f"{stem}_p{percent}_s")
        if limit is not None:
            found.append((f"{label} P{percent}", percent / 100, float(limit)))
    return found
