"""PrfaaS (arXiv:2604.15039): the question of its case study, what the planner finds, and the figures it must meet."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import pddplan
from benchmarks.published_figures import Figure, around
from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Role, Shape
from pddplan.domain.sites import SiteChip, Sites
from pddplan.domain.workload import Promises, Workload
from pddplan.errors import InputError
from pddplan.evaluate.evaluate import evaluate
from pddplan.performance.instance import instance_performance
from pddplan.profiles.chip_profile import load_chips
from pddplan.profiles.efficiency_profile import load_efficiency
from pddplan.profiles.latency_table import load_table
from pddplan.profiles.llm_profile import load_llm
from pddplan.profiles.sites_profile import load_sites
from pddplan.profiles.workload_profile import load_workload
from pddplan.sizing import Sizing
from pddplan.units import BITS_PER_BYTE, GIGA, MIB

TP8 = "TP8"
H200, H20 = "h200-sxm", "h20-96g"
PUBLISHED_THRESHOLD = 19_400
PREFILL_ON_H200 = {
    1_024: (190.8, 0.44, 3.61),
    8_192: (308.9, 0.72, 3.59),
    32_768: (701.3, 1.84, 3.19),
    131_072: (2316.3, 7.40, 2.62),
}
"""Table 5: tokens to KV [MiB], prefill on 8 H200 [s], KV throughput [Gbit/s]."""
OTHER_MODELS_GBPS = {
    "minimax-m2.5": 59.93,
    "qwen3-235b-a22b": 33.35,
    "qwen3.5-397b-a17b": 8.25,
    "mimo-v2-flash": 4.66,
    "kimi-linear-48b-a3b": 3.87,
    "ring-2.5-1t": 2.59,
}
"""KV throughput at 32K tokens on 8 H200."""
IDLE = 1e-3
"""Part of the rate at which nobody waits."""


def traffic() -> Workload:
    """The paper counts throughput and promises nothing but the pace of 40 tok/s, which the decode table holds."""
    return replace(load_workload("prfaas-lognormal"), promises=Promises())


def case_study() -> Sites:
    return load_sites("prfaas")


def homogeneous() -> Sites:
    """96 H20 at one place."""
    sites = case_study()
    fleet = SiteChip(chip=H20, max_chips=96, price_per_chip_hour=sites.sites["home"].chips[H20].price_per_chip_hour)
    return replace(sites, sites={"home": replace(sites.sites["home"], chips={H20: fleet})}, lines={})


def all_on_h200() -> Sites:
    """H20 only decode."""
    sites = case_study()
    home = sites.sites["home"]
    decode_only = replace(home, chips={H20: replace(home.chips[H20], roles=("MD",))})
    return replace(sites, sites={**sites.sites, "home": decode_only})


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column of Table 6 as the planner finds it."""

    sizing: Sizing

    @property
    def outcome(self) -> Outcome:
        return self.sizing.outcome

    def instances(self, chip: str, role: Role) -> int:
        return sum(p.instances for p in self.outcome.plan.pools if p.chip == chip and p.role is role)

    def stage_rps(self, chip: str, role: Role) -> float:
        """What a stage could carry alone, of its own kind of requests."""
        busy = {
            (p.chip, p.role): load.utilization
            for p, load in zip(self.outcome.plan.pools, self.outcome.pools, strict=True)
        }
        through = sum(
            share
            for path, share in self.outcome.path_share.items()
            for way in self.outcome.plan.paths
            if way.id == path
            and self.outcome.plan.pool(way.prefill if role is Role.PREFILL else way.decode).chip == chip
        )
        return self.outcome.plan.rate_rps * through / busy[chip, role]

    def far_share(self) -> np.ndarray:
        """Share of each class that crosses the line."""
        plan = self.outcome.plan
        return np.sum([s for path, s in zip(plan.paths, plan.share, strict=True) if path.line], axis=0)

    def threshold_tokens(self) -> tuple[float, float]:
        """Longest class that stays, shortest that goes; nobody gave it to the planner."""
        length, far = traffic().classes.input_tokens, self.far_share()
        return float(length[far < 0.5].max()), float(length[far >= 0.5].min())

    def idle_ttft(self) -> tuple[float, float]:
        """Mean and P90 of TTFT when nobody waits [s]."""
        plan = self.outcome.plan
        alone = evaluate(api.problem_of(self.sizing.inputs), replace(plan, rate_rps=plan.rate_rps * IDLE))
        return alone.ttft.mean, alone.ttft.p90


@dataclass(frozen=True, slots=True, eq=False)
class Table6:
    """All three columns."""

    offload: Column
    same: Column
    far: Column


def table6() -> Table6:
    """Most requests per second from each inventory, at a utilisation cap of one and without a TTFT promise."""

    def best(sites: Sites, topology: str) -> Column:
        return Column(
            pddplan.size(
                traffic(), sites, topology=topology, inventory=True, max_utilization=1.0, shapes=[TP8], compare=False
            )
        )

    return Table6(best(case_study(), "prfaas"), best(homogeneous(), "pd"), best(all_on_h200(), "cross-dc"))


def _figure(
    what: str, value: float, of: object, fraction: float, kind: str = "predicted", **more: object
) -> Figure[Table6]:
    return Figure(what, f"{value:g}", of, *around(value, fraction), kind, digits=2, **more)  # type: ignore[arg-type]


def _exactly(what: str, count: int, of: object) -> Figure[Table6]:
    return Figure(what, str(count), of, count, count, "found, not given", digits=0)  # type: ignore[arg-type]


def _cut(what: str, of: object) -> Figure[Table6]:
    return Figure(what, "19.4K", of, *around(PUBLISHED_THRESHOLD, 0.05), "found, not given", digits=0)  # type: ignore[arg-type]


