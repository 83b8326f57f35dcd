"""The bathtub of a workload: sized once, then asked what every other hit rate would earn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Plan, Pool
from pddplan.domain.token_price import TokenPrice
from pddplan.domain.workload import Array
from pddplan.economics.bathtub import BathtubCurve, bathtub_curve, fixed_fleet_rate, now_point
from pddplan.economics.bathtub_reading import BathtubReading, Boundary, predicted_notches, read_curve
from pddplan.economics.hit_rate import Spread, token_hit_rate
from pddplan.economics.moves import Move, more_cache, shallower_tub
from pddplan.economics.revenue import monthly_revenue, with_cached_ratio
from pddplan.errors import InfeasibleError, SolverError
from pddplan.evaluate.problem import Problem as Question
from pddplan.optimize import Limits, Objective
from pddplan.optimize import size as optimum
from pddplan.sizing import Inputs
from pddplan.studies.large_fleet import fitted
from pddplan.studies.perturb import with_hit_rate
from pddplan.studies.serving import prefill_mix, prefill_time_of, serving_cost

POINTS = 401
MEMORY_PRICE_PER_GB_MONTH = 0.3
"""Host memory for cached KV, USD per GB and month. Assumed: 5-15 USD per GB bought, over four years."""
MEMORY_PRICE_RANGE = (0.05, 1.0)
SIZED_AT = (0.0, 0.4, 0.7, 0.9, 0.97)
FLEET_SCALE = 16
ROUGH_GAP, ROUGH_TIME_LIMIT_S = 0.02, 10.0
"""Only the kind of fleet is taken from these plans, not their counts."""
_SAME_HIT_RATE = 0.02
PACKED = "all tails packed"
CHUNK_FACTORS = (0.5, 2.0)


@dataclass(frozen=True, slots=True)
class SizedPoint:
    """A large fleet sized anew at some hit rate, under the same promises; the curve runs through it."""

    hit_rate: float
    chips: float
    monthly_cost: float
    benefit: float
    """Revenue over cost."""


@dataclass(frozen=True, slots=True, eq=False)
class BathtubStudy:
    """Everything ``bcr curve`` shows."""

    workload: str
    topology: str
    currency: str
    price: TokenPrice
    price_assumed: bool
    spread: Spread
    curve: BathtubCurve
    fleet_rate_rps: Array
    """Requests per second that the plan's fleet as it stands would carry at each hit rate."""
    fleet_monthly_cost: float
    reading: BathtubReading
    now_benefit: float
    """Of a large fleet at today's hit rate, where the curve was drawn through sized points."""
    plan_benefit: float
    """Of the plan itself, in whole instances."""
    boundaries: tuple[Boundary, ...]
    chunk_tokens: float | None
    tail_packing: float | None
    shallower: tuple[Move, ...]
    cache: tuple[Move, ...]
    memory_price_per_gb_month: float
    sized: tuple[SizedPoint, ...] = ()
    bare_benefit: Array | None = None
    """The curve before it was fitted to the sized points: pools that keep their utilisation at every hit rate."""
    remarks: tuple[str, ...] = ()


