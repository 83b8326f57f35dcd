"""``pddplan pareto``: plans that trade cost against latency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pddplan.cli import options
from pddplan.cli.asked import Asked, Limited, asks

if TYPE_CHECKING:
    from pddplan.report.text_table import Screen
    from pddplan.studies.pareto import Front

_EXAMPLES = """\b
Examples:
  pddplan pareto --x cost --y ttft-p99 --plot
  pddplan pareto --x chips --y ttft-p90 --points 12 --csv front.csv
  pddplan pareto --topology any --y tpot --json
  pddplan pareto --html front.html
"""


@asks(leave_out=("time_limit",), also=Limited)
def pareto(
    asked: Asked,
    limited: Limited,
    x: Annotated[str, typer.Option("--x", help="What to pay with: cost or chips (may stand on either axis).")] = "cost",
    y: Annotated[
        str, typer.Option("--y", help="What to get: ttft-p50, ttft-p90, ttft-p99, tpot, e2e-p50, e2e-p90, e2e-p99.")
    ] = "ttft-p99",
    points: Annotated[int, typer.Option("--points", help="Promises to size for between loosest and tightest.")] = 8,
    topology: options.TopologyOption = None,
    time_limit: options.SecondsOption = 5.0,
    plot: Annotated[bool, typer.Option("--plot", help="Draw the front on the terminal, under its table.")] = False,
    html: options.DrawingOption = None,
) -> None:
    """Print plans of which none is better than another in both cost and latency; the other promises hold for all."""
    from pddplan.report.front import drawing, front_csv, front_json, render
    from pddplan.studies.pareto import front

    inputs = asked.inputs(**limited.given())
    limits = limited.limits(inputs, time_limit_s=time_limit, max_nodes=60)
    found = front(inputs, x=x, y=y, topology=asked.topology(topology, inputs), limits=limits, points=points)
    if html is not None:
        from pddplan.files import write_atomically
        from pddplan.report.front_page import page_of

        write_atomically(html, page_of(found))

    def text(front: Front, screen: Screen) -> str:
        drawn = ["", *drawing(front, screen), ""] if plot else []
        return render(front, screen) + "\n".join(drawn)

    asked.show(found, text=text, json=front_json, table=front_csv)


options.add_examples(pareto, _EXAMPLES)
