"""Whether records read back from a plan file can be calculated with.

Profiles are checked where they are read; the records inside a plan file may have been edited by hand since.
All faults are listed at once, each with the key path it stands at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import numpy as np

from pddplan.domain.chip import Chip
from pddplan.domain.plan import PathKind, Plan
from pddplan.domain.sites import Finance, Line, Sites
from pddplan.domain.workload import Workload
from pddplan.errors import DomainError, ProblemList
from pddplan.performance.efficiency import NUMBERS as EFFICIENCY_NUMBERS
from pddplan.performance.efficiency import Efficiency, overlay
from pddplan.sizing import Inputs

LARGEST = 1e25
SMALLEST = 1e-25
"""Numbers outside of this, other than 0, overflow somewhere, and no quantity of ours lies there."""
LARGEST_COUNT = 10**9
MOST_DRAFTS = 64
MOST_SHARPNESS = 100.0
SHARE_TOLERANCE = 1e-6


def check_records(inputs: Inputs, plan: Plan, *, where: str) -> None:
    """Refuse records of a plan file that no formula can use.

    Raises:  InputError with every fault found.
    """
    fix = "correct it, or write the file again with 'pddplan size --out'"
    _refuse((*_numbers(inputs, "inputs"), *_numbers(plan, "plan")), fix=fix, where=where)
    found = (*_inputs(inputs), *_plan(plan, classes=inputs.workload.classes.count))
    _refuse(((place, rule, None) for place, rule in found), fix=fix, where=where)


def check_inputs(inputs: Inputs, *, where: str) -> None:
    """Refuse inputs that were changed to what no formula can use.

    Raises:  InputError with every fault found.
    """
    fix = "give a value that makes sense there"
    _refuse(_numbers(inputs, "inputs"), fix=fix, where=where)
    _refuse(((place, rule, None) for place, rule in _inputs(inputs)), fix=fix, where=where)


def _refuse(found: Iterable[tuple[str, str, object]], *, fix: str, where: str) -> None:
    faults = ProblemList()
    for place, rule, got in found:
        faults.add(f"{rule}, got {got!r}" if got is not None else rule, fix=fix, where=f"{where}.{place}")
    faults.raise_if_any()


def _inputs(inputs: Inputs) -> tuple[tuple[str, str], ...]:
    return (
        *_workload(inputs.workload),
        *(() if 0 <= inputs.speculation_depth <= MOST_DRAFTS else [("inputs.speculation_depth", "must be 0 to 64")]),
        *(fault for name, chip in inputs.chips.items() for fault in _chip(chip, f"inputs.chips.{name}")),
        *(fault for name, e in inputs.efficiencies.items() for fault in _efficiency(e, f"inputs.efficiencies.{name}")),
        *_counts(inputs.llm, "inputs.llm"),
        *_sites(inputs.sites),
        *_tables(inputs),
    )


def _numbers(value: Any, place: str) -> Iterator[tuple[str, str, object]]:
    """Numbers that are not finite, or absurdly large or small, anywhere in a record."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, np.ndarray):
        bad = ~np.isfinite(value) | (np.abs(value) > LARGEST) | ((value != 0) & (np.abs(value) < SMALLEST))
        if bad.any():
            yield place, "holds a number that is not finite or absurd", float(value[bad][0])
    elif isinstance(value, int):
        if abs(value) > LARGEST:
            yield place, "is an absurd number", "a much larger number"
    elif isinstance(value, float):
        if not math.isfinite(value) or abs(value) > LARGEST or 0 < abs(value) < SMALLEST:
            yield place, "must be a finite number of usual size", value
    elif is_dataclass(value):
        for spec in fields(value):
            yield from _numbers(getattr(value, spec.name), f"{place}.{spec.name}")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _numbers(item, f"{place}[{index}]")