def bathtub_study(
    inputs: Inputs,
    outcome: Outcome,
    *,
    price: TokenPrice,
    price_assumed: bool = False,
    cached_over_miss: float | None = None,
    spread: Spread = Spread.AS_NOW,
    points: int = POINTS,
    memory_price_per_gb_month: float = MEMORY_PRICE_PER_GB_MONTH,
    cache_curve: Sequence[tuple[float, float]] | None = None,
    sized_at: Sequence[float] = (),
) -> BathtubStudy:
    """Bathtub curve of a plan's traffic, its reading, and what the two moves would bring.

    ``cached_over_miss`` replaces the list's cached price; ``cache_curve`` the workload's own, (tokens, hit rate).
    ``sized_at``: hit rates at which a large fleet is sized anew, so that the curve knows how full pools may run.

    Raises:  InputError if the list shows no cached price and no ratio is given; DomainError for bad numbers.
    """
    question = api.problem_of(inputs)
    classes, finance, plan = inputs.workload.classes, inputs.sites.finance, outcome.plan
    priced = with_cached_ratio(price, cached_over_miss)
    serving = serving_cost(question, outcome)
    rates = np.linspace(0.0, 1.0, points)
    bare = bathtub_curve(classes, rates, serving=serving, price=priced, finance=finance, spread=spread)
    here = token_hit_rate(classes)
    places = sorted([here, *(rate for rate in sized_at if abs(rate - here) > _SAME_HIT_RATE)]) if sized_at else []
    sized = sized_points(inputs, plan, places, price=priced, spread=spread)
    factor = cost_factor(bare, sized)
    curve = replace(bare, cost=bare.cost * factor(rates))
    now_rate, plan_benefit = now_point(classes, serving=serving, price=priced, finance=finance)
    now_benefit = plan_benefit / float(factor(np.array([now_rate]))[0])
    chunk, packing = _chunking(inputs, question, outcome)
    boundaries = predicted_notches(classes, rates, chunk_tokens=chunk, spread=spread) if chunk else ()
    others = _alternatives(inputs, question, outcome, chunk) if chunk else {}
    packed = None
    if PACKED in others:
        smooth = replace(serving, prefill_time_s=others[PACKED])
        packed = bathtub_curve(classes, rates, serving=smooth, price=priced, finance=finance, spread=spread)
        packed = replace(packed, cost=packed.cost * factor(rates))
    reading = read_curve(
        curve,
        now_hit_rate=now_rate,
        now_benefit=now_benefit,
        boundaries=boundaries,
        chunk_tokens=chunk,
        packed=packed,
    )
    shallower = shallower_tub(classes, others, serving=serving, price=priced, finance=finance)
    remarks = [] if chunk else ["prefill is a measured table: its chunks are unknown, so notches are not predicted"]
    missing = [rate for rate in places if rate not in {point.hit_rate for point in sized}]
    if missing:
        lost = ", ".join(f"{rate:.0%}" for rate in missing)
        remarks.append(f"at {lost} hits no fleet of this kind keeps the promises: there the curve looks at cost only")
    given = cache_curve if cache_curve is not None else inputs.workload.cache_curve
    cache: tuple[Move, ...] = ()
    if given:
        copies = trace_copies(inputs)
        if copies != 1:
            remarks.append(
                f"the cache curve was counted at {plan.rate_rps / copies:.3g} req/s; at the planned rate every "
                f"capacity is {copies:.3g} times that, as for so many groups of independent users"
            )
        cache = more_cache(
            classes,
            [(capacity * copies, hit) for capacity, hit in given],
            serving=serving,
            price=priced,
            finance=finance,
            rate_rps=plan.rate_rps,
            kv_bytes_per_token=question.instance_of(plan.pools[0]).kv.growing_bytes_per_token,
            memory_price_per_gb_month=memory_price_per_gb_month,
            spread=spread,
            cost_factor=factor,
        )
    else:
        remarks.append(
            "the workload carries no cache curve, so a larger cache cannot be judged: "
            "build it from a trace with 'pddplan workload import'"
        )
    return BathtubStudy(
        workload=inputs.workload.name,
        topology=plan.topology,
        currency=finance.currency,
        price=priced,
        price_assumed=price_assumed,
        spread=spread,
        curve=curve,
        fleet_rate_rps=_fleet_rate(question, outcome, rates, spread),
        fleet_monthly_cost=outcome.cost.monthly_total,
        reading=reading,
        now_benefit=now_benefit,
        plan_benefit=plan_benefit,
        boundaries=boundaries,
        chunk_tokens=chunk,
        tail_packing=packing,
        shallower=shallower,
        cache=cache,
        memory_price_per_gb_month=memory_price_per_gb_month,
        sized=sized,
        bare_benefit=bare.benefit,
        remarks=tuple(remarks),
    )


