"""``pddplan explain``: why a plan looks as it does, and what would change it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pddplan.cli import options
from pddplan.cli.options import profile_dirs

_EXAMPLES = """\b
Examples:
  pddplan size --out plan.json
  pddplan explain plan.json
  pddplan explain plan.json --within 0.05 --json
"""


def explain(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file, as written by: pddplan size --out FILE.")],
    within: Annotated[
        float,
        typer.Option("--within", callback=options.not_negative, help="List fleets that cost at most this share more."),
    ] = 0.1,
    as_json: options.JsonOption = False,
    profiles: options.ProfilesOption = None,
) -> None:
    """Say what binds, what one more unit of it would buy, what else was close, and why not another topology."""
    from pddplan import api, questions
    from pddplan.optimize.explanation import explain as explained

    with profile_dirs(profiles):
        inputs, decided = api.load_plan_inputs(plan)
        found = explained(questions.problem_of(inputs), decided, shapes=questions.shapes_of(inputs), within=within)
    if as_json:
        from pddplan.report.explanation import explanation_json
        from pddplan.report.json_plan import dump_json

        sys.stdout.write(dump_json(explanation_json(found)))
    else:
        from pddplan.report.explanation import render
        from pddplan.report.text_table import Screen

        sys.stdout.write(render(found, Screen.of(sys.stdout)))


explain.__doc__ = f"{explain.__doc__}\n\n{_EXAMPLES}"
