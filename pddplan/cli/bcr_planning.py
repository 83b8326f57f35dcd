"""Commands of ``pddplan bcr`` that look beyond one plan: growth, regret, several workloads, a day's profile."""

from __future__ import annotations

from typing import Annotated

import typer

from pddplan.cli import options
from pddplan.cli.bcr_questions import (
    ModelOption,
    StackOption,
    TimeLimitOption,
    TopologyOption,
    load_inputs,
    load_question,
    numbers_of,
    show,
)
from pddplan.cli.options import profile_dirs


def growth(
    demand: Annotated[
        str, typer.Option("--demand", help="Requests per second in each quarter, separated by commas: 4,6,9,11.5.")
    ],
    workload: options.WorkloadOption = "agentic-64k",
    sites: options.SitesOption = None,
    topology: TopologyOption = "pdd",
    ttft_p90: options.TtftP90Option = None,
    ttft_p99: options.TtftP99Option = None,
    tpot: options.TpotOption = None,
    model: ModelOption = None,
    stack: StackOption = None,
    time_limit: TimeLimitOption = 30.0,
    as_json: options.JsonOption = False,
    csv: options.CsvOption = None,
    profiles: options.ProfilesOption = None,
) -> None:
    """A growing demand: what to add when, bought or rented, when to take a thicker line, and what it costs today.

    \b
    Examples:
      pddplan bcr growth --demand 4,6,9,11.5
      pddplan bcr growth --demand 4,6,9,11.5 --sites bought.yaml --csv months.csv
    """
    options.one_standard_output(as_json, csv)
    with profile_dirs(profiles):
        from pddplan.optimize import Limits
        from pddplan.report import bcr_growth
        from pddplan.studies.growth_path import growth_study

        inputs = load_inputs(
            workload,
            sites,
            rps=None,
            ttft=(None, ttft_p90, ttft_p99),
            tpot=tpot,
            link=None,
            model=model,
            stack=stack,
        )
        found = growth_study(
            inputs, numbers_of(demand, "--demand"), topology=topology, limits=Limits(time_limit_s=time_limit)
        )
        show(
            found,
            as_json=as_json,
            csv=csv,
            text=bcr_growth.render,
            json=bcr_growth.growth_json,
            table=bcr_growth.growth_csv,
        )


def regret(
    workload: options.WorkloadOption = "agentic-64k",
    sites: options.SitesOption = None,
    topology: TopologyOption = "pdd",
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario", metavar="'NAME: FACTOR=VALUE, ...'", help="Instead of the usual scenarios; repeatable."
        ),
    ] = None,
    carried: Annotated[
        bool,
        typer.Option("--carried/--strict", help="Count what a plan still carries where it breaks a promise."),
    ] = False,
    rps: options.RpsOption = None,
    ttft_p90: options.TtftP90Option = None,
    ttft_p99: options.TtftP99Option = None,
    tpot: options.TpotOption = None,
    link: options.LinkOption = None,
    model: ModelOption = None,
    stack: StackOption = None,
    time_limit: TimeLimitOption = 30.0,
    as_json: options.JsonOption = False,
    csv: options.CsvOption = None,
    profiles: options.ProfilesOption = None,
) -> None:
    """The best plan of each scenario, what it makes of the others, and the plan that regrets least.

    \b
    Examples:
      pddplan bcr regret
      pddplan bcr regret --scenario 'busy: demand=1.3' --scenario 'cold: missing tokens=2'
    """
    options.one_standard_output(as_json, csv)
    with profile_dirs(profiles):
        from pddplan.optimize import Limits
        from pddplan.report import bcr_regret
        from pddplan.studies.scenarios import parse_scenario, regret_study

        inputs, outcome = load_question(
            workload,
            sites,
            plan=None,
            topology=topology,
            rps=rps,
            ttft=(None, ttft_p90, ttft_p99),
            tpot=tpot,
            link=link,
            model=model,
            stack=stack,
            time_limit=time_limit,
        )
        found = regret_study(
            inputs,
            outcome,
            topology=topology,
            scenarios=[parse_scenario(text) for text in scenario] if scenario else None,
            carried=carried,
            limits=Limits(time_limit_s=time_limit),
        )
        show(
            found,
            as_json=as_json,
            csv=csv,
            text=bcr_regret.render,
            json=bcr_regret.regret_json,
            table=bcr_regret.regret_csv,
        )


