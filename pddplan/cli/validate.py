"""``pddplan validate``: check files without running anything, for editors and CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pddplan.cli import options
from pddplan.errors import EXIT_INPUT, InputError, Problem


def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILES...", help="YAML files or plan files (.json).")],
    as_json: options.JsonOption = False,
    profiles: options.ProfilesOption = None,
) -> None:
    """Check chips, models, workloads, sites, finance and plan files; every fault of every file is told.

    \b
    Examples:
      pddplan validate my-sites.yaml my-workload.yaml
      pddplan validate hardware_profiles/*.yaml --json
    """
    from pddplan.api import check_file

    results: list[dict[str, object]] = []
    with options.profile_dirs(profiles):
        for file in files:
            kind: str | None = None
            problems: tuple[Problem, ...] = ()
            try:
                kind = check_file(file)
            except InputError as error:
                problems = error.problems
            found = [{"what": p.what, "where": p.where, "fix": p.fix} for p in problems]
            results.append({"file": str(file), "schema": kind, "problems": found})
            if not as_json:
                print(f"{file}: {kind}: no problems" if kind else "\n".join(f"error: {p}" for p in problems))
    if as_json:
        print(json.dumps(results, indent=2, ensure_ascii=False))
    if any(result["problems"] for result in results):
        raise typer.Exit(EXIT_INPUT)
