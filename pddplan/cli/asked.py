"""The options by which every study is asked its question, declared once and added to each command's own.

    @app.command("curve")
    @asks()
    def curve(asked: Asked, topology: TopologyOption = "pdd") -> None: ...

The command line of ``curve`` then has all options of ``Asked`` beside ``--topology``.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack, get_type_hints

import typer

from pddplan.cli import options

if TYPE_CHECKING:
    from pddplan.domain.outcome import Outcome
    from pddplan.optimize import Limits
    from pddplan.questions import Given
    from pddplan.report.text_table import Screen
    from pddplan.sizing import Inputs


DEFAULT_WORKLOAD = "agentic-64k"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, its promises, and the form of the answer, as given on the command line."""

    workload: options.WorkloadOption = DEFAULT_WORKLOAD
    sites: options.SitesOption = None
    rps: options.RpsOption = None
    ttft_p50: options.TtftP50Option = None
    ttft_p90: options.TtftP90Option = None
    ttft_p99: options.TtftP99Option = None
    tpot: options.TpotOption = None
    promise: Annotated[
        list[str] | None,
        typer.Option(
            "--promise",
            metavar="[CLASS:]NAME=VALUE",
            help="Promise to all requests or to one traffic class, e.g. e2e-p99=30 or chat:ttft-p99=2 (repeatable). "
            "Names: ttft-p50, ttft-p90, ttft-p99, e2e-p50, e2e-p90, e2e-p99 [s], tpot [ms].",
        ),
    ] = None
    link: options.LinkOption = None
    power: Annotated[
        list[str] | None,
        typer.Option("--power", metavar="SITE=KW", help="Power that a site can draw [kW], PUE included (repeatable)."),
    ] = None
    model: Annotated[str | None, typer.Option("--model", "-m", help="Another model than the workload's.")] = None
    stack: Annotated[str | None, typer.Option("--stack", help="Serving stack whose efficiencies to use.")] = None
    weights: Annotated[str | None, typer.Option("--weights", help="Weights dtype, e.g. bf16, fp8.")] = None
    kv: Annotated[str | None, typer.Option("--kv", help="KV cache dtype, e.g. bf16, fp8.")] = None
    mtp: Annotated[int, typer.Option("--mtp", min=0, max=16, help="Draft tokens per step (0 = MTP off).")] = 0
    time_limit: Annotated[
        float, typer.Option("--time-limit", callback=options.positive, help="Stop each search after so many seconds.")
    ] = 30.0
    as_json: options.JsonOption = False
    csv: options.CsvOption = None
    profiles: options.ProfilesOption = None

    def inputs(self, workload: str | None = None, **more: Unpack[Given]) -> Inputs:
        """Read the files of the question (of another workload, if one is named); ``more`` overrides them too."""
        from pddplan import api

        given: Given = {**self.given(), **more}
        return api.load_inputs(self.workload if workload is None else workload, self.sites, **given)

    def given(self) -> Given:
        """What overrides the files of the question."""
        return {
            "rps": self.rps,
            "ttft_p50_s": self.ttft_p50,
            "ttft_p90_s": self.ttft_p90,
            "ttft_p99_s": self.ttft_p99,
            "tpot_s": options.in_seconds(self.tpot),
            "promises": self.promise,
            "link_gbps": self.link,
            "power_kw": self.power,
            "llm": self.model,
            "stack": self.stack,
            "weights_dtype": self.weights,
            "kv_dtype": self.kv,
            "speculation_depth": self.mtp,
        }

    def limits(self) -> Limits:
        """Limits of a search."""
        from pddplan.optimize import Limits

        return Limits(time_limit_s=self.time_limit)

    def topology(self, named: str | None, inputs: Inputs) -> str:
        """The topology asked for, or what suits the sites."""
        from pddplan import api

        return named or api.default_topology(inputs.sites)

    def plan(self, file: Path | None, *, topology: str | None) -> tuple[Inputs, Outcome]:
        """The records and the outcome of a plan: read from a plan file, or sized now.

        Raises:  KeyboardInterrupt when Ctrl-C ended the search: what is asked about the plan would go on.
        """
        from pddplan import api

        if file is not None:
            inputs, read = api.load_plan_inputs(file)
            return inputs, api.evaluate_plan(inputs, read)
        inputs = self.inputs()
        from pddplan.optimize import interrupted

        outcome = api.size_inputs(inputs, topology=topology, limits=self.limits(), compare=False).outcome
        if interrupted(outcome):
            raise KeyboardInterrupt
        return inputs, outcome

    def show(
        self,
        found: Any,
        *,
        text: Callable[[Any, Screen], str],
        json: Callable[[Any], Mapping[str, Any]],
        table: Callable[[Any], str],
    ) -> None:
        """One result in the formats asked for."""
        if self.csv is not None:
            from pddplan.files import write_atomically

            write_atomically(self.csv, table(found))
        if self.as_json:
            from pddplan.report.json_plan import dump_json, finite

            sys.stdout.write(dump_json(finite(json(found))))
        elif str(self.csv) != "-":
            from pddplan.report.text_table import Screen

            sys.stdout.write(text(found, Screen.of(sys.stdout)))


