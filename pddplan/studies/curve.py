"""The bathtub of a workload: sized once, then asked what every other hit rate would earn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Pool
from pddplan.domain.sites import Sites
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
from pddplan.studies.perturb import with_hit_rate
from pddplan.studies.serving import prefill_mix, prefill_time_of, serving_cost

POINTS = 401
MEMORY_PRICE_PER_GB_MONTH = 0.3
"""Host memory for cached KV, USD per GB and month. Assumed: 5-15 USD per GB bought, over four years."""
MEMORY_PRICE_RANGE = (0.05, 1.0)
SIZED_AT = (0.0, 0.3, 0.6, 0.8, 0.9, 0.97)
FLEET_SCALE = 8
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
    limits: Limits | None = None,
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
    sized = sized_points(inputs, places, topology=plan.topology, price=priced, spread=spread, limits=limits)
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
    given = cache_curve if cache_curve is not None else inputs.workload.cache_curve
    cache: tuple[Move, ...] = ()
    if given:
        cache = more_cache(
            classes,
            given,
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
    hit_rates: Sequence[float],
    *,
    topology: str,
    price: TokenPrice,
    spread: Spread = Spread.AS_NOW,
    limits: Limits | None = None,
) -> tuple[SizedPoint, ...]:
    """Size a large fleet anew at some hit rates, under the same promises; rates without a plan are left out.

    The fleet is ``FLEET_SCALE`` times as large as the workload needs, without limits of inventory, so that whole
    instances do not blur the curve; chips and cost are given for the workload's own rate.

    Raises:  InputError if the list shows no cached price; DomainError for hit rates outside [0, 1].
    """
    finance, rate = inputs.sites.finance, inputs.workload.arrival.rate_rps
    large = replace(inputs, sites=unlimited(inputs.sites), workload=inputs.workload.at_rate(rate * FLEET_SCALE))
    found = []
    for hit_rate in hit_rates:
        workload = with_hit_rate(large.workload, hit_rate, spread=spread)
        asked = replace(large, workload=workload)
        try:
            outcome = optimum(
                api.problem_of(asked),
                topology=topology,
                objective=Objective(kind="cost", rate_rps=workload.arrival.rate_rps),
                limits=limits or Limits(),
                shapes=api.shapes_of(asked),
            )
        except (InfeasibleError, SolverError):
            continue
        revenue = monthly_revenue(workload.classes, outcome.goodput_rps, price=price, finance=finance)
        chips = sum(pool.chips for pool in outcome.plan.pools)
        total = outcome.cost.monthly_total
        benefit = revenue / total if total > 0 else math.inf
        found.append(SizedPoint(hit_rate, chips / FLEET_SCALE, total / FLEET_SCALE, benefit))
    return tuple(found)


def unlimited(sites: Sites) -> Sites:
    """The same prices without limits of inventory and power; chips already owned grow with the fleet."""
    places = {
        site_id: replace(
            site,
            power_limit_kw=None,
            chips={
                chip_id: replace(own, max_chips=None, owned_chips=own.owned_chips * FLEET_SCALE)
                for chip_id, own in site.chips.items()
            },
        )
        for site_id, site in sites.sites.items()
    }
    lines = {line_id: replace(line, max_lines=line.max_lines * FLEET_SCALE) for line_id, line in sites.lines.items()}
    return replace(sites, sites=places, lines=lines)


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
