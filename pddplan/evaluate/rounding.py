"""The only room that limits and promises have: what the last digits of floating-point sums add up to."""

from __future__ import annotations

ROUNDING = 1e-13
"""Relative; a hundredth of what the twelve digits in files can show."""


def exceeds(value: float, limit: float) -> bool:
    """Whether a value lies above its limit by more than rounding; NaN exceeds everything."""
    return not value <= limit * (1.0 + ROUNDING)