@dataclass(frozen=True, slots=True)
class Limited:
    """What a plan must keep beyond its promises, for studies of questions as ``size`` asks them."""

    chip: options.ChipsOption = None
    shape: options.ShapesOption = None
    settings: options.SettingsOption = None
    spare: options.SpareOption = None
    spare_share: options.SpareShareOption = None
    max_utilization: options.MaxUtilizationOption = None
    max_line_utilization: options.MaxLineUtilizationOption = None
    max_chips: options.MaxChipsOption = None
    survive_line_loss: options.SurviveLineLossOption = None

    def given(self) -> Given:
        """What overrides the files of the question."""
        from pddplan import api

        settings = api.settings_of(self.settings) if self.settings else None
        return {"spare_fraction": self.spare_share, "shapes": self.shape or None, "settings": settings}

    def limits(self, inputs: Inputs, *, time_limit_s: float, max_nodes: int) -> Limits:
        """Limits of each search."""
        from pddplan.optimize import Limits
        from pddplan.questions import known_chip

        said = {
            "redundant_instances": self.spare,
            "max_utilization": self.max_utilization,
            "max_line_utilization": self.max_line_utilization,
            "max_chips": self.max_chips,
            "survive_line_loss": self.survive_line_loss,
            "allowed_chips": tuple(known_chip(inputs.sites, name) for name in self.chip) if self.chip else None,
        }
        known: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        return Limits(time_limit_s=time_limit_s, max_nodes=max_nodes, **known)


def asks(
    *, leave_out: tuple[str, ...] = (), also: type[Limited] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of ``Asked`` (without some), and hand them over as its first argument.

    ``also``: further options, handed over as the second.
    """
    records: tuple[type[Any], ...] = (Asked, also) if also is not None else (Asked,)
    hints = {name: hint for record in records for name, hint in get_type_hints(record, include_extras=True).items()}
    shared = {
        spec.name: inspect.Parameter(
            spec.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if spec.default is MISSING else spec.default,
            annotation=hints[spec.name],
        )
        for record in records
        for spec in fields(record)
        if spec.name not in leave_out
    }
    names = [[spec.name for spec in fields(record) if spec.name in shared] for record in records]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[len(records) :]
        merged = [own_one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for own_one in own]
        for at, name in enumerate(name for name in ("workload", "sites") if name in shared):
            merged.insert(at, shared[name])
        merged += [parameter for name, parameter in shared.items() if name not in ("workload", "sites")]

        @functools.wraps(command)
        def called(**given: Any) -> None:
            asked, *further = (
                record(**{name: given.pop(name) for name in own_names})
                for record, own_names in zip(records, names, strict=True)
            )
            with options.profile_dirs(asked.profiles):
                command(asked, *further, **given)

        called.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in merged}
        del called.__wrapped__
        return called

    return decorate