def _workload(workload: Workload) -> Iterator[tuple[str, str]]:
    place = "inputs.workload"
    classes = workload.classes
    columns = [getattr(classes, spec.name) for spec in fields(classes) if spec.name not in ("label", "group")]
    if any(column.ndim != 1 or column.size != classes.weight.size for column in columns) or not classes.weight.size:
        yield f"{place}.classes", "the columns must be lists of one length, one number per class"
        return
    if (classes.weight < 0).any() or abs(float(classes.weight.sum()) - 1.0) > SHARE_TOLERANCE:
        yield f"{place}.classes.weight", "the weights must be 0 or more and sum to 1"
    if (classes.input_tokens <= 0).any() or (classes.output_tokens <= 0).any():
        yield f"{place}.classes", "input and output tokens must be above 0"
    for name in ("miss_prefill_tokens", "miss_decode_tokens"):
        missing = getattr(classes, name)
        if (missing < 0).any() or (missing > classes.input_tokens).any():
            yield f"{place}.classes.{name}", "must lie between 0 and the input tokens"
    if workload.arrival.rate_rps <= 0 or workload.arrival.scv < 0 or workload.arrival.peak_to_mean < 1:
        yield f"{place}.arrival", "the rate must be above 0, its SCV not negative, and the peak at least the mean"
    if len(classes.group) not in (0, classes.count):
        yield f"{place}.classes.group", "must name one traffic class per request class, or be left out"
    for promise in workload.promises.made():
        inside = f"by_class.{promise.group}." if promise.group else ""
        if promise.limit_s <= 0:
            yield f"{place}.promises.{inside}{promise.kind.field}", "must be greater than 0"
    for name, part in workload.promises.by_class.items():
        if name not in classes.groups or part.by_class:
            yield f"{place}.promises.by_class.{name}", "must be a traffic class that classes.group names"


def _chip(chip: Chip, place: str) -> Iterator[tuple[str, str]]:
    for name in ("memory_bytes", "memory_bandwidth_bytes_per_s", "scaleup_domain_chips"):
        if getattr(chip, name) <= 0:
            yield f"{place}.{name}", "must be greater than 0"
    if "bf16" not in chip.peak_flop_per_s or min(chip.peak_flop_per_s.values()) <= 0:
        yield f"{place}.peak_flop_per_s", "must hold peaks above 0, bf16 among them"
    for name in ("scaleup_bytes_per_s", "nic_bytes_per_s", "tdp_w"):
        if (getattr(chip, name) or 0.0) < 0:
            yield f"{place}.{name}", "must not be negative"
    price = chip.price
    if price is not None and not 0 <= price.low_per_chip_hour <= price.high_per_chip_hour:
        yield f"{place}.price", "the low end must be 0 or more, and the high end not below it"


def _efficiency(efficiency: Efficiency, place: str) -> Iterator[tuple[str, str]]:
    numbers = {name: getattr(efficiency, name) for name in EFFICIENCY_NUMBERS}
    try:
        overlay(Efficiency(), numbers, source="plan file", basis=efficiency.basis)
    except DomainError as error:
        yield place, str(error.problems[0].what)
    for name in ("roofline_sharpness", "max_sequences", "chunk_tokens"):
        if not 1 <= numbers[name] <= LARGEST_COUNT:
            yield f"{place}.{name}", f"must lie between 1 and {LARGEST_COUNT:,}"
    for name, value in numbers.items():
        if name.endswith("_rate") and value <= 0:
            yield f"{place}.{name}", "must be greater than 0"
    if numbers["roofline_sharpness"] > MOST_SHARPNESS:
        yield f"{place}.roofline_sharpness", f"must not be above {MOST_SHARPNESS:g}"
    for name, value in numbers.items():
        if name.endswith(("mfu", "mbu", "_packing", "_acceptance", "_mixing", "_utilization")) and value > 1:
            yield f"{place}.{name}", "must not be above 1"