def trace_copies(inputs: Inputs) -> float:
    """How many times the traffic of its trace a workload is planned for; 1 if the trace is not known.

    Formula:     planned rate / (rows / span)
    Parameters:  inputs, whose workload may carry the record of its trace
    Returns:     [-]
    Raises:      nothing.
    Holds when:  more traffic means more independent users, who share no prefixes.
    References:  definition
    """
    trace = inputs.workload.provenance.get("trace", {})
    try:
        rate = float(trace["rows"]) / float(trace["span_s"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return 1.0
    copies = inputs.workload.arrival.rate_rps / rate if rate > 0 else 1.0
    return copies if math.isfinite(copies) and copies > 0 else 1.0


def cost_factor(curve: BathtubCurve, sized: Sequence[SizedPoint]) -> Callable[[Array], Array]:
    """How much dearer or cheaper than the curve the plans sized anew are, between their hit rates.

    Formula:     f(h) = B_curve(h) / B_sized(h) at the sized points, linear between
    Parameters:  curve; sized
    Returns:     function of hit rates -> factor on cost; 1 everywhere without sized points
    Raises:      nothing.
    Holds when:  utilisation changes smoothly with the load: large pools run fuller under the same promises.
    References:  definition
    """
    knots = {
        point.hit_rate: float(np.interp(point.hit_rate, curve.hit_rate, curve.benefit)) / point.benefit
        for point in sized
        if 0 < point.benefit < math.inf
    }
    if not knots:
        return np.ones_like
    places = sorted(knots)
    values = [knots[place] for place in places]
    return lambda rates: np.asarray(np.interp(rates, places, values))


def sized_points(
    inputs: Inputs,
    plan: Plan,
    hit_rates: Sequence[float],
    *,
    price: TokenPrice,
    spread: Spread = Spread.AS_NOW,
) -> tuple[SizedPoint, ...]:
    """Size the plan's topology anew at some hit rates, under the same promises, and make it large.

    The optimiser chooses chips and shapes for that hit rate; the fleet then serves ``FLEET_SCALE`` times the plan's
    rate, so that whole instances do not blur the curve. Chips and cost are given for the plan's own rate. Hit rates
    at which no such fleet keeps the promises are left out.

    Raises:  InputError if the list shows no cached price; DomainError for hit rates outside [0, 1].
    """
    finance = inputs.sites.finance
    found = []
    for hit_rate in hit_rates:
        workload = with_hit_rate(inputs.workload, hit_rate, spread=spread)
        asked = replace(inputs, workload=workload)
        question = api.problem_of(asked)
        kind = plan if math.isclose(hit_rate, token_hit_rate(inputs.workload.classes)) else _kind_for(asked, plan)
        outcome = fitted(question, kind, FLEET_SCALE) if kind is not None else None
        if outcome is None:
            continue
        revenue = monthly_revenue(workload.classes, outcome.goodput_rps, price=price, finance=finance)
        chips = sum(pool.chips for pool in outcome.plan.pools)
        total = outcome.cost.monthly_total
        benefit = revenue / total if total > 0 else math.inf
        found.append(SizedPoint(hit_rate, chips / FLEET_SCALE, total / FLEET_SCALE, benefit))
    return tuple(found)


def _kind_for(inputs: Inputs, plan: Plan) -> Plan | None:
    """Chips, shapes and routing that suit another hit rate, in the plan's topology."""
    try:
        return optimum(
            api.problem_of(inputs),
            topology=plan.topology,
            objective=Objective(kind="cost", rate_rps=plan.rate_rps),
            limits=Limits(gap=ROUGH_GAP, time_limit_s=ROUGH_TIME_LIMIT_S),
            shapes=api.shapes_of(inputs),
            relax=False,
        ).plan
    except (InfeasibleError, SolverError):
        return None


def _chunking(inputs: Inputs, question: Question, outcome: Outcome) -> tuple[float | None, float | None]:
    """Chunk size and tail packing of the pool that prefills most, as far as its times come from the closed form."""
    from pddplan.performance.instance import FormulaInstance

    weight = question.workload.classes.weight
    mix = prefill_mix(outcome.plan, weight)
    if not mix:
        return None, None
    pool, _ = max(mix, key=lambda pair: float(pair[1] @ weight))
    if not isinstance(question.instance_of(pool), FormulaInstance):
        return None, None
    efficiency = inputs.efficiencies[pool.chip]
    return float(efficiency.chunk_tokens), float(efficiency.tail_packing)


def _alternatives(
    inputs: Inputs, question: Question, outcome: Outcome, chunk: float
) -> dict[str, Callable[[Array, Array], Array]]:
    """Prefill times under other chunk sizes and with tails packed."""

    def changed(**numbers: float) -> Callable[[Array, Array], Array]:
        other = replace(
            inputs,
            efficiencies={key: replace(e, **numbers) for key, e in inputs.efficiencies.items()},  # type: ignore[arg-type]
        )
        asked = api.problem_of(other)

        def of_pool(pool: Pool) -> Callable[[Array, Array], Array]:
            instance = asked.instance_of(pool)
            return lambda new, cached: instance.prefill_time_s(new_tokens=new, cached_tokens=cached)

        return prefill_time_of(question, outcome.plan, replaced=of_pool)

    found = {PACKED: changed(tail_packing=1.0), "no tails packed": changed(tail_packing=0.0)}
    for factor in CHUNK_FACTORS:
        size = chunk * factor
        found[f"chunk of {size:,.0f} tokens"] = changed(chunk_tokens=size)
    return found


def _fleet_rate(question: Question, outcome: Outcome, rates: Array, spread: Spread) -> Array:
    """What the fleet as it stands carries: each stage may fill up to the utilisation it was planned for."""
    classes, rate = question.workload.classes, outcome.plan.rate_rps
    time_of = prefill_time_of(question, outcome.plan)
    mean_s = classes.mean(time_of(classes.miss_prefill_tokens, classes.cached_prefill_tokens))
    loads = {load.pool: load.utilization for load in outcome.pools}
    decoding = [loads.get(pool.id, 1.0) for pool in outcome.plan.pools if str(pool.role) in ("MD", "RLD", "AGG")]
    prefilling = [loads.get(pool.id, 1.0) for pool in outcome.plan.pools if str(pool.role) in ("P", "AGG")]
    top = max([*decoding, *prefilling, 1e-9])
    line = max((load.utilization for load in outcome.lines), default=0.0)
    crossing = classes.mean(classes.miss_decode_tokens)
    return fixed_fleet_rate(
        classes,
        rates,
        prefill_time_s=time_of,
        prefill_busy_instances=rate * mean_s * top / max([*prefilling, 1e-9]),
        decode_rate_rps=rate * top / max([*decoding, 1e-9]),
        line_tokens_per_s=rate * crossing * max(top / line, 1.0) if line > 0 and crossing > 0 else np.inf,
        spread=spread,
    )
