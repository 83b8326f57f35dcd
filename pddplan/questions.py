"""From the files of a question to the records and functions that answer it.

Heavy imports stay inside the functions, so that importing this module costs nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from pddplan.errors import InputError, Problem, ProblemList, did_you_mean
from pddplan.units import MS_PER_S

if TYPE_CHECKING:
    from pddplan.domain.chip import Chip
    from pddplan.domain.plan import Pool, Role, Shape
    from pddplan.domain.sites import Sites
    from pddplan.domain.workload import Promises, Workload
    from pddplan.evaluate.problem import Instance
    from pddplan.evaluate.problem import Problem as Question
    from pddplan.evaluate.settings import Settings
    from pddplan.performance.efficiency import Efficiency
    from pddplan.profiles.latency_table import LatencyTable
    from pddplan.sizing import Inputs

DEFAULT_TOPOLOGY = "pdd"
DEFAULT_WORKLOAD = "agentic-64k"
RATE_RANGE_RPS = (1e-4, 1e7)
_SHAPE = r"TP[1-9]\d{0,3}(-PP[1-9]\d{0,3})?(-DP[1-9]\d{0,3})?(-EP[1-9]\d{0,3})?"


class Given(TypedDict, total=False):
    """What may be said beside the files of a question; it overrides what they say. None = as in the files."""

    rps: float | None
    """Arrival rate [req/s]."""
    ttft_p50_s: float | None
    ttft_p90_s: float | None
    ttft_p99_s: float | None
    tpot_s: float | None
    promises: Sequence[str] | None
    """Further promises as texts: ``e2e-p99=30``, or ``chat:ttft-p99=2`` to one traffic class."""
    link_gbps: float | None
    """Only this tier of every line [Gbit/s]."""
    power_kw: Sequence[str] | None
    """Power limits of sites as texts: ``a=500`` [kW]."""
    spare_fraction: float | None
    """Chips held in reserve, as a fraction of those in service."""
    shapes: Sequence[str] | None
    """Only instances of these shapes."""
    llm: str | None
    stack: str | None
    weights_dtype: str | None
    kv_dtype: str | None
    speculation_depth: int
    """Draft tokens per step; 0 = as in the files."""
    tables: bool
    """Let measured latency tables stand in for the formulas; true when not said."""
    settings: Settings | None


def load_inputs(
    workload: str | Path | Workload | Inputs = DEFAULT_WORKLOAD,
    sites: str | Path | Sites | None = None,
    **given: Unpack[Given],
) -> Inputs:
    """Read the files of a question; what is ``given`` (see ``Given``) overrides what they say.

    ``workload`` may also be the inputs of a plan file (``plan_file.read_plan_file``): then everything the plan was
    made from is taken from there, as far as nothing else is given.

    A rate above the mean of the workload is taken as nearer to its peak: what the busiest minutes bring stays.

    Raises:  InputError for anything missing or malformed in any of the files.
    """
    unknown = sorted(given.keys() - Given.__annotations__.keys())
    if unknown:
        raise TypeError(f"load_inputs() got an unexpected keyword argument {unknown[0]!r}")
    from pddplan.domain import workload as traffic
    from pddplan.evaluate.settings import Settings
    from pddplan.profiles.chip_profile import load_chips
    from pddplan.profiles.latency_table import load_tables
    from pddplan.profiles.llm_profile import load_llm
    from pddplan.profiles.sites_profile import load_sites
    from pddplan.profiles.workload_profile import load_workload
    from pddplan.sizing import Inputs

    if isinstance(workload, Inputs):
        known: Inputs | None = workload
        asked = workload.workload
        sites = sites if sites is not None else workload.sites
    else:
        known = None
        asked = workload if isinstance(workload, traffic.Workload) else load_workload(workload)
    llm, stack, rps = given.get("llm"), given.get("stack"), given.get("rps")
    if llm is not None:
        asked = replace(asked, llm=llm)
    asked = replace(asked, promises=_promises(asked, given))
    if rps is not None:
        asked = at_rate(asked, rps)
    check_rate(asked.arrival.rate_rps, where="--rps" if rps is not None else f"{asked.name}: arrival.rate_rps")
    places = sites if sites is not None and not isinstance(sites, (str, Path)) else load_sites(sites)
    link_gbps, shapes, power_kw = given.get("link_gbps"), given.get("shapes"), given.get("power_kw")
    if link_gbps is not None:
        places = with_link(places, link_gbps)
    if shapes:
        places = with_shapes(places, shapes)
    if power_kw:
        places = with_power(places, power_kw)
    if given.get("spare_fraction") is not None:
        places = with_spares(places, given["spare_fraction"] or 0.0)
    offered = sorted({chip for site in places.sites.values() for chip in site.chips})
    carried = known.chips if known is not None else {}
    chips = {**load_chips([chip for chip in offered if chip not in carried]), **carried}
    model = known.llm if known is not None and llm is None else load_llm(asked.llm)
    # tables belong to a model as much as to a chip: those a plan file carries serve only the model it was made for
    kept = known.tables if known is not None and llm is None else ()
    untimed = [chip for chip_id, chip in chips.items() if known is None or llm is not None or chip_id not in carried]
    timed = (*kept, *(table for chip in untimed for table in load_tables(chip, model)))
    speeds = known.efficiencies if known is not None and stack is None else {}
    return Inputs(
        workload=asked,
        sites=places,
        chips={chip: chips[chip] for chip in offered},
        llm=model,
        tables=timed if given.get("tables", True) else (),
        efficiencies={chip: speeds[chip] if chip in speeds else _efficiency(chips[chip], stack) for chip in offered},
        settings=given.get("settings") or (known.settings if known is not None else Settings()),
        weights_dtype=given.get("weights_dtype") or (known.weights_dtype if known is not None else None),
        kv_dtype=given.get("kv_dtype") or (known.kv_dtype if known is not None else None),
        speculation_depth=given.get("speculation_depth") or (known.speculation_depth if known is not None else 0),
    )


def _promises(workload: Workload, given: Given) -> Promises:
    """The promises of a workload with what is given on top.

    Raises:  InputError for texts that promise nothing, or name no traffic class.
    """
    from pddplan.domain.workload import PROMISE_KINDS

    promises = workload.promises
    for kind in PROMISE_KINDS:
        limit = cast("float | None", given.get(kind.field))
        if limit is not None:
            promises = promises.with_limit(kind, limit)
    known = {kind.name.lower().replace(" ", "-"): kind for kind in PROMISE_KINDS}
    known["tpot"] = known.pop("tpot-p90")
    faults = ProblemList()
    made: dict[tuple[str, str], str] = {}
    for name, kind in known.items():
        if given.get(kind.field) is not None:
            made["", name] = f"--{name}"
    for text in given.get("promises") or ():
        head, _, value = text.partition("=")
        group, _, name = head.rpartition(":")
        if name not in known:
            faults.add(
                f"{text!r} promises nothing{did_you_mean(name, known)}",
                fix=f"write [CLASS:]NAME=VALUE with one of: {', '.join(known)}; for example chat:ttft-p99=2",
                where="--promise",
            )
        elif group and group not in workload.classes.groups:
            groups = ", ".join(workload.classes.groups) or "none (see docs/profiles.md: requests of kind mix)"
            faults.add(
                f"the workload has no traffic class {group!r}{did_you_mean(group, workload.classes.groups)}",
                fix=f"traffic classes of {workload.name}: {groups}",
                where="--promise",
            )
        else:
            limit = _seconds(value, unit="ms" if name == "tpot" else "s")
            if limit is None:
                faults.add(
                    f"{text!r}: must be a finite time greater than 0, got {value!r}",
                    fix="write seconds (TPOT: milliseconds), or a number with s or ms: 2, 2s, 500ms",
                    where="--promise",
                )
            else:
                if (group, name) in made:
                    faults.add(
                        f"{text!r}: this promise is made twice, by {made[group, name]} too",
                        fix="make it once",
                        where="--promise",
                    )
                made[group, name] = repr(text)
                promises = promises.with_limit(known[name], limit, group=group)
    faults.raise_if_any()
    return promises


def _seconds(text: str, *, unit: str) -> float | None:
    """A time with or without unit in seconds; None where it is none."""
    found = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(ms|s)?\s*", text)
    number = positive_number(found[1]) if found else None
    return None if found is None or number is None else number / (MS_PER_S if (found[2] or unit) == "ms" else 1.0)


def positive_number(text: str) -> float | None:
    """A finite number above zero, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


