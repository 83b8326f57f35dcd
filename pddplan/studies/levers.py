"""What may vary in a sweep: each lever changes one input, and says its unit in the name of its column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from pddplan.domain.sites import Finance, Line, Sites
from pddplan.domain.workload import PROMISE_KINDS, Arrival
from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.evaluate.settings import Settings
from pddplan.questions import at_rate, check_rate, known_chip, settings_of, with_link
from pddplan.record_check import LARGEST, check_inputs
from pddplan.sizing import Inputs
from pddplan.studies.perturb import scale_outputs, with_hit_rate
from pddplan.units import MS_PER_S

Value = float | str
Change = Callable[[Inputs, Value], Inputs]

FLAG = "--vary"
TOPOLOGY = "topology"
FILES = ("workload", "sites", "model", "stack", "weights", "kv", "mtp")
"""Levers that files answer to: each value is read anew, as by the options of the same names."""


@dataclass(frozen=True, slots=True)
class Lever:
    """One input that may vary, with the column its values stand in; the unit is the last word of the name."""

    column: str
    change: Change
    units: Mapping[str, float]
    """What may stand behind a number, and its multiple of the column's unit."""


def _hit_rate(inputs: Inputs, value: Value) -> Inputs:
    share = number(value, "hit_rate")
    if not 0 <= share <= 1:
        raise _wrong("hit_rate", "must lie between 0 and 1", value)
    return replace(inputs, workload=with_hit_rate(inputs.workload, share))


def _link(inputs: Inputs, value: Value) -> Inputs:
    return replace(inputs, sites=with_link(inputs.sites, positive(value, "link")))


def _rps(inputs: Inputs, value: Value) -> Inputs:
    rate_rps = positive(value, "rps")
    check_rate(rate_rps, where=FLAG)
    return replace(inputs, workload=at_rate(inputs.workload, rate_rps))


def _scv(inputs: Inputs, value: Value) -> Inputs:
    arrival = replace(inputs.workload.arrival, scv=positive(value, "scv"), dispersion={})
    return replace(inputs, workload=replace(inputs.workload, arrival=arrival))


def _output_factor(inputs: Inputs, value: Value) -> Inputs:
    return replace(inputs, workload=scale_outputs(inputs.workload, positive(value, "output_factor")))


def _rtt(inputs: Inputs, value: Value) -> Inputs:
    rtt_s = positive(value, "rtt") / MS_PER_S
    return replace(inputs, sites=_each_line(inputs.sites, lambda line: replace(line, rtt_s=rtt_s)))


def _each_line(sites: Sites, change: Callable[[Line], Line]) -> Sites:
    return replace(sites, lines={name: change(line) for name, line in sites.lines.items()})


def _promise(name: str, field: str, *, per_s: float) -> Change:
    def change(inputs: Inputs, value: Value) -> Inputs:
        made: dict[str, Any] = {field: positive(value, name) / per_s}
        promises = replace(inputs.workload.promises, **made)
        return replace(inputs, workload=replace(inputs.workload, promises=promises))

    return change


_SECONDS = {"s": 1.0, "ms": 1.0 / MS_PER_S}
_MILLISECONDS = {"ms": 1.0, "s": MS_PER_S}
_SHARE = {"%": 0.01}
_GBPS = dict.fromkeys(("gbps", "gbit/s", "g"), 1.0)


def _promises() -> dict[str, Lever]:
    """Levers of all promises: TPOT in ms, the others in seconds."""
    found = {}
    for kind in PROMISE_KINDS:
        if kind.latency == "tpot":
            found["tpot"] = Lever("promised_tpot_ms", _promise("tpot", kind.field, per_s=MS_PER_S), _MILLISECONDS)
        else:
            name = kind.field.removesuffix("_s")
            found[name] = Lever(f"promised_{kind.field}", _promise(name, kind.field, per_s=1.0), _SECONDS)
    return found


LEVERS: Mapping[str, Lever] = {
    "hit_rate": Lever("hit_rate_fraction", _hit_rate, _SHARE),
    "link": Lever("link_gbps", _link, _GBPS),
    "rps": Lever("rps", _rps, {}),
    "scv": Lever("scv", _scv, {}),
    "rtt": Lever("rtt_ms", _rtt, _MILLISECONDS),
    "output_factor": Lever("output_factor", _output_factor, {}),
    **_promises(),
}
"""Levers with a name of their own, beside topology, those of FILES and the families."""


def _setting(inputs: Inputs, name: str, value: Value) -> Inputs:
    changed = getattr(settings_of([f"{name}={value}"]), name)
    return replace(inputs, settings=replace(inputs.settings, **{name: changed}))


def _finance(inputs: Inputs, name: str, value: Value) -> Inputs:
    return replace(inputs, sites=replace(inputs.sites, finance=_with(inputs.sites.finance, name, value)))


def _line(inputs: Inputs, name: str, value: Value) -> Inputs:
    return replace(inputs, sites=_each_line(inputs.sites, lambda line: _with(line, name, value)))


def _arrival(inputs: Inputs, name: str, value: Value) -> Inputs:
    return replace(inputs, workload=replace(inputs.workload, arrival=_with(inputs.workload.arrival, name, value)))


def _price(inputs: Inputs, chip: str, value: Value) -> Inputs:
    """The same rent for a chip at every site that offers it."""
    return _each_chip(inputs, chip, "price_per_chip_hour", positive(value, f"price.{chip}"))


def _max_chips(inputs: Inputs, chip: str, value: Value) -> Inputs:
    """The same inventory of a chip at every site that offers it."""
    return _each_chip(inputs, chip, "max_chips", value)


