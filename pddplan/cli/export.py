"""``pddplan export``: JSON schemas for editors, and plans in other programs' formats."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from pddplan.errors import InputError, Problem, did_you_mean


def export(
    plan: Annotated[
        Path | None, typer.Argument(metavar="[PLAN]", help="Plan file written by pddplan size --out.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema", help="Print the JSON schema of this kind of file: plan, chip, model, workload, sites ..."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Write here ('-' = standard output).")
    ] = Path("-"),
) -> None:
    """Print the JSON schema of plan files or of YAML files, so that editors complete and check them.

    \b
    Examples:
      pddplan export --schema plan
      pddplan export --schema sites --out sites.schema.json
    """
    from pddplan.files import write_atomically

    if schema is None:
        raise InputError(Problem(what="nothing to export", fix="say what, for example: pddplan export --schema plan"))
    write_atomically(out, json.dumps(_schema(schema), indent=2) + "\n")
    sys.stdout.flush()


def _schema(name: str) -> dict[str, object]:
    from pddplan.profiles.kinds import KINDS
    from pddplan.profiles.schema_docs import json_schema
    from pddplan.report.json_schema import plan_schema

    if name == "plan":
        return plan_schema()
    if name not in KINDS:
        known = ["plan", *KINDS]
        raise InputError(
            Problem(
                what=f"there is no schema {name!r}{did_you_mean(name, known)}", fix=f"use one of: {', '.join(known)}"
            )
        )
    return json_schema(KINDS[name].schema_class())
