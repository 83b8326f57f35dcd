"""Caps, explanations, prices and malformed inputs, as users of other planners reported them: one test per report."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

import pddplan
from pddplan.cli.main import run
from pddplan.domain.sites import Finance, Site, SiteChip, Sites
from pddplan.economics.costs import plan_cost
from pddplan.errors import InfeasibleError, InputError
from pddplan.evaluate.evaluate import evaluate
from pddplan.optimize import Limits
from pddplan.profiles.chip_profile import chip_ids, load_chip
from pddplan.questions import problem_of
from pddplan.report.csv_costs import costs_csv, priced_plans
from pddplan.report.numbers import seconds, short
from pddplan.report.terminal import render
from pddplan.studies.serving import plan_token_cost

ONE_SITE = """\
schema: sites/1
name: one site
sites:
  a: {{{limit}chips: {{h100-sxm: {{max_chips: {chips}, price_per_chip_hour: 2.0}}}}}}
"""


@pytest.fixture(scope="module")
def small() -> pddplan.Sizing:
    """A plan of one site without comparisons: quick."""
    return pddplan.size("table-example", topology="pd", compare=False)


QUICK = Limits(max_nodes=20, time_limit_s=600.0)
"""By nodes, so that no machine is too slow."""


def one_site(folder: Path, *, chips: int = 512, limit: str = "") -> Path:
    path = folder / "sites.yaml"
    path.write_text(ONE_SITE.format(chips=chips, limit=limit), encoding="utf-8")
    return path


def test_pools_and_sites_have_caps_of_their_own(tmp_path: Path) -> None:
    """aiconfigurator PR#709: a budget of chips per pool and site, not one for all."""
    with pytest.raises(InfeasibleError) as none:
        pddplan.size("table-example", one_site(tmp_path, chips=16), topology="pd", compare=False, limits=QUICK)
    assert none.value.exit_code == 3
    most = pddplan.size(
        "table-example", one_site(tmp_path, chips=32), topology="pd", compare=False, inventory=True, limits=QUICK
    )
    assert 0 < sum(pool.chips for pool in most.outcome.plan.pools) <= 32


def test_power_of_a_site_is_a_limit(tmp_path: Path) -> None:
    """llm-d-planner#70: kW per site as a constraint."""
    place = one_site(tmp_path, limit="power_limit_kw: 10, ")
    with pytest.raises(InfeasibleError) as none:
        pddplan.size("table-example", place, topology="pd", compare=False, limits=QUICK)
    assert any("power" in r.limit for r in none.value.relaxations)


def test_energy_is_in_the_cost_of_owned_chips(small: pddplan.Sizing) -> None:
    """llm-d-planner#70: electricity with the PUE of the site."""
    inputs = small.inputs
    powered = replace(
        inputs.sites.finance, rent_includes_running_costs=False, power_price_per_kwh=0.1, pue=1.5, support_fraction=0.0
    )
    cheaper = replace(powered, pue=1.0)
    costs = []
    for finance in (inputs.sites.finance, powered, cheaper):
        places = replace(inputs.sites, finance=finance)
        costs.append(plan_cost(small.outcome.plan, places, inputs.chips).monthly_total)
    assert costs[0] < costs[2] < costs[1]
    assert costs[1] - costs[0] == pytest.approx(1.5 * (costs[2] - costs[0]))


