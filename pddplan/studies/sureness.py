"""How sure a plan is: which numbers it leans on, how far each may be off, and what that does to BCR and promises."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan
from pddplan.domain.provenance import Basis, Provenance
from pddplan.economics.costs import bcr
from pddplan.economics.uncertainty import Bar, Factor, Score, Spread, Values, monte_carlo, tornado
from pddplan.economics.unit_costs import line_tier
from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.problem import Problem as Question
from pddplan.evaluate.settings import SETTING_SOURCES, Settings
from pddplan.profiles.efficiency_profile import validated_error
from pddplan.sizing import Inputs
from pddplan.studies.perturb import (
    at_rate,
    scale_chip_price,
    scale_line_prices,
    scale_misses,
    scale_outputs,
    with_speed,
)
from pddplan.units import MS_PER_S

MEASURED_SPEED_ERROR = 0.05
"""Of times that were measured on the very chip; for modelled ones see ``validated_error``."""
PRICE_POSITION_HIGH = 0.3
"""Where no range is given, rent may turn out this far from the low towards the high end of published prices."""
TRAFFIC = {
    "missing tokens": (0.7, 1.5, "hit rates are assumptions until measured"),
    "output tokens": (0.85, 1.2, "answers get longer or shorter"),
    "demand": (0.9, 1.1, "forecast of the request rate"),
}
MEASURED_TRAFFIC = {
    "missing tokens": (0.9, 1.15, "another week of the same trace"),
    "output tokens": (0.95, 1.05, "another week of the same trace"),
    "demand": (0.9, 1.1, "forecast of the request rate"),
}
LARGEST_VALUE = 1e6
"""No range or scenario reaches further; keeps products finite."""
_BISECTIONS = 2
_RATE_FRACTIONS = (0.95, 0.85, 0.7, 0.5, 0.25, 0.06)
"""Tried in turn: most plans that fail do so by little."""

Change = Callable[[Inputs, float], Inputs]


@dataclass(frozen=True, slots=True, eq=False)
class Lever:
    """A factor, and how its value enters the question."""

    factor: Factor
    inputs: Change | None = None
    question: Callable[[Question, float], Question] | None = None
    rate: bool = False
    """The value multiplies the request rate."""


@dataclass(frozen=True, slots=True, eq=False)
class Sureness:
    """Tornado and Monte Carlo of one plan."""

    workload: str
    currency: str
    planned: Score
    bars: tuple[Bar, ...]
    spread: Spread
    factors: tuple[Factor, ...]
    seed: int


def how_sure(
    inputs: Inputs,
    plan: Plan,
    *,
    samples: int = 128,
    seed: int = 1,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    baseline: Plan | None = None,
) -> Sureness:
    """Vary every uncertain number of a plan, one by one and together. The plan itself is kept.

    ``ranges`` replaces the range of a factor by name. BCR counts the rate that the plan still carries within its
    promises, at most the rate asked for.

    Raises:  InputError for a range of an unknown factor or one that does not contain the value.
    """
    levers = with_ranges(tuple(levers_of(inputs, plan)), ranges or {})
    factors = [lever.factor for lever in levers]
    score = scorer(inputs, plan, levers)
    beat = scorer(inputs, baseline, levers) if baseline is not None else None
    return Sureness(
        workload=inputs.workload.name,
        currency=inputs.sites.finance.currency,
        planned=score({factor.name: factor.value for factor in factors}),
        bars=tornado(factors, score),
        spread=monte_carlo(factors, score, samples=samples, seed=seed, baseline=beat),
        factors=tuple(factors),
        seed=seed,
    )


def scorer(inputs: Inputs, plan: Plan, levers: Sequence[Lever]) -> Callable[[Values], Score]:
    """Score of a plan under other values of the levers: its BCR and whether it keeps its promises."""
    base = api.problem_of(inputs)

    def score(values: Values) -> Score:
        question, rate_factor = changed_question(inputs, levers, values, base=base)
        return score_of(question, plan, plan.rate_rps * rate_factor)

    return score


def score_of(question: Question, plan: Plan, rate_rps: float) -> Score:
    """BCR of a plan at a rate, counting what it carries within its promises, and whether it carries all."""
    outcome = evaluate(question, at_rate(plan, rate_rps), detail=False)
    fitting = admitted(plan, outcome)
    if fitting is not plan:
        plan = fitting
        outcome = evaluate(question, at_rate(plan, rate_rps), cost=outcome.cost, detail=False)
    if outcome.keeps_promises:
        return Score(bcr=outcome.bcr, holds=True)
    return Score(bcr=bcr(sustained_rate(question, plan, rate_rps), outcome.cost), holds=False)


def admitted(plan: Plan, outcome: Outcome) -> Plan:
    """A plan with batches no larger than fit where sequences got longer: engines admit what memory holds, whatever the
    plan would allow. The plan itself where nothing has to give.
    """
    caps = {load.pool: load.batch_cap for load in outcome.pools if load.batch_cap is not None}
    pools = tuple(
        replace(pool, batch=int(caps[pool.id]))
        if pool.id in caps and pool.batch is not None and pool.batch > caps[pool.id] >= 1
        else pool
        for pool in plan.pools
    )
    return plan if pools == plan.pools else replace(plan, pools=pools)


def changed_question(
    inputs: Inputs, levers: Sequence[Lever], values: Values, *, base: Question
) -> tuple[Question, float]:
    """The question under other values of some levers, and the factor on its request rate."""
    changed, rate_factor = inputs, 1.0
    later: list[tuple[Callable[[Question, float], Question], float]] = []
    for lever in levers:
        value = values.get(lever.factor.name, lever.factor.value)
        if lever.rate:
            rate_factor *= value
        elif value == lever.factor.value:
            continue
        elif lever.inputs is not None:
            changed = lever.inputs(changed, value)
        elif lever.question is not None:
            later.append((lever.question, value))
    question = replace(
        base, workload=changed.workload, sites=changed.sites, chips=changed.chips, settings=changed.settings, memo={}
    )
    for change, value in later:
        question = change(question, value)
    return question, rate_factor


def sustained_rate(question: Question, plan: Plan, rate_rps: float) -> float:
    """Largest rate below ``rate_rps`` at which a plan keeps its promises, to a few per cent; 0 if none does."""
    cost = None
    high = rate_rps
    for fraction in _RATE_FRACTIONS:
        outcome = evaluate(question, at_rate(plan, fraction * rate_rps), cost=cost, detail=False)
        cost = outcome.cost
        if outcome.keeps_promises:
            break
        high = fraction * rate_rps
    else:
        return 0.0
    low = fraction * rate_rps
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if evaluate(question, at_rate(plan, middle), cost=cost, detail=False).keeps_promises:
            low = middle
        else:
            high = middle
    return low


def with_ranges(levers: tuple[Lever, ...], ranges: Mapping[str, tuple[float, float]]) -> tuple[Lever, ...]:
    """Replace ranges by name.

    Raises:  InputError naming the nearest factor.
    """
    known = [lever.factor.name for lever in levers]
    for name, (low, high) in ranges.items():
        if name not in known:
            raise InputError(
                Problem(
                    what=f"no uncertain number is called {name!r}{did_you_mean(name, known)}",
                    fix=f"use one of: {'; '.join(known)}",
                    where="--range",
                )
            )
        value = next(lever.factor.value for lever in levers if lever.factor.name == name)
        if not -LARGEST_VALUE <= low <= value <= high <= LARGEST_VALUE:
            raise InputError(
                Problem(
                    what=f"the range of {name!r} must contain its value {value:g}, got {low:g} to {high:g}",
                    fix=f"for example --range '{name}={value * 0.8:g}:{value * 1.2:g}'",
                    where="--range",
                )
            )
    return tuple(
        replace(
            lever, factor=replace(lever.factor, low=ranges[lever.factor.name][0], high=ranges[lever.factor.name][1])
        )
        if lever.factor.name in ranges
        else lever
        for lever in levers
    )


def levers_of(inputs: Inputs, plan: Plan) -> Iterator[Lever]:
    """Every number of a plan that nobody is sure of, with its range and where the range comes from."""
    yield from _chip_prices(inputs, plan)
    yield from _lines(inputs, plan)
    yield from _finance(inputs)
    yield from _settings(inputs, plan)
    yield from _speeds(inputs, plan)
    yield from _traffic(inputs)


def _chip_prices(inputs: Inputs, plan: Plan) -> Iterator[Lever]:
    finance = inputs.sites.finance
    for chip_id in sorted({pool.chip for pool in plan.pools}):
        found = _chip_price_range(inputs, plan, chip_id)
        if found is None:
            continue
        low, high, source = found
        if low < high:
            name = f"price of {chip_id}"
            factor = Factor(name, low, 1.0, high, source=source, unit="x")
            yield Lever(factor, inputs=lambda asked, x, chip_id=chip_id: scale_chip_price(asked, chip_id, x))  # type: ignore[misc]
    rate, used = inputs.sites.origins.get("finance.usd_per_currency"), finance.usd_per_currency
    if rate is not None and used is not None and rate.low is not None and rate.high is not None:
        factor = Factor("exchange rate", rate.low, used, rate.high, source=rate.source)
        yield Lever(factor, inputs=lambda asked, x: _with_finance(asked, usd_per_currency=x))


def _chip_price_range(inputs: Inputs, plan: Plan, chip_id: str) -> tuple[float, float, str] | None:
    """(low, high) as multiples of the price used, and the source of the range; None for a price without a range."""
    finance = inputs.sites.finance
    for pool in plan.pools:
        own = inputs.sites.sites[pool.site].chips.get(chip_id) if pool.chip == chip_id else None
        purchase = own is not None and (own.acquisition or finance.acquisition) == "purchase"
        field = "purchase_price_per_chip" if purchase else "price_per_chip_hour"
        value = getattr(own, field) if own is not None else None
        if value is not None:
            origin = inputs.sites.origins.get(f"sites.{pool.site}.chips.{chip_id}.{field}")
            bounds = _bounds(origin)
            return None if bounds is None or value <= 0 else (bounds[0] / value, bounds[1] / value, _text(origin))
    price = inputs.chips[chip_id].price
    if price is None or finance.acquisition == "purchase":
        return None
    step = price.high_per_chip_hour - price.low_per_chip_hour
    used = price.low_per_chip_hour + finance.price_position * step
    origin = inputs.sites.origins.get("finance.price_position")
    low, high = _bounds(origin) or (0.0, max(PRICE_POSITION_HIGH, finance.price_position))
    if used <= 0:
        return None
    source = _text(origin) if origin is not None else f"low end to {PRICE_POSITION_HIGH:.0%} towards the high end"
    return (price.low_per_chip_hour + low * step) / used, (price.low_per_chip_hour + high * step) / used, source


def _lines(inputs: Inputs, plan: Plan) -> Iterator[Lever]:
    for taken in plan.lines:
        line = inputs.sites.lines[taken.line]
        if not taken.count:
            continue
        tier = line_tier(line, taken.gbps)
        if tier.monthly_cost > 0 and tier.monthly_cost_low is not None and tier.monthly_cost_high is not None:
            low, high = (bound / tier.monthly_cost for bound in (tier.monthly_cost_low, tier.monthly_cost_high))
            factor = Factor(f"price of line {line.id}", low, 1.0, high, source=tier.source or "", unit="x")
            yield Lever(factor, inputs=_line_price(line.id))
        yield from _line_numbers(inputs, line.id)


def _line_price(line_id: str) -> Change:
    return lambda asked, x: replace(asked, sites=scale_line_prices(asked.sites, x, line_id=line_id))


_LINE_NUMBERS = {
    "rtt_ms": ("rtt_s", 1 / MS_PER_S, "s"),
    "loss_fraction": ("loss_fraction", 1.0, ""),
    "protocol_efficiency": ("protocol_efficiency", 1.0, ""),
    "background_fraction": ("background_fraction", 1.0, ""),
    "noise_mean_s": ("noise_mean_s", 1.0, "s"),
}


def _line_numbers(inputs: Inputs, line_id: str) -> Iterator[Lever]:
    line = inputs.sites.lines[line_id]
    for key, (field, scale, unit) in _LINE_NUMBERS.items():
        origin = inputs.sites.origins.get(f"lines.{line_id}.{key}")
        bounds = _bounds(origin)
        if bounds is None:
            continue
        value = float(getattr(line, field))
        low, high = min(bounds[0] * scale, value), max(bounds[1] * scale, value)
        factor = Factor(f"{field} of {line_id}", low, value, high, source=_text(origin), unit=unit)
        yield Lever(factor, inputs=_line_number(line_id, field))


def _line_number(line_id: str, field: str) -> Change:
    def change(asked: Inputs, x: float) -> Inputs:
        lines = {**asked.sites.lines, line_id: replace(asked.sites.lines[line_id], **{field: x})}  # type: ignore[arg-type]
        return replace(asked, sites=replace(asked.sites, lines=lines))

    return change


_OWN_LEVER = frozenset({"price_position", "usd_per_currency", "hours_per_month"})


def _finance(inputs: Inputs) -> Iterator[Lever]:
    for key, origin in inputs.sites.origins.items():
        field = key.removeprefix("finance.")
        bounds = _bounds(origin)
        if not key.startswith("finance.") or field in _OWN_LEVER or bounds is None:
            continue
        value = float(getattr(inputs.sites.finance, field))
        factor = Factor(field, bounds[0], value, bounds[1], source=_text(origin))
        yield Lever(factor, inputs=lambda asked, x, field=field: _with_finance(asked, **{field: x}))  # type: ignore[misc]


def _with_finance(inputs: Inputs, **numbers: float) -> Inputs:
    finance = replace(inputs.sites.finance, **numbers)  # type: ignore[arg-type]
    return replace(inputs, sites=replace(inputs.sites, finance=finance))


_RANGE = re.compile(r"^\s*([0-9.eE+-]*[0-9])\s*-\s*([0-9.eE+]+)")


def _settings(inputs: Inputs, plan: Plan) -> Iterator[Lever]:
    relayed = any(path.relay for path in plan.paths)
    for name, (basis, source, text) in SETTING_SOURCES.items():
        value = getattr(inputs.settings, name)
        found = _RANGE.match(text or "")
        if found is None or not isinstance(value, float) or (name.startswith("handover") and not relayed):
            continue
        low, high = float(found.group(1)), float(found.group(2))
        factor = Factor(name, min(low, value), value, max(high, value), source=f"{basis.label}: {source}")
        yield Lever(factor, inputs=lambda asked, x, name=name: _with_setting(asked, name, x))  # type: ignore[misc]


def _with_setting(inputs: Inputs, name: str, value: float) -> Inputs:
    settings: Settings = replace(inputs.settings, **{name: value})  # type: ignore[arg-type]
    return replace(inputs, settings=settings)


def _speeds(inputs: Inputs, plan: Plan) -> Iterator[Lever]:
    question = api.problem_of(inputs)
    kind = "moe" if inputs.llm.is_moe else "dense"
    for chip_id in sorted({pool.chip for pool in plan.pools}):
        pools = [pool for pool in plan.pools if pool.chip == chip_id]
        basis = max(question.instance_of(pool).basis for pool in pools)
        error = MEASURED_SPEED_ERROR if basis is Basis.MEASURED else validated_error(moe=inputs.llm.is_moe)
        source = f"{basis.label}: error of {kind} models in validation, {error:.0%}"
        roles = {str(pool.role) for pool in pools}
        if roles & {"P", "AGG"}:
            yield Lever(
                Factor(f"prefill time on {chip_id}", 1 / (1 + error), 1.0, 1 + error, source=source, unit="x"),
                question=lambda asked, x, chip_id=chip_id: with_speed(asked, {chip_id: x}, {}),  # type: ignore[misc]
            )
        if roles & {"MD", "RLD", "AGG"}:
            yield Lever(
                Factor(f"decode time on {chip_id}", 1 / (1 + error), 1.0, 1 + error, source=source, unit="x"),
                question=lambda asked, x, chip_id=chip_id: with_speed(asked, {}, {chip_id: x}),  # type: ignore[misc]
            )


def _traffic(inputs: Inputs) -> Iterator[Lever]:
    ranges = MEASURED_TRAFFIC if from_trace(inputs) else TRAFFIC
    changes: dict[str, Change | None] = {
        "missing tokens": lambda asked, x: replace(asked, workload=scale_misses(asked.workload, x)),
        "output tokens": lambda asked, x: replace(asked, workload=scale_outputs(asked.workload, x)),
        "demand": None,
    }
    for name, change in changes.items():
        low, high, source = ranges[name]
        yield Lever(Factor(name, low, 1.0, high, source=source, unit="x"), inputs=change, rate=change is None)


def from_trace(inputs: Inputs) -> bool:
    """Whether the request classes were counted in a trace rather than assumed."""
    return "trace" in inputs.workload.provenance


def _bounds(origin: Provenance | None) -> tuple[float, float] | None:
    if origin is None or origin.low is None or origin.high is None:
        return None
    return origin.low, origin.high


def _text(origin: Provenance | None) -> str:
    return "" if origin is None else f"{origin.basis.label}: {origin.source}"