_DERIVED = "derived from it"
FIGURES: tuple[Figure[Table6], ...] = (
    _exactly("PrfaaS: instances that prefill far", 4, lambda t: t.offload.instances(H200, Role.PREFILL)),
    _exactly("PrfaaS: instances that prefill near", 3, lambda t: t.offload.instances(H20, Role.PREFILL)),
    _exactly("PrfaaS: instances that decode", 5, lambda t: t.offload.instances(H20, Role.DECODE)),
    _cut("PrfaaS: longest class that stays near, tokens", lambda t: t.offload.threshold_tokens()[0]),
    _cut("PrfaaS: shortest class that goes far, tokens", lambda t: t.offload.threshold_tokens()[1]),
    _figure("PrfaaS: far prefill stage, req/s", 1.61, lambda t: t.offload.stage_rps(H200, Role.PREFILL), 0.02),
    _figure(
        "PrfaaS: near prefill stage, req/s", 1.64, lambda t: t.offload.stage_rps(H20, Role.PREFILL), 0.02, _DERIVED
    ),
    _figure("PrfaaS: decode stage, req/s", 3.91, lambda t: t.offload.stage_rps(H20, Role.DECODE), 0.02, _DERIVED),
    _figure("PrfaaS: system, req/s", 3.24, lambda t: t.offload.outcome.goodput_rps, 0.02),
    Figure(
        "PrfaaS: egress, Gbit/s", "about 13", lambda t: t.offload.outcome.lines[0].mean_gbps, 12, 13, "predicted", 2
    ),
    _exactly("96 H20: instances that prefill", 9, lambda t: t.same.instances(H20, Role.PREFILL)),
    _exactly("96 H20: instances that decode", 3, lambda t: t.same.instances(H20, Role.DECODE)),
    _figure("96 H20: prefill stage, req/s", 2.11, lambda t: t.same.stage_rps(H20, Role.PREFILL), 0.02, _DERIVED),
    _figure("96 H20: decode stage, req/s", 2.35, lambda t: t.same.stage_rps(H20, Role.DECODE), 0.02, _DERIVED),
    _figure("96 H20: system, req/s", 2.11, lambda t: t.same.outcome.goodput_rps, 0.02, _DERIVED),
    _exactly("all prefill on H200: instances that prefill", 4, lambda t: t.far.instances(H200, Role.PREFILL)),
    _figure("all prefill on H200: prefill stage, req/s", 2.45, lambda t: t.far.stage_rps(H200, Role.PREFILL), 0.02),
    _figure("all prefill on H200: system, req/s", 2.45, lambda t: t.far.outcome.goodput_rps, 0.02),
    _figure("PrfaaS: TTFT mean, nobody waiting, s", 2.22, lambda t: t.offload.idle_ttft()[0], 0.1),
    _figure("PrfaaS: TTFT P90, nobody waiting, s", 3.51, lambda t: t.offload.idle_ttft()[1], 0.1),
    _figure("96 H20: TTFT mean, nobody waiting, s", 4.44, lambda t: t.same.idle_ttft()[0], 0.1, _DERIVED),
    _figure("96 H20: TTFT P90, nobody waiting, s", 9.73, lambda t: t.same.idle_ttft()[1], 0.1),
    _figure("all prefill on H200: TTFT mean, nobody waiting, s", 1.74, lambda t: t.far.idle_ttft()[0], 0.1),
    _figure("all prefill on H200: TTFT P90, nobody waiting, s", 3.51, lambda t: t.far.idle_ttft()[1], 0.1),
)
"""Bars: 2 % for throughputs, 5 % for the threshold, 12 to 13 Gbit/s of egress; 10 % for TTFT, of which the paper does
not say under which load it was taken: its figures are those of prefill alone and a tenth of a second."""


@dataclass(frozen=True, slots=True)
class KvThroughput:
    """KV per second of prefill on 8 H200."""

    tokens: int
    kv_mib: float
    gbps: float


def kv_throughput() -> list[KvThroughput]:
    """Of the paper's own model, with its published prefill times."""
    llm, (chip,) = load_llm("prfaas-1t-hybrid"), load_chips([H200]).values()
    instance = load_table("prfaas-1t-on-8-h200").instance(
        chip=chip, llm=llm, efficiency=load_efficiency(None, chip), weights_dtype=None, kv_dtype=None
    )
    found = []
    for tokens in PREFILL_ON_H200:
        length = np.array([float(tokens)])
        size = float(instance.kv.sequence_bytes(length)[0])
        time_s = float(instance.prefill_time_s(new_tokens=length, cached_tokens=np.zeros(1))[0])
        found.append(KvThroughput(tokens, size / MIB, size * BITS_PER_BYTE / time_s / GIGA))
    return found


def kv_throughput_of_other_models() -> dict[str, float | None]:
    """At 32K on 8 H200 by our formulas, with the chip's usual stack and dtypes [Gbit/s]; None where it does not fit."""
    (chip,) = load_chips([H200]).values()
    found: dict[str, float | None] = {}
    for name in OTHER_MODELS_GBPS:
        try:
            instance = instance_performance(
                chip=chip, llm=load_llm(name), shape=Shape(tp=8), efficiency=load_efficiency(None, chip)
            )
        except InputError:
            found[name] = None
            continue
        length = np.array([32_768.0])
        time_s = float(instance.prefill_time_s(new_tokens=length, cached_tokens=np.zeros(1))[0])
        found[name] = float(instance.kv.sequence_bytes(length)[0]) * BITS_PER_BYTE / time_s / GIGA
    return found
