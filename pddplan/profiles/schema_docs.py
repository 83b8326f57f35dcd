"""What a schema says about itself: the sentence under each field, as rows for docs and as JSON Schema for editors."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pddplan.profiles.schema import Profile, Source, Sourced


@dataclass(frozen=True, slots=True)
class KeyDoc:
    """One key of a file."""

    path: str
    """Dotted; ``<id>`` stands for a name of the user's, ``[]`` for an element of a list."""
    kind: str
    required: bool
    default: str
    about: str


def key_docs(schema: type[Profile]) -> list[KeyDoc]:
    """All keys of a kind of file, parents before children; the inside of ``sources`` is left out."""
    return list(_rows(schema, "", frozenset()))


def json_schema(schema: type[Profile], *, url: str | None = None) -> dict[str, Any]:
    """JSON Schema of a kind of file, with the sentence of each field as its description.

    A number with source may stand there as a plain number in the editor's eyes; whether a kind of file allows it, the
    loader says.
    """
    plain = schema.model_json_schema(by_alias=True)
    models = {model.__name__: model for model in _models(schema)}
    definitions = plain.get("$defs", {})
    for name, model in models.items():
        properties = (plain if model is schema else definitions.get(name, {})).get("properties", {})
        for field, about in field_sentences(model).items():
            alias = model.model_fields[field].alias or field
            if alias in properties:
                properties[alias]["description"] = about
                properties[alias].pop("title", None)
        if model is not schema and issubclass(model, Sourced) and name in definitions:
            definitions[name] = {"anyOf": [definitions[name], {"type": ["number", "string"]}]}
    plain["properties"]["schema"] = {"const": schema.schema_name, "description": "Kind and version of the file."}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"pddplan {schema.schema_name}"}
    return {**head, **({"$id": url} if url else {}), **{k: v for k, v in plain.items() if k != "title"}}


@cache
def field_sentences(model: type[BaseModel]) -> dict[str, str]:
    """The string below each field of a class and its bases, joined to one line."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base is BaseModel or not issubclass(base, BaseModel):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                found[field.target.id] = " ".join(text.value.value.split())
    return {name: about for name, about in found.items() if name in model.model_fields}


def _rows(model: type[BaseModel], prefix: str, seen: frozenset[type]) -> Iterator[KeyDoc]:
    sentences = field_sentences(model)
    for name, info in model.model_fields.items():
        if issubclass(model, Sourced) and name in Sourced.model_fields:
            continue  # value, source, note, range and doubt are explained once for all
        path = f"{prefix}{info.alias or name}"
        yield KeyDoc(path, _kind(info.annotation), info.is_required(), _default(info), sentences.get(name, ""))
        for inner, inner_path in _inside(info.annotation, path):
            if inner not in seen and inner is not Source:
                yield from _rows(inner, f"{inner_path}.", seen | {inner})


def _inside(annotation: Any, path: str) -> Iterator[tuple[type[BaseModel], str]]:
    """Models inside an annotation, with the path under which their keys stand."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, path
    elif origin is Annotated:
        yield from _inside(arguments[0], path)
    elif origin in (typing.Union, types.UnionType):
        for argument in arguments:
            yield from _inside(argument, path)
    elif origin is list:
        yield from _inside(arguments[0], f"{path}[]")
    elif origin is dict:
        yield from _inside(arguments[1], f"{path}.<id>")


def _models(schema: type[BaseModel], seen: set[type] | None = None) -> Iterator[type[BaseModel]]:
    seen = set() if seen is None else seen
    if schema in seen:
        return
    seen.add(schema)
    yield schema
    for info in schema.model_fields.values():
        for inner, _ in _inside(info.annotation, ""):
            yield from _models(inner, seen)


def _kind(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_kind(a) for a in arguments if a is not type(None)))
    if origin is Literal:
        return " / ".join(str(a) for a in arguments)
    if origin is list:
        return f"list of {_kind(arguments[0])}"
    if origin is dict:
        return f"mapping to {_kind(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Sourced):
        return f"{_kind(annotation.model_fields['value'].annotation)} with source"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    return {float: "number", int: "whole number", str: "text", bool: "true / false"}.get(annotation, "value")


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel) or value in ([], {}, ()):
        return ""
    return f"{value}"
