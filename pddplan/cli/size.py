"""``pddplan size``: how many chips of which kind, in which role, where; how thick the line; what it costs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pddplan.cli import options
from pddplan.cli.asked import DEFAULT_WORKLOAD, Asked, asks
from pddplan.errors import InfeasibleError, InputError, Problem

if TYPE_CHECKING:
    from pddplan.questions import Given
    from pddplan.sizing import Sizing

_EXAMPLES = """\b
Examples:
  pddplan size
  pddplan size --rps 20 --ttft-p90 8 --ttft-p99 12 --link 40
  pddplan size --workload my.yaml --sites my-sites.yaml --out plan.json --csv costs.csv
  pddplan size --topology any --objective rps --budget 150000
  pddplan size --html plan.html --full
  pddplan size --from plan.json --rps 20
  pddplan size --from plan.json --rps 14 --keep plan.json --within 0.05
"""


@asks()
def size(
    asked: Asked,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            "-t",
            help="Paths that may be used: colocated, pd, pd-hetero, cross-dc, cross-dc-drc, pdd, prfaas or any. "
            "Without it pdd where a line connects sites, else any.",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            help="cost: serve the whole rate for least money, which is the best BCR at that rate (default). "
            "bcr: choose the rate too, up to the workload's. rps: most goodput within --budget or --inventory.",
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget", callback=options.positive, help="Spend at most this a month; serve as much as it buys."
        ),
    ] = None,
    inventory: Annotated[
        bool, typer.Option("--inventory", help="Serve as much as the chips of the sites file can (max_chips).")
    ] = False,
    chip: options.ChipsOption = None,
    shape: options.ShapesOption = None,
    again: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="PLAN", help="Take inputs, topology and limits from this plan file, and size them anew."
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="PLAN",
            help="Of the plans that cost nearly the same (--within), the one with fewest changes to this plan file.",
        ),
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            "--within",
            callback=options.not_negative,
            help="Share of the best cost that --keep may take; without --keep, that fewer kinds of chips may take. "
            "[default: 0.02 with --keep]",
        ),
    ] = None,
    settings: options.SettingsOption = None,
    tables: Annotated[
        bool, typer.Option("--tables/--no-tables", help="Let measured latency tables stand in for the formulas.")
    ] = True,
    spare: options.SpareOption = None,
    spare_share: options.SpareShareOption = None,
    max_utilization: options.MaxUtilizationOption = None,
    max_line_utilization: options.MaxLineUtilizationOption = None,
    max_chips: options.MaxChipsOption = None,
    survive_line_loss: options.SurviveLineLossOption = None,
    csv_separator: Annotated[str, typer.Option("--csv-separator", help="Between CSV fields: , ; or tab.")] = ",",
    csv_decimal: Annotated[str, typer.Option("--csv-decimal", help="Decimal mark in CSV: . or ,")] = ".",
    csv_bom: Annotated[bool, typer.Option("--csv-bom", help="Start the CSV file with a byte-order mark.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write the plan file (for simulate, explain, diff)."),
    ] = None,
    xlsx: Annotated[
        Path | None, typer.Option("--xlsx", metavar="FILE", help="Also write a workbook with live formulas.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write one self-contained page.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The page also shows a simulation, the bathtub and the sensitivity.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option("--compare/--no-compare", help="Also size the aggregated baseline and the plan without cache."),
    ] = True,
    verbose: options.VerboseOption = False,
) -> None:
    """Find the plan: chips per role and place, routing, line, cost, and whether the promises hold."""
    from pddplan import api
    from pddplan.optimize.topologies import TOPOLOGIES
    from pddplan.plan_file import read_asked, read_plan_file

    as_json, csv = asked.as_json, asked.csv
    if full and html is None:
        raise InputError(Problem(what="--full is about the page of --html", fix="add --html FILE, or leave it away"))
    if again is not None and asked.workload != DEFAULT_WORKLOAD:
        raise InputError(
            Problem(
                what=f"--from takes the traffic of {again}, --workload asks for another",
                fix="leave one of them away; --rps, --promise and --model change what --from takes",
            )
        )
    given: Given = {
        **asked.given(),
        "spare_fraction": spare_share,
        "shapes": shape or None,
        "tables": tables,
        "settings": api.settings_of(settings or ()) if settings or again is None else None,
    }
    source, before = (asked.workload, None) if again is None else read_plan_file(again)
    if topology is None and before is not None and before.topology in TOPOLOGIES:
        topology = before.topology
    try:
        sizing = api.size(
            source,
            asked.sites,
            topology=topology,
            objective=objective,
            budget_per_month=budget,
            inventory=inventory,
            chips=chip or None,
            limits=read_asked(again)[1] if again is not None else None,
            keep=read_plan_file(keep)[1] if keep is not None else None,
            within=within,
            compare=compare,
            redundant_instances=spare,
            max_utilization=max_utilization,
            max_line_utilization=max_line_utilization,
            max_chips=max_chips,
            survive_line_loss=survive_line_loss,
            time_limit_s=asked.time_limit,
            **given,
        )
    except InfeasibleError as error:
        if as_json:
            from pddplan.report.json_plan import dump_json, infeasible_json

            print(dump_json(infeasible_json(error)), end="")
        raise
    style = {"separator": csv_separator, "decimal": csv_decimal, "byte_order_mark": csv_bom}
    whole = full and api.INTERRUPTED not in sizing.remarks  # who stopped it is not to wait for studies
    _write_files(sizing, out=out, csv=csv, xlsx=xlsx, html=html, full=whole, style=style)
    if as_json:
        from pddplan.report.json_plan import plan_file_text

        sys.stdout.write(plan_file_text(sizing))
    elif "-" not in (str(out), str(csv), str(xlsx), str(html)):
        from pddplan.report.terminal import render
        from pddplan.report.text_table import Screen

        screen = Screen.of(sys.stdout)
        written = shlex.quote(str(out)) if out is not None else None
        width, paint, ascii_only = screen.width, screen.paint, screen.ascii_only
        sys.stdout.write(render(sizing, width=width, paint=paint, ascii_only=ascii_only, plan_file=written))
    if verbose:
        options.print_timings(sizing.timings_s)


options.add_examples(size, _EXAMPLES)


def _write_files(
    sizing: Sizing,
    *,
    out: Path | None,
    csv: Path | None,
    xlsx: Path | None,
    html: Path | None,
    full: bool,
    style: dict[str, Any],
) -> None:
    from pddplan.files import write_atomically

    if out is not None:
        from pddplan.report.json_plan import save_plan

        save_plan(sizing, out)
    if csv is not None:
        from pddplan.report.csv_costs import CsvStyle, costs_csv, priced_plans

        write_atomically(csv, costs_csv(priced_plans(sizing), style=CsvStyle(**style)))
    if xlsx is not None:
        from pddplan.report.xlsx import workbook_bytes

        write_atomically(xlsx, workbook_bytes(sizing))
    if html is not None:
        from pddplan.report.html import page_of

        write_atomically(html, page_of(sizing, full=full))
