"""``pddplan workload``: import traffic from a trace, list and show workloads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pddplan.cli import options
from pddplan.errors import InputError, Problem

if TYPE_CHECKING:
    from pddplan.traces.caching import CachePolicy
    from pddplan.traces.importer import Imported, ImportSettings
    from pddplan.traces.reading import ReadOptions

app = typer.Typer(no_args_is_help=True)

TraceArgument = Annotated[
    str,
    typer.Argument(metavar="TRACE", help="Trace file (.gz and .zst too), '-' for standard input, or a bundled one."),
]
FormatOption = Annotated[
    str | None, typer.Option("--format", help="Read it as this format instead of the one recognised.")
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="ROLE=NAME,...",
        help="Which column means what: time, input, output, session, lane, ids, hit, appended, written, status; "
        "by place (input=2) where the first line names no columns.",
    ),
]
TimeUnitOption = Annotated[
    str | None, typer.Option("--time-unit", help="Unit of times: s, ms, us, ns or iso (calendar times).")
]
BlockOption = Annotated[int | None, typer.Option("--block-tokens", min=1, help="Tokens per block id.")]
StrictOption = Annotated[bool, typer.Option("--strict", help="Stop at the first bad row.")]
MaxSkipOption = Annotated[
    float, typer.Option("--max-skip", min=0.0, max=1.0, help="Share of rows that may be left out as bad.")
]
PrefillCacheOption = Annotated[
    str,
    typer.Option(
        "--prefill-cache",
        metavar="SIZE",
        help="Prefix cache of one prefill instance: tokens (5M), blocks (10000blocks), or inf.",
    ),
]
DecodeCacheOption = Annotated[
    str,
    typer.Option("--decode-cache", metavar="SIZE", help="The same at the decode side (DRC); 'none' if there is none."),
]
PrefillInstancesOption = Annotated[
    int, typer.Option("--prefill-instances", min=1, max=4096, help="Prefill instances, each with its own cache.")
]
DecodeInstancesOption = Annotated[
    int, typer.Option("--decode-instances", min=1, max=4096, help="Decode instances, each with its own cache.")
]
RoutingOption = Annotated[
    str, typer.Option("--routing", help="How requests find their instance: sticky, round-robin or random.")
]
TtlOption = Annotated[
    float | None,
    typer.Option("--cache-ttl", callback=options.positive, help="Cached blocks expire after this many idle seconds."),
]
NoAnswersOption = Annotated[
    bool,
    typer.Option("--no-generated-kv", help="The decode side does not keep the KV of generated tokens for later turns."),
]
HitRateOption = Annotated[
    float | None,
    typer.Option("--assume-hit-rate", min=0.0, max=1.0, help="Hit rate at P, for traces that cannot tell."),
]
DecodeHitRateOption = Annotated[
    float | None,
    typer.Option("--assume-decode-hit-rate", min=0.0, max=1.0, help="The same at MD; as at P if left out."),
]
ScaleOption = Annotated[
    float | None,
    typer.Option("--scale-to-rps", callback=options.positive, help="Plan for this rate instead of the trace's."),
]
ScaleHowOption = Annotated[
    str,
    typer.Option("--scale-by", help="users: more independent users (bursts average out); clock: the same, faster."),
]

_IMPORT_EXAMPLES = """\b
Examples:
  pddplan workload import trace.jsonl --model deepseek-v4-pro --out workload.yaml
  pddplan workload import trace.jsonl.gz -m deepseek-v3 --prefill-cache 5M --decode-cache 20M --out w.yaml
  pddplan workload import log.csv -m llama-3.1-8b --columns input=ctx,output=gen,time=ts --assume-hit-rate 0.4 -o w.yaml
  zcat trace.jsonl.gz | pddplan workload import - -m deepseek-v3 --scale-to-rps 20 --out -
