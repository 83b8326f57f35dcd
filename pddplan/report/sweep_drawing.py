"""``pddplan sweep --plot``: a figure of a sweep drawn in characters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from pddplan.report.line_chart import line_chart
from pddplan.report.numbers import bar, short
from pddplan.report.sweep_file import header
from pddplan.report.sweep_layout import MOST_CURVES, Layout, Panel, axis_words, laid_out
from pddplan.report.text_table import Screen, paragraph
from pddplan.studies.axes import Axis

LETTERS = "abcdefghij"
SHADES, PLAIN_SHADES = "░▒▓█", ".:*#"
NO_PLAN = "×"
SHADE_CELLS, BAR_CELLS = 2, 40
_BOUND = "\u2060"
"""Stands for a space that no line may end at; no label has it."""


def drawings(axes: Sequence[Axis], rows: Sequence[Sequence[str]], column: str, screen: Screen) -> list[str]:
    """Lines of all drawings of one figure."""
    layout = laid_out(axes, rows, column, header(axes))
    lines = [screen.paint.bold(layout.title)]
    for panel in layout.panels:
        lines += [panel.title] if panel.title else []
        lines += _panel(panel, layout, screen)
    said = []
    if layout.left_out:
        said.append(f"{layout.left_out} more drawings are left out: the table has all values")
    if layout.without_plan:
        said.append(f"questions without a plan, which leave gaps: {layout.without_plan}")
    return [*lines, *(line for text in said for line in paragraph(text, width=screen.width))]


def _panel(panel: Panel, layout: Layout, screen: Screen) -> list[str]:
    found = [value for points in panel.curves.values() for _, value in points if math.isfinite(value)]
    if not found:
        return ["  no question has a plan"]
    if panel.across is None:
        return list(_bars(panel, layout, max(found), screen))
    if panel.shaded:
        return list(_shades(panel, layout, min(found), max(found), screen))
    return _curves(panel, panel.across, layout, screen)


def _curves(panel: Panel, across: Axis, layout: Layout, screen: Screen) -> list[str]:
    drawn = list(panel.curves.items())[: max(MOST_CURVES, len(LETTERS))]
    x = [place for place, _ in drawn[0][1]]
    columns = [[value for _, value in points] for _, points in drawn]
    alone = len(drawn) == 1
    letters = [None] if alone else list(LETTERS[: len(drawn)])
    lines = line_chart(
        x,
        columns[0],
        width=screen.width,
        letter=letters[0],
        more=[(letter or "", x, column) for letter, column in zip(letters[1:], columns[1:], strict=True)],
        write=layout.write,
        x_labels=[(place, short(place)) for place in (x[0], x[len(x) // 2], x[-1])],
    )
    lines.append(axis_words(across).center(screen.width).rstrip())
    if not alone:
        entries = [f"{letter} {label}" for letter, (label, _) in zip(letters, drawn, strict=True)]
        lines += _together([*entries, "(* several)"], screen)
    if len(drawn) < len(panel.curves):
        lines.append(f"{len(panel.curves) - len(drawn)} more curves are left out: the table has all values")
    return lines


def _shades(panel: Panel, layout: Layout, low: float, high: float, screen: Screen) -> Iterator[str]:
    """Rows of shades, the darkest for the highest value."""
    assert panel.across is not None
    assert panel.other is not None
    shades = PLAIN_SHADES if screen.ascii_only else SHADES
    none = "x" if screen.ascii_only else NO_PLAN
    labels = {name: name.removeprefix(f"{panel.other.column} ") for name in panel.curves}
    wide = max(map(len, labels.values()))
    room = max((screen.width - wide - 2) // SHADE_CELLS, 1)
    yield f"{panel.other.column} down, {axis_words(panel.across)} across"
    for name, points in reversed(list(panel.curves.items())):
        cells = [
            (none if not math.isfinite(value) else _shade(value, low, high, shades)) * SHADE_CELLS
            for _, value in points[:room]
        ]
        yield f"{labels[name]:>{wide}} |{''.join(cells)}"
    places = [place for place, _ in next(iter(panel.curves.values()))]
    first, last = short(places[0]), short(places[min(len(places), room) - 1])
    yield f"{'':>{wide}}  {first}{last:>{max(SHADE_CELLS * min(len(places), room) - len(first), len(last) + 1)}}"
    if len(places) > room:
        yield f"the last {len(places) - room} columns do not fit here: the table has all values"
    step = (high - low) / len(shades)
    scale = [f"{shade * SHADE_CELLS} up to {layout.write(low + step * i)}" for i, shade in enumerate(shades, start=1)]
    yield from _together([*scale, f"{none * SHADE_CELLS} no plan"], screen)


def _together(entries: Sequence[str], screen: Screen) -> list[str]:
    """Entries of a legend, none of them broken over two lines."""
    bound = "   ".join(entry.replace(" ", _BOUND) for entry in entries)
    return [line.replace(_BOUND, " ") for line in paragraph(bound, width=screen.width)]


def _shade(value: float, low: float, high: float, shades: str) -> str:
    share = (value - low) / (high - low) if high > low else 0.0
    return shades[min(int(share * len(shades)), len(shades) - 1)]


def _bars(panel: Panel, layout: Layout, high: float, screen: Screen) -> Iterator[str]:
    wide = max(cell_len(name) for name in panel.curves)
    full, empty = ("#", ".") if screen.ascii_only else ("█", "░")
    for name, ((_, value),) in panel.curves.items():
        told = layout.write(value) if math.isfinite(value) else "no plan"
        drawn = bar(value / high if math.isfinite(value) and high > 0 else 0.0, BAR_CELLS, full=full, empty=empty)
        yield f"{name}{' ' * (wide - cell_len(name))}  {drawn}  {told}"