def at_rate(workload: Workload, rate_rps: float) -> Workload:
    """The traffic at another rate; the peak stays what it is where the rate comes nearer to it."""
    times = rate_rps / workload.arrival.rate_rps
    moved = workload.at_rate(rate_rps)
    peak = moved.arrival.peak_to_mean
    return replace(moved, arrival=replace(moved.arrival, peak_to_mean=max(peak / times, 1.0))) if times > 1 else moved


def check_rate(rate_rps: float, *, where: str) -> None:
    """A rate that someone may mean; far outside, sums over requests and chips lose their digits."""
    if not RATE_RANGE_RPS[0] <= rate_rps <= RATE_RANGE_RPS[1]:
        low, high = RATE_RANGE_RPS
        raise InputError(
            Problem(
                what=f"must lie between {low:g} and {high:g} requests per second, got {rate_rps:g}",
                fix="give the rate of the whole system",
                where=where,
            )
        )


def problem_of(inputs: Inputs) -> Question:
    """What the evaluator, the optimiser and the simulator work on."""
    from pddplan.evaluate.problem import Problem as Question
    from pddplan.performance.instance import instance_performance

    def instance(pool: Pool) -> Instance:
        chip, efficiency = inputs.chips[pool.chip], inputs.efficiencies[pool.chip]
        weights, kv = pool.weights_dtype or inputs.weights_dtype, pool.kv_dtype or inputs.kv_dtype
        for table in inputs.tables:
            if _is_of(table, chip) and table.shape == pool.shape and table.suits(weights_dtype=weights, kv_dtype=kv):
                return table.instance(
                    chip=chip, llm=inputs.llm, efficiency=efficiency, weights_dtype=weights, kv_dtype=kv
                )
        return instance_performance(
            chip=chip,
            llm=inputs.llm,
            shape=pool.shape,
            efficiency=efficiency,
            weights_dtype=weights,
            kv_dtype=kv,
            speculation_depth=inputs.speculation_depth,
        )

    return Question(
        workload=inputs.workload,
        sites=inputs.sites,
        chips=inputs.chips,
        llm=inputs.llm,
        instance=instance,
        settings=inputs.settings,
    )


