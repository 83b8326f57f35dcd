"""A small problem that can be followed by hand: linear instances, one line, three paths."""

from __future__ import annotations

import numpy as np
import pytest

from pddplan.domain.chip import Chip, Fabric
from pddplan.domain.plan import LinePlan, Path, PathKind, Plan, Pool, Role, Shape
from pddplan.domain.sites import Line, Site, Sites, Tier
from pddplan.domain.workload import Arrival, OddTraffic, Promises, RequestClasses, Workload
from pddplan.evaluate.problem import Problem
from tests.fakes import LinearInstance, LinearKv

CHIP = Chip("fake", "Fake", "none", 2026, {"bf16": 1e15}, 80e9, 3e12, 4e11, 8, Fabric.SWITCH, nic_bytes_per_s=5e10)
CLASSES = RequestClasses(
    weight=np.array([0.1, 0.2, 0.7]),
    input_tokens=np.array([60_000.0, 60_000.0, 60_000.0]),
    miss_prefill_tokens=np.array([40_000.0, 8_000.0, 800.0]),
    miss_decode_tokens=np.array([40_000.0, 8_000.0, 800.0]),
    output_tokens=np.array([1_000.0, 400.0, 800.0]),
    label=("cold", "mixed", "warm"),
)
LINE = Line("a-b", "A", "B", (Tier(10.0, 1_000.0), Tier(100.0, 6_000.0)), rtt_s=0.01, protocol_efficiency=0.94)


@pytest.fixture
def workload() -> Workload:
    return Workload(
        name="small",
        llm="none",
        classes=CLASSES,
        arrival=Arrival(4.0),
        promises=Promises(ttft_p90_s=10.0, ttft_p99_s=20.0, tpot_s=0.05),
        odd_traffic=OddTraffic(min_transfer_tokens=16_384.0, max_output_tokens=1_001.0),
    )


@pytest.fixture
def problem(workload: Workload) -> Problem:
    instance = LinearInstance(
        prefill_fixed_s=0.1, prefill_s_per_token=1e-4, step_a_s=0.01, step_b_s=1e-4, kv=LinearKv(1e4, 1e6)
    )
    sites = Sites("two", {"A": Site("A", {}), "B": Site("B", {})}, {"a-b": LINE})
    return Problem(workload, sites, {"fake": CHIP}, None, lambda pool: instance)


@pytest.fixture
def plan() -> Plan:
    """Cold requests are relayed, the others go straight to main decode."""
    return Plan(
        topology="pdd",
        rate_rps=4.0,
        pools=(
            Pool("P", "A", Role.PREFILL, "fake", Shape(tp=8), 5),
            Pool("RLD", "A", Role.RELAY, "fake", Shape(tp=8), 1),
            Pool("MD", "B", Role.DECODE, "fake", Shape(tp=8), 2),
        ),
        lines=(LinePlan("a-b", 10.0),),
        paths=(
            Path("direct", PathKind.P_MD, "P", decode="MD", line="a-b"),
            Path("relay", PathKind.P_RLD_MD, "P", relay="RLD", decode="MD", line="a-b"),
            Path("local", PathKind.P_RLD, "P", relay="RLD"),
        ),
        share=np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
    )
