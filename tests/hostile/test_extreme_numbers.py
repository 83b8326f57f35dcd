"""Plans over realistic and absurd ranges: no NaN, no overflow, no minus zero, whole instances, and scale in, scale out.

1 to a million instances, 1 to ten million tokens, 1 kbit/s to 10 Tbit/s, utilisation up to 0.9999.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import LinePlan, Path, PathKind, Plan, Pool, Role, Shape
from pddplan.errors import InputError
from pddplan.optimize import Limits, Objective
from pddplan.profiles import yaml_source
from pddplan.profiles.chip_profile import ChipFile
from pddplan.profiles.lookup import bundled_root
from pddplan.profiles.schema import read
from pddplan.queueing import erlang_c, mix_moments
from pddplan.queueing.flows import split_scv, superposed_scv
from pddplan.records import to_plain
from pddplan.report.csv_costs import costs_csv, priced_plans
from pddplan.report.json_plan import plan_json
from pddplan.report.numbers import exported
from pddplan.report.plain_csv import plain_csv
from pddplan.sizing import Inputs
from tests import samples


def log_floats(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log(low), math.log(high)).map(math.exp)


def numbers(value: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of plain data, the words of records among them."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from numbers(item, f"{place}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from numbers(item, f"{place}[{index}]")
    elif isinstance(value, float) or value in ("nan", "inf", "-inf"):
        yield place, float(value)


AGGREGATED = Plan(
    "colocated",
    10.0,
    (Pool("x", "a", Role.AGGREGATED, "h100", Shape(tp=8), instances=12, batch=60),),
    (),
    (Path("agg", PathKind.AGGREGATED, "x"),),
    np.ones((1, 2)),
)


@st.composite
def questions(draw: st.DrawFn) -> tuple[Inputs, Plan]:
    """The sample's plans with absurd traffic, fleets and lines."""
    inputs, plan = samples.inputs(), draw(st.sampled_from([samples.plan(), AGGREGATED]))
    count = draw(st.integers(1, 5))
    tokens = np.floor([draw(log_floats(1.0, 1e7)) for _ in range(count)])
    shares = [draw(st.sampled_from([0.0, 0.001, 0.5, 1.0])) for _ in range(2 * count)]
    missing = np.floor(tokens * shares[:count])
    classes = replace(
        inputs.workload.classes,
        weight=np.full(count, 1.0 / count),
        input_tokens=tokens,
        miss_prefill_tokens=missing,
        miss_decode_tokens=np.maximum(missing, np.floor(tokens * shares[count:])),
        output_tokens=np.floor([draw(log_floats(1.0, 1e5)) for _ in range(count)]),
        label=(),
    )
    rate = draw(log_floats(1e-4, 1e6))
    arrival = replace(inputs.workload.arrival, rate_rps=rate, scv=draw(st.sampled_from([0.0, 1.0, 40.0])))
    gbps = draw(log_floats(1e-6, 1e4))
    line = inputs.sites.lines["a-b"]
    line = replace(
        line, tiers=(replace(line.tiers[0], gbps=gbps),), loss_fraction=draw(st.sampled_from([0, 1e-6, 0.1]))
    )
    pools = tuple(
        replace(
            pool,
            instances=int(draw(log_floats(1, 1e6))),
            batch=None if pool.batch is None else int(draw(log_floats(1, 1e4))),
        )
        for pool in plan.pools
    )
    paths = len(plan.paths)
    split = np.array([draw(st.floats(0.0, 1.0)) for _ in range(count)]) if paths == 2 else np.ones(count)
    return (
        replace(
            inputs,
            workload=replace(inputs.workload, classes=classes, arrival=arrival),
            sites=replace(inputs.sites, lines={"a-b": line}),
        ),
        replace(
            plan,
            rate_rps=rate,
            pools=pools,
            lines=tuple(LinePlan("a-b", gbps, int(draw(log_floats(1, 1e3)))) for _ in plan.lines),
            share=np.stack([split, 1.0 - split]) if paths == 2 else np.ones((1, count)),
        ),
    )


def outcome_of(inputs: Inputs, plan: Plan) -> Outcome:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return api.evaluate_plan(inputs, plan)


@settings(max_examples=80)
@given(questions())
def test_every_number_of_an_outcome_is_a_number(question: tuple[Inputs, Plan]) -> None:
    outcome = outcome_of(*question)
    busiest = max([p.utilization for p in outcome.pools] + [line.utilization for line in outcome.lines])
    unused = {path.id for path, share in zip(question[1].paths, question[1].share, strict=True) if not share.any()}
    assert not unused & set(outcome.ttft_by_path), "nothing can be said of a path that nobody takes"
    for place, number in numbers(to_plain(outcome)):
        assert not math.isnan(number), place
        assert not (number == 0 and math.copysign(1.0, number) < 0), f"{place} is minus zero"
        if busiest < 1 and outcome.keeps_promises:
            assert math.isfinite(number), place


