"""``pddplan pareto``: plans that trade cost against latency."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pddplan.cli import options
from pddplan.cli.options import profile_dirs

_EXAMPLES = """\b
Examples:
  pddplan pareto
  pddplan pareto --x chips --y ttft-p90 --points 12 --csv front.csv
  pddplan pareto --topology any --y tpot --json
"""


def pareto(
    x: Annotated[str, typer.Option("--x", help="What to pay with: cost or chips.")] = "cost",
    y: Annotated[
        str, typer.Option("--y", help="What to get: ttft-p50, ttft-p90, ttft-p99, tpot, e2e-p50, e2e-p90, e2e-p99.")
    ] = "ttft-p99",
    points: Annotated[int, typer.Option("--points", help="Promises to size for between loosest and tightest.")] = 8,
    workload: options.WorkloadOption = "agentic-64k",
    sites: options.SitesOption = None,
    topology: Annotated[
        str | None,
        typer.Option("--topology", "-t", help="Paths that may be used; without it pdd, or any without lines."),
    ] = None,
    rps: options.RpsOption = None,
    ttft_p90: options.TtftP90Option = None,
    ttft_p99: options.TtftP99Option = None,
    tpot: options.TpotOption = None,
    link: options.LinkOption = None,
    time_limit: Annotated[
        float, typer.Option("--time-limit", callback=options.positive, help="Seconds per plan.")
    ] = 5.0,
    as_json: options.JsonOption = False,
    csv: options.CsvOption = None,
    profiles: options.ProfilesOption = None,
) -> None:
    """Print plans of which none is better than another in both cost and latency; the other promises hold for all."""
    from pddplan.optimize import Limits
    from pddplan.questions import default_topology, load_inputs
    from pddplan.studies.pareto import front
    from pddplan.units import MS_PER_S

    with profile_dirs(profiles):
        inputs = load_inputs(
            workload,
            sites,
            rps=rps,
            ttft_p90_s=ttft_p90,
            ttft_p99_s=ttft_p99,
            tpot_s=None if tpot is None else tpot / MS_PER_S,
            link_gbps=link,
        )
        limits = Limits(time_limit_s=time_limit, max_nodes=60)
        found = front(
            inputs, x=x, y=y, topology=topology or default_topology(inputs.sites), limits=limits, points=points
        )
    if csv is not None:
        from pddplan.files import write_atomically
        from pddplan.report.front import front_csv

        write_atomically(csv, front_csv(found))
    if as_json:
        from pddplan.report.front import front_json
        from pddplan.report.json_plan import dump_json

        sys.stdout.write(dump_json(front_json(found)))
    elif str(csv) != "-":
        from pddplan.report.front import render
        from pddplan.report.text_table import Screen

        sys.stdout.write(render(found, Screen.of(sys.stdout)))


options.add_examples(pareto, _EXAMPLES)
