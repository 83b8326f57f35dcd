"""Commands of ``pddplan bcr`` that look beyond one plan: growth, regret, several workloads, a day's profile."""

from __future__ import annotations

from typing import Annotated

import typer

from pddplan.cli.asked import Asked, asks
from pddplan.cli.bcr_questions import TopologyOption, numbers_of


@asks(leave_out=("rps", "link"))
def growth(
    asked: Asked,
    demand: Annotated[
        str, typer.Option("--demand", help="Requests per second in each quarter, separated by commas: 4,6,9,11.5.")
    ],
    topology: TopologyOption = None,
) -> None:
    """A growing demand: what to add when, bought or rented, when to take a thicker line, and what it costs today.

    \b
    Examples:
      pddplan bcr growth --demand 4,6,9,11.5
      pddplan bcr growth --demand 4,6,9,11.5 --sites bought.yaml --csv months.csv
    """
    from pddplan.report import bcr_growth
    from pddplan.studies.growth_path import growth_study

    rates = numbers_of(demand, "--demand")
    inputs = asked.inputs()
    found = growth_study(inputs, rates, topology=asked.topology(topology, inputs), limits=asked.limits())
    asked.show(found, text=bcr_growth.render, json=bcr_growth.growth_json, table=bcr_growth.growth_csv)


@asks()
def regret(
    asked: Asked,
    topology: TopologyOption = None,
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
) -> None:
    """The best plan of each scenario, what it makes of the others, and the plan that regrets least.

    \b
    Examples:
      pddplan bcr regret
      pddplan bcr regret --scenario 'busy: demand=1.3' --scenario 'cold: missing tokens=2'
    """
    from pddplan.report import bcr_regret
    from pddplan.studies.scenarios import parse_scenario, regret_study

    scenarios = [parse_scenario(text) for text in scenario] if scenario else None
    inputs, outcome = asked.plan(None, topology=topology)
    found = regret_study(
        inputs,
        outcome,
        topology=asked.topology(topology, inputs),
        scenarios=scenarios,
        carried=carried,
        limits=asked.limits(),
    )
    asked.show(found, text=bcr_regret.render, json=bcr_regret.regret_json, table=bcr_regret.regret_csv)


@asks(leave_out=("workload", "rps", "model"))
def fleet(
    asked: Asked,
    workload: Annotated[
        list[str], typer.Option("--workload", "-w", help="Workload: a bundled id or a YAML file; repeatable.")
    ],
    topology: Annotated[str, typer.Option("--topology", "-t", help="Topology of all workloads.")] = "any",
) -> None:
    """Several workloads on one fleet: they share sites, chips, power and lines; each keeps pools of its own.

    \b
    Examples:
      pddplan bcr fleet -w agentic-64k -w table-example
      pddplan bcr fleet -w chat.yaml -w agents.yaml --sites inventory.yaml --csv costs.csv
    """
    from pddplan.report import bcr_fleet
    from pddplan.studies.shared_fleet import shared_fleet

    questions = [asked.inputs(name) for name in workload]
    found = shared_fleet(questions, topology=topology, limits=asked.limits())
    asked.show(found, text=bcr_fleet.render, json=bcr_fleet.fleet_json, table=bcr_fleet.fleet_csv)


@asks()
def reserve(
    asked: Asked,
    topology: TopologyOption = None,
    profile: Annotated[
        str | None, typer.Option("--profile", help="24 factors on the rate, one per hour, instead of the workload's.")
    ] = None,
) -> None:
    """A daily profile: how many chips to reserve, and how many to take by the hour.

    \b
    Examples:
      pddplan bcr reserve --workload from-trace.yaml
      pddplan bcr reserve --profile .3,.2,.2,.2,.3,.5,.8,1.1,1.4,1.6,1.7,1.7,1.6,1.6,1.6,1.6,1.5,1.4,1.3,1.2,1,.8,.6,.4
    """
    from pddplan.report import bcr_reserve
    from pddplan.studies.daily import daily_study

    factors = None if profile is None else numbers_of(profile, "--profile")
    inputs = asked.inputs()
    found = daily_study(inputs, topology=asked.topology(topology, inputs), profile=factors, limits=asked.limits())
    asked.show(found, text=bcr_reserve.render, json=bcr_reserve.reserve_json, table=bcr_reserve.reserve_csv)
