"""``pddplan sites``: list and show what can be bought where; copy a bundled file to start one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pddplan.cli import options
from pddplan.cli.options import profile_dirs

if TYPE_CHECKING:
    from pddplan.domain.chip import Chip
    from pddplan.domain.sites import Sites

app = typer.Typer(
    no_args_is_help=True,
    help="""List, show and copy sites: chips, prices and lines.

\b
Examples:
  pddplan sites list
  pddplan sites show two-sites
  pddplan sites copy two-sites --out my-sites.yaml
""",
)

SitesArgument = Annotated[
    str, typer.Argument(metavar="SITES", help="A bundled id (pddplan sites list) or a YAML file.")
]


@app.command("list")
def list_sites(profiles: options.ProfilesOption = None) -> None:
    """Sites that can be named with --sites.

    \b
    Example:
      pddplan sites list
    """
    from pddplan.profiles import lookup
    from pddplan.profiles.sites_profile import load_sites
    from pddplan.report.site_facts import list_text
    from pddplan.report.text_table import Screen

    with profile_dirs(profiles):
        found = {name: load_sites(name) for name in lookup.names(lookup.Kind.SITES)}
    sys.stdout.write(list_text(found, Screen.of(sys.stdout)))


@app.command("show")
def show(
    sites: SitesArgument = "two-sites", as_json: options.JsonOption = False, profiles: options.ProfilesOption = None
) -> None:
    """Chips, prices and lines of a sites file, with where each price comes from.

    \b
    Examples:
      pddplan sites show
      pddplan sites show my-sites.yaml --json
    """
    from pddplan.report import site_facts
    from pddplan.report.text_table import Screen

    with profile_dirs(profiles):
        found, chips = _load(sites)
    if as_json:
        import json

        print(json.dumps(site_facts.facts(found, chips), indent=2))
    else:
        sys.stdout.write(site_facts.show_text(found, chips, Screen.of(sys.stdout)))


@app.command("copy")
def copy(
    sites: SitesArgument,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to; no file is replaced.")],
    profiles: options.ProfilesOption = None,
) -> None:
    """Copy a sites file as it is, comments and sources included, to put in your own chips, prices and lines.

    \b
    Example:
      pddplan sites copy two-sites --out my-sites.yaml
    """
    from pddplan.errors import InputError, Problem
    from pddplan.files import is_standard_output, read_text, write_atomically
    from pddplan.profiles import lookup
    from pddplan.profiles.yaml_source import MAX_FILE_BYTES

    if not is_standard_output(out) and out.exists():
        raise InputError(Problem("there is such a file already", fix="give another name to --out", where=str(out)))
    with profile_dirs(profiles):
        _load(sites)  # a file with faults is not worth starting from
        text = read_text(lookup.find(lookup.Kind.SITES, sites), limit=MAX_FILE_BYTES)
    write_atomically(out, text)
    if not is_standard_output(out):
        print(f"change it, then: pddplan validate {out}; pddplan size --sites {out}", file=sys.stderr)


def _load(name: str) -> tuple[Sites, dict[str, Chip]]:
    from pddplan.profiles.chip_profile import load_chips
    from pddplan.profiles.sites_profile import load_sites

    found = load_sites(name)
    return found, dict(load_chips(sorted({chip for site in found.sites.values() for chip in site.chips})))
