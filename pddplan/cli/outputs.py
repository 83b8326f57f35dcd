"""What a command writes, looked at before it works: can it be written, once each, and over none of its inputs?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from pddplan.errors import InputError, Problem

OUTPUT_FLAGS = frozenset({"--out", "--csv", "--xlsx", "--html"})
"""How options that name a file to write are called, in every command."""


class WritingCommand(TyperCommand):
    """A command that says at once when what it is to write cannot be written, and in the end what it wrote."""

    def invoke(self, ctx: Any) -> Any:
        from pddplan.files import STANDARD_STREAM, is_replaced, is_standard_output

        flags = {str(param.name): min(OUTPUT_FLAGS.intersection(param.opts), default="") for param in self.params}
        written = {name: value for name, value in ctx.params.items() if flags.get(name) and value is not None}
        for name, value in written.items():
            if is_standard_output(value):
                ctx.params[name] = Path(STANDARD_STREAM)  # commands know it by one name
        if bool(ctx.params.get("as_json")) + sum(map(is_standard_output, written.values())) > 1:
            raise InputError(
                Problem("more than one output goes to standard output", fix="give a file name instead of '-'")
            )
        read = [value for name, value in ctx.params.items() if name not in written]
        check_outputs({flags[name]: str(value) for name, value in written.items()}, read=list(_texts(read)))
        done = super().invoke(ctx)
        said = [str(value) for value in written.values() if is_replaced(value)]
        if said and not ctx.params.get("as_json"):  # programs that read JSON know what they asked for
            print(f"wrote {', '.join(said)}", file=sys.stderr)
        return done


def check_outputs(written: Mapping[str, str], *, read: list[str]) -> None:
    """Refuse outputs that cannot be written, that name one file twice, or that would replace an input.

    Parameters:  written, option to file name; read, everything else the command was given, file names among it.
    Raises:      InputError.
    """
    from pddplan.files import check_target, is_replaced, same_file

    seen: dict[str, str] = {}
    for flag, name in written.items():
        check_target(name)
        if not is_replaced(name):
            continue
        for other_flag, other in seen.items():
            if same_file(name, other):
                raise InputError(
                    Problem(f"{other_flag} and {flag} name the same file", fix="give each a name", where=name)
                )
        if any(same_file(name, text) for text in read):
            raise InputError(
                Problem(f"{flag} would replace a file that is read here", fix="give another name", where=name)
            )
        seen[flag] = name


def _texts(value: Any) -> Iterator[str]:
    """Every text and path in what a command was given."""
    if isinstance(value, (str, Path)):
        yield str(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
