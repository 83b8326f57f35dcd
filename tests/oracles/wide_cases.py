"""Small random questions of every kind, held against brute force (``wide_space``).

Run many at once:  python -m tests.oracles.wide_cases FIRST LAST [--wider]
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pddplan.domain.plan import Pool, Role, Shape
from pddplan.domain.sites import Finance, Line, Site, SiteChip, Sites, Tier
from pddplan.domain.workload import Promises
from pddplan.errors import PddplanError
from pddplan.optimize import Limits, Objective
from tests.fakes import LinearInstance
from tests.oracles.wide_space import Case, verdict
from tests.unit.optimize.small_question import (
    PREFILL_FIXED_S,
    PREFILL_S_PER_TOKEN,
    classes,
    instance,
    line,
    question,
    shapes,
)

GAP = 1e-3
TOPOLOGIES = ("colocated", "pd", "pd-hetero", "cross-dc", "cross-dc-drc", "prfaas", "pdd")
ACROSS = ("cross-dc", "cross-dc-drc", "prfaas", "pdd")


def drawn(seed: int) -> Case:
    """A random question: kinds of chips per role, inventory, spares, ceilings, topology and objective all vary."""
    draw = random.Random(seed)
    topology = draw.choice(TOPOLOGIES)
    count = 1 if topology in ("pdd", "prfaas") else draw.choice([1, 2])
    tokens = [draw.choice([8e3, 32e3, 64e3]) for _ in range(count)]
    missing = [length * draw.uniform(0.01, 0.6) for length in tokens]
    longest_s = PREFILL_FIXED_S + PREFILL_S_PER_TOKEN * max(missing)
    p99 = longest_s * draw.uniform(1.3, 4.0)
    kind = draw.choice(["cost", "cost", "bcr", "rps"])
    stock = draw.choice([None, None, 16, 24, 40]) if kind != "rps" else draw.choice([16, 24, 32])

    def offered(name: str, roles: tuple[str, ...]) -> SiteChip:
        return SiteChip(name, max_chips=stock, price_per_chip_hour=draw.uniform(1, 3), roles=roles)

    at_a = {"fast": offered("fast", ("P", "RLD", "MD", "AGG"))}
    if draw.random() < 0.3 and topology in ("pd-hetero", "colocated", "cross-dc-drc"):
        at_a["big"] = offered("big", ("P", "MD", "AGG"))
    at_b = {"big": offered("big", ("MD", "AGG"))}
    sites = Sites("wide", {"a": Site("a", at_a), "b": Site("b", at_b)}, {"ab": line(max_lines=draw.choice([1, 1, 2]))})
    problem = question(
        draw.uniform(0.5, 3.0),
        promises=Promises(
            ttft_p90_s=draw.choice([None, p99 * draw.uniform(0.5, 1.0)]),
            ttft_p99_s=p99,
            tpot_s=draw.choice([None, 0.05]),
        ),
        mix=classes(
            [draw.uniform(0.1, 1.0) for _ in range(count)],
            tokens,
            missing,
            [draw.choice([200.0, 600.0, 1500.0]) for _ in range(count)],
        ),
        sites=sites,
        scv=draw.choice([1.0, 1.0, 2.5]),
    )
    limits = Limits(
        gap=GAP,
        acceptable_gap=GAP,
        time_limit_s=300.0,
        redundant_instances=draw.choice([0, 0, 0, 1]),
        max_utilization=draw.choice([0.95, 0.95, 0.8]),
        max_line_utilization=draw.choice([0.9, 0.6]),
    )
    return Case(problem, topology, Objective(kind), limits, shapes)


def drawn_wider(seed: int) -> Case:
    """The same, and promises to traffic classes, E2E, budgets, power, owned chips, lost lines, a third site, shapes."""
    case, draw = drawn(seed), random.Random(-seed - 1)
    problem = case.problem
    workload, sites, limits, objective = problem.workload, problem.sites, case.limits, case.objective
    if workload.classes.count == 2 and draw.random() < 0.6:
        workload = replace(workload, classes=replace(workload.classes, group=("chat", "agents")))
        workload = replace(workload, promises=_by_class(draw, workload.promises, workload.classes.miss_prefill_tokens))
    if draw.random() < 0.3:
        slowest_s = 0.03 * float(workload.classes.output_tokens.max())
        longest_s = (workload.promises.ttft_p99_s or 0.0) + slowest_s * draw.uniform(0.7, 1.5)
        workload = replace(workload, promises=replace(workload.promises, e2e_p90_s=longest_s))
    places = dict(sites.sites)
    for site_id, site in places.items():
        owned = [0, 0, 0, 8, 24] if objective.kind != "bcr" else [0]  # a fleet that costs nothing has no ratio
        held = {name: replace(chip, owned_chips=draw.choice(owned)) for name, chip in sorted(site.chips.items())}
        held = {
            name: replace(chip, owned_chips=min(chip.owned_chips, chip.max_chips or chip.owned_chips))
            for name, chip in held.items()
        }
        places[site_id] = replace(site, chips=held, power_limit_kw=draw.choice([None, None, None, 25.0, 60.0]))
    lines = dict(sites.lines)
    if draw.random() < 0.4:
        third = SiteChip("big", price_per_chip_hour=draw.uniform(1, 3), roles=("MD", "AGG"))
        places["c"] = Site("c", {"big": third})
        lines["ac"] = Line("ac", "a", "c", (Tier(5, 900), Tier(20, 3000)), rtt_s=0.03)
    if case.topology in ACROSS and draw.random() < 0.3:
        limits = replace(limits, survive_line_loss=True)
        lines = {name: replace(leased, max_lines=3) for name, leased in lines.items()}
    finance = Finance(hours_per_month=730.0, spare_fraction=draw.choice([0.0, 0.0, 0.1]))
    sites = replace(sites, sites=places, lines=lines, finance=finance)
    if draw.random() < 0.2:
        limits = replace(limits, max_chips=draw.choice([32, 48, 64]))
    if objective.kind == "rps" or draw.random() < 0.3:
        objective = replace(objective, budget_per_month=draw.choice([3e4, 6e4, 9e4, 15e4]))
    both = draw.random() < 0.25 and case.topology not in ("pdd", "prfaas")
    asked = replace(problem, workload=workload, sites=sites, instance=_instance, memo={})
    return Case(asked, case.topology, objective, limits, _two_shapes if both else shapes)


def _by_class(draw: random.Random, promises: Promises, missing: Sequence[float]) -> Promises:
    alone_s = [PREFILL_FIXED_S + PREFILL_S_PER_TOKEN * 1.6 * tokens for tokens in missing]
    chat = Promises(ttft_p99_s=alone_s[0] * draw.uniform(1.3, 5.0), tpot_s=draw.choice([None, None, 0.022, 0.03]))
    agents = Promises(ttft_p90_s=alone_s[1] * draw.uniform(1.2, 4.0))
    return replace(promises, by_class={"chat": chat, "agents": agents})


def _two_shapes(_chip: str, _role: Role) -> Sequence[Shape]:
    return [Shape(tp=8), Shape(tp=4)]


def _instance(pool: Pool) -> LinearInstance:
    """Contexts slow decoding down; half an instance is slower, but more than half as quick."""
    whole = replace(instance(pool), step_c_s=2e-9)
    if pool.shape.chips >= 8:
        return whole
    return replace(
        whole,
        prefill_s_per_token=1.8 * whole.prefill_s_per_token,
        step_a_s=1.6 * whole.step_a_s,
        step_b_s=1.8 * whole.step_b_s,
        batch_cap=whole.batch_cap // 2 - 5,
    )


def miss(case: Case) -> float:
    """By how much brute force is better than the optimiser, as a fraction; also checks the plan itself."""
    return verdict(case).missed


def main() -> None:
    """Count cases by what the optimiser made of them, and print every one in which brute force is better."""
    first, last = int(sys.argv[1]), int(sys.argv[2])
    draw = drawn_wider if "--wider" in sys.argv else drawn
    counts: Counter[str] = Counter()
    for seed in range(first, last):
        case = draw(seed)
        try:
            found = verdict(case)
            kind, said = found.kind, f"missed {found.missed:.2%}, gap {found.gap:.2%}"
        except (AssertionError, PddplanError) as error:
            kind, said = "BROKEN", f"{type(error).__name__} {error}"
        counts[kind] += 1
        if kind != "equal or better":
            print(f"seed {seed}: {kind}: {said}", case.topology, case.objective, case.limits, flush=True)
        if (seed - first) % 20 == 19:
            print(f"{seed - first + 1} cases: {dict(counts)}", flush=True)
    print(f"{last - first} cases: {dict(counts)}")


if __name__ == "__main__":
    main()