def fleet(
    workload: Annotated[
        list[str], typer.Option("--workload", "-w", help="Workload: a bundled id or a YAML file; repeatable.")
    ],
    sites: options.SitesOption = None,
    topology: Annotated[str, typer.Option("--topology", "-t", help="Topology of all workloads.")] = "any",
    stack: StackOption = None,
    time_limit: TimeLimitOption = 30.0,
    as_json: options.JsonOption = False,
    csv: options.CsvOption = None,
    profiles: options.ProfilesOption = None,
) -> None:
    """Several workloads on one fleet: they share sites, chips, power and lines; each keeps pools of its own.

    \b
    Examples:
      pddplan bcr fleet -w agentic-64k -w table-example
      pddplan bcr fleet -w chat.yaml -w agents.yaml --sites inventory.yaml --csv costs.csv
    """
    options.one_standard_output(as_json, csv)
    with profile_dirs(profiles):
        from pddplan.optimize import Limits
        from pddplan.report import bcr_fleet
        from pddplan.studies.shared_fleet import shared_fleet

        questions = [
            load_inputs(
                name,
                sites,
                rps=None,
                ttft=(None, None, None),
                tpot=None,
                link=None,
                model=None,
                stack=stack,
            )
            for name in workload
        ]
        found = shared_fleet(questions, topology=topology, limits=Limits(time_limit_s=time_limit))
        show(
            found,
            as_json=as_json,
            csv=csv,
            text=bcr_fleet.render,
            json=bcr_fleet.fleet_json,
            table=bcr_fleet.fleet_csv,
        )


def reserve(
    workload: options.WorkloadOption = "agentic-64k",
    sites: options.SitesOption = None,
    topology: TopologyOption = "pdd",
    profile: Annotated[
        str | None, typer.Option("--profile", help="24 factors on the rate, one per hour, instead of the workload's.")
    ] = None,
    rps: options.RpsOption = None,
    ttft_p90: options.TtftP90Option = None,
    ttft_p99: options.TtftP99Option = None,
    tpot: options.TpotOption = None,
    link: options.LinkOption = None,
    model: ModelOption = None,
    stack: StackOption = None,
    time_limit: TimeLimitOption = 30.0,
    as_json: options.JsonOption = False,
    csv: options.CsvOption = None,
    profiles: options.ProfilesOption = None,
) -> None:
    """A daily profile: how many chips to reserve, and how many to take by the hour.

    \b
    Examples:
      pddplan bcr reserve --workload from-trace.yaml
      pddplan bcr reserve --profile .3,.2,.2,.2,.3,.5,.8,1.1,1.4,1.6,1.7,1.7,1.6,1.6,1.6,1.6,1.5,1.4,1.3,1.2,1,.8,.6,.4
    """
    options.one_standard_output(as_json, csv)
    with profile_dirs(profiles):
        from pddplan.optimize import Limits
        from pddplan.report import bcr_reserve
        from pddplan.studies.daily import daily_study

        inputs = load_inputs(
            workload,
            sites,
            rps=rps,
            ttft=(None, ttft_p90, ttft_p99),
            tpot=tpot,
            link=link,
            model=model,
            stack=stack,
        )
        found = daily_study(
            inputs,
            topology=topology,
            profile=None if profile is None else numbers_of(profile, "--profile"),
            limits=Limits(time_limit_s=time_limit),
        )
        show(
            found,
            as_json=as_json,
            csv=csv,
            text=bcr_reserve.render,
            json=bcr_reserve.reserve_json,
            table=bcr_reserve.reserve_csv,
        )