def _counts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Sizes of a model: at least 1, or 0 where 0 is what a field has when left out."""
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _counts(item, f"{place}[{index}]")
        return
    if not is_dataclass(value):
        return
    if place == "inputs.llm" and not getattr(value, "layers", ()):
        yield f"{place}.layers", "a model has at least one group of layers"
    for spec in fields(value):
        item, spot = getattr(value, spec.name), f"{place}.{spec.name}"
        if isinstance(item, (int, float)) and not isinstance(item, bool):
            optional = spec.default is not MISSING or spec.name in ("gate_width", "rope_dim", "rope_bytes")
            if not (0 if optional else 1e-6) <= item <= LARGEST_COUNT * LARGEST_COUNT:
                yield spot, "must be a positive number of usual size"
            elif item == 0 and spec.default not in (0, 0.0) and not spec.name.startswith("rope_"):
                yield spot, "must be greater than 0"
            elif isinstance(item, int) and item > LARGEST_COUNT and spec.name != "extra_parameters":
                yield spot, f"must not be above {LARGEST_COUNT:,}"
        elif spec.name != "provenance":
            yield from _counts(item, spot)


def _sites(sites: Sites) -> Iterator[tuple[str, str]]:
    for line in sites.lines.values():
        yield from _line(line, sites)
    yield from _finance(sites.finance)
    for name, site in sites.sites.items():
        for chip in site.chips.values():
            if (chip.max_chips or 0) < 0 or chip.owned_chips < 0:
                yield f"inputs.sites.sites.{name}", "numbers of chips must not be negative"


def _line(line: Line, sites: Sites) -> Iterator[tuple[str, str]]:
    place = f"inputs.sites.lines.{line.id}"
    if line.from_site not in sites.sites or line.to_site not in sites.sites:
        yield place, "must connect two of the sites"
    if not line.tiers or min(tier.gbps for tier in line.tiers) <= 0:
        yield f"{place}.tiers", "must hold rates above 0"
    if (
        not 0 < line.protocol_efficiency <= 1
        or not 0 <= line.loss_fraction < 1
        or not 0 <= line.background_fraction < 1
    ):
        yield place, "efficiency, loss and background must be shares of 1"
    if line.rtt_s < 0 or line.noise_mean_s < 0 or min(line.tcp_flows, line.tcp_window_bytes, line.mss_bytes) <= 0:
        yield place, "round trip and noise must not be negative; flows, window and segment must be above 0"


def _finance(finance: Finance) -> Iterator[tuple[str, str]]:
    place = "inputs.sites.finance"
    for spec in fields(finance):
        value = getattr(finance, spec.name)
        if isinstance(value, float) and value < 0:
            yield f"{place}.{spec.name}", "must not be negative"
    for name in ("usd_per_currency", "hours_per_month", "amortisation_years", "line_term_months", "pue"):
        value = getattr(finance, name)
        if value is not None and value <= 0:
            yield f"{place}.{name}", "must be greater than 0"
    if any(rate <= 0 for rate in finance.usd_per.values()):
        yield f"{place}.usd_per", "exchange rates must be above 0"


def _tables(inputs: Inputs) -> Iterator[tuple[str, str]]:
    for index, table in enumerate(inputs.tables):
        place = f"inputs.tables[{index}]"
        for name, points in (("prefill", table.prefill), ("decode", table.decode)):
            keys = [key for key, _ in points]
            if sorted(set(keys)) != keys or any(key <= 0 or seconds <= 0 for key, seconds in points):
                yield f"{place}.{name}", "must rise from row to row, with numbers above 0"
        if not table.prefill:
            yield f"{place}.prefill", "must hold at least one row"


def _plan(plan: Plan, *, classes: int) -> Iterator[tuple[str, str]]:
    if len({pool.id for pool in plan.pools}) < len(plan.pools) or len({p.id for p in plan.paths}) < len(plan.paths):
        yield "plan", "ids of pools and paths must differ"
    for index, pool in enumerate(plan.pools):
        place = f"plan.pools[{index}]"
        if not 0 <= pool.instances <= LARGEST_COUNT or max(pool.shape.chips, pool.shape.ep) > LARGEST_COUNT:
            yield place, f"counts must lie between 0 and {LARGEST_COUNT:,}"
        if pool.batch is not None and not 1 <= pool.batch <= LARGEST_COUNT:
            yield f"{place}.batch", f"must lie between 1 and {LARGEST_COUNT:,}"
    for index, line in enumerate(plan.lines):
        if line.gbps <= 0 or not 0 <= line.count <= LARGEST_COUNT:
            yield f"plan.lines[{index}]", "the rate must be above 0 and the count not negative"
    for index, path in enumerate(plan.paths):
        needs = {PathKind.P_MD: ("decode",), PathKind.P_RLD_MD: ("relay", "decode"), PathKind.P_RLD: ("relay",)}
        for name in needs.get(path.kind, ()):
            if getattr(path, name) is None:
                yield f"plan.paths[{index}].{name}", f"a path of kind {path.kind} needs a pool here"
    share = plan.share
    if share.shape != (len(plan.paths), classes):
        return  # said where the ids are checked
    if share.size and (np.abs(share.sum(axis=0) - 1.0) > SHARE_TOLERANCE).any():
        yield "plan.share", "the shares of each class must sum to 1"
