"""Strict YAML: data as plain Python values, and the line on which each key stands.

Differences from what PyYAML does by default, all on purpose:

- ``1e12`` is a number; ``12:30:45``, ``no``, ``on``, dates, hex and octal stay text
  (a schema then refuses them by name).
- Repeated keys, tags, merge keys, several documents and keys that are not plain text or numbers are refused.
- Size, depth, length of numbers and the work hidden behind aliases are bounded.

The file is read as a stream of events from the C parser, without recursion: depth cannot overflow a stack.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from pddplan.errors import InputError, Problem
from pddplan.files import read_text

MAX_FILE_BYTES = 16_000_000
MAX_DEPTH = 64
MAX_NODES = 300_000
"""Including what aliases repeat."""
MAX_DIGITS = 40

Key = str | int
KeyPath = tuple[Key, ...]

_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*(_[0-9]+)*)\Z")
_FLOAT = re.compile(r"[-+]?((0|[1-9][0-9]*)(_[0-9]+)*(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?\Z")
_SPECIAL = {
    ".inf": float("inf"),
    "+.inf": float("inf"),
    "-.inf": float("-inf"),
    ".nan": float("nan"),
}


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """One YAML file: its data, and where each key stands."""

    name: str
    """As shown in messages: the path the user gave."""
    data: dict[str, Any]
    lines: dict[KeyPath, int]
    """Line (from 1) of each key path; elements of lists are counted from 0."""

    def line(self, path: KeyPath) -> int | None:
        """Line of a key, or of the nearest thing around it that is in the file."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None

    def where(self, path: KeyPath) -> str:
        """``file:line: key.path`` for messages."""
        line = self.line(path)
        place = self.name if line is None else f"{self.name}:{line}"
        return f"{place}: {dotted(path)}" if path else place

    def problem(self, path: KeyPath, what: str, *, fix: str) -> Problem:
        return Problem(what=what, fix=fix, where=self.where(path))


