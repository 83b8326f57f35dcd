"""``pddplan sweep``: size again and again while inputs vary."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pddplan.cli import options
from pddplan.cli.asked import Asked, Limited, asks
from pddplan.errors import InputError, Problem

if TYPE_CHECKING:
    from pddplan.studies.sweep import Row, Sweep

MAX_NODES = 200
_EXAMPLES = """\b
Examples:
  pddplan sweep --vary hit_rate=0.5:0.99:20 --csv sweep.csv --plot cost
  pddplan sweep --vary hit_rate=0.5:0.99:20 --vary link=10,40,100 --vary price.H200=2,2.5,3 --csv sweep.csv --resume
  pddplan sweep --vary topology=pd,pdd --vary rps=5:30:6 --html sweep.html
  pddplan sweep --vary model=deepseek-v3,glm-4.5 --vary finance.pue=1.1,1.4 --json
  pddplan sweep --vary rps=5:30:60 --backend dask --cluster tcp://scheduler:8786 --csv sweep.csv
"""


@asks(leave_out=("csv", "time_limit"), also=Limited)
def sweep(
    asked: Asked,
    limited: Limited,
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="NAME=VALUES",
            help="Input and its values, LOW:HIGH:POINTS or V1,V2,...; each further --vary multiplies. Names: hit_rate, "
            "link [Gbit/s], rps, scv, rtt [ms], output_factor, ttft_p50, ttft_p90, ttft_p99, e2e_p50, e2e_p90, "
            "e2e_p99 [s], tpot [ms], topology, price.CHIP [per chip and hour], max_chips.CHIP, settings.NAME as of "
            "size --set, finance.NAME and line.NAME of the sites, arrival.NAME of the workload; and workload, sites, "
            "model, stack, weights, kv, mtp as the options. Numbers may carry a unit: 90%, 20ms.",
        ),
    ],
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the table here (default: standard output).")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the rows that an earlier, stopped run left in FILE.")
    ] = False,
    plot: Annotated[
        list[str] | None,
        typer.Option(
            "--plot",
            metavar="FIGURE",
            help="Draw a figure on the terminal: cost, bcr, chips, line, ttft_p90 or any column (repeatable). Curves "
            "over one axis, one for each value of the next; shades where both axes have many values.",
        ),
    ] = None,
    html: options.DrawingOption = None,
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
    time_limit: options.SecondsOption = 30.0,
) -> None:
    """Size the workload for every combination of values; one tidy row each. A point without a plan is a row too."""
    from pddplan.report import sweep_file
    from pddplan.studies import side_by_side
    from pddplan.studies import sweep as study
    from pddplan.studies.axes import parse_axis

    side_by_side.check(backend, jobs=jobs, address=cluster)
    if resume and csv is None:
        raise InputError(Problem("--resume goes on from a file", fix="say which with --csv FILE", where="--resume"))
    drawn = _figures(plot or ())
    question = study.ask(
        lambda files: replace(asked, **files).inputs(**limited.given()),  # type: ignore[arg-type]
        [parse_axis(text) for text in vary],
        limits=lambda inputs: limited.limits(inputs, time_limit_s=time_limit, max_nodes=MAX_NODES),
        topology=topology,
        objective=objective,
    )
    points = question.points()
    earlier = sweep_file.done_before(csv, question) if csv is not None and resume else []
    known = {tuple(row[: len(question.axes)]) for row in earlier}
    open_points = [values for values in points if sweep_file.key(values) not in known]
    writer = sweep_file.RowWriter(csv, question.axes, earlier)
    rows = study.run(question, open_points, jobs=jobs, backend=backend, address=cluster)
    try:
        for row in _counted(rows, len(open_points)):
            writer.add(row)
    except KeyboardInterrupt:
        if csv is not None:
            kept = f"{len(writer.rows)} of {len(points)} rows are kept in {sweep_file.part_of(csv)}"
            sys.stderr.write(f"{kept}; the same command with --resume goes on\n")
        else:
            sys.stderr.write("nothing is kept: with --csv FILE, rows are, and --resume goes on\n")
        raise
    table = writer.finish(points)
    if html is not None:
        from pddplan.files import write_atomically
        from pddplan.report.sweep_page import page_of

        write_atomically(html, page_of(question.axes, table, drawn))
    _show(question, table, csv=csv, as_json=asked.as_json, drawn=drawn)
    _end(question, table, csv)


options.add_examples(sweep, _EXAMPLES)


def _figures(names: Sequence[str]) -> list[str]:
    from pddplan.report.sweep_layout import figure_named

    return [figure_named(name) for name in names]


def _counted(rows: Iterable[Row], total: int) -> Iterator[Row]:
    """Pass rows on, and show how far we are where somebody is looking."""
    looked_at = sys.stderr.isatty()
    begun_s = time.monotonic()

    def say(text: str) -> None:
        if looked_at:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    try:
        say(f"0 of {total}")
        for done, row in enumerate(rows, start=1):
            left_s = (time.monotonic() - begun_s) / done * (total - done)
            say(f"{done} of {total}, some {left_s:.0f} s left")
            yield row
    finally:
        say("")


def _show(
    question: Sweep, rows: Sequence[Sequence[str]], *, csv: Path | None, as_json: bool, drawn: Sequence[str]
) -> None:
    """What goes to standard output: JSON, the table of the file, or the table for people, and drawings under it."""
    from pddplan.files import is_standard_output
    from pddplan.report import sweep_file
    from pddplan.report.text_table import Screen

    if as_json:
        from pddplan.report.json_plan import dump_json, finite

        sys.stdout.write(dump_json(finite(sweep_file.as_data(rows, question.axes))))
        return
    screen = Screen.of(sys.stdout)
    if csv is None and not (drawn or sys.stdout.isatty()):
        sys.stdout.write(sweep_file.table(rows, question.axes))
    elif csv is None or not is_standard_output(csv):
        from pddplan.report.sweep_drawing import drawings
        from pddplan.report.sweep_table import render

        sys.stdout.write(render(question.axes, rows, screen))
        for name in drawn:
            sys.stdout.write("\n" + "\n".join(drawings(question.axes, rows, name, screen)) + "\n")


def _end(question: Sweep, rows: Sequence[Sequence[str]], csv: Path | None) -> None:
    """How many questions have a plan; faults of the program end with exit code 1, after all rows are written."""
    from pddplan.studies.sweep import FAULT, PLAN

    states = [row[len(question.axes)] for row in rows]
    if csv is not None:
        sys.stderr.write(f"{csv}: {len(rows)} questions, {states.count(PLAN)} with a plan\n")
    if faults := states.count(FAULT):
        sys.stderr.write(f"{faults} questions met a fault of pddplan: please report what why_not says\n")
        raise typer.Exit(1)
