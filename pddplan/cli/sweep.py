"""``pddplan sweep``: size again and again while inputs vary."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pddplan.cli import options
from pddplan.cli.asked import Asked, asks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pddplan.studies.sweep import Axis

_EXAMPLES = """\b
Examples:
  pddplan sweep --vary hit_rate=0.5:0.99:20 --csv sweep.csv
  pddplan sweep --vary topology=pd,pdd --vary link=10,40,100 --vary rps=5:20:4 --csv sweep.csv --resume
  pddplan sweep --vary rps=5:30:6 --vary settings.overlap=none,layerwise --html sweep.html
  pddplan sweep --vary price.h200-sxm=2,2.5,3 --backend dask --cluster tcp://scheduler:8786 --csv sweep.csv
"""


@asks(leave_out=("as_json", "csv", "time_limit"))
def sweep(
    asked: Asked,
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="NAME=VALUES",
            help="Input and its values, LOW:HIGH:POINTS or V1,V2,... (repeatable). Names: hit_rate, link [Gbit/s], "
            "rps, scv, rtt [ms], output_factor, ttft_p50, ttft_p90, ttft_p99 [s], tpot [ms], topology, price.CHIP "
            "[per chip and hour], settings.NAME as of size --set.",
        ),
    ],
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the table here (default: standard output).")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the rows that an earlier, stopped run left in FILE.")
    ] = False,
    topology: options.TopologyOption = None,
    objective: Annotated[
        str, typer.Option("--objective", help="cost: least money for the whole rate. bcr: choose the rate too.")
    ] = "cost",
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Questions side by side (-1 = all cores).")] = -1,
    backend: Annotated[
        str, typer.Option("--backend", help="loky (processes), threading, dask, ray or serial.")
    ] = "loky",
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="ADDRESS", help="Existing Dask or Ray cluster (default: local).")
    ] = None,
    time_limit: options.SecondsOption = 10.0,
    html: options.DrawingOption = None,
) -> None:
    """Size the workload for every combination of values; one tidy row each. A point without a plan is a row too."""
    from pddplan.optimize import Limits
    from pddplan.studies import sweep as study
    from pddplan.studies import sweep_file

    axes = [study.parse_axis(text) for text in vary]
    points = study.grid(axes)
    inputs = asked.inputs()
    study.check_axes(inputs, axes)
    earlier = sweep_file.done_before(csv, axes) if csv is not None and resume else []
    known = {tuple(row[: len(axes)]) for row in earlier}
    open_points = [values for values in points if sweep_file.key(values) not in known]
    writer = sweep_file.RowWriter(csv, axes, earlier)
    rows = study.run(
        inputs,
        axes,
        open_points,
        topology=asked.topology(topology, inputs),
        objective=objective,
        limits=Limits(time_limit_s=time_limit, max_nodes=200),
        jobs=jobs,
        backend=backend,
        address=cluster,
    )
    try:
        for row in _counted(rows, len(open_points)):
            writer.add(row)
    except KeyboardInterrupt:
        if csv is not None:
            kept = f"{len(writer.rows)} of {len(points)} rows are kept in {sweep_file.part_of(csv)}"
            sys.stderr.write(f"{kept}; the same command with --resume goes on\n")
        raise
    table = writer.finish(points)
    if html is not None:
        from pddplan.files import write_atomically
        from pddplan.report.sweep_page import page_of

        write_atomically(html, page_of(sweep_file.header(axes), table))
    if csv is None:
        sys.stdout.write(sweep_file.table(table, axes))
        return
    _show(csv, axes, table)
    plans = sum(1 for row in table if row[len(axes)] == "plan")
    sys.stderr.write(f"{csv}: {len(points)} questions, {plans} with a plan\n")


options.add_examples(sweep, _EXAMPLES)


def _counted(rows, total: int):  # type: ignore[no-untyped-def]
    """Pass rows on, and show how far we are where somebody is looking."""
    for done, row in enumerate(rows, start=1):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done} of {total}" + ("\r\x1b[K" if done == total else ""))
            sys.stderr.flush()
        yield row


def _show(path: Path, axes: Sequence[Axis], rows: Sequence[Sequence[str]]) -> None:
    """The table for people, beside the file; not where the file itself goes to standard output."""
    from pddplan.files import is_standard_output
    from pddplan.report.sweep_table import render
    from pddplan.report.text_table import Screen
    from pddplan.studies import sweep_file

    if not is_standard_output(path):
        sys.stdout.write(render(sweep_file.header(axes), rows, Screen.of(sys.stdout)))