def dotted(path: KeyPath) -> str:
    """``classes[3].input_tokens`` for ``("classes", 3, "input_tokens")``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


def load(path: str | Path, *, name: str | None = None) -> SourceDocument:
    """Read one YAML file; ``-`` reads standard input.

    Raises:  InputError with file, line and fix for anything that is not one well-formed YAML mapping.
    """
    shown = name or str(path)
    return loads(read_text(path, limit=MAX_FILE_BYTES, name=shown), name=shown)


def loads(text: str, *, name: str = "<text>") -> SourceDocument:
    """Same as ``load`` for a text already in memory."""
    builder = _Builder(name)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        _refuse(
            f"not valid YAML: {error.problem or error.context}",
            fix=_syntax_fix(text, mark.line if mark else None),
            where=f"{name}:{mark.line + 1}" if mark else name,
        )
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = ord(error.character) if isinstance(error.character, str) else int(error.character)
        _refuse(
            f"contains a character that YAML does not allow (U+{code:04X})",
            fix="save it as plain UTF-8 text",
            where=f"{name}:{line}",
        )
    except (RecursionError, MemoryError):
        _refuse("nested too deeply", fix=f"use at most {MAX_DEPTH} levels", where=name)
    return builder.document()


def dump(data: dict[str, Any], *, compact: bool = False) -> str:
    """YAML text of plain values, keys in the given order; reads back equal through ``loads``.

    With ``compact`` the innermost lists and mappings stand on one line each, as in ``{value: 1, source: sheet}``.
    """
    flow = None if compact else False
    return yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=flow, indent=2
    )


# -- building data from events -------------------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """A mapping or list being filled."""

    value: dict[str, Any] | list[Any]
    path: KeyPath
    anchor: str | None
    nodes_before: int
    key: str | None = None
    """Key waiting for its value (mappings only)."""
    key_line: int = 0


@dataclass(slots=True)
class _Builder:
    name: str
    lines: dict[KeyPath, int] = field(default_factory=dict)
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    root: Any = None
    seen_root: bool = False
    nodes: int = 0

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._start(event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            done = self.stack.pop()
            if done.anchor:
                self.anchors[done.anchor] = (done.value, self.nodes - done.nodes_before)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent) and self.seen_root:
            mark: Any = event.start_mark
            _refuse(
                "holds more than one document",
                fix="keep one document per file (remove the second '---')",
                where=f"{self.name}:{mark.line + 1}",
            )

    def document(self) -> SourceDocument:
        if not self.seen_root or self.root is None:
            _refuse("the file is empty", fix="start from one of the bundled files", where=self.name)
        if self.problems:
            raise InputError(self.problems)
        if not isinstance(self.root, dict):
            _refuse(
                f"must be a mapping of keys to values, got {kind_of(self.root)}",
                fix="write lines of the form 'key: value'",
                where=f"{self.name}:{self.lines.get((), 1)}",
            )
        return SourceDocument(name=self.name, data=self.root, lines=self.lines)

    def _scalar(self, event: Any) -> None:
        line = event.start_mark.line + 1
        self._check_tag(event, line)
        if self._expects_key():
            self._key(event.value, line, plain=event.style in (None, ""))
            return
        value: Any = event.value
        if event.style in (None, ""):
            value = self._plain(event.value, line)
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)
        self._place(value, line, nodes=1)

    def _start(self, event: Any) -> None:
        line = event.start_mark.line + 1
        self._check_tag(event, line)
        if self._expects_key():
            _refuse("a key must be plain text", fix="write 'key: value'", where=f"{self.name}:{line}")
        if len(self.stack) >= MAX_DEPTH:
            _refuse(f"nested deeper than {MAX_DEPTH} levels", fix="flatten it", where=f"{self.name}:{line}")
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        before = self.nodes
        path = self._place(value, line, nodes=1)
        self.stack.append(_Open(value=value, path=path, anchor=event.anchor, nodes_before=before))

    def _alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if self._expects_key():
            _refuse("an alias cannot be a key", fix="write the key out", where=f"{self.name}:{line}")
        if event.anchor not in self.anchors:
            _refuse(
                f"alias *{event.anchor} has no finished anchor &{event.anchor} before it",
                fix=f"define &{event.anchor} first, outside of what uses it",
                where=f"{self.name}:{line}",
            )
        value, nodes = self.anchors[event.anchor]
        self._place(value, line, nodes=nodes)

    def _expects_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None

    def _key(self, key: str, line: int, *, plain: bool) -> None:
        top = self.stack[-1]
        if plain and key == "<<":
            _refuse("merge keys (<<) are not supported", fix="write the keys out", where=f"{self.name}:{line}")
        path = (*top.path, key)
        if key in top.value:
            where = f"{self.name}:{line}: {dotted(path)}"
            first = self.lines.get(path)
            what = f"the key {key!r} stands twice" + (f"; first on line {first}" if first else "")
            self.problems.append(Problem(what=what, fix="remove one of them", where=where))
        else:
            self.lines[path] = line
        top.key, top.key_line = key, line

    def _place(self, value: Any, line: int, *, nodes: int) -> KeyPath:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            _refuse(f"holds more than {MAX_NODES:,} values", fix="use fewer aliases", where=f"{self.name}:{line}")
        if not self.stack:
            self.root, self.seen_root = value, True
            self.lines[()] = line
            return ()
        top = self.stack[-1]
        if isinstance(top.value, list):
            path = (*top.path, len(top.value))
            top.value.append(value)
            self.lines[path] = line
            return path
        key = top.key if top.key is not None else ""
        top.value[key] = value
        top.key = None
        return (*top.path, key)

    def _plain(self, text: str, line: int) -> Any:
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        first = text[0]
        if first.isdigit() or first in "+-.":
            if _INT.match(text):
                if len(text) > MAX_DIGITS:
                    _refuse(f"a number of {len(text)} digits", fix="write it as 1.5e30", where=f"{self.name}:{line}")
                return int(text.replace("_", ""))
            if _FLOAT.match(text) and len(text) <= 10 * MAX_DIGITS:
                return float(text.replace("_", ""))
            return _SPECIAL.get(text.lower(), text)
        return text

    def _check_tag(self, event: Any, line: int) -> None:
        if event.tag not in (None, "!"):
            _refuse(f"tags such as {event.tag!r} are not allowed", fix="remove it", where=f"{self.name}:{line}")


def kind_of(value: object) -> str:
    """What a value is, in words a user of YAML knows."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"{'true' if value else 'false'} (a yes/no value)"
    if isinstance(value, (int, float)):
        return f"{value!r}"
    if isinstance(value, str):
        shown = value if len(value) <= 60 else value[:57] + "..."
        return f"text {shown!r}"
    return "a list" if isinstance(value, (list, tuple)) else "a mapping"


def _syntax_fix(text: str, line: int | None) -> str:
    rows = text.splitlines()
    if line is not None and line < len(rows):
        row = rows[line]
        if "\t" in row[: len(row) - len(row.lstrip())]:
            return "indent with spaces instead of tabs"
        if row.count('"') % 2 or row.count("'") % 2:
            return "close the quotation mark"
    return "check indentation, colons and brackets on this line and the one before"


def _refuse(what: str, *, fix: str, where: str) -> NoReturn:
    raise InputError(Problem(what=what, fix=fix, where=where))


class _Dumper(yaml.SafeDumper):
    """Writes what ``loads`` reads back unchanged: text that looks like a number is quoted, floats keep an exponent."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    looks_special = value in _NULL or value in _BOOL or _FLOAT.match(value) or value.lower() in _SPECIAL
    style = "'" if looks_special else None
    if not value.isprintable() and not value.isascii():
        style = '"'  # Unicode line breaks do not survive plain style
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _represent_float(dumper: yaml.SafeDumper, value: float) -> yaml.Node:
    if value != value:
        text = ".nan"
    elif value in (float("inf"), float("-inf")):
        text = ".inf" if value > 0 else "-.inf"
    else:
        text = repr(value)
        if "." not in text:  # 1e+24 would need a tag to be read as a number by other programs
            text = text.replace("e", ".0e")
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, _represent_float)
