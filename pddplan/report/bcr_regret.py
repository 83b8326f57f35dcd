"""Regret of plans across scenarios, on the terminal, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

from pddplan import __version__
from pddplan.report.bcr_parts import bullets, joined, title
from pddplan.report.csv_costs import safe_text
from pddplan.report.numbers import percent, plain_text, short
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.studies.scenarios import ALL_AT_ONCE, AS_PLANNED, RegretStudy

SCHEMA = "pddplan-bcr-regret/1"


def render(study: RegretStudy, screen: Screen) -> str:
    """The whole report as text."""
    blocks = [_verdict(study, screen), _table(study, screen), _plans(study, screen), _rests_on(study, screen)]
    return joined(blocks, screen)


def verdict(study: RegretStudy) -> str:
    """Which plan to take, in a sentence or two."""
    regret = study.regret
    row = regret.plans.index(regret.robust)
    kept = int(study.holds[row].sum())
    text = (
        f"Plan {row + 1} is the most robust: at worst it loses {percent(float(regret.worst[row]))} of the best "
        f"possible BCR, and it keeps all promises in {kept} of {len(regret.scenarios)} scenarios"
    )
    plain = next((i for i, name in enumerate(regret.plans) if AS_PLANNED in name.split(", ")), None)
    if plain is not None and plain != row:
        mine, other = (study.plans[regret.plans[i]].cost.monthly_total for i in (row, plain))
        text += (
            f". It costs {percent(mine / other - 1, signed=True)} against plan {plain + 1}, the one for things as "
            f"planned, which keeps promises in {int(study.holds[plain].sum())}"
        )
    return text + "."


def _verdict(study: RegretStudy, screen: Screen) -> list[str]:
    return [screen.paint.good(line) for line in paragraph(plain_text(verdict(study)), width=screen.width)]


def _table(study: RegretStudy, screen: Screen) -> list[str]:
    regret = study.regret
    columns = [
        Column("plan", importance=0),
        *(Column(plain_text(name), right=True, importance=0) for name in regret.scenarios),
        Column("worst regret", right=True, importance=0),
    ]
    rows = []
    for i, name in enumerate(regret.plans):
        cells = [
            short(float(regret.benefit[i, j])) + ("" if study.holds[i, j] else " !")
            for j in range(len(regret.scenarios))
        ]
        mark = " <- robust" if name == regret.robust else ""
        rows.append([str(i + 1), *cells, percent(float(regret.worst[i])) + mark])
    head = f"BCR of each plan in each scenario   req/s per 1,000 {study.currency} a month; ! a promise breaks"
    return [*title(head, screen), *table(columns, rows, width=screen.width, paint=screen.paint)]


def _plans(study: RegretStudy, screen: Screen) -> list[str]:
    texts = []
    for number, (name, outcome) in enumerate(study.plans.items(), start=1):
        pools = ", ".join(
            f"{p.chips} {p.chip} {p.role} in {p.instances} x {p.shape}" for p in outcome.plan.pools if p.instances
        )
        links = ", ".join(f"{x.gbps * x.count:g} Gbit/s" for x in outcome.plan.lines if x.count)
        texts.append(f"{number}, best for {name}: {pools}{'; ' + links if links else ''}")
    texts += [f"{name}: no plan; {why}" for name, why in study.without_plan.items()]
    return title("PLANS", screen) + bullets(texts, screen)


def _rests_on(study: RegretStudy, screen: Screen) -> list[str]:
    texts = []
    for scenario in study.scenarios:
        values = ", ".join(f"{key} = {short(value)}" for key, value in scenario.values.items()) or "nothing changed"
        texts.append(f"{scenario.name}: {values}")
    if any(ALL_AT_ONCE in name.split(", ") for name in study.plans):
        texts.append(f"{ALL_AT_ONCE}: everything above together; its plan is a candidate, it is no scenario of its own")
    counts = "what it still carries within them" if study.carried else "nothing"
    texts.append(f"a plan that breaks a promise counts with {counts} (see --carried); no scenario is taken as likelier")
    return title("SCENARIOS", screen) + bullets(texts, screen, dim=True)


def regret_json(study: RegretStudy) -> dict[str, Any]:
    """Plain data for other programs."""
    regret = study.regret
    return {
        "schema": SCHEMA,
        "pddplan_version": __version__,
        "workload": study.workload,
        "topology": study.topology,
        "carried": study.carried,
        "verdict": verdict(study),
        "robust": regret.robust,
        "scenarios": [{"name": s.name, "values": dict(s.values)} for s in study.scenarios],
        "plans": [
            {
                "name": name,
                "monthly_cost": study.plans[name].cost.monthly_total,
                "bcr": regret.benefit[i].tolist(),
                "regret": regret.regret[i].tolist(),
                "worst_regret_fraction": float(regret.worst[i]),
                "holds": [bool(kept) for kept in study.holds[i]],
            }
            for i, name in enumerate(regret.plans)
        ],
        "without_plan": dict(study.without_plan),
    }


def regret_csv(study: RegretStudy) -> str:
    """One row per plan and scenario."""
    regret = study.regret
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("plan", "scenario", "bcr", "regret", "holds", "monthly_cost", "currency"))
    for i, plan in enumerate(regret.plans):
        for j, scenario in enumerate(regret.scenarios):
            writer.writerow(
                (
                    safe_text(plan),
                    safe_text(scenario),
                    float(regret.benefit[i, j]),
                    float(regret.regret[i, j]),
                    bool(study.holds[i, j]),
                    study.plans[plan].cost.monthly_total,
                    study.currency,
                )
            )
    return buffer.getvalue()
