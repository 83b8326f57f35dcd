"""``pddplan diff``: what differs between two plan files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pddplan.cli import options


def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="Plan file.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Plan file to compare with it.")],
    as_json: options.JsonOption = False,
) -> None:
    """Compare two plan files: results, pools and lines, and the inputs that explain the difference.

    \b
    Examples:
      pddplan size --out a.json && pddplan size --link 40 --out b.json && pddplan diff a.json b.json
    """
    from pddplan.plan_file import read_plan_json
    from pddplan.report.json_plan import dump_json
    from pddplan.report.plan_diff import changes_json, plan_changes, render_changes
    from pddplan.report.text_table import Screen

    changes = plan_changes(read_plan_json(before), read_plan_json(after))
    if as_json:
        sys.stdout.write(dump_json(changes_json(changes)))
        return
    screen = Screen.of(sys.stdout)
    sys.stdout.write(render_changes(changes, width=screen.width, paint=screen.paint))
