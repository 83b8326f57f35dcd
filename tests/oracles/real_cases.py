"""Small random questions on bundled chips and models, held against brute force (``real_space``).

Run more of them:  python -m tests.oracles.real_cases FIRST LAST
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pddplan.api import load_inputs, problem_of, shapes_of
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Role
from pddplan.domain.sites import Line, Site, SiteChip, Sites, Tier
from pddplan.domain.workload import Arrival, OddTraffic, Promises, RequestClasses, Workload
from pddplan.errors import InfeasibleError, PddplanError
from pddplan.evaluate.evaluate import evaluate
from pddplan.optimize import Limits, Objective
from tests.oracles.real_space import Search, UnfinishedError, real_space
from tests.oracles.wide_space import Case, Verdict, found_by_optimiser

NODES = 400
LOOKS = 3_000
PRICES = {
    "h100-sxm": 1.9, "h200-sxm": 2.35, "h20-96g": 2.1, "a100-80g": 1.0, "h800-sxm": 2.0, "mi300x": 1.6, "mi325x": 1.8,
    "b200-sxm": 3.5, "gb200-nvl72": 4.0, "ascend-910c": 1.4, "ascend-910b2": 0.7, "rtx-pro-6000": 0.8, "gaudi3": 1.2,
    "trainium2": 1.4,
}  # fmt: skip
MODELS = (
    "llama-3.1-8b",
    "llama-3.1-70b",
    "qwen3-32b",
    "qwen3-235b-a22b",
    "gpt-oss-120b",
    "deepseek-v4-flash",
    "glm-4.5",
)
ROLES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "colocated": (("AGG",), ("AGG",)),
    "pd": (("P", "MD"), ("P", "MD")),
    "pd-hetero": (("P", "MD"), ("P", "MD")),
    "cross-dc": (("P",), ("MD",)),
    "cross-dc-drc": (("P",), ("MD",)),
    "pdd": (("P", "RLD"), ("MD",)),
    "prfaas": (("P",), ("P", "MD")),
}
"""What the chips of the first and the second site are for."""
LADDERS = (((10, 2450), (40, 5240)), ((1, 400), (10, 2450)), ((25, 4050), (100, 8660)))
"""Gbit/s and a month's price."""
EASY = Promises(ttft_p99_s=1e4)


@dataclass(frozen=True)
class Drawn:
    """What is asked, before rate and promises are known."""

    topology: str
    kind: str
    workload: Workload
    sites: Sites


def case_of(drawn: Drawn, workload: Workload, objective: Objective) -> Case:
    inputs = load_inputs(workload, drawn.sites)
    limits = Limits(time_limit_s=600.0, max_nodes=NODES)
    return Case(problem_of(inputs), drawn.topology, objective, limits, shapes_of(inputs))


def drawn_classes(draw: random.Random, count: int) -> RequestClasses:
    """One to three kinds of requests, from short chats to long contexts, cached little or well."""
    length = np.array([round(math.exp(draw.uniform(math.log(600), math.log(9e4)))) for _ in range(count)], dtype=float)
    missing = [draw.choice([1.0, draw.uniform(0.02, 0.6), draw.uniform(0.01, 0.2)]) for _ in range(count)]
    prefill = np.maximum(np.round(length * missing), 16.0)
    crossing = np.clip(np.round(prefill * [draw.uniform(0.3, 1.2) for _ in range(count)]), 16.0, length)
    weight = np.array([draw.uniform(0.1, 1.0) for _ in range(count)])
    output = np.array([draw.choice([60.0, 200.0, 500.0, 1000.0, 1500.0]) for _ in range(count)])
    return RequestClasses(weight / weight.sum(), length, prefill, crossing, output)


def drawn_question(draw: random.Random) -> Drawn:
    """Chips, shapes, prices, inventory, lines and classes of requests."""
    topology = draw.choice(list(ROLES))
    kind = draw.choice(["cost", "cost", "bcr", "rps"])
    mix = drawn_classes(draw, draw.choice([1, 2]))
    stock = draw.choice([16, 24, 32]) if kind == "rps" else draw.choice([None, 32, 64])
    arrival = Arrival(1.0, scv=draw.choice([1.0, 1.0, 2.5, 0.7]))
    odd = draw.choice([OddTraffic(), OddTraffic(4096.0, 500.0)])
    workload = Workload("drawn", draw.choice(MODELS), mix, arrival, EASY, odd)

    def offers(roles: tuple[str, ...], count: int) -> dict[str, SiteChip]:
        names = draw.sample(list(PRICES), count)
        price = {name: round(PRICES[name] * draw.uniform(0.7, 1.5), 2) for name in names}
        return {name: SiteChip(name, max_chips=stock, price_per_chip_hour=price[name], roles=roles) for name in names}

    first, second = ROLES[topology]
    places = {"a": Site("a", offers(first, 2 if topology == "pd-hetero" else draw.choice([1, 1, 2])))}
    lines: dict[str, Line] = {}
    if "MD" not in first and "AGG" not in first:
        places["b"] = Site("b", offers(second, 1))
        tiers = tuple(Tier(gbps, cost) for gbps, cost in draw.choice(LADDERS))
        lines["ab"] = Line("ab", "a", "b", tiers, draw.choice([0.002, 0.01, 0.04]), max_lines=draw.choice([1, 2]))
    return Drawn(topology, kind, workload, _with_few_shapes(draw, workload, Sites("drawn", places, lines)))


