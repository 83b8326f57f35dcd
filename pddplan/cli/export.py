"""``pddplan export``: plans in the formats of serving stacks, reports of plan files, JSON schemas for editors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from pddplan.errors import InputError, Problem, did_you_mean


def export(
    plan: Annotated[Path | None, typer.Argument(metavar="[PLAN]", help="Plan file of pddplan size --out.")] = None,
    kind: Annotated[
        str, typer.Option("--format", "-f", help="yaml (plain), llm-d (ModelService values) or dynamo (graph).")
    ] = "yaml",
    site: Annotated[str | None, typer.Option("--site", help="Only this site.")] = None,
    model_uri: Annotated[
        str | None, typer.Option("--model-uri", help="Where the weights are, e.g. hf://org/model.")
    ] = None,
    node_chips: Annotated[int, typer.Option("--node-chips", min=1, max=1024, help="Chips in one server.")] = 8,
    schema: Annotated[
        str | None,
        typer.Option("--schema", help="JSON schema of this kind of file: plan, chip, model, workload, sites ..."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Write here ('-' = standard output).")
    ] = Path("-"),
) -> None:
    """Hand a plan to a serving stack: replica counts and parallel sizes. Or print the JSON schema of a kind of file.

    \b
    Examples:
      pddplan export plan.json
      pddplan export plan.json --format llm-d --site a --model-uri hf://deepseek-ai/DeepSeek-V3 --out values.yaml
      pddplan export plan.json --format dynamo
      pddplan export --schema sites --out sites.schema.json
    """
    from pddplan.files import write_atomically

    if (plan is None) == (schema is None):
        raise InputError(
            Problem(
                what="give either a plan file or --schema",
                fix="for example: pddplan export plan.json --format llm-d, or pddplan export --schema plan",
            )
        )
    if plan is not None:
        text = _deployment(plan, kind, site=site, model_uri=model_uri, node_chips=node_chips)
    else:
        text = json.dumps(_schema(str(schema)), indent=2) + "\n"
    write_atomically(out, text)
    sys.stdout.flush()


def _deployment(path: Path, kind: str, *, site: str | None, model_uri: str | None, node_chips: int) -> str:
    from pddplan.api import load_plan_inputs
    from pddplan.report.deployment import Target, deployment_text

    inputs, plan = load_plan_inputs(path)
    target = Target(model_uri=model_uri or f"hf://{inputs.llm.name}", chips_per_node=node_chips)
    return deployment_text(inputs, plan, kind=kind, target=target, site=site)


def _schema(name: str) -> dict[str, object]:
    from pddplan.profiles.kinds import KINDS
    from pddplan.profiles.schema_docs import json_schema
    from pddplan.report.json_schema import plan_schema

    if name == "plan":
        return plan_schema()
    if name not in KINDS:
        known = ["plan", *KINDS]
        raise InputError(
            Problem(
                what=f"there is no schema {name!r}{did_you_mean(name, known)}", fix=f"use one of: {', '.join(known)}"
            )
        )
    return json_schema(KINDS[name].schema_class())