@pytest.mark.parametrize(("options", "named"), [(["--ttft-p99", "0.2"], "TTFT P99"), (["--tpot", "3"], "TPOT")])
def test_an_impossible_promise_is_named_with_its_smallest_relaxation(
    options: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """aiconfigurator (4a), PyPSA#92, FINE#762: which promise, how far to relax it, and an exit code that is not 0."""
    code = run(["size", "-w", "table-example", "-t", "pd", "--no-compare", "--time-limit", "5", *options])
    said = capsys.readouterr()
    assert code == 3
    assert said.out == ""
    assert named in said.err
    assert "->" in said.err


def test_chips_are_replicas_times_chips_per_replica(small: pddplan.Sizing) -> None:
    """configiq#68: "40 GPUs" says nothing."""
    text = render(small, width=100)
    for pool in small.outcome.plan.pools:
        assert f"{pool.chips} = {pool.instances} × {pool.shape.chips}" in text


def test_a_fixed_fleet_says_how_much_it_serves(tmp_path: Path) -> None:
    """vllm#8031, #4853: "how many users can I serve with these chips?" """
    some, more = (
        pddplan.size(
            "table-example", one_site(tmp_path, chips=n), topology="pd", compare=False, inventory=True, limits=QUICK
        ).outcome.goodput_rps
        for n in (32, 64)
    )
    assert 0 < some < more


def test_tokens_are_priced_by_kind_and_add_up(small: pddplan.Sizing) -> None:
    """configiq#10: money per million input, cached and output tokens."""
    tokens = plan_token_cost(problem_of(small.inputs), small.outcome)
    assert tokens.monthly_total == pytest.approx(small.outcome.cost.monthly_total)
    assert tokens.cached_per_mtok is not None
    assert tokens.miss_per_mtok is not None
    assert 0 <= tokens.cached_per_mtok < tokens.miss_per_mtok
    assert (tokens.output_per_mtok or 0) > 0


def test_costs_leave_as_csv_that_adds_up(small: pddplan.Sizing) -> None:
    """llmfit#453, infracost habit: each row of the export is quantity x price x hours, and rows add up to the total."""
    rows = list(csv.DictReader(io.StringIO(costs_csv(priced_plans(small)))))
    parts = [float(r["quantity"]) * float(r["unit_price"]) * float(r["hours"]) for r in rows]
    assert parts == pytest.approx([float(r["monthly_cost"]) for r in rows])
    assert sum(parts) == pytest.approx(small.outcome.cost.monthly_total)
    assert all(r["currency"] and r["source"] for r in rows)


def test_prices_have_currency_and_date_and_a_missing_one_is_an_error(small: pddplan.Sizing) -> None:
    """opencost#3219, #2901: a wrong or missing price silently lowers the total."""
    for chip_id in chip_ids():
        price = load_chip(chip_id).price
        if price is not None:
            assert price.currency, chip_id
            assert price.date, chip_id
            assert price.low_per_chip_hour <= price.high_per_chip_hour, chip_id
    inputs, plan = small.inputs, small.outcome.plan
    unpriced = {name: replace(chip, price=None) for name, chip in inputs.chips.items()}
    places = Sites(
        "unpriced",
        {pool.site: Site(pool.site, {pool.chip: SiteChip(pool.chip)}) for pool in plan.pools},
        inputs.sites.lines,
        Finance(),
    )
    with pytest.raises(InputError, match="no price"):
        plan_cost(plan, places, unpriced)


def test_a_batch_beyond_kv_memory_is_a_broken_limit(small: pddplan.Sizing) -> None:
    """aiconfigurator#1396: a plan cannot ask for more sequences than memory holds, and the cap has a name."""
    plan = small.outcome.plan
    pools = tuple(replace(p, batch=100_000) if p.batch is not None else p for p in plan.pools)
    outcome = evaluate(problem_of(small.inputs), replace(plan, pools=pools), detail=False)
    assert outcome.goodput_rps == 0.0
    assert any("memory batch of pool" in v.limit or "stack batch of pool" in v.limit for v in outcome.violations)
    assert {load.batch_cap_reason for load in outcome.pools if load.batch is not None} <= {"memory", "stack"}


@pytest.mark.parametrize(("ids", "line"), [([1, 2, 3, 4, 5], 2), ([1], 2)])
def test_ids_that_do_not_cover_the_input_name_their_line(
    ids: list[int], line: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """guidellm#777, #948, Mooncake#1266: ceil(length / block) ids; the row that breaks it is named."""
    good = {"timestamp": 0, "input_length": 1024, "output_length": 10, "hash_ids": [1, 2]}
    rows = [good, {**good, "timestamp": 10, "input_length": 1500, "hash_ids": ids}]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    code = run(["workload", "import", str(trace), "--model", "llama-3.1-70b", "--out", str(tmp_path / "w.yaml")])
    said = capsys.readouterr()
    assert code == 2
    assert f"trace.jsonl:{line}" in said.err
    assert not (tmp_path / "w.yaml").exists()


def test_no_more_digits_than_a_closed_form_deserves(small: pddplan.Sizing) -> None:
    """aiconfigurator#1205: no four digits where errors are tens of per cent; the basis of every speed is told."""
    assert short(1234.567) == "1,230"
    assert seconds(0.0123456) == "12.3 ms"
    told = {a.name for a in small.outcome.assumptions}
    assert {f"speed of {pool.chip}" for pool in small.outcome.plan.pools} <= told
