"""``pddplan simulate``: does a plan do in simulation what its closed forms say?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from pddplan.cli import options
from pddplan.cli.options import profile_dirs

_EXAMPLES = """\b
Examples:
  pddplan size --out plan.json
  pddplan simulate plan.json
  pddplan simulate plan.json --seeds 8 --requests 200000
  pddplan simulate plan.json --trace trace.jsonl --csv load.csv
  pddplan simulate plan.json --rps 15 --bunch 4
"""
_BAR_CELLS = 30


def simulate(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file, as written by: pddplan size --out FILE.")],
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Replay this trace with its own arrival times and cache state."),
    ] = None,
    requests: Annotated[
        int | None, typer.Option("--requests", "-n", help="Requests per run (default 100000; of a trace: all).")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same result.")] = 0,
    seeds: Annotated[int, typer.Option("--seeds", help="Independent runs, side by side on all cores.")] = 1,
    rps: options.RpsOption = None,
    scv: Annotated[
        float | None,
        typer.Option(
            "--scv",
            callback=options.not_negative,
            help="Squared variation of the gaps between arrivals (1 = Poisson; default: the workload's).",
        ),
    ] = None,
    bunch: Annotated[
        float, typer.Option("--bunch", callback=options.positive, help="Mean size of bunches that arrive at once.")
    ] = 1.0,
    output_scv: Annotated[
        float,
        typer.Option("--output-scv", callback=options.not_negative, help="Spread of answer lengths within a class."),
    ] = 0.0,
    chunk_tokens: Annotated[
        float | None,
        typer.Option(
            "--chunk-tokens",
            callback=options.positive,
            help="Aggregated pools: chunks of so many tokens and steps by turns (default: chunks ride on steps).",
        ),
    ] = None,
    prefill_cache: Annotated[
        float | None,
        typer.Option(
            "--prefill-cache-tokens",
            callback=options.positive,
            help="With --trace: capacity of the prefill-side cache (default: unlimited).",
        ),
    ] = None,
    decode_cache: Annotated[
        float | None,
        typer.Option(
            "--decode-cache-tokens",
            callback=options.positive,
            help="With --trace: capacity of the decode-side cache (default: unlimited).",
        ),
    ] = None,
    as_json: options.JsonOption = False,
    csv: options.CsvOption = None,
    profiles: options.ProfilesOption = None,
    verbose: options.VerboseOption = False,
) -> None:
    """Replay requests through a plan and print closed form beside simulation, with margins and errors."""
    from pddplan import api
    from pddplan.simulate.check import Ask

    with profile_dirs(profiles):
        problem, decided = api.load_plan(plan)
        ask = Ask(
            trace=trace,
            requests=requests,
            seed=seed,
            seeds=seeds,
            rate_rps=rps,
            scv=scv,
            mean_batch=bunch,
            output_scv=output_scv,
            chunk_tokens=chunk_tokens,
            prefill_cache_tokens=None if prefill_cache is None else int(prefill_cache),
            decode_cache_tokens=None if decode_cache is None else int(decode_cache),
        )
        outcome, result = api.simulate_plan(problem, decided, ask, progress=_progress_bar())
    promises = problem.workload.promises
    if csv is not None:
        from pddplan.files import write_atomically
        from pddplan.report.simulation_data import series_csv

        write_atomically(csv, series_csv(result.series))
    if as_json:
        from pddplan.report.json_plan import dump_json
        from pddplan.report.simulation_data import json_record

        sys.stdout.write(dump_json(json_record(outcome, result, promises=promises)))
    elif str(csv) != "-":
        from pddplan.report.simulation_table import render
        from pddplan.report.text_table import Screen

        screen = Screen.of(sys.stdout)
        text = render(
            outcome,
            result,
            promises=promises,
            width=screen.width,
            paint=screen.paint,
            ascii_only=screen.ascii_only,
        )
        sys.stdout.write(text)
    if verbose:
        options.print_timings({"simulate": result.elapsed_s})


options.add_examples(simulate, _EXAMPLES)


def _progress_bar() -> Callable[[float], None] | None:
    """A bar on standard error, where somebody is looking."""
    if not sys.stderr.isatty():
        return None

    def show(share: float) -> None:
        filled = round(share * _BAR_CELLS)
        end = "\r\x1b[K" if share >= 1 else ""
        print(f"\rsimulating [{'#' * filled}{'.' * (_BAR_CELLS - filled)}] {share:4.0%}{end}", end="", file=sys.stderr)
        sys.stderr.flush()

    return show
