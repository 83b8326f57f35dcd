"""``pddplan calibrate``: fit the efficiencies of a chip under a stack to benchmark results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pddplan.cli import options

_EXAMPLES = """\b
Examples:
  pddplan calibrate --chip h100-sxm --model llama-3.1-8b --stack "vllm 0.11" result.json --out mine.yaml
  pddplan calibrate --chip h200-sxm --model deepseek-v3 --tp 8 --weights fp8 --kv fp8 run1.jsonl run2.jsonl
  pddplan calibrate --chip h100-sxm --model qwen3-32b my_table.csv --json
  pddplan size --stack mine.yaml
"""


def calibrate(
    files: Annotated[list[Path], typer.Argument(help="Result files of load-test clients, or tables of measurements.")],
    chip: Annotated[str, typer.Option("--chip", help="Chip the runs were made on.")],
    model: Annotated[str, typer.Option("--model", "-m", help="Model that was served.")],
    stack: Annotated[
        str, typer.Option("--stack", help="Engine and version, e.g. 'vllm 0.11'; tables name it per row.")
    ] = "",
    tp: Annotated[int, typer.Option("--tp", min=1, max=1024, help="Tensor-parallel ranks of an instance.")] = 1,
    pp: Annotated[int, typer.Option("--pp", min=1, max=64, help="Pipeline stages.")] = 1,
    dp: Annotated[int, typer.Option("--dp", min=1, max=1024, help="Data-parallel attention ranks.")] = 1,
    ep: Annotated[int, typer.Option("--ep", min=1, max=1024, help="Expert-parallel ranks (of the same chips).")] = 1,
    weights: Annotated[str | None, typer.Option("--weights", help="Weights dtype; left out = as stored.")] = None,
    kv: Annotated[str | None, typer.Option("--kv", help="KV cache dtype; left out = as usually served.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write an efficiency overlay (YAML; '-' = stdout).")
    ] = None,
    as_json: options.JsonOption = False,
    profiles: options.ProfilesOption = None,
) -> None:
    """Robust least squares with bounds: what was read, what changed with 95 % intervals, the error before and after.

    Numbers the runs say nothing about keep their inherited value and are not written.
    """
    from pddplan import api
    from pddplan.domain.plan import Shape
    from pddplan.report.calibration_table import calibration_data, calibration_text

    with options.profile_dirs(profiles):
        found = api.calibrate(
            files,
            chip=chip,
            llm=model,
            stack=stack,
            shape=Shape(tp=tp, pp=pp, dp=dp, ep=ep),
            weights_dtype=weights,
            kv_dtype=kv,
            profiles=profiles or (),
        )
    if out is not None:
        from pddplan.files import write_atomically

        write_atomically(out, found.overlay)
    if as_json:
        typer.echo(json.dumps(calibration_data(found), indent=2, allow_nan=False))
    elif str(out) != "-":
        typer.echo(calibration_text(found))
        if out is not None:
            typer.echo(f"\nuse it with: pddplan size --stack {out}")
        else:
            typer.echo("\nhint: --out FILE writes these numbers as a profile")


options.add_examples(calibrate, _EXAMPLES)
