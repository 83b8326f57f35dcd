"""The root command and the table of all commands; a command's module is imported when it is called, not before.

To add a command: write ``pddplan/cli/<name>.py`` and one row of ``COMMANDS``. The attribute may be a function
(a single command) or a ``typer.Typer`` (a group, or a single command when it holds one command named like the row).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pddplan.cli.outputs import WritingCommand


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command lives, and the sentence about it in ``pddplan --help``."""

    module: str
    attribute: str
    summary: str

    @property
    def exists(self) -> bool:
        return importlib.util.find_spec(self.module) is not None


COMMANDS: dict[str, Entry] = {
    "size": Entry("pddplan.cli.size", "size", "How many chips of which kind, in which role, where; and what it costs."),
    "explain": Entry("pddplan.cli.explain", "explain", "Why a plan looks as it does, and what would change it."),
    "simulate": Entry("pddplan.cli.simulate", "simulate", "Check a plan with a discrete-event simulation."),
    "bcr": Entry("pddplan.cli.bcr", "app", "Benefit per cost: compare topologies, the bathtub, how sure, growth."),
    "wan": Entry("pddplan.cli.wan", "app", "Whether a leased line carries the KV traffic, and with what headroom."),
    "sweep": Entry("pddplan.cli.sweep", "sweep", "Size again and again while inputs vary."),
    "pareto": Entry("pddplan.cli.pareto", "pareto", "Plans that trade cost against latency."),
    "predict": Entry("pddplan.cli.predict", "predict", "Prefill and decode times of one instance."),
    "calibrate": Entry("pddplan.cli.calibrate", "calibrate", "Fit efficiencies to benchmark results."),
    "workload": Entry("pddplan.cli.workload", "app", "Import traffic from a trace; list and show workloads."),
    "hardware": Entry("pddplan.cli.hardware", "app", "List, show and compare chips."),
    "sites": Entry("pddplan.cli.sites", "app", "List, show and copy sites: chips, prices and lines."),
    "model": Entry("pddplan.cli.model", "app", "Import a model from its config.json; list and show models."),
    "export": Entry("pddplan.cli.export", "export", "Turn a plan into other formats; print JSON schemas."),
    "diff": Entry("pddplan.cli.diff", "diff", "What differs between two plan files."),
    "validate": Entry("pddplan.cli.validate", "validate", "Check YAML and plan files without running anything."),
}


class WholeSentences(TyperGroup):
    """A group whose help shows the first paragraph about each command, not the part of it that fits into a line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, " ".join((found.help or "").split("\n\n")[0].split())) for name, found in commands if found]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class LazyGroup(TyperGroup):
    """A group that knows the names and summaries of its commands without importing them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name, entry in COMMANDS.items() if entry.exists]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        return load_command(cmd_name, entry) if entry is not None and entry.exists else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from pddplan.errors import did_you_mean

            ctx.fail(f"there is no command {args[0]!r}{did_you_mean(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = [(name, COMMANDS[name].summary) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def load_command(name: str, entry: Entry) -> Any:
    """Import one command and turn it into what the group dispatches to."""
    found: Any = getattr(importlib.import_module(entry.module), entry.attribute)
    if not isinstance(found, typer.Typer):
        single = plain_typer()
        single.command(name=name, cls=WritingCommand)(found)
        return typer.main.get_command(single)
    _make_plain(found)
    registered = found.registered_commands
    own = [c for c in registered if str(c.name or getattr(c.callback, "__name__", "")).replace("_", "-") == name]
    if len(registered) == 1 and own:
        return typer.main.get_command(found)
    found.info.cls = WholeSentences
    group = typer.main.get_group(found)
    group.name = name
    if not group.help:
        group.help = entry.summary
    return group


def plain_typer(**settings: Any) -> typer.Typer:
    """A Typer app with plain help (the decorated one costs a fifth of a second) and plain tracebacks."""
    app = typer.Typer(**settings)
    _make_plain(app)
    return app


def _make_plain(app: typer.Typer) -> None:
    app.rich_markup_mode = None
    app.pretty_exceptions_enable = False
    app._add_completion = False  # the root command offers completion for all
    for command in app.registered_commands:
        command.cls = WritingCommand


def _print_version(value: bool) -> None:
    if value:
        from pddplan import __version__

        print(f"pddplan {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Plan LLM serving that is split over prefill, relay and decode pools, kinds of chips and datacenters.

    \b
    Examples:
      pddplan size
      pddplan size --workload agentic-64k --rps 20 --ttft-p99 12
      pddplan size --topology pd --json
      pddplan COMMAND --help
    """


def build() -> Callable[..., Any]:
    """The root command."""
    app = typer.Typer(
        name="pddplan",
        cls=LazyGroup,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        epilog="Exit codes: 0 plan found, 2 bad usage or input, 3 no plan keeps the promises, 4 solver failed.",
    )
    app.callback()(_root)
    return typer.main.get_command(app)
