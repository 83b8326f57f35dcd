"""Strict YAML: surprises refused, places known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan import files
from pddplan.errors import InputError
from pddplan.profiles.yaml_source import dotted, dump, load, loads


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        loads(text, name="f.yaml")
    return str(caught.value)


def test_numbers_words_and_the_rest() -> None:
    text = """
a: 1e12
b: no
c: 12:30:45
d: 0x10
e: 010
f: .5
g: 2026-08-20
h: 1_000
i: -.inf
j: ~
k: True
l: "1e3"
m: +1.5E-3
n: 1.
"""
    assert loads(text).data == {
        "a": 1e12,
        "b": "no",
        "c": "12:30:45",
        "d": "0x10",
        "e": "010",
        "f": 0.5,
        "g": "2026-08-20",
        "h": 1000,
        "i": float("-inf"),
        "j": None,
        "k": True,
        "l": "1e3",
        "m": 0.0015,
        "n": 1.0,
    }


def test_lines_of_keys_and_list_elements() -> None:
    document = loads("a:\n  b: 1\n  c:\n    - x\n    - {d: 2}\n", name="f.yaml")
    assert document.lines[("a", "b")] == 2
    assert document.lines[("a", "c", 1, "d")] == 5
    assert document.where(("a", "c", 1, "d")) == "f.yaml:5: a.c[1].d"
    assert document.where(("a", "missing")) == "f.yaml:1: a.missing"
    assert dotted(("a", 0, 1, "b")) == "a[0][1].b"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("# only a comment\n", "the file is empty"),
        ("- 1", "must be a mapping"),
        ("just text", "must be a mapping"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3: a\n  the key 'a' stands twice; first on line 1"),
        ("a: [1, 2", "f.yaml:2\n  not valid YAML"),
        ("a:\n\t- b", "indent with spaces instead of tabs"),
        ("a: !!python/object/apply:os.system [x]", "tags such as"),
        ("a: !!str 1", "tags such as"),
        ("a: 1\n---\nb: 2", "more than one document"),
        ("a: &x [*x]", "has no finished anchor"),
        ("a: *nowhere", "alias *nowhere has no finished anchor"),
        ("x: &x {a: 1}\ny:\n  <<: *x\n", "merge keys"),
        ("{a: 1, {b: 2}: 3}", "a key must be plain text"),
        ("a: \x00", "does not allow (U+0000)"),
        ("a: 1" + "0" * 60, "a number of 61 digits"),
        ("[" * 100_000, "f.yaml"),
        ("a: " + "[" * 70 + "]" * 70, "nested deeper than"),
    ],
)
def test_refusals_say_what_and_where(text: str, words: str) -> None:
    message = refusal(text)
    assert words in message
    assert "fix: " in message


def test_aliases_are_copied_but_not_without_end() -> None:
    assert loads("a: &x [1]\nb: [*x, *x]").data == {"a": [1], "b": [[1], [1]]}
    bomb = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(8)
    )
    assert "use fewer aliases" in refusal(bomb)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("a: 1")
    (tmp_path / "utf16.yaml").write_bytes("a: 1".encode("utf-16"))
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
    (tmp_path / "zip.yaml").write_bytes(b"\x1f\x8b\x08\x00")
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")
    cases = {
        "mein.yaml": "there is no such file",
        "utf16.yaml": "UTF-16",
        "latin.yaml": "latin.yaml:2\n  is not UTF-8 text (byte 0xe9)",
        "zip.yaml": "compressed",
        ".": "this is a folder",
    }
    for name, words in cases.items():
        with pytest.raises(InputError) as caught:
            load(tmp_path / name)
        assert words in str(caught.value), name
    with pytest.raises(InputError, match="did you mean 'mine.yaml'"):
        load(tmp_path / "mein.yaml")
    assert load(tmp_path / "bom.yaml").data == {"a": 1}


def test_large_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "big.yaml"
    path.write_text("a: 1\n" * 100)
    with pytest.raises(InputError, match="is larger than 100 bytes"):
        files.read_bytes(path, limit=100)


scalars = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False) | st.text()
trees = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(min_size=1), inner), max_leaves=8)


@given(st.dictionaries(st.text(min_size=1), trees, min_size=1))
def test_what_is_dumped_reads_back(data: dict[str, Any]) -> None:
    text = dump(data)
    assert loads(text).data == data


@given(st.text())
def test_any_text_is_read_or_refused_politely(text: str) -> None:
    try:
        loads(text)
    except InputError as error:
        assert error.problems