"""


@app.command(name="import", epilog=_IMPORT_EXAMPLES)
def import_(
    trace: TraceArgument,
    model: Annotated[str, typer.Option("--model", "-m", help="Id of the model that is served.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Workload file to write ('-' = stdout).")],
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the workload; from the file name if left out.")
    ] = None,
    description: Annotated[str | None, typer.Option("--description", help="A sentence about this traffic.")] = None,
    trace_format: FormatOption = None,
    columns: ColumnsOption = None,
    time_unit: TimeUnitOption = None,
    block_tokens: BlockOption = None,
    strict: StrictOption = False,
    max_skip: MaxSkipOption = 0.01,
    prefill_cache: PrefillCacheOption = "inf",
    decode_cache: DecodeCacheOption = "inf",
    prefill_instances: PrefillInstancesOption = 1,
    decode_instances: DecodeInstancesOption = 1,
    routing: RoutingOption = "sticky",
    cache_ttl: TtlOption = None,
    no_generated_kv: NoAnswersOption = False,
    assume_hit_rate: HitRateOption = None,
    assume_decode_hit_rate: DecodeHitRateOption = None,
    max_classes: Annotated[int, typer.Option("--classes", min=1, max=1024, help="Most request classes.")] = 64,
    scale_to_rps: ScaleOption = None,
    scale_by: ScaleHowOption = "users",
    ttft_p50: options.TtftP50Option = None,
    ttft_p90: options.TtftP90Option = None,
    ttft_p99: options.TtftP99Option = None,
    tpot: options.TpotOption = None,
    as_json: options.JsonOption = False,
    profiles: options.ProfilesOption = None,
) -> None:
    """Make a workload from a request trace: hit rates by replaying prefix caches, request classes, arrivals.

    The trace stays where it is; the workload holds aggregates only, no ids and no hashes.
    """
    from pddplan.domain.workload import Promises
    from pddplan.files import write_atomically
    from pddplan.profiles.workload_profile import dump_workload
    from pddplan.report.text_table import Screen
    from pddplan.report.workload_page import import_summary, page_json
    from pddplan.traces.importer import ImportSettings

    with options.profile_dirs(profiles):
        llm = _model_id(model)
    read = _read_options(trace_format, columns, time_unit, block_tokens, strict, max_skip)
    settings = ImportSettings(
        llm=llm,
        name=name or _name_of(trace),
        description=description,
        max_classes=max_classes,
        promises=Promises(
            ttft_p50_s=ttft_p50, ttft_p90_s=ttft_p90, ttft_p99_s=ttft_p99, tpot_s=options.in_seconds(tpot)
        ),
    )
    imported = _import(
        trace,
        read,
        settings,
        caches=(prefill_cache, decode_cache, prefill_instances, decode_instances),
        policy=(routing, cache_ttl, no_generated_kv),
        assumed=(assume_hit_rate, assume_decode_hit_rate),
        scale=(scale_to_rps, scale_by),
    )
    write_atomically(out, dump_workload(imported.workload))
    if as_json:
        print(page_json(imported.workload, imported))
    else:
        screen = Screen.of(sys.stderr)
        print("\n".join(import_summary(imported, width=screen.width)), file=sys.stderr)


@app.command(name="list")
def list_(as_json: options.JsonOption = False, profiles: options.ProfilesOption = None) -> None:
    """List the workloads that can be named with --workload, and the bundled traces.

    \b
    Example:
      pddplan workload list
    """
    import json

    from pddplan.profiles import lookup
    from pddplan.profiles.workload_profile import load_workload
    from pddplan.report.text_table import Screen
    from pddplan.report.workload_page import listing, listing_json
    from pddplan.traces.bundled import bundled_traces

    with options.profile_dirs(profiles):
        workloads, broken = [], []
        for name in lookup.names(lookup.Kind.WORKLOAD):
            try:
                workloads.append((name, load_workload(name)))
            except InputError as error:
                broken.append((name, error.problems[0]))
    traces = bundled_traces()
    if as_json:
        print(json.dumps(listing_json(workloads, traces), indent=2))
    else:
        print("\n".join(listing(workloads, traces, screen=Screen.of(sys.stdout))))
    for name, problem in broken:
        print(f"warning: {name} is left out: {problem}", file=sys.stderr)


@app.command()
def show(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD|TRACE", help="Workload id or file, or a trace file.")],
    trace_format: FormatOption = None,
    columns: ColumnsOption = None,
    time_unit: TimeUnitOption = None,
    block_tokens: BlockOption = None,
    strict: StrictOption = False,
    max_skip: MaxSkipOption = 0.01,
    prefill_cache: PrefillCacheOption = "inf",
    decode_cache: DecodeCacheOption = "inf",
    prefill_instances: PrefillInstancesOption = 1,
    decode_instances: DecodeInstancesOption = 1,
    routing: RoutingOption = "sticky",
    cache_ttl: TtlOption = None,
    no_generated_kv: NoAnswersOption = False,
    assume_hit_rate: HitRateOption = None,
    assume_decode_hit_rate: DecodeHitRateOption = None,
    scale_to_rps: ScaleOption = None,
    scale_by: ScaleHowOption = "users",
    as_json: options.JsonOption = False,
    profiles: options.ProfilesOption = None,
) -> None:
    """Show a workload or a trace: lengths, misses, hit rates, arrivals, cache curve, and what to read from them.

    \b
    Examples:
      pddplan workload show agentic-64k
      pddplan workload show trace.jsonl.gz --prefill-cache 5M
      pddplan workload show azure.csv --assume-hit-rate 0
    """
    from pddplan.profiles.workload_profile import load_workload
    from pddplan.questions import check_rate
    from pddplan.report.text_table import Screen
    from pddplan.report.workload_page import page, page_json
    from pddplan.traces.importer import ImportSettings

    with options.profile_dirs(profiles):
        if _is_trace(workload):
            imported: Imported | None = _import(
                workload,
                _read_options(trace_format, columns, time_unit, block_tokens, strict, max_skip),
                ImportSettings(llm="not-named", name=_name_of(workload)),
                caches=(prefill_cache, decode_cache, prefill_instances, decode_instances),
                policy=(routing, cache_ttl, no_generated_kv),
                assumed=(assume_hit_rate, assume_decode_hit_rate),
                scale=(scale_to_rps, scale_by),
                rate_may_be_missing=True,
            )
            assert imported is not None
            shown = imported.workload
        else:
            imported, shown = None, load_workload(workload)
            if scale_to_rps is not None:
                check_rate(scale_to_rps, where="--scale-to-rps")
                shown = shown.at_rate(scale_to_rps)
    if as_json:
        print(page_json(shown, imported))
    else:
        print("\n".join(page(shown, imported, screen=Screen.of(sys.stdout))))


def _model_id(name: str) -> str:
    """Id of a known model; a message otherwise."""
    from pddplan.profiles import lookup

    if lookup.is_path(name):
        raise InputError(
            Problem(
                what=f"--model takes the id of a model, got a file: {name}",
                fix="import the model first (pddplan model import), then give its id",
            )
        )
    return lookup.find(lookup.Kind.LLM, name).stem


def _is_trace(name: str) -> bool:
    """Whether the argument is a trace rather than a workload: by its ending, or what is bundled."""
    from pddplan.files import is_file
    from pddplan.profiles.lookup import is_path
    from pddplan.traces.bundled import bundled_traces

    if name.endswith((".yaml", ".yml")):
        return False
    return name in bundled_traces() or is_path(name) or "." in name or is_file(Path(name))


def _name_of(trace: str) -> str:
    """A workload name from a file name."""
    import re

    stem = "stdin" if trace == "-" else Path(trace).name.split(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.") or "trace"


def _read_options(
    trace_format: str | None,
    columns: str | None,
    time_unit: str | None,
    block_tokens: int | None,
    strict: bool,
    max_skip: float,
) -> ReadOptions:
    from pddplan.traces.reading import ReadOptions
    from pddplan.traces.recognise import parse_columns

    return ReadOptions(
        format=trace_format,
        columns=parse_columns(columns) if columns else {},
        time_unit=time_unit,
        block_tokens=block_tokens,
        strict=strict,
        max_skip_fraction=max_skip,
        progress=_progress_bar("reading  ") if sys.stderr.isatty() else None,
    )


def _import(
    trace: str,
    read: ReadOptions,
    settings: ImportSettings,
    *,
    caches: tuple[str, str, int, int],
    policy: tuple[str, float | None, bool],
    assumed: tuple[float | None, float | None],
    scale: tuple[float | None, str],
    rate_may_be_missing: bool = False,
) -> Imported:
    """Read and analyse a trace with the settings of the command line."""
    from dataclasses import replace

    from pddplan.questions import check_rate
    from pddplan.traces.arrivals import Scaling
    from pddplan.traces.caching import CachePolicy, Routing
    from pddplan.traces.importer import import_trace
    from pddplan.traces.misses import HitAssumption
    from pddplan.traces.reading import read_trace

    prefill_cache, decode_cache, prefill_instances, decode_instances = caches
    routing, ttl_s, no_generated_kv = policy
    at_p, at_md = assumed
    if at_p is None and at_md is not None:
        raise InputError(
            Problem(what="--assume-decode-hit-rate without --assume-hit-rate", fix="give both, or the latter alone")
        )
    way = _word(routing, Routing, "--routing")
    scaling = _word(scale[1], Scaling, "--scale-by")
    found = read_trace(trace, read)
    if not found.has_time and found.given_arrival is None and scale[0] is None and rate_may_be_missing:
        scale = (1.0, scale[1])
    block = found.block_tokens or 16
    near = CachePolicy(
        capacity_blocks=_capacity(prefill_cache, block, "--prefill-cache"),
        instances=prefill_instances,
        routing=way,
        ttl_s=ttl_s,
    )
    far: CachePolicy | None = None
    if decode_cache.strip().lower() != "none":
        far = CachePolicy(
            capacity_blocks=_capacity(decode_cache, block, "--decode-cache"),
            instances=decode_instances,
            routing=way,
            ttl_s=ttl_s,
            keep_generated=not no_generated_kv,
        )
    if scale[0] is not None:
        check_rate(scale[0], where="--scale-to-rps")
    stated = None if at_p is None else HitAssumption(at_p, at_p if at_md is None else at_md)
    return import_trace(
        found,
        replace(settings, prefill_cache=near, decode_cache=far, assumed=stated, rate_rps=scale[0], scaling=scaling),
        progress=_progress_bar("replaying") if sys.stderr.isatty() else None,
    )


def _word(text: str, kind: Any, option: str) -> Any:
    from pddplan.errors import did_you_mean

    words = [str(member) for member in kind]
    if text not in words:
        raise InputError(
            Problem(what=f"{option} {text!r}{did_you_mean(text, words)}", fix=f"use one of: {', '.join(words)}")
        )
    return kind(text)


def _capacity(text: str, block_tokens: int, option: str) -> int | None:
    """Blocks of a capacity such as 5M (tokens), 10000blocks or inf; None for unbounded."""
    import re

    from pddplan.units import GIGA, KILO, MEGA

    plain = text.strip().lower().replace("_", "").replace(",", "")
    if plain in ("inf", "infinite", "unbounded"):
        return None
    match = re.fullmatch(r"([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([kmgb]?)\s*(tokens?|blocks?)?", plain)
    blocks = -1.0
    if match:
        scale = {"": 1.0, "k": KILO, "m": MEGA, "g": GIGA, "b": GIGA}[match[2]]
        amount = float(match[1]) * scale
        blocks = amount if (match[3] or "").startswith("block") else amount // block_tokens
    if not 1 <= blocks < 2**31:
        raise InputError(
            Problem(
                what=f"cannot use {text!r} as the size of a cache (blocks hold {block_tokens} tokens)",
                fix=f"write tokens ({option} 5M), blocks ({option} 10000blocks), or inf",
                where=option,
            )
        )
    return int(blocks)


def _progress_bar(doing: str) -> Any:
    """How far a long step has come, on standard error (terminals only)."""
    from pddplan.units import MEGA

    last = [-1.0]

    def show_progress(done: int, total: int | None) -> None:
        share = done / total if total else done / MEGA
        if share - last[0] < (0.01 if total else 10.0) and done != total:
            return
        last[0] = share
        end = "\n" if done == total else ""
        filled = int(30 * min(share, 1.0)) if total else 0
        text = f"[{'#' * filled}{'.' * (30 - filled)}] {share:4.0%}" if total else f"{share:,.0f} MB"
        print(f"\r{doing} {text}", end=end, file=sys.stderr, flush=True)

    return show_progress
