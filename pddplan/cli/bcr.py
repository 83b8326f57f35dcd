"""``pddplan bcr``: benefit per cost. Compare topologies, draw the bathtub, ask how sure a plan is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pddplan.cli import options
from pddplan.cli.asked import Asked, asks
from pddplan.cli.bcr_planning import fleet, growth, regret, reserve
from pddplan.cli.bcr_questions import (
    PlanOption,
    TokenPriceOption,
    TokenTableOption,
    TopologyOption,
    plan_of,
    range_of,
    token_price_of,
)

app = typer.Typer(no_args_is_help=True)

COMPARED = "colocated,pd,cross-dc,cross-dc-drc,pdd,any"


@app.command("compare")
@asks()
def compare(
    asked: Asked,
    topologies: Annotated[
        str, typer.Option("--topologies", help="Topologies to size, separated by commas.")
    ] = COMPARED,
    baseline: Annotated[str, typer.Option("--baseline", help="Topology or fixed plan to compare with.")] = "pd",
    fixed: Annotated[
        list[Path] | None,
        typer.Option("--fixed", metavar="FILE", help="Also evaluate this plan (from size --out); repeatable."),
    ] = None,
    fleet: Annotated[
        list[str] | None,
        typer.Option(
            "--fleet",
            help="Also ask what a given fleet serves: 'TOPOLOGY SITE:CHIP=CHIPS ...', "
            "e.g. 'pdd a:h100-sxm=43 b:h200-sxm=32'; repeatable.",
        ),
    ] = None,
    objective: Annotated[
        str,
        typer.Option("--objective", help="cost: each serves the whole rate for least money. bcr: any rate up to it."),
    ] = "cost",
    token_price: TokenPriceOption = None,
    token_prices: TokenTableOption = "token-prices",
) -> None:
    """Topologies side by side: each at its own optimum, under the same promises.

    \b
    Examples:
      pddplan bcr compare
      pddplan bcr compare --workload my.yaml --topologies pd,pdd --baseline pd --json
      pddplan bcr compare --fleet 'pd a:h100-sxm=88' --fleet 'pdd a:h100-sxm=43 b:h200-sxm=32'
    """
    from pddplan.optimize import Objective
    from pddplan.report import bcr_compare
    from pddplan.studies.compare import compare_topologies
    from pddplan.studies.fleet import parse_fleet

    fleets = tuple(parse_fleet(text) for text in fleet or ())
    inputs = asked.inputs()
    price, assumed = token_price_of(token_prices, token_price, inputs)
    found = compare_topologies(
        inputs,
        [name.strip() for name in topologies.split(",") if name.strip()],
        baseline=baseline,
        fixed={path.stem: plan_of(path) for path in fixed or ()},
        fleets=fleets,
        objective=Objective(kind=objective, rate_rps=inputs.workload.arrival.rate_rps if objective == "cost" else None),
        limits=asked.limits(),
        price=price,
        price_assumed=assumed,
    )
    asked.show(found, text=bcr_compare.render, json=bcr_compare.comparison_json, table=bcr_compare.comparison_csv)


@app.command("curve")
@asks()
def curve(
    asked: Asked,
    topology: TopologyOption = None,
    plan: PlanOption = None,
    cached_ratio: Annotated[
        float | None,
        typer.Option(
            "--cached-ratio", callback=options.not_negative, help="Price of cached over missed tokens, e.g. 0.1."
        ),
    ] = None,
    token_price: TokenPriceOption = None,
    token_prices: TokenTableOption = "token-prices",
    even: Annotated[
        bool, typer.Option("--even/--as-now", help="Every request hits alike, instead of the skew the workload has.")
    ] = False,
    memory_price: Annotated[
        float | None,
        typer.Option("--memory-price", callback=options.not_negative, help="Memory for cached KV, per GB and month."),
    ] = None,
    sized: Annotated[
        bool,
        typer.Option("--sized/--quick", help="Size large fleets at some hit rates, and draw the curve through them."),
    ] = True,
    points: Annotated[int, typer.Option("--points", min=11, max=20_001, help="Hit rates on the curve.")] = 401,
) -> None:
    """The bathtub: what a unit of cost earns against the hit rate, and the two ways out of the valley.

    \b
    Examples:
      pddplan bcr curve
      pddplan bcr curve --cached-ratio 0.25 --even
      pddplan bcr curve --workload from-trace.yaml --memory-price 0.1 --csv curve.csv
    """
    from pddplan.economics.hit_rate import Spread
    from pddplan.report import bcr_curve
    from pddplan.studies.curve import MEMORY_PRICE_PER_GB_MONTH, SIZED_AT, bathtub_study

    inputs, outcome = asked.plan(plan, topology=topology)
    price, assumed = token_price_of(token_prices, token_price, inputs)
    study = bathtub_study(
        inputs,
        outcome,
        price=price,
        price_assumed=assumed,
        cached_over_miss=cached_ratio,
        spread=Spread.EVEN if even else Spread.AS_NOW,
        points=points,
        memory_price_per_gb_month=MEMORY_PRICE_PER_GB_MONTH if memory_price is None else memory_price,
        sized_at=SIZED_AT if sized else (),
    )
    asked.show(study, text=bcr_curve.render, json=bcr_curve.curve_json, table=bcr_curve.curve_csv)


@app.command("sure")
@asks()
def sure(
    asked: Asked,
    topology: TopologyOption = None,
    plan: PlanOption = None,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="FILE", help="Plan to beat under the same draws.")
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", metavar="NAME=LOW:HIGH", help="Another range for an uncertain number; repeatable."),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, max=65_536, help="Joint draws.")] = 64,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the draws.")] = 1,
) -> None:
    """How sure a plan is: every uncertain number varied alone (tornado) and together (Monte Carlo).

    \b
    Examples:
      pddplan bcr sure
      pddplan bcr sure --plan plan.json --samples 256
      pddplan bcr sure --range 'missing tokens=0.5:2' --json
    """
    from pddplan.report import bcr_sure
    from pddplan.studies.sureness import how_sure

    given = dict(range_of(text) for text in ranges or ())
    inputs, outcome = asked.plan(plan, topology=topology)
    found = how_sure(
        inputs,
        outcome.plan,
        samples=samples,
        seed=seed,
        ranges=given,
        baseline=plan_of(baseline) if baseline is not None else None,
    )
    asked.show(found, text=bcr_sure.render, json=bcr_sure.sure_json, table=bcr_sure.sure_csv)


for command in (growth, reserve, regret, fleet):
    app.command(command.__name__)(command)
