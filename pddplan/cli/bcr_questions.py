"""What the commands of ``pddplan bcr`` share beside the question itself: options of their own, and how to read them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pddplan.errors import InputError, Problem

if TYPE_CHECKING:
    from pddplan.domain.plan import Plan
    from pddplan.domain.token_price import TokenPrice
    from pddplan.sizing import Inputs

TopologyOption = Annotated[
    str | None,
    typer.Option(
        "--topology", "-t", help="Topology to size (unless --plan is given); without it pdd, or any without lines."
    ),
]
PlanOption = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Take this plan (from size --out) instead of sizing.")
]
TokenPriceOption = Annotated[
    str | None, typer.Option("--token-price", help="Row of the token price table; without it the model's own row.")
]
TokenTableOption = Annotated[
    str, typer.Option("--token-prices", metavar="TABLE", help="Token price table: a bundled id or a YAML file.")
]


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