def _with_few_shapes(draw: random.Random, workload: Workload, sites: Sites) -> Sites:
    """One to three of the shapes that fit, so that everything can be tried."""
    fitting = shapes_of(load_inputs(workload, sites))
    places = {}
    for site_id, site in sites.sites.items():
        few = {}
        for name, offer in site.chips.items():
            some = [str(shape) for shape in fitting(name, Role.PREFILL) if shape.chips <= (offer.max_chips or 32)][:6]
            few[name] = replace(offer, shapes=tuple(draw.sample(some, min(len(some), draw.randint(1, 3)))))
        places[site_id] = replace(site, chips=few)
    return replace(sites, sites=places)


def drawn(seed: int) -> Case:
    """A question whose rate and promises lie around what some fleet reaches; chips that cannot run it are passed."""
    for again in range(100):
        draw = random.Random(1000 * seed + again)
        try:
            asked = drawn_question(draw)
            found = _around_some_fleet(draw, asked)
        except PddplanError:
            continue
        if found is not None:
            return found
    raise AssertionError(f"seed {seed} draws no question")


def _around_some_fleet(draw: random.Random, asked: Drawn) -> Case | None:
    search = Search(real_space(case_of(asked, asked.workload, Objective("cost"))), steps=1, left=1000, best=-math.inf)
    fleets = [f for f in search.fleets() if len(f.paths) == 1 and all(math.isfinite(x) for x in f.least.values())]
    if not fleets:
        return None
    fleet = draw.choice(fleets)
    counts = {pool: draw.choice([1, 1, 2, 2, 3, 4]) for pool in fleet.least}
    rate = min(counts[pool] / load for pool, load in fleet.least.items()) * draw.uniform(0.5, 0.9)
    reached = evaluate(search.case.problem, search.with_counts(fleet, counts, rate), detail=False)
    if not math.isfinite(reached.ttft.p99) or reached.tpot is None or any(x.utilization > 0.9 for x in reached.lines):
        return None
    promises = Promises(
        ttft_p90_s=draw.choice([None, reached.ttft.p90 * draw.uniform(0.95, 1.5)]),
        ttft_p99_s=reached.ttft.p99 * draw.uniform(0.92, 1.5),
        tpot_s=draw.choice([None, reached.tpot.p90 * draw.uniform(1.0, 2.0)]),
    )
    arrival = replace(asked.workload.arrival, rate_rps=rate)
    budget = None
    if asked.kind == "rps" and draw.random() < 0.4:
        budget = reached.cost.monthly_total * draw.uniform(0.7, 1.6)
    objective = Objective(asked.kind, rate_rps=rate if asked.kind == "cost" else None, budget_per_month=budget)
    return case_of(asked, replace(asked.workload, arrival=arrival, promises=promises), objective)


def verdict(case: Case, *, looks: int = LOOKS) -> tuple[Verdict, bool]:
    """What the optimiser found against brute force, and whether brute force was finished."""
    found = found_by_optimiser(case)
    value, gap = -math.inf if case.objective.kind == "cost" else 0.0, 0.0
    if isinstance(found, Outcome):
        assert found.solver is not None
        gap = found.solver.gap if found.solver.gap_over_all is None else found.solver.gap_over_all
        value = {"cost": -found.cost.monthly_total, "bcr": found.bcr, "rps": found.goodput_rps}[case.objective.kind]
    search = Search(real_space(case), steps=4, left=looks, best=value)
    try:
        search.run()
        finished = True
    except UnfinishedError:
        finished = False
    if isinstance(found, InfeasibleError):
        missed = math.inf if search.plan is not None else 0.0
        return Verdict(missed, says_not_proven="not proven" in found.what), finished
    missed = 1.0 - search.best / value if case.objective.kind == "cost" else search.best / value - 1.0
    return Verdict(max(missed, 0.0), gap), finished


def main() -> None:
    """Count cases by what the optimiser made of them, and print each in which brute force is better."""
    counts: Counter[str] = Counter()
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        case = drawn(seed)
        found, finished = verdict(case)
        counts[found.kind + ("" if finished else ", brute force not finished")] += 1
        if found.kind != "equal or better":
            print(
                f"seed {seed}: {found.kind}: missed {found.missed:.2%}, gap {found.gap:.2%}", case.topology, flush=True
            )
    print(dict(counts))


if __name__ == "__main__":
    main()
