"""What every YAML schema shares: the strict base class, numbers with a source, and errors with file and line.

A schema is a class derived from ``Profile`` (or ``Strict`` for its parts). The sentence under a field documents it.

    class ChipFile(Profile):
        schema_name: ClassVar[str] = "chip/1"
        chip: ChipBody

    file = read(document, ChipFile)             # every fault of the file in one InputError
    origins = provenance(file)                  # {"chip.memory_gb": Provenance(...)}

Values are checked strictly: text is not a number, true is not 1, and numbers are finite. Use ``list`` for lists and
``Literal`` for words (strict mode wants tuples and enums as such).
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from pddplan.domain.provenance import Basis, Provenance
from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.profiles.yaml_source import KeyPath, SourceDocument, dotted, kind_of

LARGEST = 1e24
"""No quantity anyone writes in a profile is larger; keeps products of them finite."""

SMALLEST = 1e-24
"""No positive quantity of this trade is smaller; what divides by one must not overflow."""


def _not_vanishing(value: float) -> float:
    if value < SMALLEST:
        raise PydanticCustomError("greater_than_equal", "too small", {"ge": SMALLEST})
    return value


Positive = Annotated[float, Field(gt=0, le=LARGEST), AfterValidator(_not_vanishing)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=10**9)]
CountOrZero = Annotated[int, Field(ge=0, le=10**9)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]


def _number_key(key: Any) -> Any:
    try:
        return float(key)
    except (TypeError, ValueError):
        return key


NumberKey = Annotated[float, BeforeValidator(_number_key)]
"""Key of a mapping that is a number (YAML keys arrive as text)."""


class Strict(BaseModel):
    """Base of all parts of a schema: frozen, no unknown keys, no silent conversions, finite numbers."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True, protected_namespaces=()
    )


class Source(Strict):
    """Where numbers come from; named once per file and referred to by its key."""

    kind: Literal["measured", "datasheet", "published", "derived", "calibrated", "assumption"]
    """How far to trust it: measured, datasheet, published, derived, calibrated or assumption."""
    title: Text
    """What it is called."""
    url: str | None = None
    """Where it can be read."""
    place: str | None = None
    """Page, table or section inside it."""
    date: str | None = None
    """When it was published, e.g. 2026-04."""
    read_on: str | None = None
    """When we read it, e.g. 2026-08-20."""

    @property
    def basis(self) -> Basis:
        return Basis.ASSUMED if self.kind == "assumption" else Basis[self.kind.upper()]


class Sourced(Strict):
    """Base of numbers that carry their source; derived classes restrict ``value``."""

    value: Any
    source: Text
    """Key of the ``sources`` section."""
    note: str | None = None
    """Anything a reader should know, e.g. how it was converted."""
    low: float | None = None
    """Lowest plausible value; required for an assumption."""
    high: float | None = None
    """Highest plausible value; required for an assumption."""
    doubtful: bool = False
    """True where good sources disagree."""


class SourcedNumber(Sourced):
    """Any finite number."""

    value: Annotated[float, Field(ge=-LARGEST, le=LARGEST)]


class SourcedPositive(Sourced):
    """A number above zero."""

    value: Positive


class SourcedNonNegative(Sourced):
    """A number that is not negative."""

    value: NonNegative


class SourcedFraction(Sourced):
    """A share between 0 and 1."""

    value: Fraction


class SourcedCount(Sourced):
    """A whole number, at least 1."""

    value: Count


class SourcedText(Sourced):
    """A word or name with a source."""

    value: Text


GIVEN = "given"
"""Source key of a plain number: the user's own fact, standing without a source."""
_GIVEN_SOURCE = Source(kind="assumption", title="given in the file without a source")


def _wrap_plain(value: Any) -> Any:
    return value if isinstance(value, (dict, list)) or value is None else {"value": value, "source": GIVEN}


OrPlain = BeforeValidator(_wrap_plain)
"""``Annotated[SourcedPositive, OrPlain]``: a number with source, or a plain number (files that users write)."""


class Profile(Strict):
    """Base of whole files: names its schema, itself and its sources."""

    schema_name: ClassVar[str]
    """What the ``schema`` line must say, e.g. ``chip/1``."""
    checks: ClassVar[tuple[Check[Any], ...]] = ()
    """Conditions across fields."""

    schema_id: str = Field(alias="schema")
    """Kind and version of the file, e.g. chip/1."""
    name: Text
    """Name shown to people."""
    sources: dict[str, Source] = Field(default_factory=dict)
    """Where the numbers come from; each number refers to one by key."""


