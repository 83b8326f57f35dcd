"""Numbers as people read them: three significant digits, thousands separated, units apart."""

from __future__ import annotations

import math

from pddplan.units import MEGA, MS_PER_S

SIGNIFICANT_DIGITS = 3
EXPORTED_DIGITS = 12
PERCENT = 100
NO_TIME_S = 1e-9
"""Times below a nanosecond are none: what a formula leaves of a wait that never happens."""
NO_SHARE = 1e-6
"""Shares below one in a million are none: no estimate here is that fine."""
WHOLE_AMOUNT = 100
"""From here on amounts are listed to the unit, so that a column of them adds up."""


def short(value: float | None, digits: int = SIGNIFICANT_DIGITS) -> str:
    """Three significant digits: ``11.5``, ``0.104``, ``121,000``; ``-`` for nothing, ``inf`` as a word."""
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "never" if value > 0 else "-inf"
    if value == 0:
        return "0"
    scientific = f"{value:.{digits - 1}e}"
    magnitude = int(scientific.partition("e")[2])
    if magnitude >= 15 or magnitude < -4:
        return scientific
    rounded = float(scientific)
    decimals = max(digits - 1 - magnitude, 0)
    return f"{rounded:,.{decimals}f}"


def exported(value: float) -> float:
    """A number as files hold it: without its last digits, which are the arithmetic's, and without minus zero."""
    return float(f"{value:.{EXPORTED_DIGITS}g}") + 0.0


def finite_or_none(value: float) -> float | None:
    """A number as JSON holds it: null where it is never reached or not known."""
    return value if math.isfinite(value) else None


def count(value: float) -> str:
    """A whole number with thousands separated."""
    return f"{round(value):,}"


def quantity(value: float) -> str:
    """A count that is mostly whole: ``40``, ``1,024``, ``3.5``."""
    return count(value) if math.isfinite(value) and value == round(value) else short(value)


def percent(fraction: float | None, *, signed: bool = False) -> str:
    """A share as per cent: ``6.2 %``, ``97 %``, ``99.6 %``, with sign ``+34 %``; 100 % and 0 % only where it is so."""
    if fraction is None or not math.isfinite(fraction):
        return "-"
    value = fraction * PERCENT if abs(fraction) >= NO_SHARE else 0.0
    shown = f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"
    if shown in {"100", "-100"} and abs(abs(fraction) - 1.0) >= NO_SHARE:
        # all, or more than can be, is said of nothing else: 99.6 %, 99.97 %, 100.4 %
        shown = next(t for digits in range(1, 8) if float(t := f"{value:.{digits}f}") not in {100.0, -100.0})
    if shown in {"-0", "0.0", "-0.0"}:
        shown = "0"
    return f"{'+' if signed and value > 0 else ''}{shown} %"


def seconds(value_s: float | None) -> str:
    """A time in the unit that suits it: ``4.2 s``, ``420 ms``."""
    if value_s is None or math.isnan(value_s):
        return "-"
    if math.isinf(value_s):
        return "never"
    if abs(value_s) < NO_TIME_S:
        return "0 s"
    if abs(value_s) < 0.9995:
        return f"{short(value_s * MS_PER_S)} ms"
    return f"{short(value_s)} s"


def money(value: float, currency: str) -> str:
    """An amount: ``121,000 USD``, ``3.40 million USD``."""
    if math.isfinite(value) and abs(value) >= 10 * MEGA:
        return f"{short(value / MEGA)} million {currency}"
    return f"{short(value)} {currency}"


def ratio(value: float) -> str:
    """Benefit per cost: three digits, or words where nothing has to be paid."""
    return short(value) if math.isfinite(value) else "no bound"


def amount(value: float) -> str:
    """An amount in a list that must add up: ``65,875``, small ones as ``1.88``."""
    return count(value) if math.isfinite(value) and abs(value) >= WHOLE_AMOUNT else short(value)


def bar(fraction: float, width: int, *, full: str = "█", empty: str = "░") -> str:
    """A bar of ``width`` cells; more than all is drawn as all."""
    share = min(max(fraction, 0.0), 1.0) if math.isfinite(fraction) else 1.0
    filled = round(share * width)
    return full * filled + empty * (width - filled)


def plain_text(text: str) -> str:
    """A name from an input file without control characters, so that it cannot steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
