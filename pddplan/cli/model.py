"""``pddplan model``: import a Hugging Face config, show and list models."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pddplan.cli import options
from pddplan.cli.options import profile_dirs

app = typer.Typer(
    no_args_is_help=True,
    help="""Import a model from its config.json; list and show models.

\b
Examples:
  pddplan model import config.json --out my-model.yaml
  pddplan model show deepseek-v4-pro
  pddplan model show config.json --json
  pddplan model list
""",
)


@app.command("import")
def import_model(
    config: Annotated[
        str, typer.Argument(help="Hugging Face config.json, the folder it lies in, or '-' = standard input.")
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Profile to write.")] = None,
    model_id: Annotated[
        str | None, typer.Option("--id", help="Id of the model; without it from the file name.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name shown to people.")] = None,
    family: Annotated[
        str | None, typer.Option("--family", help="Read it as this model_type (for a new name of a known family).")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Turn a config.json into a model profile; what is missing or unknown is listed, never guessed.

    Without --out the profile goes to standard output.

    \b
    Example:
      pddplan model import config.json --out my-model.yaml
      pddplan size --model my-model.yaml
    """
    from pddplan.files import write_atomically
    from pddplan.profiles.hf_config import import_config
    from pddplan.profiles.llm_profile import dump_llm
    from pddplan.report import model_facts
    from pddplan.report.text_table import Screen

    found = import_config(config, model_id=model_id, name=name, family=family)
    title = f"configuration file {Path(config).name}" if config != "-" else "configuration from standard input"
    if out is not None:
        write_atomically(out, dump_llm(found, source_title=title))
    facts = model_facts.model_facts(found.llm)
    facts["assumed"] = dict(found.assumed)
    facts["notes"] = list(found.notes)
    if as_json:
        _print_json(facts)
    elif out is None:
        sys.stdout.write(dump_llm(found, source_title=title))
    elif str(out) != "-":
        sys.stdout.write(model_facts.model_text(found.llm, facts, screen=Screen.of(sys.stdout)))
    for key, value in found.assumed.items():
        print(f"assumed: {key} = {value} (default of the configuration class)", file=sys.stderr)
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)


@app.command("show")
def show(
    model: Annotated[str, typer.Argument(help="Model id, alias, YAML profile or config.json.")],
    kv: Annotated[
        str | None, typer.Option("--kv", help="KV cache dtype, e.g. bf16, fp8; without it as served.")
    ] = None,
    weights: Annotated[str | None, typer.Option("--weights", help="Weights dtype; without it as stored.")] = None,
    length: Annotated[
        list[int] | None, typer.Option("--length", min=1, max=1_000_000_000, help="Show KV bytes at so many tokens.")
    ] = None,
    as_json: options.JsonOption = False,
    profiles: options.ProfilesOption = None,
) -> None:
    """Parameters, weights, KV bytes by length, fixed state and FLOPs per token of a model.

    \b
    Example:
      pddplan model show deepseek-v4-pro --length 65536 --json
    """
    from pddplan.profiles.llm_profile import load_llm
    from pddplan.report import model_facts
    from pddplan.report.text_table import Screen

    with profile_dirs(profiles):
        llm = load_llm(model)
    facts = model_facts.model_facts(
        llm, lengths=tuple(dict.fromkeys(length or model_facts.LENGTHS)), kv_dtype=kv, weights_dtype=weights
    )
    if as_json:
        _print_json(facts)
    else:
        sys.stdout.write(model_facts.model_text(llm, facts, screen=Screen.of(sys.stdout)))


@app.command("list")
def list_models(
    as_json: options.JsonOption = False, csv: options.CsvOption = None, profiles: options.ProfilesOption = None
) -> None:
    """All models that can be planned with.

    \b
    Example:
      pddplan model list --json
    """
    from pddplan.profiles.llm_profile import llm_ids, load_llm
    from pddplan.report import model_facts
    from pddplan.report.text_table import Screen

    with profile_dirs(profiles):
        llms = [load_llm(name) for name in llm_ids()]
    if csv is not None:
        from pddplan.files import write_atomically
        from pddplan.report.plain_csv import plain_csv

        write_atomically(csv, plain_csv(model_facts.MODEL_COLUMNS, model_facts.list_rows(llms)))
    if as_json:
        _print_json({"models": model_facts.list_facts(llms)})
    elif str(csv) != "-":
        sys.stdout.write(model_facts.list_text(llms, screen=Screen.of(sys.stdout)))


def _print_json(data: Any) -> None:
    sys.stdout.write(json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n")