F = TypeVar("F", bound=Profile)
P = TypeVar("P", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Check(Generic[P]):
    """A condition across fields, checked once all fields are valid by themselves."""

    name: str
    holds: Callable[[P], bool]
    message: Callable[[P], str]
    fix: str
    key: KeyPath = ()


def read(document: SourceDocument, schema: type[F]) -> F:
    """Check a document against its schema.

    Raises:  InputError with every fault of the file, each with file, line, key path and fix.
    """
    _check_schema_line(document, schema)
    try:
        file = schema.model_validate(document.data)
    except ValidationError as error:
        raise InputError([_problem(document, schema, fault) for fault in error.errors(include_url=False)]) from None
    problems = list(_source_problems(document, file))
    problems += [
        document.problem(check.key, check.message(file), fix=check.fix)
        for check in schema.checks
        if not check.holds(file)
    ]
    if problems:
        raise InputError(problems)
    return file


def provenance(file: Profile) -> dict[str, Provenance]:
    """Origin of each sourced number by dotted key path, e.g. ``chip.memory_gb`` (list elements as ``[0]``)."""
    found = {}
    for path, number in sourced_numbers(file):
        source = file.sources.get(number.source, _GIVEN_SOURCE)
        found[dotted(path)] = origin_of(number, source)
    return found


def origin_of(number: Sourced, source: Source) -> Provenance:
    """Provenance of one number of a file."""
    title = f"{source.title}, {source.place}" if source.place else source.title
    return Provenance(
        basis=source.basis,
        source=title,
        date=source.date or source.read_on,
        note=number.note,
        low=number.low,
        high=number.high,
        doubtful=number.doubtful,
    )


def sourced_numbers(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Sourced]]:
    """All numbers with a source inside a model, list or mapping, with their key paths."""
    if isinstance(value, Sourced):
        yield path, value
    elif isinstance(value, BaseModel):
        for name, info in type(value).model_fields.items():
            yield from sourced_numbers(getattr(value, name), (*path, info.alias or name))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from sourced_numbers(inner, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from sourced_numbers(inner, (*path, index))


# -- faults ----------------------------------------------------------------------------------------------------


def _check_schema_line(document: SourceDocument, schema: type[Profile]) -> None:
    got = document.data.get("schema")
    if got == schema.schema_name:
        return
    if got is None:
        what = f"the line 'schema: {schema.schema_name}' is missing; is this the right kind of file?"
    else:
        what = f"expected a file with schema {schema.schema_name!r}, got {kind_of(got)}"
    raise InputError(
        document.problem(
            ("schema",) if got is not None else (),
            what,
            fix=f"give a {schema.schema_name.split('/')[0]} file that starts with 'schema: {schema.schema_name}'",
        )
    )


def _source_problems(document: SourceDocument, file: Profile) -> Iterator[Problem]:
    used = set()
    for path, number in sourced_numbers(file):
        used.add(number.source)
        if number.source == GIVEN and GIVEN not in file.sources:
            continue
        source = file.sources.get(number.source)
        if source is None:
            yield document.problem(
                (*path, "source"),
                f"unknown source {number.source!r}{did_you_mean(number.source, file.sources)}",
                fix="name a key of the sources section, or add one there",
            )
            continue
        one_number = isinstance(number.value, (int, float))  # texts and tables have no range
        if source.basis is Basis.ASSUMED and one_number and (number.low is None or number.high is None):
            yield document.problem(path, "an assumption needs a range", fix="add 'low' and 'high' to it")
        yield from _range_problems(document, path, number)
    for key in file.sources:
        if key not in used:
            yield document.problem(("sources", key), "no number uses this source", fix="remove it, or refer to it")


def _range_problems(document: SourceDocument, path: KeyPath, number: Sourced) -> Iterator[Problem]:
    if not isinstance(number.value, (int, float)):
        return
    low = number.value if number.low is None else number.low
    high = number.value if number.high is None else number.high
    if not low <= number.value <= high:
        yield document.problem(
            path,
            f"the value {number.value:g} lies outside its own range {low:g} to {high:g}",
            fix="correct one of them",
        )


def _problem(document: SourceDocument, schema: type[BaseModel], fault: Any) -> Problem:
    path = _document_path(document.data, fault["loc"])
    kind, got, ctx = fault["type"], fault.get("input"), fault.get("ctx", {})
    if kind == "extra_forbidden":
        known = _known_keys(schema, path[:-1])
        hint = did_you_mean(str(path[-1]), known)
        listed = f"use one of: {', '.join(sorted(known))}" if known else "remove it"
        return document.problem(path, f"unknown key {path[-1]!r}{hint}", fix=listed)
    if kind == "missing":
        return document.problem(path, "this key is missing", fix=f"add '{fault['loc'][-1]}: ...'")
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        key = str(ctx["discriminator"]).strip("'")
        if kind == "union_tag_not_found":
            return document.problem((*path, key), "this key is missing", fix=f"add '{key}: ...'")
        words = [word.strip("' ") for word in str(ctx["expected_tags"]).split(",")]
        what = f"unknown {key} {ctx['tag']!r}{did_you_mean(str(ctx['tag']), words)}"
        return document.problem((*path, key), what, fix=f"use one of: {', '.join(words)}")
    what, fix = _told(kind, got, ctx, fault["msg"])
    return document.problem(path, what, fix=fix)


_LIMITS = {
    "greater_than": ("must be greater than {gt}", "give a number above {gt}"),
    "greater_than_equal": ("must be at least {ge}", "give a number from {ge} up"),
    "less_than": ("must be less than {lt}", "give a number below {lt}"),
    "less_than_equal": ("must be at most {le}", "give a number up to {le}"),
    "multiple_of": ("must be a multiple of {multiple_of}", "give a multiple of {multiple_of}"),
    "string_too_short": ("must not be empty", "write some text"),
    "string_too_long": ("must not be longer than {max_length} characters", "shorten it"),
    "string_pattern_mismatch": ("must match {pattern}", "use letters, digits, dots, dashes and underscores"),
    "too_short": ("needs at least {min_length} entries", "add entries"),
    "too_long": ("may have at most {max_length} entries", "remove entries"),
    "literal_error": ("must be {expected}", "use one of these words"),
    "enum": ("must be {expected}", "use one of these words"),
}
_KINDS = {
    "float_type": ("a number", "write a plain number such as 12.5 or 1.5e9, without unit and quotes"),
    "float_parsing": ("a number", "write a plain number such as 12.5 or 1.5e9, without unit and quotes"),
    "int_type": ("a whole number", "write it without decimal point, unit and quotes"),
    "int_from_float": ("a whole number", "write it without decimal point"),
    "int_parsing": ("a whole number", "write it without decimal point, unit and quotes"),
    "finite_number": ("a finite number", "write an ordinary number"),
    "bool_type": ("true or false", "write true or false"),
    "string_type": ("text", "put it in quotes if it looks like a number"),
    "list_type": ("a list", "write entries as lines that start with '- '"),
    "dict_type": ("a mapping", "write lines of the form 'key: value' below it"),
    "model_type": ("a mapping", "write lines of the form 'key: value' below it"),
    "model_attributes_type": ("a mapping", "write lines of the form 'key: value' below it"),
}


def _told(kind: str, got: object, ctx: Mapping[str, Any], message: str) -> tuple[str, str]:
    """What is wrong and what to do, in the words of a user of YAML."""
    if kind in _LIMITS:
        what, fix = (template.format_map(_Numbers(ctx)) for template in _LIMITS[kind])
        if kind == "literal_error" and isinstance(got, str):
            what += f", got {got!r}{did_you_mean(got, [w.strip(chr(39)) for w in _words(ctx)])}"
            return what, fix
        return f"{what}, got {kind_of(got)}", fix
    if kind in _KINDS:
        wanted, fix = _KINDS[kind]
        return f"must be {wanted}, got {kind_of(got)}", fix
    if kind == "value_error" and isinstance(ctx.get("error"), InputError):
        problem = ctx["error"].problems[0]
        return problem.what, problem.fix
    return f"{message[:1].lower()}{message[1:]}, got {kind_of(got)}", "correct the value"


class _Numbers(dict[str, Any]):
    """Template values; numbers in short form."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        return f"{value:g}" if isinstance(value, float) else value


def _words(ctx: Mapping[str, Any]) -> list[str]:
    return str(ctx.get("expected", "")).replace(" or ", ", ").split(", ")


def _document_path(data: Any, loc: tuple[str | int, ...]) -> KeyPath:
    """Key path in the file for a pydantic location, which also names union branches and ``[key]``."""
    path: KeyPath = ()
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        if isinstance(data, Mapping):
            if str(part) in data:
                data = data[str(part)]
                path = (*path, str(part))
            elif last and part != "[key]":
                path = (*path, str(part))
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
            path = (*path, part)
    return path


def _known_keys(schema: type[BaseModel], path: KeyPath) -> list[str]:
    """Keys that a schema allows at a key path."""
    here: list[Any] = [schema]
    for part in path:
        here = [inner for annotation in here for inner in _step(annotation, part)]
    return [info.alias or name for model in here if _is_model(model) for name, info in model.model_fields.items()]


def _step(annotation: Any, part: str | int) -> Iterator[Any]:
    if _is_model(annotation):
        for name, info in annotation.model_fields.items():
            if part in (name, info.alias):
                yield from _branches(info.annotation)
        return
    arguments = typing.get_args(annotation)
    if arguments:
        yield from _branches(arguments[-1] if arguments[-1] is not Ellipsis else arguments[0])


def _branches(annotation: Any) -> Iterator[Any]:
    """An annotation without Annotated, one by one for unions."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        yield from _branches(typing.get_args(annotation)[0])
    elif origin in (typing.Union, types.UnionType):
        for inner in typing.get_args(annotation):
            yield from _branches(inner)
    else:
        yield annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
