"""Records to plain data and back, exactly: what a plan file embeds so that it can be evaluated again elsewhere.

Driven by the type hints of the frozen dataclasses in ``domain`` and its kin. Arrays become lists, enums their
values, ``inf`` and ``nan`` the words (JSON has no numbers for them); where a field may hold one of several
records, ``$type`` names which.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar

import numpy as np

from pddplan.errors import InputError, Problem, did_you_mean

R = TypeVar("R")
TYPE_KEY = "$type"
_WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def to_plain(value: Any, *, tagged: bool = False) -> Any:
    """Plain data (dict, list, text, numbers) of a record."""
    if value is None or (isinstance(value, (bool, int)) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if isinstance(value, str):
        return value
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.ndarray):
        return to_plain(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        plain = {f.name: to_plain(getattr(value, f.name), tagged=_is_choice(hints[f.name])) for f in fields(value)}
        return {TYPE_KEY: type(value).__name__, **plain} if tagged else plain
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(item) for item in value]
    return str(value)  # dates and paths in free provenance records


def from_plain(record: type[R], data: Any, *, where: str) -> R:
    """Build a record from plain data.

    Raises:  InputError naming the key path of the first fault.
    """
    built: R = _build(record, data, where)
    return built


def _build(hint: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    # from 2.5 on numpy's NDArray is a named alias (PEP 695) of what it used to be
    origin = typing.get_origin(getattr(origin, "__value__", None)) or origin
    if hint is Any or isinstance(hint, TypeVar):
        return data
    if origin in (typing.Union, types.UnionType):
        return _build_union(typing.get_args(hint), data, where)
    if origin is np.ndarray:
        return _array(data, where)
    if origin is tuple:
        return _build_tuple(typing.get_args(hint), data, where)
    if origin is not None and issubclass(origin, Mapping):
        key_hint, value_hint = typing.get_args(hint)
        if not isinstance(data, Mapping):
            raise _fault("must be a mapping", data, where)
        numeric = key_hint in (int, float)
        return {
            _build(key_hint, _number(key) if numeric else key, where): _build(value_hint, item, f"{where}.{key}")
            for key, item in data.items()
        }
    if is_dataclass(hint):
        return _build_record(hint, data, where)
    return _build_scalar(hint, data, where)


def _build_scalar(hint: Any, data: Any, where: str) -> Any:
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(data)
        except ValueError:
            known = ", ".join(str(member.value) for member in hint)
            raise _fault(f"must be one of {known}", data, where) from None
    if hint is float:
        number = _number(data)
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise _fault("must be a number", data, where)
        try:
            return float(number)
        except OverflowError:
            raise _fault("must be a number of usual size", "a whole number of many digits", where) from None
    if hint is int and (isinstance(data, bool) or not isinstance(data, int)):
        raise _fault("must be a whole number", data, where)
    if hint is bool and not isinstance(data, bool):
        raise _fault("must be true or false", data, where)
    if hint is str and not isinstance(data, str):
        raise _fault("must be text", data, where)
    return data


def _build_record(record: Any, data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise _fault("must be a mapping", data, where)
    hints = _hints(record)
    known = {f.name: f for f in fields(record)}
    for key in data:
        if key not in known and key != TYPE_KEY:
            raise InputError(
                Problem(what=f"unknown key {key!r}{did_you_mean(str(key), known)}", fix="remove it", where=where)
            )
    given = {}
    for name, spec in known.items():
        if name in data:
            given[name] = _build(hints[name], data[name], f"{where}.{name}")
        elif spec.default is MISSING and spec.default_factory is MISSING:
            raise InputError(Problem(what="this key is missing", fix="add it", where=f"{where}.{name}"))
    return record(**given)


def _build_union(choices: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in choices:
        return None
    records = [c for c in choices if is_dataclass(c)]
    if isinstance(data, Mapping) and len(records) > 1:
        named = {c.__name__: c for c in records if isinstance(c, type)}
        tag = data.get(TYPE_KEY)
        if not isinstance(tag, str) or tag not in named:
            raise _fault(f"{TYPE_KEY} must be one of {', '.join(named)}", tag, where)
        return _build(named[tag], data, where)
    rest = [c for c in choices if c is not type(None)]
    for choice in rest[:-1]:
        try:
            return _build(choice, data, where)
        except InputError:
            continue
    return _build(rest[-1], data, where)


def _build_tuple(hints: tuple[Any, ...], data: Any, where: str) -> Any:
    if not isinstance(data, list):
        raise _fault("must be a list", data, where)
    if len(hints) == 2 and hints[1] is Ellipsis:
        return tuple(_build(hints[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if len(data) != len(hints):
        raise _fault(f"must have {len(hints)} entries", data, where)
    return tuple(_build(h, item, f"{where}[{i}]") for i, (h, item) in enumerate(zip(hints, data, strict=True)))


def _array(data: Any, where: str) -> Any:
    try:
        array = np.asarray(_numbers(data), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise _fault("must be a list of numbers", data, where) from None
    return array


def _numbers(data: Any) -> Any:
    return [_numbers(item) for item in data] if isinstance(data, list) else _number(data)


def _number(data: Any) -> Any:
    if isinstance(data, str):
        if data in _WORDS:
            return _WORDS[data]
        try:
            return float(data)
        except ValueError:
            return data
    return data


def _is_choice(hint: Any) -> bool:
    """Whether a field may hold one of several records."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return sum(is_dataclass(c) for c in typing.get_args(hint)) > 1
    return False


@cache
def _hints(record: Any) -> dict[str, Any]:
    return typing.get_type_hints(record)


def _fault(rule: str, got: Any, where: str) -> InputError:
    shown = repr(got)
    return InputError(
        Problem(
            what=f"{rule}, got {shown if len(shown) <= 60 else shown[:57] + '...'}",
            fix="write the file again with 'pddplan size --out'",
            where=where,
        )
    )
