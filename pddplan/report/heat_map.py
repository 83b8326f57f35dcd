"""Values over two axes as shades for a page, in SVG: each cell tells its value, in words or when pointed at."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pddplan.report.page import text

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM, _ROW = 760, 90, 20, 10, 46, 30
_PALEST, _DARKEST = 0.06, 0.6
"""Shares of colour at the ends; words must stay readable on the darkest."""
_WORDS_FROM = 44
"""Cells narrower than this tell their value only when pointed at."""
_MOST_MARKS = 10


def heat_map(
    rows: Sequence[Sequence[float]],
    *,
    x: Sequence[str],
    y: Sequence[str],
    ends: tuple[float, float],
    titles: tuple[str, str],
    write: Callable[[float], str],
    label: str,
) -> str:
    """Cells as dark as their value is high between ``ends``; those that are not finite are crossed out.

    ``rows`` from the lowest to the highest ``y``; ``titles`` of x and y.
    """
    low, high = ends
    height = _TOP + len(rows) * _ROW + _BOTTOM
    cell = (_WIDTH - _LEFT - _RIGHT) / max(len(x), 1)
    parts = []
    for up, row in enumerate(rows):
        top = _TOP + (len(rows) - 1 - up) * _ROW
        parts.append(
            f'<text class="soft" x="{_LEFT - 8}" y="{top + _ROW / 2 + 4:.1f}" text-anchor="end">{text(y[up])}</text>'
        )
        for across, value in enumerate(row):
            left = _LEFT + across * cell
            told = write(value) if math.isfinite(value) else "no plan"
            share = (value - low) / (high - low) if high > low and math.isfinite(value) else 0.0
            depth = _PALEST + (_DARKEST - _PALEST) * share
            words = told if math.isfinite(value) else "×"
            shown = cell >= _WORDS_FROM or not math.isfinite(value)
            parts.append(
                f"<g><title>{text(f'{titles[0]} {x[across]}, {titles[1]} {y[up]}: {told}')}</title>"
                f'<rect x="{left:.1f}" y="{top}" width="{cell:.1f}" height="{_ROW}" stroke="var(--ground)" '
                + (f'fill="var(--a)" fill-opacity="{depth:.3f}"/>' if math.isfinite(value) else 'fill="var(--line)"/>')
                + (
                    f'<text x="{left + cell / 2:.1f}" y="{top + _ROW / 2 + 4:.1f}" text-anchor="middle" '
                    f'font-size="12">{text(words)}</text>'
                    if shown
                    else ""
                )
                + "</g>"
            )
    step = max(math.ceil(len(x) / _MOST_MARKS), 1)
    parts += [
        f'<text class="soft" x="{_LEFT + (i + 0.5) * cell:.1f}" y="{height - 26}" text-anchor="middle">'
        f"{text(name)}</text>"
        for i, name in enumerate(x)
        if i % step == 0
    ]
    told = f"{titles[1]} (down) over {titles[0]}; {write(low)} palest, {write(high)} darkest"
    parts.append(f'<text class="soft" x="{_WIDTH / 2}" y="{height - 6}" text-anchor="middle">{text(told)}</text>')
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{text(label)}">'
        f"<title>{text(label)}</title>{''.join(parts)}</svg>"
    )
