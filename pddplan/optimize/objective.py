"""What to optimise, and within which limits: the part of a question that is no input file."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pddplan.errors import InputError, Problem, ProblemList, did_you_mean

KINDS = ("bcr", "cost", "rps")
SMALLEST_RATE_RPS = 1e-4
LARGEST_RATE_RPS = 1e7
LEAST_UTILIZATION = 1e-3
"""Lower ceilings would only leave the range of numbers that solvers handle."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What the plan is to be best at.

    ``bcr``  most goodput per money; at a given ``rate_rps`` the same as least cost, otherwise any rate up to demand.
    ``cost`` least cost at ``rate_rps`` (demand of the workload if not given).
    ``rps``  most goodput within budget and inventory, whatever the demand of the workload.
    """

    kind: str = "bcr"
    rate_rps: float | None = None
    """Serve exactly this rate [req/s]."""
    budget_per_month: float | None = None
    """Spend at most this, in the currency of the sites file."""

    def check(self) -> None:
        """Raise InputError naming every setting that makes no sense."""
        faults = ProblemList()
        if self.kind not in KINDS:
            faults.add(
                f"objective {self.kind!r} is unknown{did_you_mean(self.kind, KINDS)}",
                fix=f"use one of {', '.join(KINDS)}",
                where="--objective",
            )
        for value, where in ((self.rate_rps, "--rps"), (self.budget_per_month, "--budget")):
            if value is not None and not (math.isfinite(value) and value > 0):
                faults.add(f"must be a positive number, got {value!r}", fix=f"write {where} 10", where=where)
        if self.rate_rps is not None:
            check_rate(self.rate_rps, faults, where="--rps")
        faults.raise_if_any()


def check_rate(rate_rps: float, faults: ProblemList, *, where: str) -> None:
    """Refuse rates at which the program's numbers would leave the range that solvers handle."""
    if 0 < rate_rps < SMALLEST_RATE_RPS or LARGEST_RATE_RPS < rate_rps < math.inf:
        faults.add(
            f"must lie between {SMALLEST_RATE_RPS:g} and {LARGEST_RATE_RPS:g} requests per second, got {rate_rps:g}",
            fix="give the rate in requests per second, for example 11.5",
            where=where,
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on plans beyond the promises to users, and on the search itself."""

    max_utilization: float = 0.95
    """No pool is planned busier than this share of its capacity."""
    max_line_utilization: float = 0.9
    """No line is planned fuller than this share of its usable rate."""
    redundant_instances: int = 0
    """N+1: every pool keeps this many instances beyond what load and promises need."""
    survive_line_loss: bool = False
    """Promises must hold with any one leased line of a bundle lost."""
    max_chips: int | None = None
    """Chips of all pools together."""
    allowed_chips: tuple[str, ...] | None = None
    """Only these kinds of chips; None = all that the sites offer."""
    time_limit_s: float = 30.0
    """Stop searching after this long, and say how far from the best the plan may be."""
    gap: float = 1e-3
    """Stop when the plan is proven this close to the best one, as a fraction."""
    acceptable_gap: float = 0.01
    """Stop at this gap already when the search has long found no better plan."""
    max_nodes: int = 20_000
    """Cells looked at before the search stops with what it has."""
    every_shape: bool = False
    """Look at every shape of an instance, not only the few that promise most."""
    prove_shapes: bool = True
    """Bound the plans of all shapes as well, and look at those that the bound would use."""

    def check(self) -> None:
        """Raise InputError naming every limit that makes no sense."""
        faults: list[Problem] = []
        for value, where in (
            (self.max_utilization, "--max-utilization"),
            (self.max_line_utilization, "--max-line-utilization"),
        ):
            if not LEAST_UTILIZATION <= value <= 1:
                what = f"must lie in [{LEAST_UTILIZATION:g}, 1], got {value!r}"
                faults.append(Problem(what, fix=f"write {where} 0.9", where=where))
        if self.redundant_instances < 0:
            faults.append(
                Problem(f"must be 0 or more, got {self.redundant_instances}", fix="write --spare 1", where="--spare")
            )
        if not (math.isfinite(self.time_limit_s) and self.time_limit_s > 0):
            faults.append(
                Problem(
                    f"must be a positive number of seconds, got {self.time_limit_s!r}",
                    fix="write --time-limit 30",
                    where="--time-limit",
                )
            )
        faults += [
            Problem(f"must lie in [0, 1), got {gap!r}", fix="write --gap 0.001", where="--gap")
            for gap in (self.gap, self.acceptable_gap)
            if not 0 <= gap < 1
        ]
        if self.max_chips is not None and self.max_chips < 1:
            faults.append(
                Problem(f"must be 1 or more, got {self.max_chips}", fix="write --max-chips 64", where="--max-chips")
            )
        if faults:
            raise InputError(faults)
