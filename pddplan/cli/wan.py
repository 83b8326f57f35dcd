"""``pddplan wan``: whether a leased line carries the KV traffic, and with what headroom."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pddplan.cli import options
from pddplan.errors import EXIT_INFEASIBLE

app = typer.Typer(no_args_is_help=True, help="Whether a leased line carries the KV traffic, and with what headroom.")

_EXAMPLES = """\b
Examples:
  pddplan wan check
  pddplan wan check --workload my.yaml --link 40 --no-drc
  pddplan wan check --model deepseek-v3 --rps 20 --lines 2 --json
  pddplan wan check --kv-bytes-per-token 50000 --csv line.csv
"""


@app.callback()
def _group() -> None:
    """Whether a leased line carries the KV traffic, and with what headroom."""


@app.command("check")
def check(
    workload: options.WorkloadOption = "agentic-64k",
    model: Annotated[str | None, typer.Option("--model", "-m", help="Another model than the workload's.")] = None,
    sites: options.SitesOption = None,
    line: Annotated[
        str | None, typer.Option("--line", help="Which line of the sites file (not needed if there is one).")
    ] = None,
    link: Annotated[
        float | None,
        typer.Option(
            "--link", callback=options.positive, help="Judge this rate [Gbit/s]; it need not be on the ladder."
        ),
    ] = None,
    lines: Annotated[int, typer.Option("--lines", min=1, max=64, help="Parallel lines of that tier.")] = 1,
    rps: options.RpsOption = None,
    drc: Annotated[bool, typer.Option("--drc/--no-drc", help="With or without the cache at the decode side.")] = True,
    ceiling: Annotated[
        float, typer.Option("--ceiling", min=0.01, max=1.0, help="Share of the usable rate that may be taken at peak.")
    ] = 0.8,
    kv: Annotated[str | None, typer.Option("--kv", help="KV cache dtype, e.g. bf16, fp8.")] = None,
    kv_bytes_per_token: Annotated[
        float | None,
        typer.Option("--kv-bytes-per-token", callback=options.positive, help="Instead of the model's own KV size."),
    ] = None,
    as_json: options.JsonOption = False,
    csv: options.CsvOption = None,
    profiles: options.ProfilesOption = None,
) -> None:
    """KV bytes per token, payloads, mean and peak Gbit/s; which tiers carry it; transfer P50/P90/P99; by hit rate.

    Exit code 3 when the tier asked for, or every tier, is too small.
    """
    from pddplan import api

    with options.profile_dirs(profiles):
        found = api.check_line(
            workload,
            sites,
            line=line,
            gbps=link,
            count=lines,
            drc=drc,
            ceiling=ceiling,
            rps=rps,
            llm=model,
            kv_dtype=kv,
            kv_bytes_per_token=kv_bytes_per_token,
        )
    if csv is not None:
        from pddplan.files import write_atomically
        from pddplan.report.line_check import line_check_csv

        write_atomically(csv, line_check_csv(found))
    if as_json:
        from pddplan.report.json_plan import dump_json
        from pddplan.report.line_check import line_check_json

        sys.stdout.write(dump_json(line_check_json(found)))
    elif str(csv) != "-":
        from pddplan.report.line_check import render_line_check
        from pddplan.report.text_table import Screen

        screen = Screen.of(sys.stdout)
        sys.stdout.write(render_line_check(found, width=screen.width, paint=screen.paint))
    if found.chosen is None or not found.chosen.feasible:
        raise typer.Exit(EXIT_INFEASIBLE)


options.add_examples(check, _EXAMPLES)
