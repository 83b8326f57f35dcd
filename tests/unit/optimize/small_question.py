"""A small sizing question with straight-line speeds, for the optimiser's tests (two sites, one line)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pddplan.domain.chip import Chip, Fabric, Price
from pddplan.domain.plan import Pool, Role, Shape
from pddplan.domain.sites import Line, Site, SiteChip, Sites, Tier
from pddplan.domain.workload import Arrival, Promises, RequestClasses, Workload
from pddplan.evaluate.problem import Problem
from tests.fakes import LinearInstance, LinearKv

PREFILL_S_PER_TOKEN = 6e-5
PREFILL_FIXED_S = 0.15
LOOSE = Promises(ttft_p90_s=10.5, ttft_p99_s=17.5, tpot_s=0.05)


def chip(name: str, price: float) -> Chip:
    return Chip(
        id=name,
        name=name,
        vendor="any",
        year=2024,
        peak_flop_per_s={"bf16": 1e15},
        memory_bytes=80e9,
        memory_bandwidth_bytes_per_s=3e12,
        scaleup_bytes_per_s=450e9,
        scaleup_domain_chips=8,
        fabric=Fabric.SWITCH,
        nic_bytes_per_s=50e9,
        tdp_w=700.0,
        price=Price(price, price),
    )


CHIPS = {"fast": chip("fast", 1.9), "big": chip("big", 2.35)}


def instance(pool: Pool) -> LinearInstance:
    """``fast`` prefills quicker, ``big`` decodes more sequences at once."""
    big = pool.chip == "big"
    return LinearInstance(
        chip_id=pool.chip,
        shape=pool.shape,
        kv=LinearKv(5e3, 4.5e6),
        prefill_fixed_s=PREFILL_FIXED_S,
        prefill_s_per_token=PREFILL_S_PER_TOKEN * (1.6 if big else 1.0),
        step_a_s=0.012 if big else 0.0156,
        step_b_s=3e-4,
        batch_cap=100 if big else 60,
    )


def shapes(_chip: str, _role: Role) -> Sequence[Shape]:
    return [Shape(tp=8)]


def line(tiers: Sequence[tuple[float, float]] = ((1, 400), (10, 2450), (40, 5240)), *, max_lines: int = 1) -> Line:
    return Line("ab", "a", "b", tuple(Tier(gbps, cost) for gbps, cost in tiers), rtt_s=0.01, max_lines=max_lines)


def two_sites(*, at_a: SiteChip | None = None, at_b: SiteChip | None = None, leased: Line | None = None) -> Sites:
    first = at_a or SiteChip("fast", roles=("P", "RLD", "MD", "AGG"))
    second = at_b or SiteChip("big", roles=("MD",))
    places = {"a": Site("a", {first.chip: first}), "b": Site("b", {second.chip: second})}
    return Sites("two", places, {"ab": leased or line()})


def classes(
    weight: Sequence[float] = (0.15, 0.35, 0.5),
    tokens: Sequence[float] = (64_000, 64_000, 64_000),
    missing: Sequence[float] = (30_000, 3_000, 500),
    output: Sequence[float] = (1_000, 1_000, 1_000),
) -> RequestClasses:
    miss = np.array(missing, dtype=float)
    share = np.array(weight, dtype=float) / np.sum(weight)
    return RequestClasses(share, np.array(tokens, dtype=float), miss, miss, np.array(output, dtype=float))


def question(
    rate_rps: float = 4.0,
    *,
    promises: Promises = LOOSE,
    mix: RequestClasses | None = None,
    sites: Sites | None = None,
    scv: float = 1.0,
) -> Problem:
    workload = Workload("small", "none", mix or classes(), Arrival(rate_rps, scv), promises)
    return Problem(workload, sites or two_sites(), CHIPS, None, instance)


def with_promises(problem: Problem, **changes: float | None) -> Problem:
    promises = replace(problem.workload.promises, **changes)  # type: ignore[arg-type]
    return replace(problem, workload=replace(problem.workload, promises=promises))