def _each_chip(inputs: Inputs, chip: str, field: str, value: Value) -> Inputs:
    sites = {
        site.id: replace(
            site, chips={name: _with(own, field, value) if name == chip else own for name, own in site.chips.items()}
        )
        for site in inputs.sites.sites.values()
    }
    return replace(inputs, sites=replace(inputs.sites, sites=sites))


def _with(record: Any, name: str, value: Value) -> Any:
    """A record with one field changed; whole numbers where the field counts."""
    given = value
    if isinstance(value, float) and "int" in str(_hints(type(record)).get(name, "")):
        if value != int(value):
            raise _wrong(name, "must be a whole number", value)
        given = int(value)
    return replace(record, **{name: given})


def _hints(record: type) -> dict[str, str]:
    """Fields of a record that hold one number, with the text of their types."""
    plain = ("float", "int", "float | None", "int | None")
    assert is_dataclass(record)
    return {spec.name: str(spec.type) for spec in fields(record) if str(spec.type) in plain}


_OWN_LEVER = ("rtt_s", "rate_rps", "scv")
"""Fields that have a lever by another name."""


def _keys(record: type) -> dict[str, str]:
    return {name: hint for name, hint in _hints(record).items() if name not in _OWN_LEVER}


_WORDS = {spec.name: "str" for spec in fields(Settings) if spec.type == "str"}


@dataclass(frozen=True, slots=True)
class Family:
    """Levers of one kind, told apart by a key behind the dot."""

    change: Callable[[Inputs, str, Value], Inputs]
    keys: Mapping[str, str]
    """Fields and the text of their types; empty where the sites say what there is."""
    column: str = ""
    """Ends the name of the column where the key does not name a unit."""


FAMILIES: Mapping[str, Family] = {
    "price": Family(_price, {}, "_per_chip_hour"),
    "max_chips": Family(_max_chips, {}),
    "settings": Family(_setting, {**_keys(Settings), **_WORDS}),
    "finance": Family(_finance, _keys(Finance)),
    "line": Family(_line, _keys(Line)),
    "arrival": Family(_arrival, _keys(Arrival)),
}
OF_CHIPS = ("price", "max_chips")


def names() -> list[str]:
    """All that may vary, as it is written."""
    families = [f"{name}.{'CHIP' if name in OF_CHIPS else 'NAME'}" for name in FAMILIES]
    return [*LEVERS, TOPOLOGY, *FILES, *families]


def known_name(given: str) -> str | None:
    """The name of a lever as we write it; None where there is none of that name.

    Raises:  InputError for a key that its family has not.
    """
    family, dot, key = given.strip().partition(".")
    family = family.lower().replace("-", "_")
    if not dot:
        return family if family in LEVERS or family in FILES or family == TOPOLOGY else None
    if family not in FAMILIES or not key:
        return None
    keys = FAMILIES[family].keys
    if family in OF_CHIPS:
        return f"{family}.{key.strip().lower()}"
    name = key.strip().lower().replace("-", "_")
    if name not in keys:
        raise InputError(
            Problem(
                f"{given.strip()!r} varies nothing known{did_you_mean(name, keys)}",
                fix=f"after {family}. write one of {', '.join(keys)}",
                where=FLAG,
            )
        )
    return f"{family}.{name}"


def takes_words(name: str) -> bool:
    """Whether the values of a lever are words, not numbers."""
    return name == TOPOLOGY or (name in FILES and name != "mtp") or name.removeprefix("settings.") in _WORDS


def units_of(name: str) -> Mapping[str, float]:
    """Units that may stand behind the numbers of a lever."""
    return LEVERS[name].units if name in LEVERS else {}


def column_of(name: str) -> str:
    """Column that the values of a lever stand in."""
    if name in LEVERS:
        return LEVERS[name].column
    family = FAMILIES.get(name.partition(".")[0])
    return name + (family.column if family is not None else "")


def with_known_chip(name: str, sites: Sites) -> str:
    """The name of a lever with its chip as the sites call it: ``price.H200`` is ``price.h200-sxm``.

    Raises:  InputError for chips that no site offers.
    """
    family, _, key = name.partition(".")
    if family not in OF_CHIPS:
        return name
    try:
        return f"{family}.{known_chip(sites, key)}"
    except InputError as error:
        raise _said_of_flag(error) from None


def _said_of_flag(error: InputError) -> InputError:
    return InputError([replace(problem, where=FLAG) for problem in error.problems])


def changed(inputs: Inputs, name: str, value: Value) -> Inputs:
    """The inputs with one lever moved; topology and the levers of FILES move elsewhere.

    Raises:  InputError for values that make no sense.
    """
    if name == TOPOLOGY or name in FILES:
        return inputs
    try:
        family, _, key = name.partition(".")
        moved = LEVERS[name].change(inputs, value) if name in LEVERS else FAMILIES[family].change(inputs, key, value)
        check_inputs(moved, where=name)
    except InputError as error:
        raise _said_of_flag(error) from None
    return moved


def number(value: Value, name: str) -> float:
    """A value that is a number."""
    if not isinstance(value, float) or not abs(value) <= LARGEST:
        raise _wrong(name, f"must be a number no larger than {LARGEST:g}", value)
    return value


def positive(value: Value, name: str) -> float:
    """A value above zero."""
    if not number(value, name) > 0:
        raise _wrong(name, "must be greater than 0", value)
    return number(value, name)


def _wrong(name: str, rule: str, value: Value) -> InputError:
    return InputError(Problem(f"{name} {rule}, got {value!r}", fix=f"correct {FLAG}", where=FLAG))
