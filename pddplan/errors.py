"""Everything the program says no with.

PddplanError
├── InputError        exit 2   bad usage or bad input: one Problem per fault, all of a file at once
│   └── DomainError   exit 2   a formula was asked outside the range where it holds
├── InfeasibleError   exit 3   no plan keeps the promises: what conflicts, and the smallest relaxations
└── SolverError       exit 4   the solver failed, or ran out of time without any plan

Anything else that escapes is a bug: exit 1 with its traceback.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

EXIT_OK = 0
EXIT_BUG = 1
EXIT_INPUT = 2
EXIT_INFEASIBLE = 3
EXIT_SOLVER = 4

LONGEST_NAME = 200
"""Longer texts are no misspelt names."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in an input: what is wrong, where, and what to do about it."""

    what: str
    fix: str
    where: str | None = None
    """File, line and key path as far as known, e.g. ``my.yaml:14: chip.memory_gb.value``."""

    def __str__(self) -> str:
        head = f"{self.where}\n  {self.what}" if self.where else self.what
        return f"{head}\n  fix: {self.fix}"


class PddplanError(Exception):
    """Base of all expected outcomes; carries the exit code of the process."""

    exit_code: int = EXIT_BUG


class InputError(PddplanError):
    """Bad usage or bad input. ``problems`` holds every fault found, not only the first."""

    exit_code = EXIT_INPUT

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))


class DomainError(InputError):
    """A formula was asked outside the range where it holds (negative rate, utilisation of one or more)."""

    def __init__(self, name: str, rule: str, got: object) -> None:
        self.name, self.rule, self.got = name, rule, got
        super().__init__(Problem(what=f"{name} {rule}, got {got!r}", fix=f"give a value that {rule}"))


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One way to make an infeasible question answerable, in the user's units."""

    limit: str
    """Which promise or limit, e.g. ``TTFT P99``."""
    asked: float
    needed: float
    unit: str
    hint: str
    """Something to type or to change, e.g. ``--ttft-p99 14.2``."""


class InfeasibleError(PddplanError):
    """No plan keeps every promise within the limits. Says what conflicts and what to relax, each by how much."""

    exit_code = EXIT_INFEASIBLE

    def __init__(
        self,
        what: str,
        *,
        conflicts: Sequence[str] = (),
        relaxations: Sequence[Relaxation] = (),
        joint: Sequence[Relaxation] = (),
    ) -> None:
        self.what, self.conflicts, self.relaxations = what, tuple(conflicts), tuple(relaxations)
        self.joint = tuple(joint)
        """Relaxations that help only together: the smallest set found (optimize.elastic says what counts as small)."""
        super().__init__(what)


class SolverError(PddplanError):
    """The solver failed or reached its time limit without any plan."""

    exit_code = EXIT_SOLVER

    def __init__(self, what: str, *, fix: str) -> None:
        self.what, self.fix = what, fix
        super().__init__(f"{what}\n  fix: {fix}")


@dataclass(slots=True)
class ProblemList:
    """Collects faults so that all of a file are reported at once."""

    problems: list[Problem] = field(default_factory=list)

    def add(self, what: str, *, fix: str, where: str | None = None) -> None:
        self.problems.append(Problem(what=what, fix=fix, where=where))

    def raise_if_any(self) -> None:
        if self.problems:
            raise InputError(self.problems)


def did_you_mean(got: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest known name, or nothing."""
    if len(got) > LONGEST_NAME:
        return ""  # comparing texts takes time and memory that grow with their length
    import difflib

    names = {name.lower(): name for name in known}
    near = [names[name] for name in difflib.get_close_matches(got.lower(), list(names), n=1, cutoff=0.5)]
    return f"; did you mean {near[0]!r}?" if near else ""
