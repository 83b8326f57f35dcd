"""What the commands of ``pddplan bcr`` share: loading a question or a plan, reading their options, showing a result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pddplan.cli import options
from pddplan.errors import InputError, Problem

if TYPE_CHECKING:
    from pddplan.domain.outcome import Outcome
    from pddplan.domain.plan import Plan
    from pddplan.domain.token_price import TokenPrice
    from pddplan.report.text_table import Screen
    from pddplan.sizing import Inputs

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


def load_inputs(
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


def load_question(
    workload: str, sites: str | None, *, plan: Path | None, topology: str, time_limit: float, **numbers: Any
) -> tuple[Inputs, Outcome]:
    """The records and the outcome of a plan: read from a plan file, or sized now."""
    from pddplan import api

    if plan is not None:
        inputs, read = api.load_plan_inputs(plan)
        return inputs, api.evaluate_plan(inputs, read)
    from pddplan.optimize import Limits

    inputs = load_inputs(workload, sites, **numbers)
    sizing = api.size_inputs(inputs, topology=topology, limits=Limits(time_limit_s=time_limit), compare=False)
    return inputs, sizing.outcome


def plan_of(path: Path) -> Plan:
    from pddplan import api

    return api.load_plan_inputs(path)[1]


def token_price_of(table: str, row: str | None, inputs: Inputs) -> tuple[TokenPrice, bool]:
    from pddplan.profiles.token_prices import token_price_for, token_price_named

    if row is not None:
        return token_price_named(row, name=table), False
    return token_price_for(inputs.workload.llm, name=table)


def numbers_of(text: str, option: str) -> list[float]:
    """Numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            Problem(
                what=f"cannot read the numbers {text!r}",
                fix=f"separate them by commas, for example {option} 4,6,9,11.5",
                where=option,
            )
        ) from None


def range_of(text: str) -> tuple[str, tuple[float, float]]:
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


def show(
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
