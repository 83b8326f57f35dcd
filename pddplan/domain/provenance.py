"""Where a number comes from, and how far it may be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Basis(IntEnum):
    """Trust in a number, best first; a result inherits the weakest basis it rests on."""

    MEASURED = 1
    DATASHEET = 2
    PUBLISHED = 3
    DERIVED = 4
    CALIBRATED = 5
    ASSUMED = 6

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Provenance:
    """Source of one number; an assumption carries the range it may lie in."""

    basis: Basis
    source: str
    date: str | None = None
    note: str | None = None
    low: float | None = None
    high: float | None = None
    doubtful: bool = False