@settings(max_examples=20)
@given(questions(), st.sampled_from([2.0, 1e-3, 1e6]))
def test_dearer_money_scales_the_cost(question: tuple[Inputs, Plan], factor: float) -> None:
    inputs, plan = question
    finance = inputs.sites.finance
    sites = {
        site_id: replace(
            site,
            chips={
                name: replace(chip, price_per_chip_hour=(chip.price_per_chip_hour or 1.0) * factor)
                for name, chip in site.chips.items()
            },
        )
        for site_id, site in inputs.sites.sites.items()
    }
    line = inputs.sites.lines["a-b"]
    tiers = tuple(replace(tier, monthly_cost=tier.monthly_cost * factor) for tier in line.tiers)
    dearer = replace(inputs.sites, sites=sites, lines={"a-b": replace(line, tiers=tiers)}, finance=finance)
    before = outcome_of(inputs, plan).cost.monthly_total
    assert outcome_of(replace(inputs, sites=dearer), plan).cost.monthly_total == pytest.approx(
        factor * before, rel=1e-9
    )


@settings(max_examples=30)
@given(st.integers(1, 10**6), st.floats(0.0, 0.9999))
def test_a_million_servers_wait_no_more_than_one(servers: int, utilization: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        waits = float(erlang_c(servers, utilization))
    assert 0.0 <= waits <= utilization + 1e-12
    assert waits <= float(erlang_c(max(servers // 2, 1), utilization)) + 1e-12


@given(st.lists(log_floats(1e-200, 1e150), min_size=1, max_size=5), log_floats(1e-100, 1e100))
def test_moments_do_not_depend_on_the_unit(values: list[float], unit: float) -> None:
    assume(max(values) / min(values) < 1e12 and min(values) * unit > 1e-250 and max(values) * unit < 1e250)
    weight, array = np.ones(len(values)), np.array(values)
    assert mix_moments(weight, array * unit).scv == pytest.approx(mix_moments(weight, array).scv, rel=1e-6, abs=1e-9)


@given(st.lists(st.tuples(log_floats(1e-200, 1e100), st.floats(0, 50)), min_size=1, max_size=5), st.floats(0, 1.5))
def test_flows_never_have_negative_variability(flows: list[tuple[float, float]], utilization: float) -> None:
    rates, scvs = (np.array(column) for column in zip(*flows, strict=True))
    assert superposed_scv(rates, scvs=scvs, utilization=utilization) >= 0.0
    assert (split_scv(1.0 + 2**-52, scv=scvs) >= 0.0).all()


@pytest.mark.parametrize("rate", [1e-4, 0.5, 8.0, 300.0])
def test_solved_plans_have_whole_instances(rate: float) -> None:
    inputs = samples.inputs()
    free = {
        name: replace(site, chips={c: replace(chip, max_chips=None) for c, chip in site.chips.items()})
        for name, site in inputs.sites.sites.items()
    }
    line = replace(inputs.sites.lines["a-b"], max_lines=20)
    asked = replace(
        inputs,
        workload=inputs.workload.at_rate(rate),
        sites=replace(inputs.sites, sites=free, lines={"a-b": line}),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)  # of PuLP, for its next version
        sizing = api.size_inputs(
            asked,
            topology="pd-hetero",
            objective=Objective(kind="cost", rate_rps=rate),
            limits=Limits(max_nodes=40),
            compare=False,
        )
    plan = sizing.outcome.plan
    assert all(type(pool.instances) is int and pool.instances > 0 for pool in plan.pools)
    assert all(type(taken.count) is int for taken in plan.lines)
    assert sizing.outcome.goodput_rps == rate
    assert plan.share.sum(axis=0) == pytest.approx(1.0, abs=1e-9)
    for place, number in numbers(to_plain(sizing.outcome)):
        assert math.isfinite(number), place
        assert not (number == 0 and math.copysign(1.0, number) < 0), place
    written = [costs_csv(priced_plans(sizing)), json.dumps({**plan_json(sizing), "record": None})]
    for text in written:
        assert not re.findall(r"\d\.\d*?(?:9{8,}|0{8,}[1-9])\d*|(?<![\w.])-0(?:\.0)?(?![\w.])|NaN|Infinity", text)


@pytest.mark.parametrize("number", [0.1 + 0.2, 11621.599999999999, 7.9999999999999, 1e-300, 1.7e308, -0.0, 3.0])
def test_files_hold_numbers_without_the_dust_of_arithmetic(number: float) -> None:
    text = repr(exported(number))
    assert len(text.split("e")[0].strip("-").replace(".", "")) <= 13
    assert exported(number) == pytest.approx(number, rel=1e-11)
    assert text != "-0.0"
    assert plain_csv(["x"], [[number]]) == f"x\n{text.removesuffix('.0')}\n"


@pytest.mark.parametrize("key", ["memory_bandwidth_gb_per_s", "memory_gb", "peak_bf16_dense_tflop_per_s"])
def test_vanishing_chip_numbers_are_refused_before_anything_divides_by_them(key: str) -> None:
    """1e-300 is above zero, and what divides by it overflows."""
    text = (bundled_root() / "hardware_profiles" / "h100-sxm.yaml").read_text(encoding="utf-8")
    head, tail = text.split(f"  {key}:\n    value: ", 1)
    spoilt = f"{head}  {key}:\n    value: 1.0e-300\n{tail.split(chr(10), 1)[1]}"
    with pytest.raises(InputError, match=f"chip.{key}.value\n  must be at least 1e-24"):
        read(yaml_source.loads(spoilt, name="chip.yaml"), ChipFile)
