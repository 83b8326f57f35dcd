"""A curve in characters: rows of the terminal are the scale, columns are x."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from pddplan.report.numbers import short

DOT, RULE, MEET = "•", "·", "*"


def line_chart(
    x: Sequence[float],
    y: Sequence[float],
    *,
    width: int,
    height: int = 12,
    marks: Mapping[str, tuple[float, float]] | None = None,
    rule: float | None = None,
    top: float | None = None,
    x_labels: Sequence[tuple[float, str]] = (),
    letter: str | None = None,
    more: Sequence[tuple[str, Sequence[float], Sequence[float]]] = (),
    write: Callable[[float], str] = short,
) -> list[str]:
    """Draw y over x.

    ``letter``: what the curve is made of instead of dots; ``more``: further curves (letter, x, y), where they meet
    stands ``*``; ``write``: how values stand at the scale.

    ``marks``: letter -> (x, y), drawn over the curve; ``rule``: a horizontal line at this y; ``top``: values above
    are drawn at the upper edge; ``x_labels``: (x, text) under the axis.
    """
    curves = [(letter or DOT, x, y), *more]
    values = [value for _, _, column in curves for value in column if math.isfinite(value)]
    shown = [min(value, top) if top is not None else value for value in values]
    if not shown:
        return []
    low, high = min(shown), max(shown)
    if rule is not None:
        low, high = min(low, rule), max(high, rule)
    if high <= low:
        high = low + (abs(low) or 1.0)
    label_width = max(len(write(low)), len(write(high)), len(write((low + high) / 2)))
    cells = max(width - label_width - 3, 20)
    grid = [[" "] * cells for _ in range(height)]
    left, right = x[0], x[-1]

    def row_of(value: float) -> int:
        share = (min(max(value, low), high) - low) / (high - low)
        return height - 1 - round(share * (height - 1))

    def column_of(place: float) -> int:
        return min(max(round((place - left) / (right - left) * (cells - 1)), 0), cells - 1)

    if rule is not None:
        grid[row_of(rule)] = [RULE] * cells
    for drawn, places, column in curves:
        for place, value in zip(places, column, strict=True):
            if math.isfinite(value):
                row, at = row_of(value), column_of(place)
                grid[row][at] = drawn if grid[row][at] in (" ", RULE, drawn) else MEET
    for name, (place, value) in (marks or {}).items():
        if math.isfinite(value):
            grid[row_of(value)][column_of(place)] = name[:1]
    labels = {0: high, height // 2: high - (high - low) * (height // 2) / (height - 1), height - 1: low}
    lines = [
        f"{write(labels[i]) if i in labels else '':>{label_width}} ┤{''.join(row)}".rstrip()
        for i, row in enumerate(grid)
    ]
    lines.append(" " * label_width + " └" + "─" * cells)
    if x_labels:
        axis = [" "] * (cells + 1)
        for place, text in x_labels:
            start = min(max(column_of(place) - len(text) // 2, 0), cells + 1 - len(text))
            axis[start : start + len(text)] = list(text)
        lines.append((" " * (label_width + 2) + "".join(axis)).rstrip())
    return lines
