"""``pddplan export``: plans in the formats of serving stacks, reports of plan files, JSON schemas for editors."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from pddplan.errors import InputError, Problem, did_you_mean

REPORTS = ("html", "xlsx", "csv", "json")


def export(
    plan: Annotated[Path | None, typer.Argument(metavar="[PLAN]", help="Plan file of pddplan size --out.")] = None,
    kind: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="For serving stacks: yaml (plain), llm-d (ModelService values) or dynamo (graph). "
            "For people: html, xlsx, csv or json.",
        ),
    ] = "yaml",
    site: Annotated[str | None, typer.Option("--site", help="Only this site.")] = None,
    model_uri: Annotated[
        str | None, typer.Option("--model-uri", help="Where the weights are, e.g. hf://org/model.")
    ] = None,
    node_chips: Annotated[int, typer.Option("--node-chips", min=1, max=1024, help="Chips in one server.")] = 8,
    full: Annotated[
        bool, typer.Option("--full", help="With html: also a simulation, the bathtub and the sensitivity.")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare/--no-compare", help="With html, xlsx, json: size what the plan is compared with.")
    ] = True,
    schema: Annotated[
        str | None,
        typer.Option("--schema", help="JSON schema of this kind of file: plan, chip, model, workload, sites ..."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Write here ('-' = standard output).")
    ] = Path("-"),
) -> None:
    """Hand a plan on: to a serving stack, as a page or a workbook. Or print the JSON schema of a kind of file.

    \b
    Examples:
      pddplan export plan.json
      pddplan export plan.json --format llm-d --site a --model-uri hf://deepseek-ai/DeepSeek-V3 --out values.yaml
      pddplan export plan.json --format dynamo
      pddplan export plan.json --format html --full --out plan.html
      pddplan export --schema sites --out sites.schema.json
    """
    from pddplan.files import write_atomically
    from pddplan.report.deployment import FORMATS

    if (plan is None) == (schema is None):
        raise InputError(
            Problem(
                what="give either a plan file or --schema",
                fix="for example: pddplan export plan.json --format llm-d, or pddplan export --schema plan",
            )
        )
    if plan is not None:
        if full and kind != "html":
            raise InputError(Problem(what="--full is about the page", fix="add --format html, or leave --full away"))
        known = (*FORMATS, *REPORTS)
        if kind not in known:
            what = f"there is no format {kind!r}{did_you_mean(kind, known)}"
            raise InputError(Problem(what=what, fix=f"use {', '.join(known)}", where="--format"))
        content: str | bytes
        if kind in REPORTS:
            content = _report(plan, kind, full=full, compare=compare)
        else:
            content = _deployment(plan, kind, site=site, model_uri=model_uri, node_chips=node_chips)
    else:
        content = json.dumps(_schema(str(schema)), indent=2) + "\n"
    write_atomically(out, content)
    sys.stdout.flush()


def _report(path: Path, kind: str, *, full: bool, compare: bool) -> str | bytes:
    """The plan of a file evaluated again, beside what it must be compared with, for people to open."""
    from pddplan import api
    from pddplan.plan_file import read_asked, read_proof
    from pddplan.sizing import Sizing

    inputs, plan = api.load_plan_inputs(path)
    outcome = api.evaluate_plan(inputs, plan)
    outcome = replace(outcome, solver=read_proof(path, outcome))
    objective, limits = read_asked(path)  # rivals are held to the same reserves and limits
    sizing = Sizing(inputs=inputs, topology=plan.topology, outcome=outcome, objective=objective, limits=limits)
    if compare and kind != "csv":
        sizing = api.compared(inputs, outcome, objective=objective, limits=limits)
    sizing = api.with_line_losses(sizing)
    if kind == "html":
        from pddplan.report.html import page_of

        return page_of(sizing, full=full)
    if kind == "xlsx":
        from pddplan.report.xlsx import workbook_bytes

        return workbook_bytes(sizing)
    if kind == "csv":
        from pddplan.report.csv_costs import costs_csv, priced_plans

        return costs_csv(priced_plans(sizing))
    from pddplan.report.json_plan import plan_file_text

    return plan_file_text(sizing)


def _deployment(path: Path, kind: str, *, site: str | None, model_uri: str | None, node_chips: int) -> str:
    from pddplan.api import load_plan_inputs
    from pddplan.report.deployment import Target, deployment_text

    inputs, plan = load_plan_inputs(path)
    if model_uri is None:
        print("note: where the weights are is not known; --model-uri hf://ORG/NAME says it", file=sys.stderr)
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
