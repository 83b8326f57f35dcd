"""What a published system prints, beside what the planner makes of it: one list for the page and for the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Figure(Generic[Found]):
    """One figure: as printed, as the planner finds it, and the bar it must hold, in the unit of the figure."""

    what: str
    published: str
    of: Callable[[Found], float]
    low: float
    high: float
    kind: str
    """Predicted, or what it rests on."""
    digits: int = 1
    unit: str = ""

    def holds(self, found: Found) -> bool:
        return self.low <= self.of(found) <= self.high

    def row(self, found: Found) -> tuple[str, ...]:
        """Cells of a table: figure, published, planner, bar, how far within it, kind."""
        value = self.of(found)
        room = min(value - self.low, self.high - value)
        words = "holds" if room >= 0 else "MISSED"
        bar = f"{self._short(self.low)} to {self._short(self.high)}"
        return self.what, self.published, self._short(value), bar, f"{words} by {self._short(abs(room))}", self.kind

    def _short(self, value: float) -> str:
        return f"{value:.{self.digits}f}{' ' + self.unit if self.unit else ''}"


HEAD = ("figure", "published", "planner", "bar", "bar", "kind")


def around(value: float, fraction: float) -> tuple[float, float]:
    """A bar of a fraction either way."""
    return value * (1 - fraction), value * (1 + fraction)


def table(head: Iterable[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in markdown."""
    names = list(head)
    lines = ["| " + " | ".join(names) + " |", "| " + " | ".join("---" for _ in names) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)])
