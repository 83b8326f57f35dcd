"""Schemas: every fault of a file at once, with its place and a fix."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from pddplan.domain.provenance import Basis
from pddplan.errors import InputError
from pddplan.profiles import schema
from pddplan.profiles.schema import (
    Check,
    OrPlain,
    SourcedCount,
    SourcedFraction,
    SourcedPositive,
    Strict,
    provenance,
    read,
)
from pddplan.profiles.yaml_source import loads


class Part(Strict):
    bandwidth_gb_per_s: SourcedPositive
    share: SourcedFraction | None = None
    layers: SourcedCount | None = None
    kind: Literal["hbm", "gddr"] = "hbm"
    limits: dict[schema.NumberKey, float] = Field(default_factory=dict)
    price: Annotated[SourcedPositive, OrPlain] | None = None


class ThingFile(schema.Profile):
    schema_name: ClassVar[str] = "thing/1"
    thing: Part
    parts: list[Part] = Field(default_factory=list)


ThingFile.checks = (
    Check(
        name="few parts",
        holds=lambda file: len(file.parts) < 3,
        message=lambda file: f"at most 2 parts, got {len(file.parts)}",
        fix="remove some",
        key=("parts",),
    ),
)

HEAD = "schema: thing/1\nname: x\nsources:\n  sheet: {kind: datasheet, title: sheet, date: 2026-01}\n"


def faults(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(loads(text, name="t.yaml"), ThingFile)
    return [str(p) for p in caught.value.problems]


def test_good_file_and_its_provenance() -> None:
    text = HEAD + "thing: {bandwidth_gb_per_s: {value: 3350, source: sheet, note: n}, limits: {0.9: 2}, price: 3}\n"
    file = read(loads(text), ThingFile)
    assert file.thing.bandwidth_gb_per_s.value == 3350
    assert file.thing.limits == {0.9: 2.0}
    origins = provenance(file)
    assert origins["thing.bandwidth_gb_per_s"].basis is Basis.DATASHEET
    assert origins["thing.bandwidth_gb_per_s"].date == "2026-01"
    assert origins["thing.price"].basis is Basis.ASSUMED


def test_all_faults_at_once_with_lines() -> None:
    text = HEAD + (
        "thing:\n"
        "  bandwidth_gb_per_s: {value: -4800, source: sheet}\n"
        "  share: {value: no, source: sheet}\n"
        "  layers: {value: 1.5, source: sheet}\n"
        "  knid: hbm\n"
        "parts: {}\n"
        "extra: 1\n"
    )
    assert faults(text) == [
        "t.yaml:6: thing.bandwidth_gb_per_s.value\n  must be greater than 0, got -4800\n  fix: give a number above 0",
        "t.yaml:7: thing.share.value\n  must be a number, got text 'no'\n"
        "  fix: write a plain number such as 12.5 or 1.5e9, without unit and quotes",
        "t.yaml:8: thing.layers.value\n  must be a whole number, got 1.5\n"
        "  fix: write it without decimal point, unit and quotes",
        "t.yaml:9: thing.knid\n  unknown key 'knid'; did you mean 'kind'?\n"
        "  fix: use one of: bandwidth_gb_per_s, kind, layers, limits, price, share",
        "t.yaml:10: parts\n  must be a list, got a mapping\n  fix: write entries as lines that start with '- '",
        "t.yaml:11: extra\n  unknown key 'extra'\n  fix: use one of: name, parts, schema, sources, thing",
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (".nan", "finite number"),
        (".inf", "finite number"),
        ("1e308", "must be at most"),
        ("true", "must be a number, got true"),
        ("'5'", "must be a number, got text '5'"),
        ("", "must be a number, got nothing"),
        ("[1]", "must be a number, got a list"),
        ("0", "must be greater than 0"),
        ("12:30:45", "got text '12:30:45'"),
    ],
)
def test_hostile_numbers(value: str, words: str) -> None:
    (fault,) = faults(HEAD + f"thing:\n  bandwidth_gb_per_s: {{value: {value}, source: sheet}}\n")
    assert words in fault
    assert fault.startswith("t.yaml:6: thing.bandwidth_gb_per_s.value")


def test_plain_number_where_allowed_and_message_where_not() -> None:
    (fault,) = faults(HEAD + "thing: {bandwidth_gb_per_s: 5}\nparts: []\n")[:1]
    assert "must be a mapping, got 5" in fault
    good = "thing: {bandwidth_gb_per_s: {value: 5, source: sheet}, price: cheap}\n"
    (fault,) = faults(HEAD + good)
    assert "thing.price\n  must be a number, got text 'cheap'" in fault


def test_sources_are_known_used_and_assumptions_have_ranges() -> None:
    text = (
        "schema: thing/1\nname: x\nsources:\n"
        "  guess: {kind: assumption, title: until measured}\n"
        "  idle: {kind: published, title: nobody reads me}\n"
        "thing: {bandwidth_gb_per_s: {value: 5, source: gues}, share: {value: 0.5, source: guess}}\n"
        "parts: [{bandwidth_gb_per_s: {value: 5, source: guess, low: 6, high: 7}}]\n"
    )
    found = faults(text)
    assert "unknown source 'gues'; did you mean 'guess'?" in found[0]
    assert "an assumption needs a range" in found[1]
    assert "lies outside its own range 6 to 7" in found[2]
    assert "t.yaml:5: sources.idle\n  no number uses this source" in found[3]


def test_wrong_kind_of_file_and_cross_checks() -> None:
    assert "expected a file with schema 'thing/1', got text 'chip/1'" in faults("schema: chip/1\nname: x\n")[0]
    assert "the line 'schema: thing/1' is missing" in faults("name: x\n")[0]
    part = "{bandwidth_gb_per_s: {value: 5, source: sheet}}"
    (fault,) = faults(HEAD + f"thing: {part}\nparts: [{part}, {part}, {part}]\n")
    assert fault == "t.yaml:6: parts\n  at most 2 parts, got 3\n  fix: remove some"


def test_missing_key_names_the_place_around_it() -> None:
    (fault,) = faults(HEAD + "thing: {share: {value: 0.5, source: sheet}}\n")
    assert fault.startswith("t.yaml:5: thing.bandwidth_gb_per_s\n  this key is missing")
