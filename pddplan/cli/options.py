"""Options that several commands share, with the checks that belong to them."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from pddplan.errors import InputError, Problem


def positive(param: typer.CallbackParam, value: float | None) -> float | None:
    """Callback of numeric options: finite and above zero, or not given."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise InputError(
            Problem(
                what=f"{_flag(param)} must be a finite number greater than 0, got {value:g}",
                fix=f"for example {_flag(param)} 10",
            )
        )
    return value


def share(param: typer.CallbackParam, value: float | None) -> float | None:
    """Callback of numeric options: above zero, and one at most, or not given."""
    if value is not None and not 0 < value <= 1:
        raise InputError(
            Problem(what=f"{_flag(param)} must lie in (0, 1], got {value:g}", fix=f"for example {_flag(param)} 0.9")
        )
    return value


def not_negative(param: typer.CallbackParam, value: float | None) -> float | None:
    """Callback of numeric options: finite and not below zero, or not given."""
    if value is not None and not (math.isfinite(value) and value >= 0):
        raise InputError(
            Problem(
                what=f"{_flag(param)} must be a finite number from 0 up, got {value:g}",
                fix=f"write {_flag(param)} 0 or more, or leave it away",
            )
        )
    return value


def _flag(param: typer.CallbackParam) -> str:
    return str(param.opts[0])


WorkloadOption = Annotated[
    str, typer.Option("--workload", "-w", help="Workload: a bundled id (pddplan workload list) or a YAML file.")
]
SitesOption = Annotated[
    str | None, typer.Option("--sites", "-s", help="Sites, lines and prices: a bundled id or a YAML file.")
]
ChipsOption = Annotated[list[str] | None, typer.Option("--chip", help="Only these chips (repeatable).")]
RpsOption = Annotated[
    float | None, typer.Option("--rps", callback=positive, help="Arrival rate in requests per second.")
]
TtftP50Option = Annotated[
    float | None, typer.Option("--ttft-p50", callback=positive, help="Promise: half of all TTFTs below this [s].")
]
TtftP90Option = Annotated[
    float | None, typer.Option("--ttft-p90", callback=positive, help="Promise: 90 % of all TTFTs below this [s].")
]
TtftP99Option = Annotated[
    float | None, typer.Option("--ttft-p99", callback=positive, help="Promise: 99 % of all TTFTs below this [s].")
]
TpotOption = Annotated[
    float | None, typer.Option("--tpot", callback=positive, help="Promise: time per output token [ms].")
]
LinkOption = Annotated[
    float | None, typer.Option("--link", callback=positive, help="Take this tier of every line [Gbit/s].")
]
TopologyOption = Annotated[
    str | None,
    typer.Option("--topology", "-t", help="Paths that may be used; without it pdd, or any without lines."),
]
SecondsOption = Annotated[
    float, typer.Option("--time-limit", callback=positive, help="Seconds per plan: the best found until then counts.")
]
ShapesOption = Annotated[
    list[str] | None, typer.Option("--shape", help="Only instances of this shape, e.g. TP8 (repeatable).")
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Setting of the evaluator, e.g. overlap=layerwise (repeatable)."),
]
SpareOption = Annotated[
    int | None, typer.Option("--spare", min=0, help="Instances every pool keeps in reserve (N+1: 1). [default: 0]")
]
SpareShareOption = Annotated[
    float | None,
    typer.Option(
        "--spare-share",
        callback=not_negative,
        help="Chips held in reserve, as a share of those in service. [default: as the sites file says]",
    ),
]
MaxUtilizationOption = Annotated[
    float | None,
    typer.Option(
        "--max-utilization",
        callback=share,
        help="No pool is planned busier than this. [default: 0.95]",
    ),
]
MaxLineUtilizationOption = Annotated[
    float | None,
    typer.Option(
        "--max-line-utilization",
        callback=share,
        help="No line is planned fuller than this. [default: 0.9]",
    ),
]
MaxChipsOption = Annotated[
    int | None, typer.Option("--max-chips", min=1, help="Chips of all pools together, spares included.")
]
SurviveLineLossOption = Annotated[
    bool | None,
    typer.Option(
        "--survive-line-loss/--no-survive-line-loss",
        help="Promises must hold with one line of each bundle lost. [default: no]",
    ),
]
DrawingOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Also write a page with drawings (SVG).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON to standard output, and nothing else there.")]
CsvOption = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Also write a CSV file ('-' = stdout).")]
ProfilesOption = Annotated[
    list[Path] | None,
    typer.Option("--profiles", metavar="DIR", help="Look here first for chips, models, sites (repeatable)."),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Say on standard error what took how long.")]


@contextmanager
def profile_dirs(dirs: list[Path] | None) -> Iterator[None]:
    """Search the folders of ``--profiles`` first, inside the block."""
    from pddplan.profiles.lookup import use_profiles

    with use_profiles(dirs or ()):
        yield


def in_seconds(value_ms: float | None) -> float | None:
    """Milliseconds from the command line in seconds."""
    from pddplan.units import MS_PER_S

    return None if value_ms is None else value_ms / MS_PER_S


def add_examples(command: Callable[..., None], examples: str) -> None:
    """End the help of a command with things to type. (Python 3.13 takes the indentation off docstrings itself.)"""
    command.__doc__ = f"{inspect.cleandoc(command.__doc__ or '')}\n\n{examples}"


def print_timings(timings_s: Mapping[str, float]) -> None:
    """What took how long, to standard error."""
    for stage, spent_s in timings_s.items():
        print(f"{stage:<16} {spent_s:8.3f} s", file=sys.stderr)
