"""Three sites of one's own, three lines, owned chips, power and inventory: every limit is kept in every topology."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pddplan import api
from pddplan.domain.plan import Plan, Role
from pddplan.optimize import Limits
from pddplan.sizing import Inputs

SITES = """
schema: sites/1
name: three sites
sites:
  paris:
    power_limit_kw: 6
    pue: 1.25
    chips:
      h100-sxm: {max_chips: 12, owned_chips: 2, price_per_chip_hour: 2.1, shapes: [TP1]}
      a100-80g: {max_chips: 8, price_per_chip_hour: 1.0, shapes: [TP1]}
  oslo:
    chips:
      h200-sxm: {max_chips: 8, price_per_chip_hour: 2.4, roles: [MD, AGG], shapes: [TP1, TP2]}
  milan:
    chips:
      a100-80g: {max_chips: 16, price_per_chip_hour: 0.9, shapes: [TP1]}
lines:
  po: {from: paris, to: oslo, rtt_ms: 30, max_lines: 3, tiers: [{gbps: 40, monthly_cost: 5000}]}
  pm: {from: paris, to: milan, rtt_ms: 15, max_lines: 2, tiers: [{gbps: 100, monthly_cost: 8000}]}
  mo: {from: milan, to: oslo, rtt_ms: 40, max_lines: 2, tiers: [{gbps: 40, monthly_cost: 7000}]}
finance: {currency: EUR, usd_per_currency: 1.1}
"""
WORKLOAD = """
schema: workload/1
name: chat and batch
llm: llama-3.1-8b
arrival: {rate_rps: 6.0, scv: 1.2}
promises:
  {tpot_s: 0.05, ttft_p50_s: 1.0, ttft_p99_s: 4.0, e2e_p90_s: 60, by_class: {chat: {ttft_p90_s: 1.0}}}
requests:
  kind: table
  columns: [weight, input_tokens, miss_prefill_tokens, miss_decode_tokens, output_tokens]
  groups: [chat, batch]
  rows:
    - [80, 2000, 1200, 900, 200]
    - [20, 12000, 6000, 6000, 600]
"""
QUICK = Limits(max_nodes=1, prove_shapes=False, redundant_instances=1, survive_line_loss=True)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    folder: Path = tmp_path_factory.mktemp("own")
    (folder / "sites.yaml").write_text(SITES)
    (folder / "workload.yaml").write_text(WORKLOAD)
    return api.load_inputs(folder / "workload.yaml", folder / "sites.yaml")


@pytest.mark.parametrize(
    "topology", ["colocated", "pd", "pd-hetero", "cross-dc", "cross-dc-drc", "pdd", "prfaas", "any"]
)
def test_every_limit_holds_and_the_plan_is_of_its_topology(inputs: Inputs, topology: str) -> None:
    outcome = api.size_inputs(inputs, topology=topology, limits=QUICK, compare=False).outcome
    plan, sites = outcome.plan, inputs.sites.sites
    assert outcome.keeps_promises
    assert plan.topology == topology
    _paths_are_of(topology, plan)
    for site in sites.values():
        for name, offer in site.chips.items():
            pools = [pool for pool in plan.pools if (pool.site, pool.chip) == (site.id, name)]
            assert offer.max_chips is not None
            assert sum(pool.chips for pool in pools) <= offer.max_chips
            assert all(offer.roles is None or pool.role in offer.roles for pool in pools)
            assert all(not offer.shapes or str(pool.shape) in offer.shapes for pool in pools)
    drawn_w = sum(
        pool.chips * 0.8 * (inputs.chips[pool.chip].tdp_w or 0) for pool in plan.pools if pool.site == "paris"
    )
    assert drawn_w * 1.25 <= 6_000 * (1 + 1e-9)
    own = sum(pool.chips for pool in plan.pools if (pool.site, pool.chip) == ("paris", "h100-sxm"))
    credited = sum(item.monthly_cost for item in outcome.cost.items if "already owned" in item.item)
    assert credited == pytest.approx(-min(own, 2) * 2.1 * inputs.sites.finance.hours_per_month)
    for pool in plan.pools:  # N+1: any pool may lose an instance
        fewer = tuple(replace(one, instances=one.instances - (one.id == pool.id)) for one in plan.pools)
        assert api.evaluate_plan(inputs, replace(plan, pools=fewer)).keeps_promises
    for line in plan.lines:  # and any bundle a line
        left = tuple(replace(one, count=one.count - (one.line == line.line)) for one in plan.lines)
        assert api.evaluate_plan(inputs, replace(plan, lines=left)).keeps_promises


def _paths_are_of(topology: str, plan: Plan) -> None:
    pools = {pool.id: pool for pool in plan.pools}
    for path, share in zip(plan.paths, plan.share, strict=True):
        if not share.any():
            continue
        first = pools[path.prefill]
        last = pools[path.decode or path.relay or path.prefill]
        if topology == "colocated":
            assert first.role is Role.AGGREGATED
        if topology in {"pd", "pd-hetero"}:
            assert (first.role, last.role, first.site) == (Role.PREFILL, Role.DECODE, last.site)
            assert topology == "pd-hetero" or first.chip == last.chip
        if topology.startswith("cross-dc"):
            assert first.site != last.site
            assert path.line is not None
            assert path.decode_cache is (topology == "cross-dc-drc")
        if topology == "pdd":
            assert path.line is not None or last.role is Role.RELAY
        if topology == "prfaas":
            assert path.relay is None
