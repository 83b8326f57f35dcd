"""``pddplan predict``: predict the rows of a measurement table, and say how far off they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pddplan.cli import options

_EXAMPLES = """\b
Examples:
  pddplan predict my_benchmarks.csv
  pddplan predict my_benchmarks.csv --profiles my_profiles/ --out predicted.csv
  pddplan predict my_benchmarks.csv --json
"""


def predict(
    table: Annotated[Path, typer.Argument(help="CSV table of measurements (schema: docs/validation.md).")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the table with predictions ('-' = stdout).")
    ] = None,
    stack: Annotated[
        str | None, typer.Option("--stack", help="Use this serving stack instead of the one each row names.")
    ] = None,
    as_json: options.JsonOption = False,
    profiles: options.ProfilesOption = None,
) -> None:
    """Predicted value and main terms of each row, or the reason why not; an error summary where values are given.

    The folder of --profiles may hold, at any depth, YAML profiles, Hugging Face configs (NAME.json, NAME/config.json),
    and tables of chips and models in the columns of chips.csv and models.csv. Tables may be divided by commas,
    semicolons or tabs.
    """
    from pddplan import api
    from pddplan.report.prediction_table import predictions_csv, predictions_data, summary_text

    with options.profile_dirs(profiles):
        predictions = api.predict_table(table, profiles=profiles or (), stack=stack)
    if out is not None:
        from pddplan.files import write_atomically

        write_atomically(out, predictions_csv(predictions))
    if as_json:
        typer.echo(json.dumps(predictions_data(predictions), indent=2, allow_nan=False))
    elif str(out) != "-":
        typer.echo(summary_text(predictions))
        if out is None:
            typer.echo("\nhint: --out FILE writes every row with its prediction, terms and remark")


options.add_examples(predict, _EXAMPLES)