def shapes_of(inputs: Inputs) -> Callable[[str, Role], Sequence[Shape]]:
    """Parallel layouts that the model fits into, per chip and role; best first."""
    from pddplan.performance.shape import candidate_shapes

    classes = inputs.workload.classes
    context = float((classes.input_tokens + classes.output_tokens).max())
    memo: dict[tuple[str, str], Sequence[Shape]] = {}

    def shapes(chip_id: str, role: Role) -> Sequence[Shape]:
        key = (chip_id, str(role))
        if key not in memo:
            chip = inputs.chips[chip_id]
            found = candidate_shapes(
                chip,
                inputs.llm,
                efficiency=inputs.efficiencies[chip_id],
                weights_dtype=inputs.weights_dtype,
                kv_dtype=inputs.kv_dtype,
                context_tokens=context,
                drafts=inputs.speculation_depth > 0,
            )
            timed = [table.shape for table in inputs.tables if _is_of(table, chip)]
            memo[key] = list(dict.fromkeys([*timed, *found]))
        return memo[key]

    return shapes


def settings_of(pairs: Sequence[str]) -> Settings:
    """Settings from texts such as ``overlap=layerwise``; those left out keep their defaults.

    Raises:  InputError for an unknown name or a value of the wrong kind.
    """
    from dataclasses import fields

    from pddplan.evaluate.settings import Settings

    known = {spec.name: getattr(Settings(), spec.name) for spec in fields(Settings)}
    given: dict[str, object] = {}
    faults = ProblemList()
    for pair in pairs:
        name, found, text = pair.partition("=")
        if not found or name not in known:
            faults.add(
                f"{pair!r} sets nothing{did_you_mean(name, known)}",
                fix=f"write NAME=VALUE with one of: {', '.join(known)}",
                where="--set",
            )
            continue
        try:
            given[name] = text if isinstance(known[name], str) else float(text)
        except ValueError:
            faults.add(f"{name} must be a number, got {text!r}", fix=f"write {name}={known[name]}", where="--set")
    faults.raise_if_any()
    return replace(Settings(), **given)  # type: ignore[arg-type]


def default_topology(sites: Sites) -> str:
    """Topology of a question that names none: split over sites where a line connects them, else any path there is."""
    return DEFAULT_TOPOLOGY if sites.lines else "any"


