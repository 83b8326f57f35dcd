"""Curves and tornadoes for a page, in SVG: names beside the lines, values as tooltips, no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pddplan.report.page import text

Point = tuple[float, float]
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 300, 64, 20, 16, 46
_HOVERED = 60
"""So many places of a curve tell their values when pointed at."""
_CLOSE, _LINE_HEIGHT = 150, 18
_DASHES = ("", "7 5", "2 4")
"""Lines differ by dash as well as by colour: pages are printed in black and white too."""
_COLOURS = ("a", "b", "c", "d", "e", "f")


@dataclass(frozen=True, slots=True)
class Line:
    """A curve with the name that its tooltips and the legend show."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Spot:
    """One place that matters, with words."""

    x: float
    y: float
    label: str
    tone: str = "ink"


@dataclass(frozen=True, slots=True)
class Axis:
    """What is drawn along an edge: title, ends, and how a value is written."""

    title: str
    low: float
    high: float
    write: Callable[[float], str]
    ticks: Sequence[float] = ()

    def marks(self) -> Sequence[float]:
        return self.ticks or round_marks(self.low, self.high)

    def place(self, value: float, start: float, length: float) -> float:
        """Where a value stands; what lies beyond the ends is drawn at them."""
        width = (self.high - self.low) or 1.0
        return start + length * (min(max(value, self.low), self.high) - self.low) / width


_ROUND_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_INTERVALS = 6
"""At most so many intervals between marks."""


