"""Promises as rows of the program: which requests, which share of them, which limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array, Promise
from pddplan.evaluate.coverage import coverage
from pddplan.evaluate.path_result import PathResult
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.tpot import tpot_coverage
from pddplan.optimize.data import Quantile
from pddplan.optimize.judge import COVERAGE_MARGIN


@dataclass(frozen=True, slots=True, eq=False)
class PromiseRow:
    """One promise as predictions are held against it."""

    promise: Promise
    """Its limit without the tail margin."""
    to: Array
    """1 for the request classes that it is made to, 0 for others, shape (classes,)."""


def rows_of(problem: Problem) -> tuple[PromiseRow, ...]:
    """Every promise made, to all requests and to single traffic classes."""
    classes = problem.workload.classes
    return tuple(PromiseRow(promise, classes.members(promise.group)) for promise in problem.judged_promises)


def promise_rows(problem: Problem) -> list[Quantile]:
    """The promises as the program sees them."""
    weight = problem.workload.classes.weight
    return [
        # of TPOT whole levels are counted, as in the evaluator: no margin
        Quantile(
            row.promise.name,
            row.promise.kind.quantile + (0.0 if row.promise.kind.latency == "tpot" else COVERAGE_MARGIN),
            share=float(weight @ row.to),
        )
        for row in rows_of(problem)
    ]


def row_coverage(rows: tuple[PromiseRow, ...], result: PathResult, output_tokens: Array) -> dict[str, Array]:
    """Chance that a request of each class on a path is within the limit of each row; 0 where none is promised."""
    found: dict[str, Array] = {}
    for latency in ("ttft", "e2e"):
        mine = [row for row in rows if row.promise.kind.latency == latency]
        if mine:
            limits = {float(at): row.promise.limit_s for at, row in enumerate(mine)}
            covered = coverage(getattr(result, latency), limits)
            found |= {row.promise.name: np.nan_to_num(covered[float(at)]) * row.to for at, row in enumerate(mine)}
    for row in rows:
        if row.promise.kind.latency == "tpot":
            found[row.promise.name] = tpot_coverage(result, output_tokens, limit_s=row.promise.limit_s) * row.to
    return found
