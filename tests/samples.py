"""A hand-made answered question for tests of renderers: small round numbers, one of everything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pddplan.domain.chip import Chip, Fabric, Price
from pddplan.domain.llm import (
    DenseFeedForward,
    GroupedAttention,
    LayerGroup,
    Llm,
    MoeFeedForward,
    NumberFormat,
    WeightFormats,
)
from pddplan.domain.outcome import (
    Assumption,
    Binding,
    Cost,
    CostItem,
    LineLoad,
    Outcome,
    Percentiles,
    PoolLoad,
    SolverReport,
)
from pddplan.domain.plan import LinePlan, Path, PathKind, Plan, Pool, Role, Shape
from pddplan.domain.provenance import Basis, Provenance
from pddplan.domain.sites import Finance, Line, Site, SiteChip, Sites, Tier
from pddplan.domain.workload import Arrival, Promises, RequestClasses, Workload
from pddplan.evaluate.settings import Settings
from pddplan.performance.efficiency import Efficiency
from pddplan.sizing import Inputs, Sizing


def chip(chip_id: str, *, memory_bytes: float, price: float) -> Chip:
    return Chip(
        id=chip_id,
        name=chip_id.upper(),
        vendor="ACME",
        year=2024,
        peak_flop_per_s={"bf16": 1e15, "fp8": 2e15},
        memory_bytes=memory_bytes,
        memory_bandwidth_bytes_per_s=4e12,
        scaleup_bytes_per_s=4.5e11,
        scaleup_domain_chips=8,
        fabric=Fabric.SWITCH,
        nic_bytes_per_s=5e10,
        tdp_w=700.0,
        price=Price(low_per_chip_hour=price, high_per_chip_hour=2 * price, date="2026-07", source="sheet"),
        provenance={"memory_bytes": Provenance(Basis.DATASHEET, "sheet", date="2026-01")},
    )


def llm() -> Llm:
    fp8 = NumberFormat("fp8", 1.0, "fp8")
    attention = GroupedAttention(heads=64, kv_heads=8, head_dim=128, v_head_dim=128)
    return Llm(
        id="toy-moe",
        name="Toy MoE",
        family="toy",
        hidden=4096,
        vocab=32_000,
        tied_embeddings=False,
        layers=(
            LayerGroup(2, attention, DenseFeedForward(width=16_384)),
            LayerGroup(30, attention, MoeFeedForward(experts=64, top_k=4, expert_width=2048)),
        ),
        weights=WeightFormats(fp8, fp8, fp8, fp8, fp8, fp8),
    )


def workload() -> Workload:
    return Workload(
        name="two classes",
        llm="toy-moe",
        classes=RequestClasses(
            weight=np.array([0.8, 0.2]),
            input_tokens=np.array([60_000.0, 50_000.0]),
            miss_prefill_tokens=np.array([1_000.0, 40_000.0]),
            miss_decode_tokens=np.array([1_000.0, 40_000.0]),
            output_tokens=np.array([1_000.0, 800.0]),
            label=("warm", "cold"),
        ),
        arrival=Arrival(rate_rps=10.0, scv=1.2, dispersion={10.0: 2.1}),
        promises=Promises(ttft_p90_s=10.0, ttft_p99_s=20.0, tpot_s=0.05),
        provenance={"file": "hand-made", "rows": 2},
    )


def sites() -> Sites:
    tiers = (Tier(10.0, 2_500.0, source="guide"), Tier(100.0, 8_700.0, source="guide"))
    return Sites(
        name="two sites",
        sites={
            "a": Site("a", {"h100": SiteChip("h100", max_chips=128, price_per_chip_hour=2.0)}, name="Prefill site"),
            "b": Site("b", {"h200": SiteChip("h200", max_chips=64, price_per_chip_hour=2.5)}),
        },
        lines={"a-b": Line("a-b", "a", "b", tiers, rtt_s=0.01)},
        finance=Finance(hours_per_month=730.0),
    )


def inputs() -> Inputs:
    chips = {
        "h100": chip("h100", memory_bytes=80e9, price=2.0),
        "h200": chip("h200", memory_bytes=141e9, price=2.5),
    }
    return Inputs(
        workload=workload(),
        sites=sites(),
        chips=chips,
        llm=llm(),
        efficiencies={chip_id: Efficiency(name="stack-1") for chip_id in chips},
        settings=Settings(),
    )


def plan() -> Plan:
    return Plan(
        topology="pdd",
        rate_rps=10.0,
        pools=(
            Pool("p", "a", Role.PREFILL, "h100", Shape(tp=8), instances=5),
            Pool("r", "a", Role.RELAY, "h100", Shape(tp=4), instances=1, batch=40),
            Pool("d", "b", Role.DECODE, "h200", Shape(tp=1, dp=8, ep=8), instances=4, batch=120),
        ),
        lines=(LinePlan("a-b", 100.0, 1),),
        paths=(
            Path("direct", PathKind.P_MD, "p", decode="d", line="a-b"),
            Path("relayed", PathKind.P_RLD_MD, "p", relay="r", decode="d", line="a-b"),
        ),
        share=np.array([[1.0, 0.25], [0.0, 0.75]]),
    )


def cost() -> Cost:
    hours = 730.0

    def rent(site: str, role: str, name: str, chips: float, price: float) -> CostItem:
        return CostItem(site, role, f"{name}: rent", chips, "chip", price, hours, chips * price * hours, "USD", "sheet")

    items = (
        rent("a", "P", "h100", 40, 2.0),
        rent("a", "RLD", "h100", 4, 2.0),
        rent("b", "MD", "h200", 32, 2.5),
        CostItem("a-b", "line", "a-b: 100 Gbit/s", 1, "line", 8_700.0, 1.0, 8_700.0, "USD", "guide"),
    )
    return Cost("USD", sum(item.monthly_cost for item in items), items)


def outcome() -> Outcome:
    priced = cost()
    wait = Percentiles(0.0, 0.4, 2.0, 0.2)
    return Outcome(
        plan=plan(),
        goodput_rps=10.0,
        bcr=10.0 / (priced.monthly_total / 1e3),
        cost=priced,
        ttft=Percentiles(1.234, 7.89, 19.6, 2.345),
        tpot_s=0.0421,
        worst_itl_s=0.31,
        e2e=Percentiles(44.0, 52.0, 61.0, 45.0),
        pools=(
            PoolLoad("p", 0.83, 3.2, wait, None, None, None),
            PoolLoad("r", 0.41, 2.6, wait, 16.4, 40.0, "TPOT", 0.04),
            PoolLoad("d", 0.92, 41.0, wait, 110.0, 120.0, "memory", 0.042),
        ),
        lines=(LineLoad("a-b", 100.0, 1, 23.4, 0.249, Percentiles(0.02, 1.9, 6.1, 0.6), "line"),),
        path_share={"direct": 0.85, "relayed": 0.15},
        relay_token_share=0.062,
        binding=(Binding("TTFT P99", 19.6, 20.0, "s", marginal="one more P instance takes 3 s off"),),
        assumptions=(
            Assumption("speed of h100", "TP8", Basis.CALIBRATED, "chip and efficiency profiles"),
            Assumption("handover_overhead_s", "0.2", Basis.ASSUMED, "report, less RTT/2", "0.05-0.3 s"),
        ),
        ttft_by_path={
            "direct": Percentiles(1.1, 3.0, 9.0, 1.6),
            "relayed": Percentiles(6.2, 15.0, 21.0, 7.0),
        },
        notes=("TTFT counts from arrival to the first output token leaving the decoding pool: P-MD = prefill wait",),
        solver=SolverReport("HiGHS", "optimal", 0.0, 0.21),
    )


def aggregated() -> Outcome:
    """A dearer plan on one site."""
    hours = 730.0
    item = CostItem("a", "AGG", "h100: rent", 96, "chip", 2.0, hours, 96 * 2.0 * hours, "USD", "sheet")
    shares = np.ones((1, 2))
    path = Path("agg", PathKind.AGGREGATED, "x")
    pool = Pool("x", "a", Role.AGGREGATED, "h100", Shape(tp=8), instances=12, batch=60)
    decided = Plan("colocated", 10.0, (pool,), (), (path,), shares)
    return replace(
        outcome(),
        plan=decided,
        cost=Cost("USD", item.monthly_cost, (item,)),
        bcr=10.0 / (item.monthly_cost / 1e3),
        pools=(PoolLoad("x", 0.9, 12.0, Percentiles(0, 1, 2, 0.5), 50.0, 60.0, "TPOT", 0.05),),
        lines=(),
        path_share={"agg": 1.0},
        relay_token_share=0.0,
    )


def sizing() -> Sizing:
    cold = replace(
        aggregated(), plan=replace(plan(), pools=(replace(plan().pools[0], instances=50), *plan().pools[1:]))
    )
    return Sizing(inputs=inputs(), topology="pdd", outcome=outcome(), baseline=aggregated(), cold=cold)
