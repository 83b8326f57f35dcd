"""``pddplan explain``: why a plan looks as it does, and what would change it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pddplan.cli import options
from pddplan.cli.options import profile_dirs
from pddplan.errors import InputError, Problem

_EXAMPLES = """\b
Examples:
  pddplan size --out plan.json
  pddplan explain plan.json
  pddplan explain plan.json --within 0.05 --json
  pddplan explain plan.json --csv levers.csv
  pddplan explain plan.json --formulas
"""


def explain(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file, as written by: pddplan size --out FILE.")],
    within: Annotated[
        float,
        typer.Option(
            "--within", callback=options.not_negative, help="List fleets that are worse by at most this share."
        ),
    ] = 0.1,
    formulas: Annotated[
        bool, typer.Option("--formulas", help="Only where the numbers come from: formula, numbers, unit, source.")
    ] = False,
    as_json: options.JsonOption = False,
    csv: options.CsvOption = None,
    profiles: options.ProfilesOption = None,
) -> None:
    """Say what binds, what one more unit of it would buy, what else was close, why not another topology.

    And where the numbers come from: each with its formula, the numbers in it, unit and source.
    """
    from pddplan import api, questions
    from pddplan.evaluate.derivation import derivation
    from pddplan.plan_file import read_asked
    from pddplan.report.derivation import derivation_json, render_derivation
    from pddplan.report.json_plan import dump_json
    from pddplan.report.text_table import Screen

    with profile_dirs(profiles):
        inputs, decided = api.load_plan_inputs(plan)
        problem, found = questions.problem_of(inputs), None
        objective, limits = read_asked(plan)
        steps = derivation(problem, decided, api.evaluate_plan(inputs, decided))
        if not formulas:
            from pddplan.optimize.explanation import explain as explained

            shapes = questions.shapes_of(inputs)
            found = explained(problem, decided, shapes=shapes, objective=objective, limits=limits, within=within)
    if csv is not None:
        from pddplan.files import write_atomically
        from pddplan.report.explanation import explanation_csv

        if found is None:
            raise InputError(Problem(what="--csv lists what --formulas leaves out", fix="give one of the two"))
        write_atomically(csv, explanation_csv(found))
    if as_json:
        from pddplan.report.explanation import explanation_json

        answer = explanation_json(found) if found is not None else {}
        sys.stdout.write(dump_json({**answer, "derivation": derivation_json(steps)}))
        return
    if str(csv) == "-":
        return
    screen = Screen.of(sys.stdout)
    if found is not None:
        from pddplan.report.explanation import render

        sys.stdout.write(render(found, screen) + "\n")
    sys.stdout.write(render_derivation(steps, screen))


options.add_examples(explain, _EXAMPLES)