def known_chip(sites: Sites, chip: str) -> str:
    """Id of a chip that some site offers.

    Raises:  InputError naming the chips on offer.
    """
    offered = sorted({chip_id for site in sites.sites.values() for chip_id in site.chips})
    wanted = chip.strip().lower().replace("_", "-").replace(" ", "-")
    if wanted in offered:
        return wanted
    alike = [name for name in offered if name.startswith(f"{wanted}-")]
    if len(alike) == 1:  # h200 where h200-sxm is the only one
        return alike[0]
    raise InputError(
        Problem(
            what=f"no site offers the chip {chip!r}{did_you_mean(wanted, offered)}",
            fix=f"use one of: {', '.join(offered)}; or add it under chips: of a sites file of your own "
            "(pddplan sites copy two-sites --out my-sites.yaml)",
            where="--chip",
        )
    )


def without_cache(workload: Workload) -> Workload:
    """The same traffic if no token were ever found in a cache, at either side."""
    classes = workload.classes
    cold = replace(classes, miss_prefill_tokens=classes.input_tokens, miss_decode_tokens=classes.input_tokens)
    return replace(workload, classes=cold)


def with_shapes(sites: Sites, shapes: Sequence[str]) -> Sites:
    """The same sites with instances of these shapes only.

    Raises:  InputError for words that are no shape.
    """
    faults = ProblemList()
    for shape in shapes:
        if not re.fullmatch(_SHAPE, shape):
            faults.add(
                f"{shape!r} is no instance shape", fix="write it like TP8, TP8-PP2-EP8 or TP2-DP8-EP16", where="--shape"
            )
    faults.raise_if_any()
    kept = {
        site_id: replace(site, chips={c: replace(chip, shapes=tuple(shapes)) for c, chip in site.chips.items()})
        for site_id, site in sites.sites.items()
    }
    return replace(sites, sites=kept)


def with_spares(sites: Sites, fraction: float) -> Sites:
    """The same sites with another share of chips in reserve.

    Raises:  InputError for shares that nobody means.
    """
    if not 0 <= fraction <= 1:
        raise InputError(
            Problem(what=f"must lie in [0, 1], got {fraction:g}", fix="for example 0.05", where="--spare-share")
        )
    return replace(sites, finance=replace(sites.finance, spare_fraction=fraction))


def with_power(sites: Sites, limits: Sequence[str]) -> Sites:
    """The same sites with power limits such as ``a=500`` [kW].

    Raises:  InputError for unknown sites and for what is no number.
    """
    faults = ProblemList()
    places = dict(sites.sites)
    named: set[str] = set()
    for text in limits:
        name, told, value = text.rpartition("=")
        limit_kw = positive_number(value)
        if name in named:
            faults.add(f"{text!r}: the power of site {name!r} is limited twice", fix="limit it once", where="--power")
        named.add(name)
        if name not in places:
            what = f"there is no site {name!r}{did_you_mean(name, places)}" if told else "no power is given"
            faults.add(
                f"{text!r}: {what}",
                fix=f"write SITE=KILOWATTS with one of: {', '.join(places)}",
                where="--power",
            )
        elif limit_kw is None:
            faults.add(
                f"{text!r}: must be a finite number of kilowatts greater than 0, got {value!r}",
                fix=f"for example {name}=500",
                where="--power",
            )
        else:
            places[name] = replace(places[name], power_limit_kw=limit_kw)
    faults.raise_if_any()
    return replace(sites, sites=places)


def with_link(sites: Sites, gbps: float) -> Sites:
    """The same sites with only one tier left on every line.

    Raises:  InputError for lines that do not offer this tier.
    """
    faults = ProblemList()
    lines = {}
    for line_id, line in sites.lines.items():
        tiers = tuple(tier for tier in line.tiers if tier.gbps == gbps)
        if not tiers:
            offered = ", ".join(f"{tier.gbps:g}" for tier in line.tiers)
            faults.add(
                f"line {line_id!r} has no tier of {gbps:g} Gbit/s",
                fix=f"use one of: {offered}; or add the tier to the sites file",
                where="--link",
            )
        lines[line_id] = replace(line, tiers=tiers)
    if not lines:
        faults.add("the sites file has no lines", fix="leave --link away, or add a line", where="--link")
    faults.raise_if_any()
    return replace(sites, lines=lines)


def _is_of(table: LatencyTable, chip: Chip) -> bool:
    from pddplan.profiles.lookup import canonical

    return canonical(table.chip) in {canonical(name) for name in (chip.id, *chip.aliases)}


def _efficiency(chip: Chip, stack: str | None) -> Efficiency:
    from pddplan.profiles.efficiency_profile import load_efficiency

    return load_efficiency(stack, chip)
