"""What an infeasible answer prints can be typed: then there is a plan, and with a little less of it there is none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pddplan.domain.sites import SiteChip
from pddplan.domain.workload import PROMISE_KINDS, Promises
from pddplan.errors import InfeasibleError, Relaxation
from pddplan.evaluate.problem import Problem
from pddplan.optimize import Limits, Objective, size
from pddplan.optimize.asking import with_chips, with_lines
from tests.unit.optimize.small_question import classes, line, question, shapes, two_sites, with_promises

Asked = tuple[Problem, Objective, Limits]
COST = Objective("cost")
NODES = 100
TIGHTER = 0.03
"""By this share less than printed there is no plan: searches for the smallest value stop well before."""


def typed(asked: Asked, hint: str) -> Asked:
    """A question with what a relaxation says to type: an option of ``size``, or a key of the sites file."""
    problem, objective, limits = asked
    key, _, value = hint.replace(": ", " ").partition(" ")
    promises, sites = problem.workload.promises, problem.sites
    if key == "--promise":
        said, _, value = value.partition("=")
        group, _, name = said.rpartition(":")
        return _promised(asked, name, float(value), group)
    if key in ("--ttft-p50", "--ttft-p90", "--ttft-p99", "--tpot"):
        return _promised(asked, key.removeprefix("--"), float(value), "")
    if key == "--rps":
        return problem, replace(objective, rate_rps=float(value)), limits
    if key == "--budget":
        return problem, replace(objective, budget_per_month=float(value)), limits
    if key == "--power":
        site, _, limit_kw = value.partition("=")
        place = replace(sites.sites[site], power_limit_kw=float(limit_kw))
        return replace(problem, sites=replace(sites, sites={**sites.sites, site: place}), memo={}), objective, limits
    if key == "--chip":
        return problem, objective, replace(limits, allowed_chips=tuple(value.split(" --chip ")))
    limit = {
        "--max-chips": lambda: replace(limits, max_chips=int(value)),
        "--spare": lambda: replace(limits, redundant_instances=int(value)),
        "--max-utilization": lambda: replace(limits, max_utilization=float(value)),
        "--max-line-utilization": lambda: replace(limits, max_line_utilization=float(value)),
        "--no-survive-line-loss": lambda: replace(limits, survive_line_loss=False),
    }.get(key)
    if limit is not None:
        return problem, objective, limit()
    part, name, *rest = key.split(".")
    if part == "lines" and rest == ["max_lines"]:
        places = with_lines(sites, sites.lines[name], int(value))
    else:
        assert (part, rest[0], rest[2]) == ("sites", "chips", "max_chips"), hint
        places = with_chips(sites, sites.sites[name], rest[1], int(value))
    assert promises is problem.workload.promises
    return replace(problem, sites=places, memo={}), objective, limits


def _promised(asked: Asked, name: str, value: float, group: str) -> Asked:
    problem, objective, limits = asked
    kind = next(k for k in PROMISE_KINDS if k.name.lower().replace(" ", "-").replace("tpot-p90", "tpot") == name)
    limit_s = value / (1e3 if name == "tpot" else 1.0)
    promises = problem.workload.promises.with_limit(kind, limit_s, group=group)
    return replace(problem, workload=replace(problem.workload, promises=promises)), objective, limits


def tighter(relaxation: Relaxation) -> str | None:
    """The same with a little less; None where there is nothing in between."""
    needed, asked = relaxation.needed, relaxation.asked
    shown = f"{needed:.15g}"
    assert shown in relaxation.hint or relaxation.unit in ("lines lost", "kinds")
    head, _, tail = relaxation.hint.rpartition(shown)
    if relaxation.unit in ("chips", "lines", "instances"):
        nearer = needed + math.copysign(1, asked - needed)
        return f"{head}{nearer:.0f}{tail}" if nearer != asked else None
    if relaxation.unit in ("lines lost", "kinds"):
        return None
    nearer = needed * (1.0 + math.copysign(TIGHTER, asked - needed))
    return f"{head}{nearer:.15g}{tail}" if (nearer - asked) * (needed - asked) > 0 else None


def has_plan(asked: Asked, topology: str) -> bool:
    problem, objective, limits = asked
    try:
        few = replace(limits, max_nodes=NODES)
        size(problem, topology=topology, objective=objective, limits=few, shapes=shapes, relax=False)
    except InfeasibleError:
        return False
    return True


def by_class() -> Problem:
    mix = replace(classes(), group=("agents", "chat", "chat"))
    return question(mix=mix, promises=Promises(tpot_s=0.05, by_class={"chat": Promises(ttft_p99_s=0.1)}))


def powered() -> Problem:
    sites = two_sites()
    places = {**sites.sites, "a": replace(sites.sites["a"], power_limit_kw=5.0)}
    return question(sites=replace(sites, sites=places))


FEW = two_sites(at_b=SiteChip("big", max_chips=16, roles=("MD",)))
QUESTIONS: dict[str, tuple[Asked, set[str]]] = {
    "TTFT": ((with_promises(question(), ttft_p99_s=1.0), COST, Limits()), {"TTFT P99"}),
    "a class": ((by_class(), COST, Limits()), {"chat TTFT P99"}),
    "inventory": ((question(8.0, sites=FEW), COST, Limits()), {"big at site b", "rate"}),
    "chips in all": ((question(), COST, Limits(max_chips=20)), {"chips in all", "rate"}),
    "budget at a rate": ((question(), Objective("cost", budget_per_month=20_000), Limits()), {"budget"}),
    "budget for any rate": ((question(), Objective("rps", budget_per_month=5_000), Limits()), {"budget"}),
    "power": ((powered(), COST, Limits()), {"power of site a"}),
    "N+1": ((question(4.0, sites=FEW), COST, Limits(redundant_instances=2)), {"spare instances per pool"}),
    "ceiling": ((question(4.0, sites=FEW), COST, Limits(max_utilization=0.2)), {"ceiling of pools"}),
    "a line lost": (
        (question(), COST, Limits(survive_line_loss=True)),
        {"survival of a lost line", "lines ab"},
    ),
    "a thin line": ((question(sites=two_sites(leased=line(((1, 400),)))), COST, Limits()), {"lines ab", "rate"}),
    "kinds of chips": ((question(), COST, Limits(allowed_chips=("fast",))), {"kinds of chips"}),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_printed_gives_a_plan_and_a_little_less_does_not(name: str) -> None:
    asked, expected = QUESTIONS[name]
    problem, objective, limits = asked
    with pytest.raises(InfeasibleError) as caught:
        size(problem, topology="cross-dc-drc", objective=objective, limits=limits, shapes=shapes)
    error = caught.value
    assert {relaxation.limit for relaxation in error.relaxations} >= expected
    assert len(set(error.conflicts)) == len(error.conflicts)
    for relaxation in error.relaxations:
        assert has_plan(typed(asked, relaxation.hint), "cross-dc-drc"), relaxation
        less = tighter(relaxation)
        assert less is None or not has_plan(typed(asked, less), "cross-dc-drc"), (relaxation, less)


def test_a_single_line_that_may_be_lost_is_no_line() -> None:
    """With relays too, where programs ask how thick a line is."""
    limits = Limits(survive_line_loss=True, redundant_instances=1)
    with pytest.raises(InfeasibleError) as caught:
        size(question(), topology="pdd", objective=COST, limits=limits, shapes=shapes)
    assert "--no-survive-line-loss" in {relaxation.hint for relaxation in caught.value.relaxations}


def test_another_topology_that_works_is_named() -> None:
    asked = (question(sites=two_sites(at_a=SiteChip("fast", roles=("P", "MD")))), COST, Limits())
    with pytest.raises(InfeasibleError) as caught:
        size(asked[0], topology="colocated", objective=COST, shapes=shapes)
    assert has_plan(asked, caught.value.what.rpartition("--topology ")[2].removesuffix(")"))
