"""Arrival times as files write them, and the unit they are in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pddplan.domain.workload import Array
from pddplan.units import MS_PER_S, NS_PER_S, SECONDS_PER_DAY, SECONDS_PER_HOUR, SECONDS_PER_MINUTE, US_PER_S

UNITS_PER_S = {"s": 1.0, "ms": MS_PER_S, "us": US_PER_S, "ns": NS_PER_S, "iso": 1.0}

_DATE = r"^\s*(\d{4})[-/](\d\d)[-/](\d\d)[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?\s*(?:Z|z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?\s*$"
_COMPACT = r"^\s*(\d{4})(\d\d)(\d\d)[T ](\d\d)(\d\d)(\d\d)"
_CLOCK = r"[T ](\d\d:\d\d)"
_SECONDS = r"[T ]\d\d:\d\d(:\d\d(?:\.\d{1,9})?)"
_ZONE = r"[T ]\d\d:\d\d\S*\s*([+-]\d\d(?::?\d\d)?)\s*$"

EPOCH_SMALLEST = {"ns": 1e17, "us": 1e14, "ms": 1e11, "s": 5e8}
"""Numbers from here on are times since 1970 in this unit (from the year 1985 for seconds)."""
MOST_PLAUSIBLE_RPS = 2000.0
LEAST_PLAUSIBLE_RPS = 0.005
LEAST_USUAL_RPS = 0.05
"""In a format that usually counts milliseconds, fractional times that mean less than this as seconds are those."""
LEAST_COUNT_TO_DOUBT = 20
"""With fewer requests a slow rate says nothing against the unit that a format usually has."""
LONGEST_SPAN_S = 100 * 366 * SECONDS_PER_DAY
"""A trace that spans more has a wrong time in it, or is read in the wrong unit."""


def parse_times(values: Any) -> tuple[Array, bool]:
    """Raw numbers of a time column, and whether it held calendar times as text (then they are in seconds).

    Parameters:  values, a polars column or a list of numbers and texts
    Returns:     shape (rows,); NaN where nothing can be read
    """
    import polars as pl

    if not isinstance(values, pl.Series):
        values = _series(values)
    if values.dtype.is_temporal():
        seconds = values.cast(pl.Datetime("ns")).dt.timestamp("ns").cast(pl.Float64) / NS_PER_S
        return _numpy(seconds), True
    if values.dtype.is_numeric():
        return _numpy(values.cast(pl.Float64)), False
    if values.dtype != pl.String:
        return np.full(len(values), np.nan), False
    numbers = values.str.strip_chars().cast(pl.Float64, strict=False)
    if numbers.null_count() <= len(values) // 2:
        return _numpy(numbers), False
    return _calendar(values), True


@dataclass(slots=True)
class RawTimes:
    """What is to be known of the times of a file before their unit is."""

    count: int = 0
    smallest: float = math.inf
    largest: float = -math.inf
    whole: bool = True
    """No time has a fraction."""
    backwards: int = 0
    """Times smaller than the one before."""
    _last: float = -math.inf

    def take(self, raw: Array) -> None:
        """Further times, all finite."""
        if not raw.size:
            return
        self.count += raw.size
        self.smallest, self.largest = min(self.smallest, float(raw.min())), max(self.largest, float(raw.max()))
        self.whole = self.whole and bool((raw == np.floor(raw)).all())
        self.backwards += int((np.diff(raw, prepend=self._last) < 0).sum())
        self._last = float(raw[-1])


def resolve_unit(raw: RawTimes, *, wanted: str, usual: str = "auto", integers_are_ms: bool = False) -> tuple[str, str]:
    """Unit of numeric times, and why.

    Parameters:  raw, what is known of the times as written; wanted, a unit or ``auto``; usual, the unit of the format;
                 integers_are_ms, the format writes milliseconds as whole numbers (relative times only)
    Holds when:  traces have between LEAST_PLAUSIBLE_RPS and MOST_PLAUSIBLE_RPS; the user can overrule.
    """
    if wanted != "auto":
        return wanted, "by option"
    for unit, limit in EPOCH_SMALLEST.items():
        if raw.smallest >= limit:
            if usual == "auto" or UNITS_PER_S[unit] > UNITS_PER_S[usual]:
                return unit, "numbers are times since 1970"
            break
    span = raw.largest - raw.smallest

    def rate(unit: str) -> float:
        return raw.count / (span / UNITS_PER_S[unit]) if span > 0 else 0.0

    def finer_than(unit: str, least: float) -> str | None:
        """The unit in which the times mean a plausible rate, where this one means nearly no requests."""
        finer = [u for u in ("ms", "us", "ns") if UNITS_PER_S[u] > UNITS_PER_S[unit]]
        return next((u for u in finer if rate(unit) < least <= rate(u) <= MOST_PLAUSIBLE_RPS), None)

    if usual != "auto":
        finer = finer_than(usual, LEAST_PLAUSIBLE_RPS) if raw.count >= LEAST_COUNT_TO_DOUBT else None
        if finer is None:
            return usual, "as the format has them"
        return finer, f"as {usual}, which the format has, they would mean one request in {1 / rate(usual):,.0f} s"
    if raw.whole and integers_are_ms:
        if rate("ms") > MOST_PLAUSIBLE_RPS >= rate("s"):
            return "s", f"whole numbers; as milliseconds they would mean {rate('ms'):,.0f} requests/s"
        finer = finer_than("ms", LEAST_PLAUSIBLE_RPS) if raw.count >= LEAST_COUNT_TO_DOUBT else None
        if finer is not None:
            return finer, f"as milliseconds they would mean one request in {1 / rate('ms'):,.0f} s"
        return "ms", "whole numbers"
    finer = finer_than("s", LEAST_USUAL_RPS if integers_are_ms else LEAST_PLAUSIBLE_RPS)
    if finer is not None:
        return finer, f"as seconds they would mean one request in {1 / max(rate('s'), 1e-12):,.0f} s"
    return "s", "fractional numbers" if not raw.whole else "nothing says otherwise"


def _calendar(values: Any) -> Array:
    """Seconds since 1970 of texts such as 2023-11-16 18:17:03.9799600 or 2026-04-23T17:36:21.77+02:00."""
    import polars as pl

    frame = pl.DataFrame({"t": values.str.replace(_COMPACT, "$1-$2-${3}T$4:$5:$6")})
    text = pl.col("t")
    date = pl.concat_str([text.str.extract(_DATE, part) for part in (1, 2, 3)], separator="-")
    clock = text.str.extract(_CLOCK, 1) + text.str.extract(_SECONDS, 1).fill_null(":00")
    moment = (date + " " + clock).str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ns", strict=False)
    zone = text.str.extract(_ZONE, 1).str.replace(":", "", literal=True)
    sign = pl.when(zone.str.starts_with("-")).then(-1.0).otherwise(1.0)
    hours = zone.str.slice(1, 2).cast(pl.Float64, strict=False).fill_null(0.0)
    minutes = zone.str.slice(3, 2).cast(pl.Float64, strict=False).fill_null(0.0)
    offset = sign * (hours * SECONDS_PER_HOUR + minutes * SECONDS_PER_MINUTE)
    seconds = frame.select(moment.dt.timestamp("ns").cast(pl.Float64) / NS_PER_S - offset).to_series()
    return _numpy(seconds)


def _numpy(series: Any) -> Array:
    return np.asarray(series.fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _series(values: Sequence[Any]) -> Any:
    import polars as pl

    if any(isinstance(value, str) for value in values):
        texts = [None if value is None else str(value).encode(errors="replace").decode() for value in values]
        return pl.Series(texts, dtype=pl.String)  # JSON can write halves of characters, which are no text
    return pl.Series([_plain(value) for value in values], dtype=pl.Float64)


def _plain(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