def round_marks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, as people would mark an axis: ``0, 5, 10, 15, 20``.

    Formula:     multiples of the smallest of 1, 2, 2.5, 5 x 10**k that leaves at most six intervals
    Parameters:  low, high, ends of the axis
    Returns:     list of marks within the ends; both ends where they leave nothing between them
    Raises:      nothing.
    Holds when:  always
    References:  definition
    """
    width = high - low
    if not (math.isfinite(width) and width > 0):
        return [low, high]
    power = 10.0 ** math.floor(math.log10(width / _INTERVALS)) if width / _INTERVALS > 0 else 0.0
    step = next((s * power for s in _ROUND_STEPS if width / _INTERVALS <= s * power * (1 + 1e-9)), 0.0)
    if not (math.isfinite(step) and step > 0):
        return [low, high]
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [n * step for n in range(first, last + 1)] if last - first <= 2 * _INTERVALS else [low, high]


def chart(lines: Sequence[Line], *, x: Axis, y: Axis, label: str, spots: Sequence[Spot] = ()) -> str:
    """Curves over a common pair of axes; nothing if there is nothing to draw."""
    shown = [Line(line.name, [p for p in line.points if math.isfinite(p[0]) and math.isfinite(p[1])]) for line in lines]
    shown = [line for line in shown if line.points]
    if not shown:
        return ""

    def px(value: float) -> float:
        return x.place(value, _LEFT, _WIDTH - _LEFT - _RIGHT)

    def py(value: float) -> float:
        return y.place(value, _HEIGHT - _BOTTOM, -(_HEIGHT - _TOP - _BOTTOM))

    right = _WIDTH - _RIGHT
    parts = [
        f'<line x1="{_LEFT}" x2="{right}" y1="{py(mark):.1f}" y2="{py(mark):.1f}" stroke="var(--line)"/>'
        f'<text class="soft" x="{_LEFT - 8}" y="{py(mark) + 4:.1f}" text-anchor="end">{text(y.write(mark))}</text>'
        for mark in y.marks()
    ]
    parts += [
        f'<text class="soft" x="{px(mark):.1f}" y="{_HEIGHT - 24}" text-anchor="middle">{text(x.write(mark))}</text>'
        for mark in x.marks()
    ]
    for index, line in enumerate(shown):
        where = " ".join(f"{px(a):.1f},{py(b):.1f}" for a, b in line.points if x.low <= a <= x.high)
        colour, dash = _COLOURS[index % len(_COLOURS)], _DASHES[index % len(_DASHES)]
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<polyline points="{where}" fill="none" stroke="var(--{colour})" stroke-width="2.5"{dashed}/>')
        parts += _hover(line, px, py, x=x, y=y, colour=colour)
    parts += _spots([s for s in spots if math.isfinite(s.x) and math.isfinite(s.y)], px, py)
    parts.append(f'<text class="soft" x="{_WIDTH / 2}" y="{_HEIGHT - 4}" text-anchor="middle">{text(x.title)}</text>')
    drawing = (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text(label)}">'
        f"<title>{text(label)}</title>{''.join(parts)}</svg>"
    )
    return _legend(shown) + drawing if len(shown) > 1 else drawing


def _hover(
    line: Line, px: Callable[[float], float], py: Callable[[float], float], *, x: Axis, y: Axis, colour: str
) -> list[str]:
    """Dots that appear, with their values, under the pointer."""
    inside = [point for point in line.points if x.low <= point[0] <= x.high]
    step = max(len(inside) // _HOVERED, 1)
    return [
        f'<circle class="dot" cx="{px(a):.1f}" cy="{py(b):.1f}" r="5" fill="var(--{colour})">'
        f"<title>{text(f'{line.name}: {x.write(a)} {x.title}, {y.write(b)} {y.title}')}</title></circle>"
        for a, b in inside[::step]
    ]


def _spots(spots: Sequence[Spot], px: Callable[[float], float], py: Callable[[float], float]) -> list[str]:
    """Dots with their words; words of dots that stand close together go on lines of their own."""
    parts, lowest, before = [], 0.0, -math.inf
    for spot in sorted(spots, key=lambda s: s.x):
        x, y = px(spot.x), py(spot.y)
        left = x > _WIDTH / 2
        below = y + 22
        if x - before < _CLOSE and abs(below - lowest) < _LINE_HEIGHT * 3:
            below = lowest + _LINE_HEIGHT
        before, lowest = x, below
        parts.append(
            f"<g><title>{text(spot.label)}</title>"
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="var(--{spot.tone})"/>'
            f'<text x="{x + (-10 if left else 10):.1f}" y="{below:.1f}" '
            f'text-anchor="{"end" if left else "start"}">{text(spot.label)}</text></g>'
        )
    return parts


def _legend(lines: Sequence[Line]) -> str:
    entries = []
    for index, line in enumerate(lines):
        dash = _DASHES[index % len(_DASHES)]
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        entries.append(
            '<span><svg class="key" viewBox="0 0 40 10" aria-hidden="true">'
            f'<line x1="0" x2="40" y1="5" y2="5" stroke="var(--{_COLOURS[index % len(_COLOURS)]})" '
            f'stroke-width="3"{dashed}/></svg> {text(line.name)}</span>'
        )
    return f'<p class="legend">{" ".join(entries)}</p>'


@dataclass(frozen=True, slots=True)
class Swing:
    """One number of a tornado: what the result is at its low and at its high end."""

    name: str
    at_low: float
    at_high: float
    note: str
    broken: bool = False


def tornado(swings: Sequence[Swing], *, centre: float, write: Callable[[float], str], label: str) -> str:
    """Bars around the planned value, longest first; a bar that breaks a promise has a dashed edge and says so."""
    ends = [value for s in swings for value in (s.at_low, s.at_high) if math.isfinite(value)]
    reach = max((abs(value - centre) for value in ends), default=0.0)
    if not swings or reach <= 0:
        return ""
    step, left, half = 30, 260, 170
    middle = left + half
    parts = [
        f'<line x1="{middle}" x2="{middle}" y1="0" y2="{len(swings) * step}" stroke="var(--soft)"/>',
    ]
    for index, swing in enumerate(swings):
        y = index * step
        values = [value if math.isfinite(value) else centre for value in (swing.at_low, swing.at_high)]
        low, high = min(*values, centre), max(*values, centre)
        start, width = middle + (low - centre) / reach * half, (high - low) / reach * half
        edge = ' stroke="var(--bad)" stroke-width="1.5" stroke-dasharray="4 3"' if swing.broken else ""
        parts.append(
            f"<g><title>{text(f'{swing.name}: {swing.note}')}</title>"
            f'<text x="{left - 10}" y="{y + 20}" text-anchor="end">{text(swing.name)}</text>'
            f'<rect x="{start:.1f}" y="{y + 7}" width="{max(width, 1.0):.1f}" height="18" rx="3" '
            f'fill="var(--a)"{edge}/>'
            f'<text x="{left + 2 * half + 8}" y="{y + 20}">{text(f"{write(low)} to {write(high)}")}'
            f"{' !' if swing.broken else ''}</text></g>"
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {len(swings) * step + 6}" role="img" aria-label="{text(label)}">'
        f"<title>{text(label)}</title>{''.join(parts)}</svg>"
    )
