"""Axes of a sweep: read from texts such as ``hit_rate=0.5:0.99:20``, and multiplied to a grid of questions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pddplan.domain.sites import Sites
from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.optimize import TOPOLOGIES
from pddplan.questions import settings_of
from pddplan.studies.levers import (
    FLAG,
    TOPOLOGY,
    Value,
    column_of,
    known_name,
    names,
    takes_words,
    units_of,
    with_known_chip,
)

MOST_POINTS = 100_000


@dataclass(frozen=True, slots=True)
class Axis:
    """One input and the values it takes."""

    name: str
    values: tuple[Value, ...]

    @property
    def column(self) -> str:
        """Its column in the table, with the unit as last word."""
        return column_of(self.name)


def parse_axis(text: str) -> Axis:
    """Read ``name=low:high:points`` (evenly spaced) or ``name=value,value,...``; numbers may carry a unit.

    Raises:  InputError naming what is wrong and an example that works.
    """
    given, equals, values = text.partition("=")
    name = known_name(given)
    if not equals or not values.strip() or name is None:
        what = f"{text!r} varies nothing" if name else f"{text!r} varies nothing known"
        raise InputError(
            Problem(
                what=(what if equals else f"{text!r} has no '='") + did_you_mean(given.strip(), names()),
                fix=f"write NAME=LOW:HIGH:POINTS or NAME=V1,V2; NAME is one of {', '.join(names())}",
                where=FLAG,
            )
        )
    if takes_words(name):
        return Axis(name, _once(_words(name, values, text)))
    units = units_of(name)
    if ":" not in values:
        return Axis(name, _once(_number(part, text, units) for part in values.split(",")))
    parts = values.split(":")
    if len(parts) != 3:
        raise _bad(text, "a range has three parts")
    low, high = (_number(part, text, units) for part in parts[:2])
    points = _number(parts[2], text, {})
    if points != int(points) or not 1 <= points <= MOST_POINTS:
        raise _bad(text, f"the number of points must be whole, from 1 to {MOST_POINTS}")
    steps = max(int(points) - 1, 1)
    return Axis(name, _once(low + (high - low) * i / steps for i in range(int(points))))


def _words(name: str, values: str, text: str) -> list[str]:
    words = [part.strip() for part in values.split(",")]
    for word in words:
        if not word:
            raise _bad(text, "a value is missing")
        if name == TOPOLOGY and word not in TOPOLOGIES:
            raise _bad(text, f"topology {word!r} is unknown{did_you_mean(word, TOPOLOGIES)}")
        if name.startswith("settings."):
            try:
                settings_of([f"{name.removeprefix('settings.')}={word}"])
            except InputError as error:
                raise _bad(text, error.problems[0].what) from None
    return words


def _once(values: Iterable[Value]) -> tuple[Value, ...]:
    """Each value once, as the table writes it, in the order given."""
    return tuple({as_cell(value): value for value in values}.values())


def as_cell(value: Value | int) -> str:
    """A value or figure as the table holds it."""
    return f"{value + 0.0:.10g}" if isinstance(value, float | int) else value


def with_known_chips(axes: Sequence[Axis], sites: Sites) -> list[Axis]:
    """The axes with chips as the sites call them.

    Raises:  InputError for chips that no site offers, and for names given twice.
    """
    found = [replace(axis, name=with_known_chip(axis.name, sites)) for axis in axes]
    called = [axis.name for axis in found]
    if twice := next((name for name in called if called.count(name) > 1), None):
        raise InputError(Problem(f"{twice} is varied twice", fix=f"give all its values in one {FLAG}", where=FLAG))
    return found


def grid(axes: Sequence[Axis]) -> list[tuple[Value, ...]]:
    """Every combination of values, the first axis slowest.

    Raises:  InputError when there are too many combinations.
    """
    total = math.prod(len(axis.values) for axis in axes)
    if total > MOST_POINTS:
        raise InputError(
            Problem(f"{total:,} questions are more than {MOST_POINTS:,}", fix="vary fewer values at a time", where=FLAG)
        )
    return list(itertools.product(*(axis.values for axis in axes)))


def _bad(text: str, what: str) -> InputError:
    return InputError(Problem(f"{what}: {text!r}", fix=f"for example {FLAG} hit_rate=0.5:0.99:20", where=FLAG))


def _number(text: str, whole: str, units: Mapping[str, float]) -> float:
    """A number, in the unit of its column; one of ``units`` may stand behind it."""
    given, times = text.strip(), 1.0
    unit = next((u for u in sorted(units, key=len, reverse=True) if given.lower().endswith(u)), "")
    if unit:
        given, times = given[: -len(unit)], units[unit]
    try:
        value = float(given) * times
    except ValueError:
        known = f" (units: {', '.join(units)})" if units else ""
        raise _bad(whole, f"{text.strip()!r} is no number{known}") from None
    if not math.isfinite(value):
        raise _bad(whole, f"{text.strip()!r} is not finite")
    return value
