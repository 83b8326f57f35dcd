"""``pddplan bcr``: benefit per cost. Compare topologies, draw the bathtub, ask how sure, plan growth."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pddplan.cli import options
from pddplan.cli.options import profile_dirs
from pddplan.errors import InputError, Problem

if TYPE_CHECKING:
    from pddplan.domain.outcome import Outcome
    from pddplan.domain.plan import Plan
    from pddplan.domain.token_price import TokenPrice
    from pddplan.report.text_table import Screen
    from pddplan.sizing import Inputs

app = typer.Typer(no_args_is_help=True)

COMPARED = "colocated,pd,cross-dc,cross-dc-drc,pdd"

ModelOption = Annotated[str | None, typer.Option("--model", "-m", help="Another model than the workload's.")]
StackOption = Annotated[str | None, typer.Option("--stack", help="Serving stack whose efficiencies to use.")]
TimeLimitOption = Annotated[
    float, typer.Option("--time-limit", callback=options.positive, help="Stop each search after this many seconds.")
]
TopologyOption = Annotated[str, typer.Option("--topology", "-t", help="Topology to size, unless --plan is given.")]
PlanOption = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Take this plan (from size --out) instead of sizing.")
]
TokenPriceOption = Annotated[
    str | None, typer.Option("--token-price", help="Row of the token price table; without it the model's own row.")
]
TokenTableOption = Annotated[
    str, typer.Option("--token-prices", metavar="TABLE", help="Token price table: a bundled id or a YAML file.")
]


@app.command("compare")
def compare(
    workload: options.WorkloadOption = "agentic-64k",
    sites: options.SitesOption = None,
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
    rps: options.RpsOption = None,
    ttft_p50: options.TtftP50Option = None,
    ttft_p90: options.TtftP90Option = None,
    ttft_p99: options.TtftP99Option = None,
    tpot: options.TpotOption = None,
    link: options.LinkOption = None,
    model: ModelOption = None,
    stack: StackOption = None,
    time_limit: TimeLimitOption = 30.0,
    as_json: options.JsonOption = False,
    csv: options.CsvOption = None,
    profiles: options.ProfilesOption = None,
) -> None:
    """Topologies side by side: each at its own optimum, under the same promises.

    \b
    Examples:
      pddplan bcr compare
      pddplan bcr compare --workload my.yaml --topologies pd,pdd --baseline pd --json
      pddplan bcr compare --fleet 'pd a:h100-sxm=88' --fleet 'pdd a:h100-sxm=43 b:h200-sxm=32'
    """
    options.one_standard_output(as_json, csv)
    with profile_dirs(profiles):
        from pddplan.optimize import Limits, Objective
        from pddplan.report import bcr_compare
        from pddplan.studies.compare import compare_topologies
        from pddplan.studies.fleet import parse_fleet

        inputs = _inputs(
            workload,
            sites,
            rps=rps,
            ttft=(ttft_p50, ttft_p90, ttft_p99),
            tpot=tpot,
            link=link,
            model=model,
            stack=stack,
        )
        price, assumed = _price(token_prices, token_price, inputs)
        rate = inputs.workload.arrival.rate_rps if objective == "cost" else None
        found = compare_topologies(
            inputs,
            [name.strip() for name in topologies.split(",") if name.strip()],
            baseline=baseline,
            fixed={path.stem: _plan_of(path) for path in fixed or ()},
            fleets=tuple(parse_fleet(text) for text in fleet or ()),
            objective=Objective(kind=objective, rate_rps=rate),
            limits=Limits(time_limit_s=time_limit),
            price=price,
            price_assumed=assumed,
        )
        _show(
            found,
            as_json=as_json,
            csv=csv,
            text=bcr_compare.render,
            json=bcr_compare.comparison_json,
            table=bcr_compare.comparison_csv,
        )


@app.command("curve")
def curve(
    workload: options.WorkloadOption = "agentic-64k",
    sites: options.SitesOption = None,
    topology: TopologyOption = "pdd",
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
    points: Annotated[int, typer.Option("--points", min=11, max=20_001, help="Hit rates on the curve.")] = 401,
    rps: options.RpsOption = None,
    ttft_p90: options.TtftP90Option = None,
    ttft_p99: options.TtftP99Option = None,
    tpot: options.TpotOption = None,
    link: options.LinkOption = None,
    model: ModelOption = None,
    stack: StackOption = None,
    time_limit: TimeLimitOption = 30.0,
    as_json: options.JsonOption = False,
    csv: options.CsvOption = None,
    profiles: options.ProfilesOption = None,
) -> None:
    """The bathtub: what a unit of cost earns against the hit rate, and the two ways out of the valley.

    \b
    Examples:
      pddplan bcr curve
      pddplan bcr curve --cached-ratio 0.25 --even
      pddplan bcr curve --workload from-trace.yaml --memory-price 0.1 --csv curve.csv
    """
    options.one_standard_output(as_json, csv)
    with profile_dirs(profiles):
        from pddplan.economics.hit_rate import Spread
        from pddplan.report import bcr_curve
        from pddplan.studies.curve import MEMORY_PRICE_PER_GB_MONTH, bathtub_study

        inputs, outcome = _question(
            workload,
            sites,
            plan=plan,
            topology=topology,
            rps=rps,
            ttft=(None, ttft_p90, ttft_p99),
            tpot=tpot,
            link=link,
            model=model,
            stack=stack,
            time_limit=time_limit,
        )
        price, assumed = _price(token_prices, token_price, inputs)
        study = bathtub_study(
            inputs,
            outcome,
            price=price,
            price_assumed=assumed,
            cached_over_miss=cached_ratio,
            spread=Spread.EVEN if even else Spread.AS_NOW,
            points=points,
            memory_price_per_gb_month=MEMORY_PRICE_PER_GB_MONTH if memory_price is None else memory_price,
        )
        _show(
            study, as_json=as_json, csv=csv, text=bcr_curve.render, json=bcr_curve.curve_json, table=bcr_curve.curve_csv
        )


@app.command("sure")
def sure(
    workload: options.WorkloadOption = "agentic-64k",
    sites: options.SitesOption = None,
    topology: TopologyOption = "pdd",
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
    rps: options.RpsOption = None,
    ttft_p90: options.TtftP90Option = None,
    ttft_p99: options.TtftP99Option = None,
    tpot: options.TpotOption = None,
    link: options.LinkOption = None,
    model: ModelOption = None,
    stack: StackOption = None,
    time_limit: TimeLimitOption = 30.0,
    as_json: options.JsonOption = False,
    csv: options.CsvOption = None,
    profiles: options.ProfilesOption = None,
) -> None:
    """How sure a plan is: every uncertain number varied alone (tornado) and together (Monte Carlo).

    \b
    Examples:
      pddplan bcr sure
      pddplan bcr sure --plan plan.json --samples 256
      pddplan bcr sure --range 'missing tokens=0.5:2' --json
    """
    options.one_standard_output(as_json, csv)
    with profile_dirs(profiles):
        from pddplan.report import bcr_sure
        from pddplan.studies.sureness import how_sure

        inputs, outcome = _question(
            workload,
            sites,
            plan=plan,
            topology=topology,
            rps=rps,
            ttft=(None, ttft_p90, ttft_p99),
            tpot=tpot,
            link=link,
            model=model,
            stack=stack,
            time_limit=time_limit,
        )
        found = how_sure(
            inputs,
            outcome.plan,
            samples=samples,
            seed=seed,
            ranges=dict(_range(text) for text in ranges or ()),
            baseline=_plan_of(baseline) if baseline is not None else None,
        )
        _show(found, as_json=as_json, csv=csv, text=bcr_sure.render, json=bcr_sure.sure_json, table=bcr_sure.sure_csv)


# -- shared parts ------------------------------------------------------------------------------------------------


def _inputs(
    workload: str,
    sites: str | None,
    *,
    rps: float | None,
    ttft: tuple[float | None, float | None, float | None],
    tpot: float | None,
    link: float | None,
    model: str | None,
    stack: str | None,
) -> Inputs:
    from pddplan import api

    return api.load_inputs(
        workload,
        sites,
        rps=rps,
        ttft_p50_s=ttft[0],
        ttft_p90_s=ttft[1],
        ttft_p99_s=ttft[2],
        tpot_s=options.in_seconds(tpot),
        link_gbps=link,
        llm=model,
        stack=stack,
    )


def _question(
    workload: str, sites: str | None, *, plan: Path | None, topology: str, time_limit: float, **numbers: Any
) -> tuple[Inputs, Outcome]:
    """The records and the outcome of a plan: read from a plan file, or sized now."""
    from pddplan import api

    if plan is not None:
        inputs, read = api.load_plan_inputs(plan)
        return inputs, api.evaluate_plan(inputs, read)
    from pddplan.optimize import Limits

    inputs = _inputs(workload, sites, **numbers)
    sizing = api.size_inputs(inputs, topology=topology, limits=Limits(time_limit_s=time_limit), compare=False)
    return inputs, sizing.outcome


def _plan_of(path: Path) -> Plan:
    from pddplan import api

    return api.load_plan_inputs(path)[1]


def _price(table: str, row: str | None, inputs: Inputs) -> tuple[TokenPrice, bool]:
    from pddplan.profiles.token_prices import token_price_for, token_price_named

    if row is not None:
        return token_price_named(row, name=table), False
    return token_price_for(inputs.workload.llm, name=table)


def _range(text: str) -> tuple[str, tuple[float, float]]:
    name, _, bounds = text.rpartition("=")
    low, _, high = bounds.partition(":")
    try:
        return name.strip(), (float(low), float(high))
    except ValueError:
        raise InputError(
            Problem(
                what=f"cannot read the range {text!r}",
                fix="write NAME=LOW:HIGH, for example --range 'missing tokens=0.7:1.5'",
                where="--range",
            )
        ) from None


def _show(
    found: Any,
    *,
    as_json: bool,
    csv: Path | None,
    text: Callable[[Any, Screen], str],
    json: Callable[[Any], Mapping[str, Any]],
    table: Callable[[Any], str],
) -> None:
    """One result in the formats asked for."""
    if csv is not None:
        from pddplan.files import write_atomically

        write_atomically(csv, table(found))
    if as_json:
        from pddplan.report.json_plan import dump_json

        sys.stdout.write(dump_json(json(found)))
    elif str(csv) != "-":
        from pddplan.report.text_table import Screen

        sys.stdout.write(text(found, Screen.of(sys.stdout)))
